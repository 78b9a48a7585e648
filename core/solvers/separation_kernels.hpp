#pragma once
// The memory-bound loops of separation.hpp, over a state of `stride` numbers per row; the last of them belongs to the
// constant feature `bias`:
//
//   scores      out[c] = W[f_c].(x, bias)                      for listed rows f of the state
//   add         W[f_c] += amount[c] (x, bias)
//   all_scores  out[r * features + f] = W[f].(x_{i+r}, bias)   for a few rows of X at once, each W[f] read once
//
// Sums are kept in double, whatever the type of X, in an order that does not depend on the grouping of rows.

#include <cstring>

#include "core/matrix.hpp"
#include "core/simd.hpp"

namespace multimargin {

MULTIMARGIN_INLINE Chunk<double> load_chunk(const double* p) {
    Chunk<double> chunk;
    std::memcpy(&chunk, p, sizeof chunk);
    return chunk;
}
MULTIMARGIN_INLINE Chunk<double> load_chunk(const float* p) {
    typedef float Half __attribute__((vector_size(16)));
    Half half;
    std::memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, Chunk<double>);
}

template <class T>
MULTIMARGIN_INLINE double row_dot(const DenseRow<T>& row, const double* w, double bias) {
    const Index n = row.size();
    const T* x = row.values.data();
    Chunk<double> a{}, b{}, c{}, d{};
    Index k = 0;
    for (; k + 16 <= n; k += 16) {
        a += load_chunk(x + k) * load_chunk(w + k);
        b += load_chunk(x + k + 4) * load_chunk(w + k + 4);
        c += load_chunk(x + k + 8) * load_chunk(w + k + 8);
        d += load_chunk(x + k + 12) * load_chunk(w + k + 12);
    }
    for (; k + 4 <= n; k += 4) a += load_chunk(x + k) * load_chunk(w + k);
    const Chunk<double> total = (a + b) + (c + d);
    double sum = bias * w[n] + ((total[0] + total[1]) + (total[2] + total[3]));
    for (; k < n; ++k) sum += static_cast<double>(x[k]) * w[k];
    return sum;
}

template <class T>
MULTIMARGIN_INLINE double row_dot(const SparseRow<T>& row, const double* w, double bias, Index last) {
    const Index n = row.size();
    double sum = bias * w[last];
    for (Index k = 0; k < n; ++k) sum += static_cast<double>(row.values[static_cast<std::size_t>(k)]) * w[row.column(k)];
    return sum;
}
template <class T>
MULTIMARGIN_INLINE double row_dot(const DenseRow<T>& row, const double* w, double bias, Index) {
    return row_dot(row, w, bias);
}

template <class T, class Row>
struct SeparationKernels {
    static constexpr int group = 4;

    MULTIMARGIN_SIMD static void scores(const Row& row, const double* W, Index stride, double bias,
                                        const std::int32_t* features, int count, double* out) {
        for (int c = 0; c < count; ++c) out[c] = row_dot(row, W + features[c] * stride, bias, stride - 1);
    }

    MULTIMARGIN_SIMD static void add(const Row& row, double* W, Index stride, double bias, const std::int32_t* features,
                                     int count, const double* amounts) {
        const Index n = row.size();
        for (int c = 0; c < count; ++c) {
            const double amount = amounts[c];
            if (amount == 0) continue;
            double* w = W + features[c] * stride;
            for (Index k = 0; k < n; ++k) w[row.column(k)] += amount * static_cast<double>(row.values[static_cast<std::size_t>(k)]);
            w[stride - 1] += amount * bias;
        }
    }

    template <class X>
    MULTIMARGIN_SIMD static void all_scores(const X& x, Index first, int count, const double* W, Index features,
                                            double bias, double* out) {
        const Index stride = x.cols() + 1;
        for (Index f = 0; f < features; ++f)
            for (int r = 0; r < count; ++r)
                out[r * features + f] = row_dot(x.row(first + r), W + f * stride, bias, stride - 1);
    }
};

}  // namespace multimargin
