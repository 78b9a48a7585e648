#pragma once
// Two-variable ascent on a small box-constrained dual whose kernel fits in the cache:
//
//   maximise  s.x - 1/2 x' M x,    low <= beta + x <= high
//
// A step takes the variable p with the largest violation (how much the gradient wants to move it and the box lets it),
// then the partner w that promises the largest gain of the unconstrained pair,
//   (s_p^2 M_ww + s_w^2 M_pp - 2 s_p s_w M_pw) / (M_pp M_ww - M_pw^2),
// solves the pair exactly in its box, and updates the gradient s -= M x while looking for the next p. Cost of a step:
// two sweeps over the variables.

#include <limits>

#include "core/base/chunks.hpp"
#include "core/base/simd.hpp"

namespace multimargin::m3l {

// Arrays of size chunks; the kernel has chunks * lanes rows of `chunks` each. Padded variables have low = high = beta.
template <class T>
struct PairProblem {
    int chunks;
    const Chunk<T>* kernel;
    const Chunk<T>* diagonal;
    Chunk<T>* gradient;
    Chunk<T>* beta;
    const Chunk<T>* low;
    const Chunk<T>* high;
};

// Rounding: bounds are exact within this share of the box, determinants below this share of the diagonal count as 0.
template <class T>
inline constexpr T pair_rounding = T(1e-6);
template <>
inline constexpr double pair_rounding<double> = 1e-12;

template <class T>
MULTIMARGIN_INLINE Chunk<T> violation(Chunk<T> gradient, Chunk<T> beta, Chunk<T> low, Chunk<T> high) {
    const Chunk<T> zero{};
    return lane_max(zero, lane_max(beta < high ? gradient : zero, beta > low ? -gradient : zero));
}

template <class T>
MULTIMARGIN_INLINE ChunkMask<T> first_positions() {
    ChunkMask<T> at{};
    for (int e = 0; e < lanes<T>; ++e) at[e] = e;
    return at;
}

// Position of the largest lane; `value` receives it.
template <class T>
MULTIMARGIN_INLINE Index largest(Chunk<T> values, ChunkMask<T> positions, T& value) {
    int best = 0;
    for (int e = 1; e < lanes<T>; ++e)
        if (values[e] > values[best]) best = e;
    value = values[best];
    return positions[best];
}

template <class T>
MULTIMARGIN_INLINE T within(T value, T low, T high) {
    return value < low ? low : value > high ? high : value;
}

// Maximises g1 x1 + g2 x2 - 1/2 (a x1^2 + 2 c x1 x2 + b x2^2) over a box; a, b > 0, a b > c^2.
template <class T>
MULTIMARGIN_INLINE void solve_pair(T g1, T g2, T a, T b, T c, T low1, T high1, T low2, T high2, T& x1, T& x2) {
    const T det = a * b - c * c;
    x1 = (b * g1 - c * g2) / det;
    x2 = (a * g2 - c * g1) / det;
    if (x1 >= low1 && x1 <= high1 && x2 >= low2 && x2 <= high2) return;
    // the optimum is on the border: fix either variable first, settle the other, take the better
    T u1 = within(x1, low1, high1), u2 = within((g2 - c * u1) / b, low2, high2);
    u1 = within((g1 - c * u2) / a, low1, high1);
    u2 = within((g2 - c * u1) / b, low2, high2);
    T v2 = within(x2, low2, high2), v1 = within((g1 - c * v2) / a, low1, high1);
    v2 = within((g2 - c * v1) / b, low2, high2);
    v1 = within((g1 - c * v2) / a, low1, high1);
    const T gain_u = g1 * u1 + g2 * u2 - T(0.5) * (a * u1 * u1 + 2 * c * u1 * u2 + b * u2 * u2);
    const T gain_v = g1 * v1 + g2 * v2 - T(0.5) * (a * v1 * v1 + 2 * c * v1 * v2 + b * v2 * v2);
    x1 = gain_u >= gain_v ? u1 : v1;
    x2 = gain_u >= gain_v ? u2 : v2;
}

// Steps until no violation exceeds `tolerance`; returns their number.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) Index ascend_pairs(const PairProblem<T>& q, T tolerance, Index max_steps) {
    const Chunk<T> zero{};
    const ChunkMask<T> start = first_positions<T>();
    T* s = reinterpret_cast<T*>(q.gradient);
    T* beta = reinterpret_cast<T*>(q.beta);
    const T* low = reinterpret_cast<const T*>(q.low);
    const T* high = reinterpret_cast<const T*>(q.high);
    const T* diagonal = reinterpret_cast<const T*>(q.diagonal);

