#pragma once
// Products of blocks of kernel values with coefficients most of which are 0, in double precision.
//
// K: a block of values, with rows a and columns c; C: coefficients, rows x labels; U: scores, a line per label.
//   add_to_rows      U[l, a] += sum_c K[a, c] C[first + c, l]      scores of the block's rows
//   add_to_columns   U[l, c] += sum_a K[a, c] C[first + a, l]      where the kernel is symmetric, its columns' too
// Cost: a multiply-add per row (column) of the block and coefficient that is not 0; the former also turns the block.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/simd.hpp"

namespace multimargin::m3l {

// values: rows x stride, of which the columns from <= c < to are meant.
struct ValueBlock {
    const double* values;
    Index rows, stride, from, to;
};

// Coefficients by label; the row numbers of a label ascend.
struct SparseCoefficients {
    std::span<const std::int64_t> starts;
    std::span<const std::int32_t> rows;
    std::span<const double> values;

    Index labels() const { return static_cast<Index>(starts.size()) - 1; }
    // Where a label's coefficients of the rows from `row` on begin.
    std::size_t find(Index label, Index row) const {
        const auto at = static_cast<std::size_t>(label);
        return static_cast<std::size_t>(
            std::lower_bound(rows.begin() + starts[at], rows.begin() + starts[at + 1], row) - rows.begin());
    }
};

struct Entries {
    std::size_t begin = 0, end = 0;
};

inline constexpr int strip_chunks = 8;
inline constexpr Index strip = strip_chunks * lanes<double>;  // neighbouring scores, summed in registers

// sums[0 .. strip) += sum over entries e of value_e * lines[(row_e - first) * stride ..]
MULTIMARGIN_INLINE void add_lines(const SparseCoefficients& coefficients, const Entries& entries, Index first,
                                  const double* lines, Index stride, double* sums) {
    Chunk<double> sum[strip_chunks];
    for (int k = 0; k < strip_chunks; ++k) std::memcpy(&sum[k], sums + k * lanes<double>, sizeof sum[k]);
    for (std::size_t e = entries.begin; e < entries.end; ++e) {
        const double value = coefficients.values[e];
        const double* line = lines + (coefficients.rows[e] - first) * stride;
        asm("" : "+r"(line));  // one address, not one per chunk
#pragma GCC unroll 8
        for (int k = 0; k < strip_chunks; ++k) {
            Chunk<double> part;
            std::memcpy(&part, line + k * lanes<double>, sizeof part);
            sum[k] += value * part;
        }
    }
    for (int k = 0; k < strip_chunks; ++k) std::memcpy(sums + k * lanes<double>, &sum[k], sizeof sum[k]);
}

// out[c, e] = values[a + e, c] for a strip of rows; what lies beyond the last row stays as it was.
MULTIMARGIN_INLINE void turn(const ValueBlock& block, Index a, Index count, double* out) {
    constexpr Index line = 8;  // rows at a time, so that each cache line is written once
    Index e = 0;
    for (; e + line <= count; e += line) {
        const double* rows = block.values + (a + e) * block.stride + block.from;
        for (Index c = 0; c < block.to - block.from; ++c)
            for (Index k = 0; k < line; ++k) out[c * strip + e + k] = rows[k * block.stride + c];
    }
    for (; e < count; ++e)
        for (Index c = block.from; c < block.to; ++c)
            out[(c - block.from) * strip + e] = block.values[(a + e) * block.stride + c];
}

// entries: of each label, in the block's columns, the first of which is row `first` of the coefficients. turned: room
// for a strip of rows, column by column. out: labels x rows.
MULTIMARGIN_SIMD inline void add_turned(const ValueBlock& block, const SparseCoefficients& coefficients,
                                        const Entries* entries, Index first, double* turned, double* out) {
    for (Index a = 0; a < block.rows; a += strip) {
        const Index count = std::min(strip, block.rows - a);
        turn(block, a, count, turned);
        for (Index l = 0; l < coefficients.labels(); ++l) {
            if (entries[l].begin == entries[l].end) continue;
            double* to = out + l * block.rows + a;
            if (count == strip) {
                add_lines(coefficients, entries[l], first, turned, strip, to);
            } else {
                double sums[strip] = {};
                add_lines(coefficients, entries[l], first, turned, strip, sums);
                for (Index e = 0; e < count; ++e) to[e] += sums[e];
            }
        }
    }
}

// out: labels x rows.
inline void add_to_rows(const ValueBlock& block, const SparseCoefficients& coefficients, Index first, double* out) {
    constexpr Index tile = 128;  // columns, so that what is turned stays in the cache
    Buffer<double> turned(static_cast<std::size_t>(tile * strip));
    std::vector<Entries> entries(static_cast<std::size_t>(coefficients.labels()));
    for (Index l = 0; l < coefficients.labels(); ++l)
        entries[static_cast<std::size_t>(l)].end = coefficients.find(l, first);
    for (ValueBlock part = block; part.from < block.to; part.from = part.to) {
        part.to = std::min(part.from + tile, block.to);
        const Index begin = first + part.from - block.from, end = begin + part.to - part.from;
        for (Index l = 0; l < coefficients.labels(); ++l) {
            Entries& own = entries[static_cast<std::size_t>(l)];
            own = {own.end, coefficients.find(l, end)};
        }
        add_turned(part, coefficients, entries.data(), begin, turned.data(), out);
    }
}

// entries: of each label, in the block's rows, the first of which is row `first` of the coefficients.
MULTIMARGIN_SIMD inline void add_strips(const ValueBlock& block, const SparseCoefficients& coefficients,
                                        const Entries* entries, Index first, double* out, Index out_stride) {
    const Index whole = block.to - (block.to - block.from) % strip;
    for (Index c = block.from; c < whole; c += strip)
        for (Index l = 0; l < coefficients.labels(); ++l)
            if (entries[l].begin < entries[l].end)
                add_lines(coefficients, entries[l], first, block.values + c, block.stride,
                          out + l * out_stride + c - block.from);
    for (Index l = 0; l < coefficients.labels(); ++l)
        for (std::size_t e = entries[l].begin; e < entries[l].end; ++e) {
            const double* line = block.values + (coefficients.rows[e] - first) * block.stride;
            for (Index c = whole; c < block.to; ++c)
                out[l * out_stride + c - block.from] += coefficients.values[e] * line[c];
        }
}

// out: labels x out_stride; its first column belongs to the first of the block.
inline void add_to_columns(const ValueBlock& block, const SparseCoefficients& coefficients, Index first, double* out,
                           Index out_stride) {
    std::vector<Entries> entries(static_cast<std::size_t>(coefficients.labels()));
    for (Index l = 0; l < coefficients.labels(); ++l)
        entries[static_cast<std::size_t>(l)] = {coefficients.find(l, first), coefficients.find(l, first + block.rows)};
    add_strips(block, coefficients, entries.data(), first, out, out_stride);
}

}  // namespace multimargin::m3l
