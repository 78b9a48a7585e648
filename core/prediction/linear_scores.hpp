#pragma once
// Scores of a linear model, x . w_l + b_l for all labels l, in the precision T of the model.
//
// Weights are laid out anew for each call (weight_panels.hpp), which costs as much as the scores of a few rows; where
// there are no more rows than that, the weights are read as they lie, to the same bits.

#include <vector>

#include "core/prediction/source.hpp"
#include "core/prediction/weight_panels.hpp"

namespace multimargin::prediction {

template <std::floating_point T>
struct LinearModel {
    StridedRows<T> weights;  // labels x features
    const T* intercept;
};

// Chunks of labels whose weights are collected entry by entry: the operations are those of the panels.
template <class T, class Row>
struct LabelSums {
    MULTIMARGIN_SIMD static void scores(const Row& row, const StridedRows<T>& weights, const T* intercept, T* out) {
        const Index labels = weights.rows(), n = row.size(), step = weights.col_step();
        for (Index l = 0; l < labels; l += lanes<T>) {
            const int count = static_cast<int>(std::min<Index>(lanes<T>, labels - l));
            const T* of_label[lanes<T>];
            Chunk<T> sum{};
            for (int e = 0; e < lanes<T>; ++e) {
                of_label[e] = weights.row(l + std::min(e, count - 1));
                sum[e] = intercept[l + std::min(e, count - 1)];
            }
            for (Index k = 0; k < n; ++k) {
                const Index j = row.column(k) * step;
                Chunk<T> w;
                for (int e = 0; e < lanes<T>; ++e) w[e] = of_label[e][j];
                sum += static_cast<T>(row.values[static_cast<std::size_t>(k)]) * w;
            }
            std::memcpy(out + l, &sum, static_cast<std::size_t>(count) * sizeof(T));
        }
    }
};

template <std::floating_point T, class X>
class LinearScores final : public ScoreSource<T> {
  public:
    LinearScores(const LinearModel<T>& model, const X& x, int threads, Control& control) : model_(model), x_(x) {
        // A few dense rows, or entries of sparse ones, each of which meets the weights of its labels far apart.
        const bool few = sparse ? 2 * entries_of(x) < x.cols() : x.rows() < 4;
        if (!few) panels_.emplace_back(model.weights, model.intercept, widest, threads, control);
    }
    Index rows() const override { return x_.rows(); }
    Index labels() const override { return model_.weights.rows(); }
    double work_per_row() const override {
        return static_cast<double>(entries_of(x_)) / static_cast<double>(x_.rows()) * static_cast<double>(labels());
    }

    void scores(Index first, Index last, T* out, const Leave& leave) const override {
        if (panels_.empty())
            from_labels(first, last, out);
        else if constexpr (sparse)
            from_sparse(first, last, out, leave);
        else
            from_dense(first, last, out, leave);
    }

  private:
    static constexpr bool sparse = requires(const X& x) { x.row(0).columns; };
    static constexpr int widest = sparse ? sparse_panel_chunks : dense_panel_chunks;

    void from_labels(Index first, Index last, T* out) const {
        std::vector<T> dense;
        for (Index i = first; i < last; ++i, out += labels()) {
            if constexpr (sparse) {
                LabelSums<T, SparseRow<typename X::value_type>>::scores(x_.row(i), model_.weights, model_.intercept,
                                                                        out);
            } else {
                dense.resize(static_cast<std::size_t>(x_.cols()));
                write_rows(x_, i, 1, dense.data());
                LabelSums<T, DenseRow<T>>::scores({dense}, model_.weights, model_.intercept, out);
            }
        }
    }

    void from_sparse(Index first, Index last, T* out, const Leave& leave) const {
        const auto& panels = panels_.front();
        for (int p = 0; p < panels.panels(); ++p) {
            const Index label = Index{panels.first_chunk(p)} * lanes<T>;
            const Index count = std::min<Index>(labels() - label, Index{panels.width(p)} * lanes<T>);
            SparsePanel<T, typename X::value_type>::scores(x_, first, last, panels.panel(p), panels.width(p),
                                                           panels.features(), count, labels(), out + label);
            if (leave()) return;
        }
    }

    void from_dense(Index first, Index last, T* out, const Leave& leave) const {
        constexpr Index most_rows = 64, slab = 256;
        constexpr int most_panels = 16;  // whose sums stay in the second-level cache
        const auto& panels = panels_.front();
        const Index cols = x_.cols(), wide = most_panels * dense_panel_chunks;
        const bool in_place = std::is_same_v<T, typename X::value_type> && x_.contiguous();
        std::vector<T> written(in_place ? 0 : static_cast<std::size_t>(most_rows * cols));
        Buffer<Chunk<T>> sums(static_cast<std::size_t>(most_rows * wide));
        for (Index block = first; block < last; block += most_rows, out += most_rows * labels()) {
            const Index count = std::min(most_rows, last - block);
            const int padded = static_cast<int>((count + numerics::quad - 1) / numerics::quad * numerics::quad);
            const T* rows[most_rows];
            if (!in_place) write_rows(x_, block, count, written.data());
            for (int r = 0; r < padded; ++r) {
                const Index i = std::min<Index>(r, count - 1);
                if constexpr (std::is_same_v<T, typename X::value_type>)
                    rows[r] = in_place ? x_.row(block + i) : written.data() + i * cols;
                else
                    rows[r] = written.data() + i * cols;
            }
            for (int begin = 0; begin < panels.panels(); begin += most_panels) {
                if (leave()) return;
                const int end = std::min(begin + most_panels, panels.panels());
                const Index label = Index{panels.first_chunk(begin)} * lanes<T>;
                const Index some = std::min(labels(), Index{panels.end_chunk(end)} * lanes<T>) - label;
                for (int r = 0; r < padded; ++r)
                    std::memcpy(static_cast<void*>(sums.data() + r * wide), model_.intercept + label,
                                static_cast<std::size_t>(some) * sizeof(T));
                const T* x[most_rows];
                std::copy_n(rows, padded, x);
                for (Index from = 0; from < cols; from += slab) {
                    const Index to = std::min(from + slab, cols);
                    panels.add_products(x, padded, from, to, begin, end, wide, sums.data());
                    for (int r = 0; r < padded; ++r) x[r] += to - from;
                }
                for (Index r = 0; r < count; ++r)
                    std::memcpy(out + r * labels() + label, sums.data() + r * wide,
                                static_cast<std::size_t>(some) * sizeof(T));
            }
        }
    }

    LinearModel<T> model_;
    const X& x_;
    std::vector<WeightPanels<T>> panels_;
};

}  // namespace multimargin::prediction
