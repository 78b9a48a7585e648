#pragma once
// Two-variable ascent on a small box-constrained dual whose kernel fits in the cache:
//
//   maximise  s.x - 1/2 x' M x,    low <= beta + x <= high
//
// A step takes the variable p with the largest violation (how much the gradient wants to move it and the box lets it),
// then the partner w that promises the largest gain of the unconstrained pair,
//   (s_p^2 M_ww + s_w^2 M_pp - 2 s_p s_w M_pw) / (M_pp M_ww - M_pw^2),
// solves the pair exactly in its box, and updates the gradient s -= M x while looking for the next p; of equals the first.
// Cost of a step: two sweeps over the variables, pair_lanes side by side, so that comparisons do not wait for each other.

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/chunks.hpp"
#include "core/base/simd.hpp"

namespace multimargin::m3l {

template <class T>
inline constexpr Index pair_lanes = 128 / sizeof(T);

// Arrays of `width` variables, a multiple of pair_lanes, aligned to cache lines; the kernel has as many columns. Padded
// variables have low = high = beta.
template <class T>
struct PairProblem {
    Index width;
    const T* kernel;
    const T* diagonal;
    T* gradient;
    T* beta;
    const T* low;
    const T* high;
};

// Rounding: bounds are exact within this share of the box, determinants below this share of the diagonal count as 0.
template <class T>
inline constexpr T pair_rounding = T(1e-6);
template <>
inline constexpr double pair_rounding<double> = 1e-12;

template <class V>
MULTIMARGIN_INLINE V violation(V gradient, V beta, V low, V high) {
    const V zero{};
    return lane_max(zero, lane_max(beta < high ? gradient : zero, beta > low ? -gradient : zero));
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

// Steps until no violation exceeds `tolerance`; returns their number. The same for vectors V of any length.
template <class T>
struct PairAscent {
    static Index run(const PairProblem<T>& q, T tolerance, Index max_steps) {
        return (has_wide() ? in_wide : in_chunks)(q, tolerance, max_steps);
    }

  private:
    MULTIMARGIN_SIMD __attribute__((noinline)) static Index in_chunks(const PairProblem<T>& q, T tolerance,
                                                                      Index max_steps) {
        return in<Chunk<T>>(q, tolerance, max_steps);
    }
    MULTIMARGIN_WIDE __attribute__((noinline)) static Index in_wide(const PairProblem<T>& q, T tolerance,
                                                                    Index max_steps) {
        return in<Wide<T>>(q, tolerance, max_steps);
    }

    template <class V>
    using Positions = decltype(V{} < V{});
    template <class V>
    static constexpr int parts = 128 / sizeof(V);

    // Largest values seen so far in every lane, and where.
    template <class V>
    struct Best {
        V value[parts<V>] = {};
        Positions<V> at[parts<V>] = {};

        MULTIMARGIN_INLINE void see(int part, V other, Positions<V> here) {
            const auto better = other > value[part];
            value[part] = better ? other : value[part];
            at[part] = better ? here : at[part];
        }
        // The first of the largest of all; `largest` receives its value.
        MULTIMARGIN_INLINE Index first(T& largest) const {
            using Position = std::remove_cvref_t<decltype(at[0][0])>;
            V most = value[0];
            for (int e = 1; e < parts<V>; ++e) most = lane_max(most, value[e]);
            largest = over_lanes<T>(most, [](auto a, auto b) { return a > b ? a : b; });
            Positions<V> where = Positions<V>{} + std::numeric_limits<Position>::max();
            for (int e = 0; e < parts<V>; ++e) where = value[e] == largest ? lane_min(where, at[e]) : where;
            return over_lanes<Position>(where, [](auto a, auto b) { return a < b ? a : b; });
        }
    };
    template <class S, class V, class Choose>
    MULTIMARGIN_INLINE static S over_lanes(V vector, Choose&& choose) {
        constexpr int count = sizeof(V) / sizeof(S);
        if constexpr (count == 1) {
            return vector[0];
        } else {
            typedef S Half __attribute__((vector_size(sizeof(V) / 2)));
            Half halves[2];
            std::memcpy(halves, &vector, sizeof vector);
            return over_lanes<S>(choose(halves[0], halves[1]), choose);
        }
    }
    template <class V>
    MULTIMARGIN_INLINE static Positions<V> lane_numbers(int part) {
        Positions<V> at{};
        constexpr int count = sizeof(V) / sizeof(T);
        for (int e = 0; e < count; ++e) at[e] = part * count + e;
        return at;
    }
    template <class V>
    MULTIMARGIN_INLINE static V violation_at(const PairProblem<T>& q, Index k, V gradient) {
        return violation<V>(gradient, reinterpret_cast<const V*>(q.beta)[k], reinterpret_cast<const V*>(q.low)[k],
                            reinterpret_cast<const V*>(q.high)[k]);
    }
    // visit(k, part, positions) for all vectors k of the variables.
    template <class V, class Visit>
    MULTIMARGIN_INLINE static void for_vectors(Index width, Visit&& visit) {
        Positions<V> at[parts<V>];
        for (int e = 0; e < parts<V>; ++e) at[e] = lane_numbers<V>(e);
        const Index vectors = width * Index{sizeof(T)} / Index{sizeof(V)};
        for (Index k = 0; k < vectors; k += parts<V>)
            for (int e = 0; e < parts<V>; ++e) {
                visit(k + e, e, at[e]);
                at[e] += static_cast<int>(pair_lanes<T>);
            }
    }
    // The variable with the largest violation after the gradient has moved by x1 and x2 times two rows.
    template <class V>
    MULTIMARGIN_INLINE static Index most_violating(const PairProblem<T>& q, T x1, const T* row, T x2, const T* other,
                                                   T& worst) {
        Best<V> best;
        V* gradient = reinterpret_cast<V*>(q.gradient);
        const V *first = reinterpret_cast<const V*>(row), *second = reinterpret_cast<const V*>(other);
        for_vectors<V>(q.width, [&](Index k, int part, auto at) __attribute__((always_inline)) {
            const V now = gradient[k] - x1 * first[k] - x2 * second[k];
            gradient[k] = now;
            best.see(part, violation_at<V>(q, k, now), at);
        });
        return best.first(worst);
    }
    // The partner of a variable with this gradient, diagonal and row, or -1.
    template <class V>
    MULTIMARGIN_INLINE static Index best_partner(const PairProblem<T>& q, T g, T a, const T* row, T least_det) {
        const V zero{};
        V num[parts<V>], det[parts<V>];
        Best<V> best;
        for (int e = 0; e < parts<V>; ++e) {
            num[e] = zero;
            det[e] = zero + 1;
        }
        const V *gradient = reinterpret_cast<const V*>(q.gradient), *kernel = reinterpret_cast<const V*>(row),
                *diagonal = reinterpret_cast<const V*>(q.diagonal);
        for_vectors<V>(q.width, [&](Index k, int part, auto at) __attribute__((always_inline)) {
            const V s = gradient[k], c = kernel[k], b = diagonal[k];
            const V d = lane_max(a * b - c * c, zero + least_det);
            const V n = violation_at<V>(q, k, s) > 0 ? g * g * b + s * (a * s - 2 * g * c) : zero;
            const auto better = n * det[part] > num[part] * d;  // the ratios, without dividing
            num[part] = better ? n : num[part];
            det[part] = better ? d : det[part];
            best.at[part] = better ? at : best.at[part];
        });
        for (int e = 0; e < parts<V>; ++e) best.value[e] = num[e] / det[e];
        T gain;
        const Index partner = best.first(gain);
        return gain > 0 ? partner : -1;
    }

    template <class V>
    MULTIMARGIN_INLINE static Index in(const PairProblem<T>& q, T tolerance, Index max_steps) {
        T worst;
        Index p = most_violating<V>(q, 0, q.kernel, 0, q.kernel, worst), steps = 0;
        while (steps < max_steps && worst >= tolerance && worst > 0) {
            ++steps;
            const T* row = q.kernel + p * q.width;
            const T g = q.gradient[p], a = q.diagonal[p];
            if (!(a > 0)) {  // a zero row: the objective is linear in it
                q.beta[p] = g > 0 ? q.high[p] : q.low[p];
            }
            const T least_det = pair_rounding<T> * (a > 0 ? a : T(1));
            Index w = best_partner<V>(q, g, a, row, least_det);
            T x1, x2 = 0;
            const T low1 = q.low[p] - q.beta[p], high1 = q.high[p] - q.beta[p];
            if (w < 0 || w == p || !(a * q.diagonal[w] - row[w] * row[w] > least_det)) {
                w = p;
                x1 = a > 0 ? within(g / a, low1, high1) : T(0);
            } else {
                solve_pair(g, q.gradient[w], a, q.diagonal[w], row[w], low1, high1, q.low[w] - q.beta[w],
                           q.high[w] - q.beta[w], x1, x2);
            }
            settle(q, p, x1);
            if (w != p) settle(q, w, x2);
            p = most_violating<V>(q, x1, row, x2, q.kernel + w * q.width, worst);
        }
        return steps;
    }
    MULTIMARGIN_INLINE static void settle(const PairProblem<T>& q, Index i, T x) {
        const T slack = pair_rounding<T> * (q.high[i] - q.low[i]), now = q.beta[i] + x;
        q.beta[i] = now - q.low[i] <= slack ? q.low[i] : q.high[i] - now <= slack ? q.high[i] : now;
    }
};

}  // namespace multimargin::m3l
