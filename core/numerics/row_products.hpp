#pragma once
// The memory-bound loops of block_ascent.hpp, over a state W of `features` x (cols + 1) numbers; the last column belongs
// to the constant feature `bias`:
//
//   scores      out[c] = W[f_c].(x, bias)                      for listed features
//   add         W[f_c] += amount[c] (x, bias)
//   all_scores  out[r * features + f] = W[f].(x_{i+r}, bias)   for a few rows of X at once
//   block_scores  out[f * B + r] = W[f].(x_r, bias)          for a block of B rows of X, side by side
//
// For dense rows W is stored feature by feature: a listed feature is one contiguous product. For sparse rows it is
// stored column by column: an entry of x meets the features side by side. Sums are kept in double, whatever the type
// of X, in an order that does not depend on the grouping of rows; those of blocks of dense rows in the type of `out`.

#include <algorithm>
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

// Rows of a block: four chunks.
inline constexpr int block_chunks = 4;
template <class T>
inline constexpr int rows_of_block = block_chunks * lanes<T>;

// V: a vector of T, of which a block has B / lanes.
template <int F, class V, class T>
MULTIMARGIN_INLINE void block_products(const T* W, Index width, const V* block, V* out) {
    constexpr int vectors = block_chunks * sizeof(Chunk<T>) / sizeof(V);
    V sum[F][vectors] = {};
    for (Index k = 0; k < width; ++k)
        for (int f = 0; f < F; ++f)
            for (int c = 0; c < vectors; ++c) sum[f][c] += W[f * width + k] * block[k * vectors + c];
    for (int f = 0; f < F; ++f)
        for (int c = 0; c < vectors; ++c) out[f * vectors + c] = sum[f][c];
}

// W: features x width; block: width x B; out: features x B.
template <class T>
struct BlockProducts {
    static void all(const T* W, Index features, Index width, const T* block, T* out) {
        (has_wide() ? in_wide : in_chunks)(W, features, width, block, out);
    }

  private:
    template <int F, class V>
    MULTIMARGIN_INLINE static void in(const T* W, Index features, Index width, const T* block, T* out) {
        const V* from = reinterpret_cast<const V*>(block);
        V* to = reinterpret_cast<V*>(out);
        constexpr int vectors = rows_of_block<T> * sizeof(T) / sizeof(V);
        Index f = 0;
        for (; f + F <= features; f += F) block_products<F>(W + f * width, width, from, to + f * vectors);
        for (; f < features; ++f) block_products<1>(W + f * width, width, from, to + f * vectors);
    }
    MULTIMARGIN_SIMD static void in_chunks(const T* W, Index features, Index width, const T* block, T* out) {
        in<3, Chunk<T>>(W, features, width, block, out);
    }
    MULTIMARGIN_WIDE static void in_wide(const T* W, Index features, Index width, const T* block, T* out) {
        in<6, Wide<T>>(W, features, width, block, out);
    }
};

template <class Row>
struct SeparationKernels;

template <class T>
struct SeparationKernels<DenseRow<T>> {
    static constexpr bool dense = true;
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
    // room: (cols + 1) x B
    template <class S>
    static void block_scores(const Row* rows, int count, const S* W, Index features, Index cols, double bias, S* room,
                             S* out) {
        constexpr int B = rows_of_block<S>;
        for (Index k = 0; k < cols; ++k)
            for (int r = 0; r < B; ++r)
                room[k * B + r] = r < count ? static_cast<S>(rows[r].values[static_cast<std::size_t>(k)]) : S(0);
        std::fill_n(room + cols * B, B, static_cast<S>(bias));
        BlockProducts<S>::all(W, features, cols + 1, room, out);
    }
};

template <class T>
struct SeparationKernels<SparseRow<T>> {
    static constexpr bool dense = false;
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
    // room: features
    template <class S>
    static void block_scores(const Row* rows, int count, const double* W, Index features, Index cols, double bias,
                             double* room, S* out) {
        constexpr int B = rows_of_block<S>;
        for (int r = 0; r < count; ++r) {
            all_scores(rows + r, 1, W, features, cols, bias, room);
            for (Index f = 0; f < features; ++f) out[f * B + r] = static_cast<S>(room[f]);
        }
    }
};

}  // namespace multimargin::numerics
