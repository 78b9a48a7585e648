#pragma once
// The vectors of the Newton finish: panels of one row per feature (the constant one last) and `chunks` chunks a row.
// A "group" is a set of columns that share scalars: every column its own, or all columns together.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/control.hpp"
#include "core/base/memory.hpp"

namespace multimargin::m3l {

using Values = std::vector<double>;  // one per group, or one per label

template <class T>
class PanelSpace {
  public:
    using Panel = Buffer<Chunk<T>>;

    PanelSpace(Index rows, int chunks, bool together)
        : rows_(rows),
          chunks_(chunks),
          together_(together),
          groups_(together ? 1 : static_cast<std::size_t>(chunks) * lanes<T>) {}

    Index rows() const { return rows_; }
    int chunks() const { return chunks_; }
    std::size_t groups() const { return groups_; }
    Panel panel() const { return Panel(static_cast<std::size_t>(rows_ * chunks_)); }
    static void clear(Panel& p) { std::memset(static_cast<void*>(p.data()), 0, p.size() * 32); }
    static void copy(const Panel& from, Panel& to) {
        std::memcpy(static_cast<void*>(to.data()), from.data(), from.size() * 32);
    }

    // Sums of products of two panels, per group.
    Values dots(const Panel& a, const Panel& b) const {
        Values totals(groups_);
        ChunkVector<T> sums(chunks_);
        for (Index j = 0; j < rows_; j += 64) {
            multiply_add(a.data(), b.data(), j, std::min(rows_, j + 64), sums.chunks());
            for (Index l = 0; l < static_cast<Index>(chunks_) * lanes<T>; ++l)
                totals[together_ ? 0 : static_cast<std::size_t>(l)] += static_cast<double>(sums[l]);
            sums.clear();
        }
        return totals;
    }
    // to += scale from
    void add_scaled(const Panel& from, const Values& scale, Panel& to) const {
        const auto wide = spread(scale);
        add_rows(from.data(), wide.chunks(), to.data());
    }
    // to = from + scale to
    void scale_and_add(const Panel& from, const Values& scale, Panel& to) const {
        const auto wide = spread(scale);
        scale_rows(from.data(), wide.chunks(), to.data());
    }
    // to = from in the groups with a flag
    void keep_where(const std::vector<bool>& flags, const Panel& from, Panel& to) const {
        Values ones(groups_);
        for (std::size_t g = 0; g < groups_; ++g) ones[g] = flags[g];
        const auto wide = spread(ones);
        for (Index j = 0; j < rows_; ++j)
            for (int k = 0; k < chunks_; ++k) {
                const auto at = static_cast<std::size_t>(j * chunks_ + k);
                to[at] = wide.chunks()[k] > T(0) ? from[at] : to[at];
            }
    }
    // A row with every group's value in its columns.
    ChunkVector<T> spread(const Values& values) const {
        ChunkVector<T> row(chunks_);
        for (Index l = 0; l < static_cast<Index>(chunks_) * lanes<T>; ++l)
            row[l] = static_cast<T>(values[together_ ? 0 : static_cast<std::size_t>(l)]);
        return row;
    }

  private:
    MULTIMARGIN_SIMD void multiply_add(const Chunk<T>* a, const Chunk<T>* b, Index first, Index last,
                                       Chunk<T>* sums) const {
        for (Index j = first; j < last; ++j)
            for (int k = 0; k < chunks_; ++k) sums[k] += a[j * chunks_ + k] * b[j * chunks_ + k];
    }
    MULTIMARGIN_SIMD void add_rows(const Chunk<T>* from, const Chunk<T>* scale, Chunk<T>* to) const {
        for (Index j = 0; j < rows_; ++j)
            for (int k = 0; k < chunks_; ++k) to[j * chunks_ + k] += scale[k] * from[j * chunks_ + k];
    }
    MULTIMARGIN_SIMD void scale_rows(const Chunk<T>* from, const Chunk<T>* scale, Chunk<T>* to) const {
        for (Index j = 0; j < rows_; ++j)
            for (int k = 0; k < chunks_; ++k)
                to[j * chunks_ + k] = from[j * chunks_ + k] + scale[k] * to[j * chunks_ + k];
    }

