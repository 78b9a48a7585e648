#pragma once
// The loss-augmented problem of the F-score with attracting pairs,
//
//   G(y) = S(y) + h(s, f),   h(s, f) = 1 - 2 s / (s + f + m),   s = |y and T|, f = |y \ T|, m = |T|,
//
// solved exactly, or to a bracket lower <= max G <= upper where a limit on the work strikes. The problem is NP-hard: h
// is concave in f, the number of false positives, and the best f of them may be a densest subgraph.
//
// Elimination. Labels without a positive pair leave the problem: H(s, f) = max over their choice of score + h takes the
// place of h for the connected rest. H is convex in s like h.
//
// Envelope. For slopes (b, l) one cut gives L = max S(y) + b s + l f, a plane above every cell (s, f):
//   max of S over the cell <= L - b s - l f,   so   upper(s, f) = min over planes of (L - b s - l f) + H(s, f).
// The next plane is laid at the cell with the largest upper bound: b tangent to H in s (enough, H is convex in s); l
// tangent in f at the first visit, afterwards the slope of the concave hull of the points (f, S + b s) seen so far, a
// secant step. If the hull already reaches the bound no plane can lower it, and the node branches on a false label in
// which the smallest and the largest maximiser differ. Upper bounds of unfinished nodes make the bracket.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/control.hpp"
#include "core/oracles/graph_cut.hpp"
#include "core/oracles/separable.hpp"
#include "core/simd.hpp"

namespace multimargin {

// What is known of label i of a row.
enum Truth : std::uint8_t { absent = 0, present = 1, unknown = 2 };

struct Bracket {
    double lower = 0.0, upper = 0.0;
    int nodes = 0, cuts = 0;
};

class FScoreCut {
  public:
    FScoreCut(int labels, std::span<const std::pair<int, int>> pairs, int node_limit)
        : cut_(labels, pairs), node_limit_(node_limit) {}

    void set_weights(const double* w) { cut_.set_weights(w); }

    // y: in, any labelling to start from; out, the best one found. Unknown labels stay 0. A control that asks to stop
    // is an exhausted limit.
    Bracket solve(const double* u, const std::uint8_t* truth, double tol, std::uint8_t* y, Control* control = nullptr,
                  bool on_caller = true) {
        answer_ = {};
        separate(u, truth);
        nodes_ = cut_.nodes();
        for (int l = 0; l < cut_.labels(); ++l)
            if (truth[l] == unknown) y[l] = 0;
        if (nodes_ == 0) {
            const auto best = rest_.best(loss_, 0, 0);
            rest_.write(best, y);
            return {best.value, best.value, 0, 0};
        }
        tabulate();
        answer_.lower = -infinity;
        offer_start(y);
        cut_.start(u_, largest_slope_);
        branch_and_bound(tol, control, on_caller);
        for (int i = 0; i < nodes_; ++i) y[cut_.label_of(i)] = best_[i];
        rest_.write(rest_.best(loss_, incumbent_.s, incumbent_.f), y);
        return answer_;
    }

  private:
    static constexpr double infinity = std::numeric_limits<double>::infinity();
    static constexpr double stuck_tolerance = 1e-9;  // its own, tiny: a looser one would branch where a plane would do
    static constexpr int most_visits = 60;

    struct Point {
        int s, f;
        double score;
    };
    struct Node {
        std::vector<std::uint8_t> fixed;
        double upper;
    };
    struct Cell {
        int s, f;
    };

