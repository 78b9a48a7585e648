#pragma once
// Weights of L labels, laid out for scores: labels are cut into panels of a few chunks, and a panel holds a row of
// chunks for each feature, one after the other; behind them the intercepts.
//
//   scores[i, l] = intercept[l] + sum_j x[i, j] weights[l, j]
//
// A sum begins with the intercept and takes the features in the order in which a row lists them, one at a time, for
// dense and for sparse rows and for any cut into panels and blocks: its bits depend on the row alone.
//
// Sparse rows read a panel's row for each entry: wide panels, as many chunks as there are registers, asked for some
// entries ahead. Panels are the outer loop, so that for a block of rows one panel stays in the cache. Dense rows read
// the panel once for four rows: narrow panels, in slabs of features that stay in the first-level cache.

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/numerics/row_kernels.hpp"
#include "core/prediction/rows.hpp"

namespace multimargin::prediction {

inline constexpr int sparse_panel_chunks = numerics::max_register_chunks;
inline constexpr int dense_panel_chunks = 3;

template <std::floating_point T>
class WeightPanels {
  public:
    // weights: labels x features; intercept: of the labels, or null for none; centre: what is taken off the weights of
    // each feature, or null for nothing
    WeightPanels(const StridedRows<T>& weights, const T* intercept, int widest, int threads, Control& control,
                 const T* centre = nullptr)
        : labels_(weights.rows()),
          features_(weights.cols()),
          chunks_(chunks_for(labels_, lanes<T>)),
          panels_((chunks_ + widest - 1) / widest),
          weights_(static_cast<std::size_t>(features_ + 1) * static_cast<std::size_t>(chunks_)) {
        constexpr Index slab = 64;
        const int slabs = static_cast<int>((features_ + slab - 1) / slab);
        threads = threads_for_work(static_cast<double>(weights_.size()), threads);
        parallel_for(slabs, threads, control, [&](int task, bool) {
            const Index first = task * slab, last = std::min(features_, first + slab);
            for (Index l = 0; l < labels_; ++l) {
                T* place = place_of(l);
                const Index step = Index{width_at(l)} * lanes<T>;
                for (Index j = first; j < last; ++j)
                    place[j * step] = centre ? weights.at(l, j) - centre[j] : weights.at(l, j);
            }
        });
        if (intercept)
            for (Index l = 0; l < labels_; ++l) place_of(l)[features_ * width_at(l) * lanes<T>] = intercept[l];
    }

    Index labels() const { return labels_; }
    Index features() const { return features_; }
    int chunks() const { return chunks_; }
    int panels() const { return panels_; }
    // Panels differ by at most one chunk; the wider ones come first.
    int width(int p) const { return chunks_ / panels_ + (p < chunks_ % panels_ ? 1 : 0); }
    int first_chunk(int p) const { return p * (chunks_ / panels_) + std::min(p, chunks_ % panels_); }
    // One behind the last chunk of the panels before p.
    int end_chunk(int p) const { return p == panels_ ? chunks_ : first_chunk(p); }
    const Chunk<T>* panel(int p) const { return weights_.data() + (features_ + 1) * first_chunk(p); }

    // sums (rows a multiple of 4, `stride` chunks apart, chunks of the panels from `begin` on) += x weights, over the
    // features first <= j < last; x points at entry `first` of each row.
    void add_products(const T* const* x, int rows, Index first, Index last, int begin, int end, Index stride,
                      Chunk<T>* sums) const {
        static constexpr std::array<int, dense_panel_chunks> at = {0, 1, 2};
        for (int p = begin; p < end; ++p) {
            const int wide = width(p);
            Chunk<T>* out = sums + (first_chunk(p) - first_chunk(begin));
            for (int r = 0; r < rows; r += numerics::quad)
                numerics::QuadKernels<T>::gather(x + r, last - first, panel(p) + first * wide, wide, at.data(), wide,
                                                 stride, out + r * stride);
        }
    }

  private:
    int panel_at(Index label) const {
        const int chunk = static_cast<int>(label / lanes<T>), narrow = chunks_ / panels_, wider = chunks_ % panels_;
        return chunk < wider * (narrow + 1) ? chunk / (narrow + 1) : wider + (chunk - wider * (narrow + 1)) / narrow;
    }
    int width_at(Index label) const { return width(panel_at(label)); }
    T* place_of(Index label) {
        const int p = panel_at(label);
        return reinterpret_cast<T*>(weights_.data() + (features_ + 1) * first_chunk(p)) +
               (label - Index{first_chunk(p)} * lanes<T>);
    }

    Index labels_, features_;
    int chunks_, panels_;
    Buffer<Chunk<T>> weights_;
};

// Scores of sparse rows first <= i < last in the labels of one panel, `labels` of them; out points at the first of
// them in row `first`, rows are `stride` numbers apart.
template <class T, class S>
struct SparsePanel {
    static constexpr Index ahead = 8;  // entries

    template <int M>
    MULTIMARGIN_INLINE static void score(const CsrRows<S>& x, Index first, Index last, const Chunk<T>* panel,
                                         Index features, Index labels, Index stride, T* out) {
        const std::int32_t* const end = x.row(last - 1).columns.data() + x.row(last - 1).size();
        for (Index i = first; i < last; ++i, out += stride) {
            const auto row = x.row(i);
            const std::int32_t* column = row.columns.data();
            const Index n = row.size();
            Chunk<T> sum[M];
            for (int m = 0; m < M; ++m) sum[m] = panel[features * M + m];
            for (Index k = 0; k < n; ++k, ++column) {
                if (end - column > ahead) {
                    const char* next = reinterpret_cast<const char*>(panel + Index{column[ahead]} * M);
                    for (int b = 0; b < M * 32; b += 64) __builtin_prefetch(next + b);
                }
                const Chunk<T>* weights = panel + Index{*column} * M;
                const T value = static_cast<T>(row.values[static_cast<std::size_t>(k)]);
                for (int m = 0; m < M; ++m) sum[m] += value * weights[m];
            }
            if (labels == Index{M} * lanes<T>)
                std::memcpy(out, sum, sizeof sum);
            else
                std::memcpy(out, sum, static_cast<std::size_t>(labels) * sizeof(T));
        }
    }

    MULTIMARGIN_SIMD static void scores(const CsrRows<S>& x, Index first, Index last, const Chunk<T>* panel, int width,
                                        Index features, Index labels, Index stride, T* out) {
        numerics::in_register_groups(width, [&]<int M>(int) __attribute__((always_inline)) {
            score<M>(x, first, last, panel, features, labels, stride, out);
        });
    }
};

}  // namespace multimargin::prediction
