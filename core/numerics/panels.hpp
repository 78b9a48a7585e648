#pragma once
// Products of X with tall panels (one row of `chunks` chunks per feature and one for the constant feature), streamed
// over blocks of four rows: the row's scores, then whatever the caller makes of them, then what goes back.

#include <numeric>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/matrix.hpp"
#include "core/numerics/row_kernels.hpp"

namespace multimargin::numerics {

template <RowMatrix X>
inline constexpr bool is_dense = requires(const X& x) { x.data(); };

// Four rows at a time against panels of `chunks` chunks; the last panel row belongs to the constant feature.
template <RowMatrix X>
class PanelRows {
  public:
    using T = typename X::value_type;
    PanelRows(const X& x, T bias, int chunks)
        : x_(x), bias_(bias), chunks_(chunks), at_(static_cast<std::size_t>(chunks)) {
        std::iota(at_.begin(), at_.end(), 0);
    }
    int chunks() const { return chunks_; }
    T bias() const { return bias_; }
    const std::vector<int>& positions() const { return at_; }

    // out (4 x chunks) = panel' x for rows[0..count).
    MULTIMARGIN_INLINE void gather(const std::int32_t* rows, int count, const Chunk<T>* panel, Chunk<T>* out) const {
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
    MULTIMARGIN_INLINE void scatter(const std::int32_t* rows, int count, Chunk<T>* step, Chunk<T>* panel) const {
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

  private:
    void point_at(const std::int32_t* rows, int count, const T** x) const {
        for (int r = 0; r < quad; ++r) x[r] = x_.data() + rows[r < count ? r : 0] * x_.cols();
    }
    const X& x_;
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
