#pragma once
// exp(x) for x <= 0, lane by lane, to a few units in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, a Taylor
// polynomial in r, and n put into the exponent. What would not be a normal number is 0.

#include <bit>

#include "core/base/simd.hpp"

namespace multimargin::prediction {

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
    static constexpr int degree = 7, exponent_at = 23;
    static constexpr std::int32_t exponent_zero = 127;
    static constexpr float smallest = -87.0f, rounder = 12582912.0f;  // 1.5 * 2^23
    static constexpr float log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
};
template <>
struct ExpConstants<double> {
    static constexpr int degree = 13, exponent_at = 52;
    static constexpr std::int64_t exponent_zero = 1023;
    static constexpr double smallest = -708.0, rounder = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double log2_high = 0.6931471803691238, log2_low = 1.9082149292705877e-10;
};

template <class T>
constexpr T inverse_factorial(int n) {
    T product = 1;
    for (int k = 2; k <= n; ++k) product *= static_cast<T>(k);
    return 1 / product;
}

template <class T>
MULTIMARGIN_INLINE Chunk<T> exp_not_positive(Chunk<T> x) {
    using Constants = ExpConstants<T>;
    const Chunk<T> zero{}, inside = lane_max(x, zero + Constants::smallest);
    const Chunk<T> shifted = inside * static_cast<T>(1.4426950408889634) + Constants::rounder;
    const Chunk<T> n = shifted - Constants::rounder;
    const Chunk<T> r = (inside - n * Constants::log2_high) - n * Constants::log2_low;
    Chunk<T> sum = zero + inverse_factorial<T>(Constants::degree);
    for (int k = Constants::degree - 1; k >= 0; --k) sum = sum * r + inverse_factorial<T>(k);
    const auto bits = std::bit_cast<ChunkMask<T>>(shifted) << Constants::exponent_at;
    const auto one =
        ChunkMask<T>{} + (decltype(ChunkMask<T>{}[0] + 0){Constants::exponent_zero} << Constants::exponent_at);
    const Chunk<T> power = std::bit_cast<Chunk<T>>(bits + one);
    return x < Constants::smallest ? zero : sum * power;
}

}  // namespace multimargin::prediction