    T worst;
    Index p;
    {
        Chunk<T> best = zero;
        ChunkMask<T> best_at = start, at = start;
        for (int k = 0; k < q.chunks; ++k, at += lanes<T>) {
            const Chunk<T> v = violation<T>(q.gradient[k], q.beta[k], q.low[k], q.high[k]);
            const auto better = v > best;
            best = better ? v : best;
            best_at = better ? at : best_at;
        }
        p = largest<T>(best, best_at, worst);
    }
    Index steps = 0;
    while (steps < max_steps && worst >= tolerance && worst > 0) {
        ++steps;
        const Chunk<T>* row = q.kernel + p * q.chunks;
        const T g = s[p], a = diagonal[p];
        if (!(a > 0)) {  // a zero row: the objective is linear in it
            beta[p] = g > 0 ? high[p] : low[p];
        }
        const T least_det = pair_rounding<T> * (a > 0 ? a : T(1));
        Index w = -1;
        {
            // the largest ratio num / det, compared without dividing
            Chunk<T> best_num = zero, best_det = zero + 1;
            ChunkMask<T> best_at = start, at = start;
            for (int k = 0; k < q.chunks; ++k, at += lanes<T>) {
                const Chunk<T> si = q.gradient[k], ki = row[k], di = q.diagonal[k];
                const Chunk<T> v = violation<T>(si, q.beta[k], q.low[k], q.high[k]);
                const Chunk<T> det = lane_max(a * di - ki * ki, zero + least_det);
                const Chunk<T> num = v > 0 ? g * g * di + si * (a * si - 2 * g * ki) : zero;
                const auto better = num * best_det > best_num * det;
                best_num = better ? num : best_num;
                best_det = better ? det : best_det;
                best_at = better ? at : best_at;
            }
            T gain;
            const Index partner = largest<T>(best_num / best_det, best_at, gain);
            if (gain > 0) w = partner;
        }
        T x1, x2 = 0;
        const T low1 = low[p] - beta[p], high1 = high[p] - beta[p];
        const T* kernel_row = reinterpret_cast<const T*>(row);
        if (w < 0 || w == p || !(a * diagonal[w] - kernel_row[w] * kernel_row[w] > least_det)) {
            w = p;
            x1 = a > 0 ? within(g / a, low1, high1) : T(0);
        } else {
            solve_pair(g, s[w], a, diagonal[w], kernel_row[w], low1, high1, low[w] - beta[w], high[w] - beta[w], x1,
                       x2);
        }
        const auto settle = [&](Index i, T x) {
            const T slack = pair_rounding<T> * (high[i] - low[i]), now = beta[i] + x;
            beta[i] = now - low[i] <= slack ? low[i] : high[i] - now <= slack ? high[i] : now;
        };
        settle(p, x1);
        if (w != p) settle(w, x2);
        const Chunk<T>* other = q.kernel + w * q.chunks;
        Chunk<T> best = zero;
        ChunkMask<T> best_at = start, at = start;
        for (int k = 0; k < q.chunks; ++k, at += lanes<T>) {
            const Chunk<T> si = q.gradient[k] - x1 * row[k] - x2 * other[k];
            q.gradient[k] = si;
            const Chunk<T> v = violation<T>(si, q.beta[k], q.low[k], q.high[k]);
            const auto better = v > best;
            best = better ? v : best;
            best_at = better ? at : best_at;
        }
        p = largest<T>(best, best_at, worst);
    }
    return steps;
}

}  // namespace multimargin::m3l
