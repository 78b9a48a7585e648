#pragma once
// The problem of one row of block_ascent.hpp over its listed atoms: maximise sum_e z_e c_e - k/2 d'Rd, d = side o z, sums
// of the sides at most cost[0] and cost[1]. `g` holds the gradients at the weights of `entries` on entry.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "core/base/simd.hpp"
#include "core/separation/separation_rows.hpp"

namespace multimargin::separation::row_problem {

// Numbers of one side in whole chunks, filled up with minus infinity.
struct SideValues {
    std::vector<double> values;
    std::size_t size = 0;

    void add(double value) {
        if (size == values.size()) values.resize(size + 4, -std::numeric_limits<double>::infinity());
        values[size++] = value;
    }
    void clear() { values.clear(), size = 0; }
};

// Sum and number of what lies above a level.
struct Above {
    double sum, count;
};
MULTIMARGIN_INLINE Above above(std::span<const double> values, double level) {
    Chunk<double> sum{}, count{};
    const Chunk<double> none{}, one = none + 1.0;
    for (std::size_t e = 0; e < values.size(); e += 4) {
        const Chunk<double> more = load_chunk(values.data() + e) - level;
        sum += more > 0.0 ? more : none;
        count += more > 0.0 ? one : none;
    }
    return {(sum[0] + sum[1]) + (sum[2] + sum[3]), (count[0] + count[1]) + (count[2] + count[3])};
}

// The level, `lowest` at least, above which lies the sum `most`, or less: Newton steps from below, finitely many.
MULTIMARGIN_INLINE double level_of(std::span<const double> values, double most, double lowest) {
    double high = lowest;
    for (const double v : values) high = std::max(high, v);
    double level = std::max(lowest, high - most);
    for (int step = 0; step < 1000; ++step) {
        const auto [sum, count] = above(values, level);
        const double next = count > 0 ? level + (sum - most) / count : level;
        if (sum - most <= 1e-15 * most || next == level) break;
        level = next;
    }
    return level;
}

// T, k sum(d) at the solution for R = I + 11', from a first guess; then the levels of the two sides.
MULTIMARGIN_SIMD inline void unit_levels(std::span<const double> up, std::span<const double> down, double k,
                                         const double* cost, double T, double* levels) {
    const double most[2] = {k * cost[0], k * cost[1]}, precision = 1e-16 * (most[0] + most[1]);
    double low = -most[1], high = most[0];
    T = std::clamp(T, low, high);
    for (int step = 0; step < 100; ++step) {
        const Above a = above(up, T), b = above(down, -T);
        const double h = std::min(a.sum, most[0]) - std::min(b.sum, most[1]) - T;
        (h > 0 ? low : high) = T;
        const double slope = 1.0 + (a.sum < most[0] ? a.count : 0.0) + (b.sum < most[1] ? b.count : 0.0);
        const double next = T + h / slope;
        if (std::abs(next - T) <= precision) break;
        T = next > low && next < high ? next : 0.5 * (low + high);
    }
    levels[0] = level_of(up, most[0], T);
    levels[1] = level_of(down, most[1], -T);
}

// R = I + 11'. With T = k sum(d): z_e = the projection of (c_e - side_e T) / k, and T is the one root of
// h(T) = min(k cost[0], sum_+ (c - T)_+) - min(k cost[1], sum_- (c + T)_+) - T, decreasing and piecewise linear.
// `room` holds the numbers c of the two sides.
inline void solve_unit(std::span<Entry> entries, std::span<double> g, double k, const double* cost, SideValues* room) {
    double own = 0.0;
    for (const Entry& e : entries) own += e.side * e.weight;
    room[0].clear(), room[1].clear();
    for (std::size_t e = 0; e < entries.size(); ++e) {
        g[e] += k * (entries[e].weight + entries[e].side * own);
        room[entries[e].side < 0].add(g[e]);
    }
    double levels[2];
    unit_levels(room[0].values, room[1].values, k, cost, k * own, levels);
    double total[2] = {0.0, 0.0};
    for (std::size_t e = 0; e < entries.size(); ++e) {
        const int b = entries[e].side < 0;
        const double z = std::max(0.0, (g[e] - levels[b]) / k);
        entries[e].weight = std::min(z, std::max(0.0, cost[b] - total[b]));
        total[b] += entries[e].weight;
    }
}

// Pairwise steps: weight moves from the atom with the smallest gradient to the one with the largest, slack included.
// R: entries x entries, row-major, without the signs of the sides.
inline void solve_pairwise(std::span<Entry> entries, std::span<double> g, const double* R, double k,
                           const double* cost) {
    const std::size_t n = entries.size();
    double sum[2] = {0.0, 0.0};
    for (const Entry& e : entries) sum[e.side < 0] += e.weight;
    const std::size_t most_steps = 20 * n + 20;
    double first_violation = 0.0;
    for (std::size_t step = 0; step < most_steps; ++step) {
        int block = -1;
        std::ptrdiff_t from = -1, to = -1, best[2] = {-1, -1}, least[2] = {-1, -1};
        double worst = 0.0, high[2] = {0.0, 0.0}, low[2];
        for (int b = 0; b < 2; ++b) low[b] = cost[b] > sum[b] ? 0.0 : 1e300;
        for (std::size_t e = 0; e < n; ++e) {
            const int b = entries[e].side < 0;
            if (g[e] > high[b]) high[b] = g[e], best[b] = static_cast<std::ptrdiff_t>(e);
            if (g[e] < low[b] && entries[e].weight > 0) low[b] = g[e], least[b] = static_cast<std::ptrdiff_t>(e);
        }
        for (int b = 0; b < 2; ++b)
            if (low[b] < 1e300 && high[b] - low[b] > worst)
                worst = high[b] - low[b], block = b, to = best[b], from = least[b];
        if (block < 0) return;
        if (step == 0) first_violation = worst;
        if (worst <= 1e-13 || worst <= 0.05 * first_violation) return;
        const auto at = [&](std::ptrdiff_t p, std::ptrdiff_t q) {
            return p < 0 || q < 0 ? 0.0 : R[static_cast<std::size_t>(p) * n + static_cast<std::size_t>(q)];
        };
        const double curvature = k * (at(to, to) + at(from, from) - 2 * at(to, from));
        const double room = from < 0 ? cost[block] - sum[block] : entries[static_cast<std::size_t>(from)].weight;
        const bool full = worst >= curvature * room;
        const double amount = full ? room : worst / curvature;
        if (from >= 0) {
            double& weight = entries[static_cast<std::size_t>(from)].weight;
            weight = full ? 0.0 : weight - amount;
        }
        if (to >= 0) entries[static_cast<std::size_t>(to)].weight += amount;
        if (to < 0) sum[block] = std::max(0.0, sum[block] - amount);
        if (from < 0) sum[block] = full ? cost[block] : sum[block] + amount;
        const double moved = (block ? -1.0 : 1.0) * k * amount;
        if (to >= 0)
            for (std::size_t e = 0; e < n; ++e)
                g[e] -= entries[e].side * moved * R[static_cast<std::size_t>(to) * n + e];
        if (from >= 0)
            for (std::size_t e = 0; e < n; ++e)
                g[e] += entries[e].side * moved * R[static_cast<std::size_t>(from) * n + e];
    }
}

}  // namespace multimargin::separation::row_problem
