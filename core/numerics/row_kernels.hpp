#pragma once
// The two memory-bound loops of every row-block solver, over a state V of (D + 1) rows of `stride` chunks; the last
// row belongs to the constant feature `bias`:
//
//   gather    out[m] = sum_j x_j V[j][at[m]] + bias V[D][at[m]]
//   scatter   V[j][at[m]] += x_j step[m],  V[D][at[m]] += bias step[m]
//
// The chunks `at` live in registers while the row is read, so V is touched once per stored entry. The order of the
// additions in a lane does not depend on which other chunks are handled: results are bit-identical however labels
// are split into blocks.

#include <cstring>
#include <utility>

#include "core/base/matrix.hpp"
#include "core/base/simd.hpp"

namespace multimargin::numerics {

inline constexpr int max_register_chunks = 13;

template <int M, bool Contiguous, class T, class Row>
MULTIMARGIN_INLINE void gather_chunks(const Row& row, const Chunk<T>* V, Index stride, Index last, T bias,
                                      const int* at, Chunk<T>* out) {
    Chunk<T> sum[M];
    int offset[M];
    for (int m = 0; m < M; ++m) offset[m] = Contiguous ? m : at[m];
    for (int m = 0; m < M; ++m) sum[m] = bias * V[last * stride + offset[m]];
    const Index n = row.size();
    for (Index k = 0; k < n; ++k) {
        const Chunk<T>* v = V + row.column(k) * stride;
        const T x = row.values[static_cast<std::size_t>(k)];
        for (int m = 0; m < M; ++m) sum[m] += x * v[offset[m]];
    }
    for (int m = 0; m < M; ++m) out[m] = sum[m];
}

template <int M, bool Contiguous, class T, class Row>
MULTIMARGIN_INLINE void scatter_chunks(const Row& row, Chunk<T>* V, Index stride, Index last, T bias, const int* at,
                                       const Chunk<T>* step) {
    Chunk<T> d[M];
    int offset[M];
    for (int m = 0; m < M; ++m) d[m] = step[m];
    for (int m = 0; m < M; ++m) offset[m] = Contiguous ? m : at[m];
    for (int m = 0; m < M; ++m) V[last * stride + offset[m]] += bias * d[m];
    const Index n = row.size();
    for (Index k = 0; k < n; ++k) {
        Chunk<T>* v = V + row.column(k) * stride;
        const T x = row.values[static_cast<std::size_t>(k)];
        for (int m = 0; m < M; ++m) v[offset[m]] += x * d[m];
    }
}

// Calls kernel.template operator()<M>(first) for groups of at most max_register_chunks chunks.
template <class Kernel>
MULTIMARGIN_INLINE void in_register_groups(int count, Kernel&& kernel) {
    int first = 0;
    while (count - first > max_register_chunks) {
        kernel.template operator()<8>(first);
        first += 8;
    }
    switch (count - first) {
        case 1:
            return kernel.template operator()<1>(first);
        case 2:
            return kernel.template operator()<2>(first);
        case 3:
            return kernel.template operator()<3>(first);
        case 4:
            return kernel.template operator()<4>(first);
        case 5:
            return kernel.template operator()<5>(first);
        case 6:
            return kernel.template operator()<6>(first);
        case 7:
            return kernel.template operator()<7>(first);
        case 8:
            return kernel.template operator()<8>(first);
        case 9:
            return kernel.template operator()<9>(first);
        case 10:
            return kernel.template operator()<10>(first);
        case 11:
            return kernel.template operator()<11>(first);
        case 12:
            return kernel.template operator()<12>(first);
        case 13:
            return kernel.template operator()<13>(first);
        default:
            return;
    }
}

// The entry points, compiled once per kind of row.
template <class T, class Row>
struct RowKernels {
    // The `count` chunks listed in `at`.
    MULTIMARGIN_SIMD static void gather(const Row& row, const Chunk<T>* V, Index stride, Index last, T bias,
                                        const int* at, int count, Chunk<T>* out) {
        if (count == stride) return gather_all(row, V, stride, last, bias, out);
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            gather_chunks<M, false, T>(row, V, stride, last, bias, at + first, out + first);
        });
    }
    MULTIMARGIN_SIMD static void scatter(const Row& row, Chunk<T>* V, Index stride, Index last, T bias, const int* at,
                                         int count, const Chunk<T>* step) {
        if (count == stride) return scatter_all(row, V, stride, last, bias, step);
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            scatter_chunks<M, false, T>(row, V, stride, last, bias, at + first, step + first);
        });
    }
    // All `stride` chunks.
    MULTIMARGIN_SIMD static void gather_all(const Row& row, const Chunk<T>* V, Index stride, Index last, T bias,
                                            Chunk<T>* out) {
        in_register_groups(static_cast<int>(stride), [&]<int M>(int first) __attribute__((always_inline)) {
            gather_chunks<M, true, T>(row, V + first, stride, last, bias, nullptr, out + first);
        });
    }
    MULTIMARGIN_SIMD static void scatter_all(const Row& row, Chunk<T>* V, Index stride, Index last, T bias,
                                             const Chunk<T>* step) {
        in_register_groups(static_cast<int>(stride), [&]<int M>(int first) __attribute__((always_inline)) {
            scatter_chunks<M, true, T>(row, V + first, stride, last, bias, nullptr, step + first);
        });
    }
};