    void separate(const double* u, const std::uint8_t* truth) {
        rest_.clear();
        for (int l : cut_.isolated())
            if (truth[l] != unknown) rest_.add(u[l], l, truth[l] == present);
        rest_.prepare();
        const auto n = static_cast<std::size_t>(cut_.nodes());
        u_.resize(n);
        kind_.resize(n);
        root_.assign(n, GraphCut::free_node);
        now_.resize(n);
        best_.resize(n);
        s_most_ = f_most_ = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const int l = cut_.label_of(static_cast<int>(i));
            u_[i] = u[l];
            kind_[i] = truth[l] == present;
            if (truth[l] == unknown)
                root_[i] = GraphCut::fixed_off;
            else
                ++(kind_[i] ? s_most_ : f_most_);
        }
        loss_.m = rest_.true_labels() + s_most_;
        leave_out_hopeless();
    }

    // Labels in no maximiser: even with all its pairs on, the label costs more than the loss can ever give for it,
    // which is 0 for a true label and h(m, 1) - h(m, 0) for another.
    void leave_out_hopeless() {
        const double most = loss_.m > 0 ? 1.0 / (2.0 * loss_.m + 1.0) : 1.0;
        for (std::size_t i = 0; i < u_.size(); ++i) {
            const double gain = u_[i] + cut_.degree(static_cast<int>(i)) + (kind_[i] ? 0.0 : most);
            if (root_[i] != GraphCut::free_node || gain >= -1e-9) continue;
            root_[i] = GraphCut::fixed_off;
            --(kind_[i] ? s_most_ : f_most_);
        }
    }

    double& H(int s, int f) { return table_[static_cast<std::size_t>(s * (f_most_ + 1) + f)]; }

    double& upper_at(Cell c) { return upper_[static_cast<std::size_t>(c.s * (f_most_ + 1) + c.f)]; }

    void tabulate() {
        table_.resize(static_cast<std::size_t>((s_most_ + 1) * (f_most_ + 1)));
        upper_.resize(table_.size());
        visits_.resize(table_.size());
        for (int s = 0; s <= s_most_; ++s)
            for (int f = 0; f <= f_most_; ++f) H(s, f) = rest_.best(loss_, s, f).value;
        // No cut changes beyond slopes that outweigh every label.
        largest_slope_ = 2.0;
        for (std::size_t i = 0; i < u_.size(); ++i)
            largest_slope_ = std::max(largest_slope_, 2.0 + std::abs(u_[i]) + cut_.degree(static_cast<int>(i)));
    }

    // Adds y to what is known; returns its point.
    Point offer(const std::uint8_t* y) {
        Point p{0, 0, cut_.score(u_, y)};
        for (int i = 0; i < nodes_; ++i)
            if (y[i]) ++(kind_[i] ? p.s : p.f);
        const double value = p.score + H(p.s, p.f);
        if (value > answer_.lower) {
            answer_.lower = value;
            incumbent_ = {p.s, p.f};
            std::copy(y, y + nodes_, best_.begin());
        }
        return p;
    }

    void offer_start(const std::uint8_t* y) {
        for (int i = 0; i < nodes_; ++i) now_[i] = root_[i] == GraphCut::free_node && y[cut_.label_of(i)];
        offer(now_.data());
        for (int i = 0; i < nodes_; ++i) now_[i] = kind_[i] == 1 && root_[i] == GraphCut::free_node;
        offer(now_.data());
        std::fill(now_.begin(), now_.end(), 0);
        offer(now_.data());
    }

    void branch_and_bound(double tol, Control* control, bool on_caller) {
        answer_.upper = -infinity;
        open_.clear();
        open_.push_back({root_, infinity});
        while (!open_.empty()) {
            Node node = std::move(open_.back());
            open_.pop_back();
            if (node.upper <= answer_.lower + tol) {
                answer_.upper = std::max(answer_.upper, node.upper);
                continue;
            }
            const bool out_of_time = answer_.nodes > 0 && control && control->leave(on_caller);
            if (answer_.nodes >= node_limit_ || out_of_time) {
                answer_.upper = std::max(answer_.upper, node.upper);
                continue;  // so do the others on the stack, each with its own bound
            }
            explore(node, tol);
        }
        answer_.upper = std::max(answer_.upper, answer_.lower);
    }

