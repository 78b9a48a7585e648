#pragma once
// Products of X with tall panels (one row of `chunks` chunks per feature and one for the constant feature), streamed
// over blocks of four rows: the row's scores, then whatever the caller makes of them, then what goes back.

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/matrix.hpp"
#include "core/numerics/row_kernels.hpp"

namespace multimargin::numerics {

template <RowMatrix X>
inline constexpr bool is_dense = requires(const X& x) { x.data(); };

// Multiply-adds of a product of X with a matrix of so many columns.
template <RowMatrix X>
double work_of_product(const X& x, Index columns) {
    double entries = 0.0;
    for (Index i = 0; i < x.rows(); ++i) entries += static_cast<double>(x.row(i).size());
    return entries * static_cast<double>(columns);
}

// Threads worth their while where chunks of labels are shared out: of dense rows one chunk takes nearly as long as two.
template <RowMatrix X>
int threads_for_chunks(int chunks, int threads) {
    return is_dense<X> ? std::clamp(chunks / 2, 1, threads) : threads;
}

// Four dense rows at a time, in the type the kernels work in.
template <RowMatrix X>
class QuadRows {
  public:
    using T = typename X::value_type;
    explicit QuadRows(const X& x)
        : x_(x), stride_(chunks_for(x.cols(), lanes<T>)), converted_(converts ? quad * stride_ : 0) {}

    // x[r] = row rows[r]; beyond count the first one. Valid until the next call.
    MULTIMARGIN_INLINE void point_at(const std::int32_t* rows, int count, const T** x) {
        if constexpr (converts) {
            for (int r = 0; r < count; ++r) convert(r, rows[r]);
            for (int r = 0; r < quad; ++r) x[r] = place(r < count ? r : 0);
        } else {
            for (int r = 0; r < quad; ++r) x[r] = x_.data() + static_cast<Index>(rows[r < count ? r : 0]) * x_.cols();
        }
    }

  private:
    static constexpr bool converts =
        is_dense<X> && !std::is_same_v<T, std::remove_cvref_t<decltype(std::declval<const X&>().row(0).values[0])>>;

    T* place(int r) { return reinterpret_cast<T*>(converted_.data() + static_cast<std::size_t>(r) * stride_); }
    MULTIMARGIN_INLINE void convert(int r, std::int32_t row) {
        if (held_[r] == row) return;
        held_[r] = row;
        const auto* from = x_.row(row).values.data();
        T* to = place(r);
        for (Index j = 0; j < x_.cols(); ++j) to[j] = static_cast<T>(from[j]);
    }

    const X& x_;
    std::size_t stride_;
    Buffer<Chunk<T>> converted_;
    std::int32_t held_[quad] = {-1, -1, -1, -1};  // rows that are converted
};

// Four rows at a time against panels of `chunks` chunks; the last panel row belongs to the constant feature.
template <RowMatrix X>
class PanelRows {
  public:
    using T = typename X::value_type;
    PanelRows(const X& x, T bias, int chunks)
        : x_(x), four_(x), bias_(bias), chunks_(chunks), at_(static_cast<std::size_t>(chunks)) {
        std::iota(at_.begin(), at_.end(), 0);
    }
    int chunks() const { return chunks_; }
    T bias() const { return bias_; }
    const std::vector<int>& positions() const { return at_; }

    // out (4 x chunks) = panel' x for rows[0..count).
    MULTIMARGIN_INLINE void gather(const std::int32_t* rows, int count, const Chunk<T>* panel, Chunk<T>* out) {
        if constexpr (is_dense<X>) {
            const T* x[quad];
            point_at(rows, count, x);
            for (int r = 0; r < quad; ++r)
                for (int k = 0; k < chunks_; ++k) out[r * chunks_ + k] = bias_ * panel[x_.cols() * chunks_ + k];
            QuadKernels<T>::gather(x, x_.cols(), panel, chunks_, at_.data(), chunks_, chunks_, out);
        } else {
            for (int r = 0; r < count; ++r)
                KernelsFor<X>::gather_all(x_.row(rows[r]), panel, chunks_, x_.cols(), bias_, out + r * chunks_);
        }
    }
    // panel += x step' for rows[0..count); steps of the rows beyond count are overwritten.
    MULTIMARGIN_INLINE void scatter(const std::int32_t* rows, int count, Chunk<T>* step, Chunk<T>* panel) {
        if constexpr (is_dense<X>) {
            const T* x[quad];
            point_at(rows, count, x);
            for (int k = count * chunks_; k < quad * chunks_; ++k) step[k] = Chunk<T>{};
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) panel[x_.cols() * chunks_ + k] += bias_ * step[r * chunks_ + k];
            QuadKernels<T>::scatter(x, x_.cols(), panel, chunks_, at_.data(), chunks_, chunks_, step);
        } else {
            for (int r = 0; r < count; ++r)
                KernelsFor<X>::scatter_all(x_.row(rows[r]), panel, chunks_, x_.cols(), bias_, step + r * chunks_);
        }
    }

    // Dense rows themselves: see QuadRows.
    MULTIMARGIN_INLINE void point_at(const std::int32_t* rows, int count, const T** x) {
        four_.point_at(rows, count, x);
    }

  private:
    const X& x_;
    QuadRows<X> four_;
    T bias_;
    int chunks_;
    std::vector<int> at_;
};

// Rows of a small dense table times a panel: out (4 x panel chunks) = table rows (4 x n) * panel (n x chunks).
template <class T>
MULTIMARGIN_INLINE void multiply_quad(const T* table, Index row_stride, Index n, const ChunkTable<T>& panel,
                                      const std::vector<int>& at, Chunk<T>* out) {
    const T* x[quad];
    for (int r = 0; r < quad; ++r) x[r] = table + r * row_stride;
    std::memset(static_cast<void*>(out), 0, static_cast<std::size_t>(quad * panel.width()) * 32);
    QuadKernels<T>::gather(x, n, panel.row(0), panel.width(), at.data(), panel.width(), panel.width(), out);
}

}  // namespace multimargin::numerics
