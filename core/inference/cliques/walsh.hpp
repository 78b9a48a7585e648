#pragma once
// Tables over labellings of a few labels, and the transform between them and the coefficients of label subsets.
//
// A table of n labels has 2^n entries; bit j of an index is set where label j is OFF, so that chi_T at index x is
// (-1)^popcount(T & x) and the Walsh-Hadamard transform is its own transpose and, up to 2^n, its own inverse.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/simd.hpp"

namespace multimargin::inference {

// The stages of the transform that pair entries h, 2 h, ... apart, in a table of n entries; h >= 4.
MULTIMARGIN_INLINE void walsh_stages(double* table, std::size_t h, std::size_t n) {
    for (; 4 * h <= n; h *= 4)
        for (std::size_t i = 0; i < n; i += 4 * h)
            for (std::size_t j = i; j < i + h; j += 4) {
                const auto a = load_chunk(table + j), b = load_chunk(table + j + h);
                const auto c = load_chunk(table + j + 2 * h), d = load_chunk(table + j + 3 * h);
                const auto ab = a + b, cd = c + d, a_b = a - b, c_d = c - d;
                store_chunk(table + j, ab + cd);
                store_chunk(table + j + h, a_b + c_d);
                store_chunk(table + j + 2 * h, ab - cd);
                store_chunk(table + j + 3 * h, a_b - c_d);
            }
    if (h < n)
        for (std::size_t j = 0; j < h; j += 4) {
            const auto a = load_chunk(table + j), b = load_chunk(table + j + h);
            store_chunk(table + j, a + b);
            store_chunk(table + j + h, a - b);
        }
}

// table[x] <- sum_T table[T] (-1)^popcount(T & x), in place.
MULTIMARGIN_INLINE void walsh_transform(double* table, int bits) {
    const std::size_t n = std::size_t{1} << bits;
    if (bits < 2) {
        if (bits == 1) {
            const double a = table[0], b = table[1];
            table[0] = a + b;
            table[1] = a - b;
        }
        return;
    }
    constexpr Chunk<double> odd = {1, -1, 1, -1}, upper = {1, 1, -1, -1};
    constexpr std::size_t cached = 2048;  // entries that stay in the nearest cache
    const std::size_t block = n < cached ? n : cached;
    for (std::size_t start = 0; start < n; start += block) {
        for (std::size_t i = start; i < start + block; i += 4) {
            Chunk<double> v = load_chunk(table + i);
            v = __builtin_shufflevector(v, v, 1, 0, 3, 2) + v * odd;
            v = __builtin_shufflevector(v, v, 2, 3, 0, 1) + v * upper;
            store_chunk(table + i, v);
        }
        walsh_stages(table + start, 4, block);
    }
    walsh_stages(table, block, n);
}

// exp(x) for x <= 0, to a few units in the last place; written so that loops over it become vector code.
MULTIMARGIN_INLINE double exp_negative(double x) {
    constexpr double shift = 0x1.8p52;  // adding it rounds to an integer, found in the low bits
    x = x < -700.0 ? -700.0 : x;
    const double rounded = x * 1.4426950408889634 + shift;
    std::int64_t exponent;
    std::memcpy(&exponent, &rounded, sizeof exponent);
    const double k = rounded - shift;
    const double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    // Taylor, |r| <= log(2) / 2: pairs of terms, so that few operations wait for each other.
    const double rr = r * r, r4 = rr * rr;
    const double p0 = (1.0 + r) + rr * (0.5 + r * (1.0 / 6.0));
    const double p4 = (1.0 / 24.0 + r * (1.0 / 120.0)) + rr * (1.0 / 720.0 + r * (1.0 / 5040.0));
    const double p8 = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + rr * (1.0 / 3628800.0 + r * (1.0 / 39916800.0));
    const double p12 = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0);
    const double p = p0 + r4 * (p4 + r4 * (p8 + r4 * p12));
    const std::uint64_t bits = (static_cast<std::uint64_t>(exponent) + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

struct LogCosh {
    double value, slope;  // log(2 cosh b), tanh b
};
// log(2 cosh b) = |b| + log(1 + e), e = exp(-2 |b|), by the series of atanh(e / (2 + e)); tanh b = +-(1 - e) / (1 + e).
MULTIMARGIN_INLINE LogCosh log_2cosh(double b) {
    const double size = std::fabs(b), e = exp_negative(-2.0 * size);
    const double z = e / (2.0 + e), y = z * z, y2 = y * y, y4 = y2 * y2;
    const double p0 = (1.0 + y * (1.0 / 3)) + y2 * (1.0 / 5 + y * (1.0 / 7));
    const double p4 = (1.0 / 9 + y * (1.0 / 11)) + y2 * (1.0 / 13 + y * (1.0 / 15));
    const double p8 = (1.0 / 17 + y * (1.0 / 19)) + y2 * (1.0 / 21 + y * (1.0 / 23));
    const double p12 = (1.0 / 25 + y * (1.0 / 27)) + y2 * (1.0 / 29 + y * (1.0 / 31));
    const double p = p0 + y4 * (p4 + y4 * (p8 + y4 * p12));
    return {size + 2.0 * z * p, std::copysign((1.0 - e) / (1.0 + e), b)};
}

// combine(a, b) over all entries, n a power of two, in several lanes at once.
template <class Combine>
MULTIMARGIN_INLINE double reduce(const double* table, std::size_t n, Combine combine) {
    double result = table[0];
    std::size_t i = 1;
    if (n >= 16) {
        Chunk<double> a = load_chunk(table), b = load_chunk(table + 4);
        Chunk<double> c = load_chunk(table + 8), d = load_chunk(table + 12);
        for (i = 16; i < n; i += 16) {
            a = combine(a, load_chunk(table + i));
            b = combine(b, load_chunk(table + i + 4));
            c = combine(c, load_chunk(table + i + 8));
            d = combine(d, load_chunk(table + i + 12));
        }
        a = combine(combine(a, b), combine(c, d));
        result = combine(combine(a[0], a[1]), combine(a[2], a[3]));
    }
    for (; i < n; ++i) result = combine(result, table[i]);
    return result;
}
MULTIMARGIN_INLINE double largest(const double* table, std::size_t n) {
    return reduce(table, n, [](auto a, auto b) { return a > b ? a : b; });
}

// Index of the largest entry; of equal ones the last, which has the fewest labels on in the highest bits.
MULTIMARGIN_INLINE std::size_t last_largest(const double* table, std::size_t n) {
    const double best = largest(table, n);
    std::size_t at = n - 1;
    if (n >= 4)
        for (at = n - 4; at > 0 && !any(load_chunk(table + at) == best); at -= 4) {
        }
    at = n >= 4 ? at + 3 : at;
    while (at > 0 && !(table[at] == best)) --at;
    return at;
}

// Turns scores into probabilities and returns log of the sum of exp(scores).
MULTIMARGIN_INLINE double softmax(double* table, std::size_t n) {
    const double best = largest(table, n);
    for (std::size_t i = 0; i < n; ++i) table[i] = exp_negative(table[i] - best);
    const double sum = reduce(table, n, [](auto a, auto b) { return a + b; });
    const double scale = 1.0 / sum;
    for (std::size_t i = 0; i < n; ++i) table[i] *= scale;
    return best + std::log(sum);
}

// difference(j, d) for each bit j: d = largest entry with bit j clear (on) minus largest with it set (off). `half` is
// scratch memory for half the table.
template <class Difference>
MULTIMARGIN_INLINE void bit_differences(const double* table, int bits, double* half, Difference difference) {
    for (int j = bits - 1; j >= 0; --j) {
        const std::size_t n = std::size_t{1} << j;
        difference(j, largest(table, n) - largest(table + n, n));
        for (std::size_t i = 0; i < n; ++i) half[i] = table[i] > table[i + n] ? table[i] : table[i + n];
        table = half;
    }
}

}  // namespace multimargin::inference