    void explore(Node& node, double tol) {
        ++answer_.nodes;
        Cell low{0, 0}, high{s_most_, f_most_};
        for (int i = 0; i < nodes_; ++i) {
            if (node.fixed[i] == GraphCut::fixed_on) ++(kind_[i] ? low.s : low.f);
            if (node.fixed[i] == GraphCut::fixed_off && root_[i] == GraphCut::free_node) --(kind_[i] ? high.s : high.f);
        }
        std::fill(upper_.begin(), upper_.end(), node.upper);
        std::fill(visits_.begin(), visits_.end(), 0);
        points_.clear();
        Cell cell{std::clamp(incumbent_.s, low.s, high.s), std::clamp(incumbent_.f, low.f, high.f)};
        for (;;) {
            const double b = slope_in_s(cell);
            double l = 0.0;
            if (!choose_slope(cell, b, l)) return branch(node, b, l, upper_at(cell));
            const double bound = lay_plane(node, b, l, low, high, cell);
            if (bound <= answer_.lower + tol) {
                answer_.upper = std::max(answer_.upper, bound);
                return;
            }
        }
    }

    double slope_in_s(Cell c) {
        const int before = std::max(c.s - 1, 0), after = std::min(c.s + 1, s_most_);
        const double slope = after > before ? (H(after, c.f) - H(before, c.f)) / (after - before) : 0.0;
        return std::clamp(slope, -largest_slope_, largest_slope_);
    }

    // Slope in f for the next plane at this cell; false if no slope can lower its bound.
    bool choose_slope(Cell c, double b, double& l) {
        const auto at = static_cast<std::size_t>(c.s * (f_most_ + 1) + c.f);
        const int before = std::max(c.f - 1, 0), after = std::min(c.f + 1, f_most_);
        const double tangent = after > before ? (H(c.s, after) - H(c.s, before)) / (after - before) : 0.0;
        const int visit = visits_[at]++;
        if (visit == 0) {
            l = std::clamp(tangent, -largest_slope_, largest_slope_);
            return true;
        }
        // The concave hull of the points (f, S + b s) at c.f, by its best chord or by a point right there.
        double on = -infinity, chord = -infinity, chord_slope = 0.0;
        for (const Point& p : points_)
            if (p.f == c.f) on = std::max(on, p.score + b * p.s);
        for (const Point& p : points_) {
            if (p.f >= c.f) continue;
            const double left = p.score + b * p.s;
            for (const Point& q : points_) {
                if (q.f <= c.f) continue;
                const double slope = (q.score + b * q.s - left) / (q.f - p.f);
                const double height = left + slope * (c.f - p.f);
                if (height > chord) {
                    chord = height;
                    chord_slope = slope;
                }
            }
        }
        const double hull = std::max(on, chord);
        if (on > -infinity && on >= chord) {
            double least = -infinity, most = infinity;  // slopes l that keep the other points below
            for (const Point& p : points_) {
                const double height = p.score + b * p.s;
                if (p.f < c.f) least = std::max(least, (height - on) / (c.f - p.f));
                if (p.f > c.f) most = std::min(most, (on - height) / (p.f - c.f));
            }
            const double step = 0.1 * visit;
            l = least > -infinity ? (most < infinity ? 0.5 * (least + most) : least + step)
                                  : (most < infinity ? most - step : tangent);
        } else if (chord > -infinity) {
            l = -chord_slope;
        } else {
            const bool all_left =
                std::all_of(points_.begin(), points_.end(), [&](const Point& p) { return p.f < c.f; });
            const double step = std::ldexp(0.05, std::min(visit, most_visits));
            l = tangent + (all_left ? step : -step);
        }
        l = std::clamp(l, -largest_slope_, largest_slope_);
        const double reach = hull - b * c.s + H(c.s, c.f);
        return visit < most_visits && !(reach >= upper_at(c) - stuck_tolerance);
    }