// The same for a block of four dense rows: the state is read once for four rows, which lifts dense data from
// memory-bound to compute-bound.
inline constexpr int quad = 4;

template <int M, class T>
MULTIMARGIN_INLINE void gather_quad_chunks(const T* const* x, Index n, const Chunk<T>* V, Index stride, const int* at,
                                           Index out_stride, Chunk<T>* out) {
    Chunk<T> sum[quad][M];
    Index offset[M];
    for (int m = 0; m < M; ++m) offset[m] = at[m];
    for (int r = 0; r < quad; ++r)
        for (int m = 0; m < M; ++m) sum[r][m] = out[r * out_stride + m];
    for (Index j = 0; j < n; ++j) {
        Chunk<T> v[M];
        for (int m = 0; m < M; ++m) v[m] = V[j * stride + offset[m]];
        for (int r = 0; r < quad; ++r)
            for (int m = 0; m < M; ++m) sum[r][m] += x[r][j] * v[m];
    }
    for (int r = 0; r < quad; ++r)
        for (int m = 0; m < M; ++m) out[r * out_stride + m] = sum[r][m];
}

template <int M, class T>
MULTIMARGIN_INLINE void scatter_quad_chunks(const T* const* x, Index n, Chunk<T>* V, Index stride, const int* at,
                                            Index step_stride, const Chunk<T>* step) {
    Chunk<T> d[quad][M];
    Index offset[M];
    for (int m = 0; m < M; ++m) offset[m] = at[m];
    for (int r = 0; r < quad; ++r)
        for (int m = 0; m < M; ++m) d[r][m] = step[r * step_stride + m];
    for (Index j = 0; j < n; ++j) {
        Chunk<T> v[M];
        for (int m = 0; m < M; ++m) v[m] = V[j * stride + offset[m]];
        for (int r = 0; r < quad; ++r)
            for (int m = 0; m < M; ++m) v[m] += x[r][j] * d[r][m];
        for (int m = 0; m < M; ++m) V[j * stride + offset[m]] = v[m];
    }
}

// Calls kernel.template operator()<M>(first) for groups of three chunks, and of two where one would be left over: a
// single chunk keeps the processor half busy.
template <class Kernel>
MULTIMARGIN_INLINE void in_quad_groups(int count, Kernel&& kernel) {
    int m = 0;
    for (; count - m > 4 || count - m == 3; m += 3) kernel.template operator()<3>(m);
    for (; count - m >= 2; m += 2) kernel.template operator()<2>(m);
    if (count > m) kernel.template operator()<1>(m);
}

template <class T>
struct QuadKernels {
    // out[r][m] += sum_j x[r][j] V[j][at[m]], m < count; rows of out and step are `width` chunks apart.
    MULTIMARGIN_SIMD static void gather(const T* const* x, Index n, const Chunk<T>* V, Index stride, const int* at,
                                        int count, Index width, Chunk<T>* out) {
        in_quad_groups(count, [&]<int M>(int m) __attribute__((always_inline)) {
            gather_quad_chunks<M, T>(x, n, V, stride, at + m, width, out + m);
        });
    }
    MULTIMARGIN_SIMD static void scatter(const T* const* x, Index n, Chunk<T>* V, Index stride, const int* at,
                                         int count, Index width, const Chunk<T>* step) {
        in_quad_groups(count, [&]<int M>(int m) __attribute__((always_inline)) {
            scatter_quad_chunks<M, T>(x, n, V, stride, at + m, width, step + m);
        });
    }
    // gram[a][b] = x_a . x_b for b < a.
    MULTIMARGIN_SIMD static void gram(const T* const* x, Index n, T (*gram)[quad]) {
        for (int a = 1; a < quad; ++a)
            for (int b = 0; b < a; ++b) {
                Chunk<T> sum{};
                Index j = 0;
                for (; j + lanes<T> <= n; j += lanes<T>) {
                    Chunk<T> u, v;
                    std::memcpy(&u, x[a] + j, sizeof u);
                    std::memcpy(&v, x[b] + j, sizeof v);
                    sum += u * v;
                }
                T total = 0;
                for (int e = 0; e < lanes<T>; ++e) total += sum[e];
                for (; j < n; ++j) total += x[a][j] * x[b][j];
                gram[a][b] = total;
            }
    }
};

template <RowMatrix X>
using KernelsFor = RowKernels<typename X::value_type, decltype(std::declval<const X&>().row(0))>;

}  // namespace multimargin::numerics
