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

#include "core/matrix.hpp"
#include "core/simd.hpp"

namespace multimargin {

inline constexpr int max_register_chunks = 13;

template <int M, bool Contiguous, class T, class Row>
MULTIMARGIN_INLINE void gather_chunks(const Row& row, const Chunk<T>* V, Index stride, Index last, T bias, const int* at,
                                      Chunk<T>* out) {
    Chunk<T> sum[M];
    int offset[M];
    for (int m = 0; m < M; ++m) offset[m] = Contiguous ? m : at[m];
    const Chunk<T>* base = Contiguous ? V + at[0] : V;
    for (int m = 0; m < M; ++m) sum[m] = bias * base[last * stride + offset[m]];
    const Index n = row.size();
    for (Index k = 0; k < n; ++k) {
        const Chunk<T>* v = base + row.column(k) * stride;
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
    Chunk<T>* base = Contiguous ? V + at[0] : V;
    for (int m = 0; m < M; ++m) base[last * stride + offset[m]] += bias * d[m];
    const Index n = row.size();
    for (Index k = 0; k < n; ++k) {
        Chunk<T>* v = base + row.column(k) * stride;
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
        case 1: return kernel.template operator()<1>(first);
        case 2: return kernel.template operator()<2>(first);
        case 3: return kernel.template operator()<3>(first);
        case 4: return kernel.template operator()<4>(first);
        case 5: return kernel.template operator()<5>(first);
        case 6: return kernel.template operator()<6>(first);
        case 7: return kernel.template operator()<7>(first);
        case 8: return kernel.template operator()<8>(first);
        case 9: return kernel.template operator()<9>(first);
        case 10: return kernel.template operator()<10>(first);
        case 11: return kernel.template operator()<11>(first);
        case 12: return kernel.template operator()<12>(first);
        case 13: return kernel.template operator()<13>(first);
        default: return;
    }
}

template <class T, class Row>
MULTIMARGIN_INLINE void gather(const Row& row, const Chunk<T>* V, Index stride, Index last, T bias, const int* at,
                               int count, Chunk<T>* out) {
    if (count == stride) {
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            gather_chunks<M, true, T>(row, V, stride, last, bias, at + first, out + first);
        });
    } else {
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            gather_chunks<M, false, T>(row, V, stride, last, bias, at + first, out + first);
        });
    }
}

template <class T, class Row>
MULTIMARGIN_INLINE void scatter(const Row& row, Chunk<T>* V, Index stride, Index last, T bias, const int* at, int count,
                                const Chunk<T>* step) {
    if (count == stride) {
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            scatter_chunks<M, true, T>(row, V, stride, last, bias, at + first, step + first);
        });
    } else {
        in_register_groups(count, [&]<int M>(int first) __attribute__((always_inline)) {
            scatter_chunks<M, false, T>(row, V, stride, last, bias, at + first, step + first);
        });
    }
}

}  // namespace multimargin
