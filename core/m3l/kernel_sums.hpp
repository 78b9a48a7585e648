#pragma once
// The sums behind a kernel solver's running certificate: P and D of each label, the best shift of its scores, and how
// much each row violates optimality. Every sum has an order of its own, the same for any number of threads.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/m3l/kernel_tables.hpp"
#include "core/m3l/pair_ascent.hpp"

namespace multimargin::m3l {

// One label's cells: scores without shift, signed costs a, targets y m.
template <class T>
struct LabelCellsRow {
    const Chunk<T>* scores;
    const Chunk<T>* costs;
    LabelTargets<T> targets;

    MULTIMARGIN_INLINE Chunk<T> target(int k) const { return targets.chunk(k, costs[k]); }
};

template <class T>
MULTIMARGIN_INLINE double drained(Chunk<T>& sum) {
    double total = 0.0;
    for (int e = 0; e < lanes<T>; ++e) total += static_cast<double>(sum[e]);
    sum = Chunk<T>{};
    return total;
}

struct HingeAt {
    double value, slope;  // of sum c max(0, m - y (score + shift)) as a function of the shift
};

// a (y m - z) is c (m - y z): the hinge loss before its clipping.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) HingeAt hinge_at(const LabelCellsRow<T>& cells, T shift, int chunks) {
    constexpr int batch = 128;
    const Chunk<T> zero{};
    HingeAt out{0.0, 0.0};
    for (int first = 0; first < chunks; first += batch) {
        Chunk<T> value = zero, slope = zero;
        for (int k = first; k < std::min(chunks, first + batch); ++k) {
            const Chunk<T> a = cells.costs[k], loss = a * (cells.target(k) - cells.scores[k] - shift);
            value += lane_max(loss, zero);
            slope -= loss > 0 ? a : zero;
        }
        out.value += drained<T>(value);
        out.slope += drained<T>(slope);
    }
    return out;
}

struct Shift {
    double at, value;
};

// Minimises  w^2 / (2 bias) + hinge(w)  over the shift w: bracketing from `near`, then bisection. `also` is tried too.
template <class T>
Shift best_shift(const LabelCellsRow<T>& cells, double bias, double near, double also, int chunks) {
    Shift best{also, 0.5 * also * also / bias + hinge_at<T>(cells, static_cast<T>(also), chunks).value};
    const auto slope_at = [&](double w) {
        w = static_cast<double>(static_cast<T>(w));
        const auto hinge = hinge_at<T>(cells, static_cast<T>(w), chunks);
        const double value = 0.5 * w * w / bias + hinge.value;
        if (value < best.value) best = {w, value};
        return w / bias + hinge.slope;
    };
    constexpr int most_steps = 60;
    const double margin = cells.targets.typical_margin;
    double low = near, high = near, step = 0.02 * margin;
    if (slope_at(near) > 0) {
        for (int k = 0; k < most_steps && slope_at(low -= step) > 0; ++k, step *= 3) high = low;
    } else {
        for (int k = 0; k < most_steps && slope_at(high += step) < 0; ++k, step *= 3) low = high;
    }
    const double enough = std::is_same_v<T, float> ? 2e-5 * margin : 1e-10 * (margin + std::abs(near));
    for (int k = 0; k < most_steps && high - low > enough; ++k) {
        const double middle = 0.5 * (low + high);
        (slope_at(middle) > 0 ? high : low) = middle;
    }
    return best;
}

struct CellSums {
    double cross = 0.0;   // sum beta z
    double linear = 0.0;  // sum m b
    double hinge = 0.0;   // sum c max(0, m - y (z + shift))
    double worst = 0.0;   // largest violation
};

// Sums over the chunks first <= k < last of one label; adds the squared violations at `shift` to the rows' scores.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void scan_cells(const LabelCellsRow<T>& cells, const Chunk<T>* beta, T shift,
                                                           T hinge_shift, int first, int last, Chunk<T>* row_scores,
                                                           CellSums& sums) {
    const Chunk<T> zero{};
    constexpr int batch = 128;
    Chunk<T> worst = zero;
    for (int from = first; from < last; from += batch) {
        Chunk<T> cross = zero, linear = zero, hinge = zero;
        for (int k = from; k < std::min(last, from + batch); ++k) {
            const Chunk<T> a = cells.costs[k], z = cells.scores[k], b = beta[k], target = cells.target(k);
            cross += b * z;
            linear += b * target;
            hinge += lane_max(a * (target - z - hinge_shift), zero);
            const Chunk<T> v = violation<Chunk<T>>(target - z - shift, b, lane_min(a, zero), lane_max(a, zero));
            worst = lane_max(worst, v);
            row_scores[k] += v * v;
        }
        sums.cross += drained<T>(cross);
        sums.linear += drained<T>(linear);
        sums.hinge += drained<T>(hinge);
    }
    for (int e = 0; e < lanes<T>; ++e) sums.worst = std::max(sums.worst, static_cast<double>(worst[e]));
}

// Sums of many labels over all rows; the labels for which of(l) has no scores are left out.
template <class T, class CellsOf>
std::vector<CellSums> scan_labels(Index labels, CellsOf&& of, const LabelMajorTable<T>& beta,
                                  std::span<const double> shifts, bool hinge_at_shift, Buffer<T>& row_scores,
                                  int threads, Control& control) {
    constexpr int chunks_per_task = 2048 / lanes<T>;
    const int tasks = (beta.chunks() + chunks_per_task - 1) / chunks_per_task;
    std::vector<CellSums> parts(static_cast<std::size_t>(tasks) * labels);
    std::memset(row_scores.data(), 0, row_scores.size() * sizeof(T));
    parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
        const int first = task * chunks_per_task, last = std::min(beta.chunks(), first + chunks_per_task);
        auto* scores = reinterpret_cast<Chunk<T>*>(row_scores.data());
        for (Index l = 0; l < labels && !control.leave_unfinished(on_caller); ++l) {
            const LabelCellsRow<T> cells = of(l);
            const T shift = static_cast<T>(shifts[l]);
            if (cells.scores)
                scan_cells<T>(cells, beta.chunk_row(l), shift, hinge_at_shift ? shift : T(0), first, last, scores,
                              parts[static_cast<std::size_t>(task) * labels + l]);
        }
    });
    std::vector<CellSums> sums(static_cast<std::size_t>(labels));
    for (std::size_t k = 0; k < parts.size(); ++k) {
        CellSums& total = sums[k % labels];
        total.cross += parts[k].cross;
        total.linear += parts[k].linear;
        total.hinge += parts[k].hinge;
        total.worst = std::max(total.worst, parts[k].worst);
    }
    return sums;
}

}  // namespace multimargin::m3l
