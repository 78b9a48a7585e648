#pragma once
// The problem of one row of block_ascent.hpp over its listed atoms: maximise sum_e z_e c_e - k/2 d'Rd, d = side o z, sums
// of the sides at most cost[0] and cost[1]. `g` holds the gradients at the weights of `entries` on entry.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/numerics/simplex.hpp"
#include "core/separation/separation_rows.hpp"

namespace multimargin::separation::row_problem {

using numerics::simplex_level;

// R = I + 11'. With T = k sum(d): z_e = the projection of (c_e - side_e T) / k, and T is the one root of
// h(T) = min(k cost[0], sum_+ (c - T)_+) - min(k cost[1], sum_- (c + T)_+) - T, decreasing and piecewise linear.
inline void solve_unit(std::span<Entry> entries, std::span<double> g, double k, const double* cost) {
    double own = 0.0;
    for (const Entry& e : entries) own += e.side * e.weight;
    for (std::size_t e = 0; e < entries.size(); ++e) g[e] += k * (entries[e].weight + entries[e].side * own);

    auto side_sum = [&](double side, double T, double& slope) {
        double sum = 0.0, count = 0.0;
        for (std::size_t e = 0; e < entries.size(); ++e)
            if (entries[e].side == side && g[e] - side * T > 0) sum += g[e] - side * T, count += 1.0;
        const double most = k * cost[side < 0];
        slope = sum < most ? count : 0.0;
        return std::min(sum, most);
    };
    double low = -k * cost[1], high = k * cost[0], T = 0.0;
    for (int step = 0; step < 100; ++step) {
        double up, down;
        const double h = side_sum(1.0, T, up) - side_sum(-1.0, T, down) - T;
        (h > 0 ? low : high) = T;
        const double next = T + h / (1.0 + up + down);
        const double moved = (next > low && next < high) ? next : 0.5 * (low + high);
        if (h == 0.0 || std::abs(moved - T) <= 1e-16 * k * std::max(cost[0], cost[1])) break;
        T = moved;
    }
    for (const double side : {1.0, -1.0}) {
        const double most = cost[side < 0];
        const double theta = simplex_level(k * most, [&](auto&& add) {
            for (std::size_t e = 0; e < entries.size(); ++e)
                if (entries[e].side == side) add(g[e] - side * T);
        });
        double total = 0.0;
        for (std::size_t e = 0; e < entries.size(); ++e)
            if (entries[e].side == side) {
                const double z = std::max(0.0, (g[e] - side * T - theta) / k);
                entries[e].weight = std::min(z, std::max(0.0, most - total));
                total += entries[e].weight;
            }
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
        std::ptrdiff_t from = -1, to = -1;
        double worst = 0.0;
        for (int b = 0; b < 2; ++b) {
            const double side = b ? -1.0 : 1.0;
            std::ptrdiff_t best = -1, least = -1;
            double high = 0.0, low = cost[b] > sum[b] ? 0.0 : 1e300;
            for (std::size_t e = 0; e < n; ++e) {
                if (entries[e].side != side) continue;
                if (g[e] > high) high = g[e], best = static_cast<std::ptrdiff_t>(e);
                if (entries[e].weight > 0 && g[e] < low) low = g[e], least = static_cast<std::ptrdiff_t>(e);
            }
            if (low < 1e300 && high - low > worst) worst = high - low, block = b, to = best, from = least;
        }
        if (block < 0) return;
        if (step == 0) first_violation = worst;
        if (worst <= 1e-13 || worst <= 1e-3 * first_violation) return;
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
        const double side = block ? -1.0 : 1.0;
        for (std::size_t e = 0; e < n; ++e) {
            const auto p = static_cast<std::ptrdiff_t>(e);
            g[e] -= entries[e].side * side * k * amount * (at(p, to) - at(p, from));
        }
    }
}

}  // namespace multimargin::separation::row_problem
