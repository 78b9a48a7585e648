#pragma once
// The data matrix X, seen row by row. Solvers are written once, against the concept RowMatrix, and never know
// whether the rows are dense or sparse. Views own nothing.

#include <concepts>
#include <cstdint>
#include <span>

#include "core/base/simd.hpp"

namespace multimargin::inline base {

using Index = std::int64_t;

template <std::floating_point T>
struct DenseRow {
    std::span<const T> values;

    MULTIMARGIN_INLINE Index size() const { return static_cast<Index>(values.size()); }
    MULTIMARGIN_INLINE Index column(Index k) const { return k; }
};

template <std::floating_point T>
struct SparseRow {
    std::span<const T> values;
    std::span<const std::int32_t> columns;

    MULTIMARGIN_INLINE Index size() const { return static_cast<Index>(values.size()); }
    MULTIMARGIN_INLINE Index column(Index k) const { return columns[static_cast<std::size_t>(k)]; }
};

template <std::floating_point T>
class DenseRows {
  public:
    using value_type = T;
    DenseRows(const T* values, Index rows, Index cols) : values_(values), rows_(rows), cols_(cols) {}
    Index rows() const { return rows_; }
    Index cols() const { return cols_; }
    const T* data() const { return values_; }
    MULTIMARGIN_INLINE DenseRow<T> row(Index i) const {
        return {{values_ + i * cols_, static_cast<std::size_t>(cols_)}};
    }
    // As below.
    MULTIMARGIN_INLINE void prefetch_place(Index) const {}
    MULTIMARGIN_INLINE void prefetch(Index i) const { prefetch_bytes(values_ + i * cols_, cols_ * Index{sizeof(T)}); }

  private:
    const T* values_;
    Index rows_, cols_;
};

template <std::floating_point T>
class CsrRows {
  public:
    using value_type = T;
    CsrRows(const T* values, const std::int32_t* columns, const std::int64_t* offsets, Index rows, Index cols)
        : values_(values), columns_(columns), offsets_(offsets), rows_(rows), cols_(cols) {}
    Index rows() const { return rows_; }
    Index cols() const { return cols_; }
    MULTIMARGIN_INLINE SparseRow<T> row(Index i) const {
        const auto begin = offsets_[i];
        const auto length = static_cast<std::size_t>(offsets_[i + 1] - begin);
        return {{values_ + begin, length}, {columns_ + begin, length}};
    }
    // Rows visited at random are asked for some visits ahead: first where row i begins, then its entries.
    MULTIMARGIN_INLINE void prefetch_place(Index i) const { __builtin_prefetch(offsets_ + i); }
    MULTIMARGIN_INLINE void prefetch(Index i) const {
        const Index begin = offsets_[i], length = offsets_[i + 1] - begin;
        prefetch_bytes(values_ + begin, length * Index{sizeof(T)});
        prefetch_bytes(columns_ + begin, length * Index{sizeof(std::int32_t)});
    }

  private:
    const T* values_;
    const std::int32_t* columns_;
    const std::int64_t* offsets_;
    Index rows_, cols_;
};

template <class X>
concept RowMatrix = std::floating_point<typename X::value_type> && requires(const X& x, Index i) {
    { x.rows() } -> std::same_as<Index>;
    { x.cols() } -> std::same_as<Index>;
    // A row lists its stored entries: values[k] stands in column(k), k < size().
    { x.row(i).size() } -> std::same_as<Index>;
    { x.row(i).column(i) } -> std::same_as<Index>;
    x.row(i).values[0];
};

// The rows of X for a solver that works in T: entries are converted as they are read, none is copied. Rows hold values
// of the type of X, value_type is T.
template <RowMatrix X, std::floating_point T>
class ReadAs {
  public:
    using value_type = T;
    explicit ReadAs(const X& x) : x_(x) {}
    const X& stored() const { return x_; }
    Index rows() const { return x_.rows(); }
    Index cols() const { return x_.cols(); }
    auto data() const
        requires requires(const X& x) { x.data(); }
    {
        return x_.data();
    }
    MULTIMARGIN_INLINE auto row(Index i) const { return x_.row(i); }
    MULTIMARGIN_INLINE void prefetch_place(Index i) const { x_.prefetch_place(i); }
    MULTIMARGIN_INLINE void prefetch(Index i) const { x_.prefetch(i); }

  private:
    X x_;
};

// X as it is stored.
template <RowMatrix X>
const X& as_stored(const X& x) {
    return x;
}
template <RowMatrix X, std::floating_point T>
const X& as_stored(const ReadAs<X, T>& x) {
    return x.stored();
}

// |x|^2 in double, whatever the type of x.
template <class Row>
double squared_norm(const Row& row) {
    double sum = 0.0;
    for (auto v : row.values) sum += static_cast<double>(v) * static_cast<double>(v);
    return sum;
}

}  // namespace multimargin::inline base
