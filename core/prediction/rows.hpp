#pragma once
// Rows to be scored: dense in any layout, or CSR; and blocks of them written out, dense and in another precision.

#include <algorithm>

#include "core/base/matrix.hpp"

namespace multimargin::prediction {

// A table of numbers at any distance from each other: rows or columns contiguous, or neither.
template <std::floating_point S>
class StridedRows {
  public:
    using value_type = S;
    StridedRows(const S* values, Index rows, Index cols, Index row_step, Index col_step)
        : values_(values), rows_(rows), cols_(cols), row_step_(row_step), col_step_(col_step) {}
    Index rows() const { return rows_; }
    Index cols() const { return cols_; }
    Index entries() const { return rows_ * cols_; }
    const S* row(Index i) const { return values_ + i * row_step_; }
    Index col_step() const { return col_step_; }
    bool contiguous() const { return col_step_ == 1 || cols_ == 1; }
    MULTIMARGIN_INLINE S at(Index i, Index j) const { return values_[i * row_step_ + j * col_step_]; }

  private:
    const S* values_;
    Index rows_, cols_, row_step_, col_step_;
};

template <class S>
Index entries_of(const StridedRows<S>& x) {
    return x.entries();
}
template <class S>
Index entries_of(const CsrRows<S>& x) {
    const auto begin = x.row(0).values.data(), end = x.row(x.rows() - 1).values.data();
    return end - begin + x.row(x.rows() - 1).size();
}

// out (count x cols) = rows first, first + 1 ... of x, in the precision T.
template <class S, class T>
void write_rows(const StridedRows<S>& x, Index first, Index count, T* out) {
    constexpr Index strip = 16;
    if (x.contiguous()) {
        for (Index i = 0; i < count; ++i) std::copy_n(x.row(first + i), x.cols(), out + i * x.cols());
        return;
    }
    for (Index from = 0; from < x.cols(); from += strip) {
        const Index to = std::min(from + strip, x.cols());
        for (Index i = 0; i < count; ++i)
            for (Index j = from; j < to; ++j) out[i * x.cols() + j] = static_cast<T>(x.at(first + i, j));
    }
}
template <class S, class T>
void write_rows(const CsrRows<S>& x, Index first, Index count, T* out) {
    std::fill_n(out, count * x.cols(), T(0));
    for (Index i = 0; i < count; ++i) {
        const auto row = x.row(first + i);
        for (Index k = 0; k < row.size(); ++k)
            out[i * x.cols() + row.column(k)] += static_cast<T>(row.values[static_cast<std::size_t>(k)]);
    }
}

}  // namespace multimargin::prediction
