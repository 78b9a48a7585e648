#pragma once
// Rows of a Gram matrix K, one row and column per data row, shared by all labels: either the whole matrix, or as many
// rows as a budget allows, the least recently used making room for the ones that are asked for.
//
// Rows are `stride` numbers apart, padded with zeros, and aligned to cache lines.

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"

namespace multimargin::numerics {

// Numbers between two rows: whole cache lines, and whole strips of the product kernels.
constexpr Index gram_stride(Index rows) { return (rows + 63) / 64 * 64; }

// Computes rows of K. May throw.
template <class T>
class RowSource {
  public:
    virtual ~RowSource() = default;
    virtual void compute(std::span<const std::int32_t> rows, std::span<T* const> out) = 0;
};

template <class T>
class GramRows {
  public:
    GramRows(const T* whole, Index rows) : whole_(whole), rows_(rows), capacity_(rows) {}
    GramRows(RowSource<T>& source, Index rows, Index capacity)
        : source_(&source),
          rows_(rows),
          capacity_(capacity),
          kept_(static_cast<std::size_t>(capacity * gram_stride(rows))),
          slot_(static_cast<std::size_t>(rows), -1),
          owner_(static_cast<std::size_t>(capacity), -1),
          used_(static_cast<std::size_t>(capacity), -1) {}

    Index rows() const { return rows_; }
    Index capacity() const { return capacity_; }

    // Afterwards row(i) may be read for these rows, at most capacity() of them, until the next request.
    void request(std::span<const std::int32_t> rows) {
        if (whole_) return;
        ++clock_;
        std::vector<std::int32_t> absent;
        for (auto i : rows) {
            if (slot_[i] >= 0)
                used_[slot_[i]] = clock_;
            else
                absent.push_back(i);
        }
        if (absent.empty()) return;
        const auto slots = least_recently_used(absent.size());
        std::vector<T*> out;
        for (std::size_t k = 0; k < absent.size(); ++k) {
            if (owner_[slots[k]] >= 0) slot_[owner_[slots[k]]] = -1;
            owner_[slots[k]] = -1;
            out.push_back(kept_.data() + slots[k] * gram_stride(rows_));
        }
        source_->compute(absent, out);
        for (std::size_t k = 0; k < absent.size(); ++k) {
            owner_[slots[k]] = absent[k];
            slot_[absent[k]] = slots[k];
            used_[slots[k]] = clock_;
        }
    }

    MULTIMARGIN_INLINE const T* row(Index i) const {
        return whole_ ? whole_ + i * gram_stride(rows_) : kept_.data() + slot_[i] * gram_stride(rows_);
    }

  private:
    std::vector<std::int32_t> least_recently_used(std::size_t count) {
        std::vector<std::int32_t> slots;
        for (std::int32_t s = 0; s < static_cast<std::int32_t>(capacity_); ++s)
            if (used_[s] != clock_) slots.push_back(s);
        std::nth_element(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(count) - 1, slots.end(),
                         [&](auto a, auto b) { return used_[a] != used_[b] ? used_[a] < used_[b] : a < b; });
        slots.resize(count);
        return slots;
    }

    const T* whole_ = nullptr;
    RowSource<T>* source_ = nullptr;
    Index rows_, capacity_;
    Buffer<T> kept_;
    std::vector<std::int32_t> slot_, owner_;
    std::vector<Index> used_;
    Index clock_ = 0;
};

// Copies the upper triangle of an n x n matrix to the lower one, tile by tile.
template <class T>
void mirror(T* matrix, Index n, Index stride, int threads, Control& control) {
    constexpr Index tile = 64;
    const int tiles = static_cast<int>((n + tile - 1) / tile);
    parallel_for(tiles, threads, control, [&](int task, bool on_caller) {
        const Index first = task * tile, last = std::min(n, first + tile);
        for (Index column = 0; column <= first; column += tile) {
            if (control.leave_unfinished(on_caller)) return;
            for (Index i = first; i < last; ++i)
                for (Index j = column; j < std::min(column + tile, i); ++j)
                    matrix[i * stride + j] = matrix[j * stride + i];
        }
    });
}

// out[i, r - from] = x_i . x_r for the rows first <= i < last of X and all r >= from, by the columns of X (its
// transpose as rows, with ascending indices). out: (last - first) x (rows - from), contiguous.
template <class T>
void sparse_products(const CsrRows<T>& x, const CsrRows<T>& columns, Index first, Index last, Index from, T* out) {
    const Index width = columns.cols() - from;
    std::fill(out, out + (last - first) * width, T(0));
    for (Index i = first; i < last; ++i, out += width) {
        const auto row = x.row(i);
        for (Index k = 0; k < row.size(); ++k) {
            const T value = row.values[k];
            const auto column = columns.row(row.columns[k]);
            auto begin = from == 0 ? column.columns.begin()
                                   : std::lower_bound(column.columns.begin(), column.columns.end(), from);
            for (auto e = static_cast<std::size_t>(begin - column.columns.begin()); e < column.columns.size(); ++e)
                out[column.columns[e] - from] += value * column.values[e];
        }
    }
}

// What two rows a, b share, feature by feature.
enum class FeatureSum { manhattan, chi2, additive_chi2 };

template <FeatureSum kind, class V>
MULTIMARGIN_INLINE V feature_term(V a, V b) {
    const V zero{};
    if constexpr (kind == FeatureSum::manhattan) {
        return lane_max(a - b, b - a);
    } else {
        const V sum = a + b, safe = sum > 0 ? sum : zero + 1;
        if constexpr (kind == FeatureSum::chi2) return (a - b) * (a - b) / safe;
        return 2 * a * b / safe;
    }
}

// out[i, j] = sum_d f(a_id, b_jd): |a - b|, (a - b)^2 / (a + b), or 2 a b / (a + b); terms 0 / 0 count as 0.
template <FeatureSum kind, class T>
MULTIMARGIN_SIMD void feature_sums(const T* a, Index a_rows, const T* b, Index b_rows, Index features, T* out) {
    for (Index i = 0; i < a_rows; ++i, a += features) {
        for (Index j = 0; j < b_rows; ++j) {
            const T* other = b + j * features;
            Chunk<T> sum{};
            Index d = 0;
            for (; d + lanes<T> <= features; d += lanes<T>) {
                Chunk<T> u, v;
                std::memcpy(&u, a + d, sizeof u);
                std::memcpy(&v, other + d, sizeof v);
                sum += feature_term<kind>(u, v);
            }
            Chunk<T> u{}, v{};
            std::memcpy(&u, a + d, static_cast<std::size_t>(features - d) * sizeof(T));
            std::memcpy(&v, other + d, static_cast<std::size_t>(features - d) * sizeof(T));
            sum += feature_term<kind>(u, v);
            T total = 0;
            for (int e = 0; e < lanes<T>; ++e) total += sum[e];
            out[i * b_rows + j] = total;
        }
    }
}

}  // namespace multimargin::numerics