    // upper[k] = min(upper[k], height - l k + h[k]); returns the largest.
    MULTIMARGIN_SIMD static double lower_bounds(double* upper, const double* h, int width, double height, double l) {
        using Four = Chunk<double>;
        const Four steps = {0.0, 1.0, 2.0, 3.0};
        Four most = Four{} - std::numeric_limits<double>::infinity();
        int k = 0;
        for (; k + 4 <= width; k += 4) {
            Four bound, loss;
            std::memcpy(&bound, upper + k, sizeof bound);
            std::memcpy(&loss, h + k, sizeof loss);
            bound = lane_min(bound, height - l * (steps + k) + loss);
            std::memcpy(upper + k, &bound, sizeof bound);
            most = lane_max(most, bound);
        }
        double largest = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
        for (; k < width; ++k) {
            upper[k] = std::min(upper[k], height - l * k + h[k]);
            largest = std::max(largest, upper[k]);
        }
        return largest;
    }

    // One cut; lowers the bounds of all cells of the node and moves to the cell with the largest one, which it returns.
    double lay_plane(const Node& node, double b, double l, Cell low, Cell high, Cell& worst) {
        ++answer_.cuts;
        const double slopes[] = {l, b};
        cut_.cut(kind_.data(), slopes, node.fixed.data(), Ties::largest, now_.data());
        const Point p = offer(now_.data());
        points_.push_back(p);
        const double plane = p.score + b * p.s + l * p.f + cut_.rounding();
        double most = -infinity;
        for (int s = low.s; s <= high.s; ++s) {
            const int first = s * (f_most_ + 1) + low.f, width = high.f - low.f + 1;
            double* upper = upper_.data() + first;
            const double here = lower_bounds(upper, table_.data() + first, width, plane - b * s - l * low.f, l);
            if (here > most) {
                most = here;
                worst = {s, low.f + static_cast<int>(std::find(upper, upper + width, here) - upper)};
            }
        }
        return most;
    }

    void branch(Node& node, double b, double l, double bound) {
        const double slopes[] = {l, b};
        other_.resize(now_.size());
        cut_.cut(kind_.data(), slopes, node.fixed.data(), Ties::largest, now_.data());
        cut_.cut(kind_.data(), slopes, node.fixed.data(), Ties::smallest, other_.data());
        answer_.cuts += 2;
        int chosen = -1;
        double most = -1.0;
        for (int i = 0; i < nodes_; ++i) {
            if (node.fixed[i] != GraphCut::free_node) continue;
            // Prefer labels in which the two maximisers differ, then false labels, then attracted ones.
            const double rank = (now_[i] != other_[i] ? 4.0 : 0.0) + (kind_[i] == 0 ? 2.0 : 0.0) +
                                cut_.degree(i) / (1.0 + cut_.degree(i));
            if (rank > most) {
                most = rank;
                chosen = i;
            }
        }
        if (chosen < 0) {  // nothing is free: the one labelling left has been offered
            answer_.upper = std::max(answer_.upper, answer_.lower);
            return;
        }
        Node off{node.fixed, bound};
        off.fixed[chosen] = GraphCut::fixed_off;
        open_.push_back(std::move(off));
        node.fixed[chosen] = GraphCut::fixed_on;
        open_.push_back({std::move(node.fixed), bound});
    }

    GraphCut cut_;
    int node_limit_, nodes_ = 0, s_most_ = 0, f_most_ = 0;
    FScoreLoss loss_{0};
    SeparableFScore rest_;
    std::vector<double> u_, table_, upper_;
    std::vector<int> visits_;
    std::vector<std::uint8_t> kind_, root_, now_, other_, best_;
    std::vector<Point> points_;
    std::vector<Node> open_;
    Cell incumbent_{0, 0};
    double largest_slope_ = 0.0;
    Bracket answer_;
};

}  // namespace multimargin