    Index rows_;
    int chunks_;
    bool together_;
    std::size_t groups_;
};

struct Accuracy {
    int steps;        // at most
    double residual;  // relative
};

// Conjugate gradients on (I + A) direction = r in lock-step over the groups marked `real`, until all but a tenth of
// them are accurate. r is overwritten by the residual.
//   add_curvature(p, q)   q += A p
//   precondition(r, z)    z = M^-1 r
template <class T, class Curvature, class Precondition>
void conjugate_gradients(const PanelSpace<T>& space, const std::vector<bool>& real, Buffer<Chunk<T>>& r,
                         Buffer<Chunk<T>>& direction, Curvature&& add_curvature, Precondition&& precondition,
                         Accuracy accuracy, Control& control, bool on_caller) {
    constexpr double share_left_over = 0.1;
    const std::size_t groups = space.groups();
    std::size_t count = 0;
    for (std::size_t g = 0; g < groups; ++g) count += real[g];
    auto z = space.panel(), p = space.panel(), q = space.panel();
    precondition(r, z);
    space.copy(z, p);
    auto rz = space.dots(r, z);
    const auto rr0 = space.dots(r, r);
    auto rr = rr0;
    for (int step = 0; step < accuracy.steps && !control.leave_unfinished(on_caller); ++step) {
        std::vector<bool> active(groups);
        std::size_t left = 0;
        for (std::size_t g = 0; g < groups; ++g) {
            active[g] = real[g] && rr[g] > accuracy.residual * accuracy.residual * rr0[g];
            left += active[g];
        }
        if (static_cast<double>(left) <= share_left_over * static_cast<double>(count)) break;
        space.copy(p, q);
        add_curvature(p, q);
        const auto pq = space.dots(p, q);
        Values alpha(groups), ratio(groups);
        for (std::size_t g = 0; g < groups; ++g) alpha[g] = active[g] && pq[g] > 0 ? rz[g] / pq[g] : 0.0;
        space.add_scaled(p, alpha, direction);
        for (auto& a : alpha) a = -a;
        space.add_scaled(q, alpha, r);
        rr = space.dots(r, r);
        precondition(r, z);
        const auto rz_new = space.dots(r, z);
        for (std::size_t g = 0; g < groups; ++g) ratio[g] = active[g] && rz[g] > 0 ? rz_new[g] / rz[g] : 0.0;
        rz = rz_new;
        space.scale_and_add(z, ratio, p);
    }
}

// Step lengths along a descent direction of a convex function, one per group: its derivative brought below a fifth of
// the one at 0 in absolute value, by Newton steps inside a bracket; if that fails, the largest point that was still
// going down, which is looked for ever closer to 0: a length of 0 would repeat itself for ever. A point past the
// minimum counts only if the function is lower there: near a kink the derivative alone would let it climb.
struct LineValues {
    Values slope, curvature, change;  // at the trial lengths; change of the function against length 0
};
template <class Evaluate>
Values search_line(const Values& start, Evaluate&& evaluate) {
    constexpr int max_trials = 20, newton_trials = 5;
    constexpr double enough = 0.2, infinite = std::numeric_limits<double>::infinity();
    const std::size_t groups = start.size();
    Values a(groups, 1.0), lower(groups, 0.0), upper(groups, infinite);
    std::vector<bool> done(groups);
    for (std::size_t g = 0; g < groups; ++g)
        if (!(start[g] < 0)) {
            a[g] = 0.0;
            done[g] = true;
        }
    for (int trial = 0; trial < max_trials && std::find(done.begin(), done.end(), false) != done.end(); ++trial) {
        const LineValues at = evaluate(a);
        for (std::size_t g = 0; g < groups; ++g) {
            if (done[g]) continue;
            if (trial >= max_trials / 2 && lower[g] > 0) {
                done[g] = true;
                a[g] = lower[g];
                continue;
            }
            const double slope = at.slope[g];
            if (std::abs(slope) <= enough * std::abs(start[g]) && (slope <= 0 || at.change[g] <= 0)) {
                done[g] = true;
                continue;
            }
            (slope < 0 ? lower[g] : upper[g]) = a[g];
            double next = a[g] - slope / (at.curvature[g] + 1e-300);
            const bool lost = lower[g] == 0 && trial >= newton_trials;
            if (lost || !(next > lower[g] && next < upper[g]))
                next = std::isinf(upper[g]) ? 2 * a[g] : lower[g] > 0 ? 0.5 * (lower[g] + upper[g]) : 0.2 * upper[g];
            a[g] = next;
        }
    }
    for (std::size_t g = 0; g < groups; ++g)
        if (!done[g]) a[g] = lower[g];
    return a;
}

}  // namespace multimargin::m3l
