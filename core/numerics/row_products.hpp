#pragma once
// The memory-bound loops of block_ascent.hpp, over a state W of `features` x (cols + 1) numbers; the last column belongs
// to the constant feature `bias`:
//
//   scores      out[c] = W[f_c].(x, bias)                      for listed features
//   add         W[f_c] += amount[c] (x, bias)
//   all_scores  out[r * features + f] = W[f].(x_{i+r}, bias)   for a few rows of X at once
//
// For dense rows W is stored feature by feature: a listed feature is one contiguous product. For sparse rows it is
// stored column by column: an entry of x meets the features side by side. Sums are kept in double, whatever the type
// of X, in an order that does not depend on the grouping of rows.

#include <cstring>

#include "core/base/matrix.hpp"
#include "core/base/simd.hpp"

namespace multimargin::numerics {

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

template <class Row>
struct SeparationKernels;

template <class T>
struct SeparationKernels<DenseRow<T>> {
    static constexpr int group = 4;  // a feature is read once for so many rows
    using Row = DenseRow<T>;

    MULTIMARGIN_SIMD static void scores(const Row& row, const double* W, Index, Index cols, double bias,
                                        const std::int32_t* listed, int count, double* out) {
        for (int c = 0; c < count; ++c) out[c] = row_dot(row, W + listed[c] * (cols + 1), bias);
    }
    MULTIMARGIN_SIMD static void add(const Row& row, double* W, Index, Index cols, double bias,
                                     const std::int32_t* listed, int count, const double* amounts) {
        const T* x = row.values.data();
        for (int c = 0; c < count; ++c) {
            const double amount = amounts[c];
            double* w = W + listed[c] * (cols + 1);
            for (Index k = 0; k < cols; ++k) w[k] += amount * static_cast<double>(x[k]);
            w[cols] += amount * bias;
        }
    }
    MULTIMARGIN_SIMD static void all_scores(const Row* rows, int count, const double* W, Index features, Index cols,
                                            double bias, double* out) {
        for (Index f = 0; f < features; ++f)
            for (int r = 0; r < count; ++r) out[r * features + f] = row_dot(rows[r], W + f * (cols + 1), bias);
    }
};

template <class T>
struct SeparationKernels<SparseRow<T>> {
    static constexpr int group = 1;
    using Row = SparseRow<T>;

    MULTIMARGIN_SIMD static void scores(const Row& row, const double* W, Index features, Index cols, double bias,
                                        const std::int32_t* listed, int count, double* out) {
        const Index n = row.size();
        for (int c = 0; c < count; ++c) out[c] = bias * W[cols * features + listed[c]];
        for (Index k = 0; k < n; ++k) {
            const double* w = W + row.column(k) * features;
            const double x = row.values[static_cast<std::size_t>(k)];
            for (int c = 0; c < count; ++c) out[c] += x * w[listed[c]];
        }
    }
    MULTIMARGIN_SIMD static void add(const Row& row, double* W, Index features, Index cols, double bias,
                                     const std::int32_t* listed, int count, const double* amounts) {
        const Index n = row.size();
        for (Index k = 0; k < n; ++k) {
            double* w = W + row.column(k) * features;
            const double x = row.values[static_cast<std::size_t>(k)];
            for (int c = 0; c < count; ++c) w[listed[c]] += x * amounts[c];
        }
        for (int c = 0; c < count; ++c) W[cols * features + listed[c]] += bias * amounts[c];
    }
    MULTIMARGIN_SIMD static void all_scores(const Row* rows, int count, const double* W, Index features, Index cols,
                                            double bias, double* out) {
        for (int r = 0; r < count; ++r, out += features) {
            const Index n = rows[r].size();
            for (Index f = 0; f < features; ++f) out[f] = bias * W[cols * features + f];
            for (Index k = 0; k < n; ++k) {
                const double* w = W + rows[r].column(k) * features;
                const double x = rows[r].values[static_cast<std::size_t>(k)];
                for (Index f = 0; f < features; ++f) out[f] += x * w[f];
            }
        }
    }
};

}  // namespace multimargin::numerics
