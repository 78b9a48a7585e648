#pragma once
// The data matrix X, seen row by row. Solvers are written once, against the concept RowMatrix, and never know
// whether the rows are dense or sparse. Views own nothing.

#include <concepts>
#include <cstdint>
#include <span>

#include "core/simd.hpp"

namespace multimargin {

using Index = std::int64_t;

template <std::floating_point T>
struct DenseRow {
    std::span<const T> values;

    // f(column, value) for every stored entry, in column order.
    template <class F>
    MULTIMARGIN_INLINE void for_each(F&& f) const {
        for (std::size_t j = 0; j < values.size(); ++j) f(static_cast<Index>(j), values[j]);
    }
    Index size() const { return static_cast<Index>(values.size()); }
};

template <std::floating_point T>
struct SparseRow {
    std::span<const T> values;
    std::span<const std::int32_t> columns;

    template <class F>
    MULTIMARGIN_INLINE void for_each(F&& f) const {
        for (std::size_t k = 0; k < values.size(); ++k) f(static_cast<Index>(columns[k]), values[k]);
    }
    Index size() const { return static_cast<Index>(values.size()); }
};

template <std::floating_point T>
class DenseRows {
  public:
    using value_type = T;
    DenseRows(const T* values, Index rows, Index cols) : values_(values), rows_(rows), cols_(cols) {}
    Index rows() const { return rows_; }
    Index cols() const { return cols_; }
    Index stored() const { return rows_ * cols_; }
    DenseRow<T> row(Index i) const { return {{values_ + i * cols_, static_cast<std::size_t>(cols_)}}; }

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
    Index stored() const { return offsets_[rows_]; }
    SparseRow<T> row(Index i) const {
        const auto begin = offsets_[i];
        const auto length = static_cast<std::size_t>(offsets_[i + 1] - begin);
        return {{values_ + begin, length}, {columns_ + begin, length}};
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
    x.row(i).for_each([](Index, typename X::value_type) {});
};

// |x|^2 in double, whatever the type of x.
template <class Row>
double squared_norm(const Row& row) {
    double sum = 0.0;
    row.for_each([&](Index, auto v) { sum += static_cast<double>(v) * static_cast<double>(v); });
    return sum;
}

}  // namespace multimargin
