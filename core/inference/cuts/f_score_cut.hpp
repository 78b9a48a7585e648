#pragma once
// The loss-augmented problem of the F-score with attracting pairs,
//
//   G(y) = S(y) + h(s, f),   h(s, f) = 1 - 2 s / (s + f + m),   s = |y and T|, f = |y \ T|, m = |T|,
//
// solved exactly, or to a bracket lower <= max G <= upper where a limit on the work strikes. The problem is NP-hard: h
// is concave in f, the number of false positives, and the best f of them may be a densest subgraph.
//
// Reduction. Labels that bounds decide leave the problem (f_score_reduction.hpp). If attraction joins only small groups
// of what is left, listing their labellings solves it (f_score_groups.hpp). The rest of this file is for the others.
//
// Elimination. Labels that attract nobody any more leave, too: H(s, f) = max over their choice of score + h takes the
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

#include "core/base/control.hpp"
#include "core/base/simd.hpp"
#include "core/inference/cuts/f_score_groups.hpp"
#include "core/inference/cuts/f_score_reduction.hpp"
#include "core/inference/cuts/graph_cut.hpp"
#include "core/inference/cuts/separable_f_score.hpp"

namespace multimargin::inference {

struct Bracket {
    double lower = 0.0, upper = 0.0;
    int nodes = 0, cuts = 0;
};

class FScoreCut {
  public:
    // Groups of at most `group_limit` labels are listed; 0 turns off the reduction, too, and leaves all to the cuts.
    FScoreCut(int labels, std::span<const std::pair<int, int>> pairs, int node_limit, int group_limit = 12)
        : cut_(labels, pairs),
          part_(0, {}),
          node_limit_(node_limit),
          group_limit_(group_limit),
          inverse_(2 * static_cast<std::size_t>(labels) + 1, 0.0) {
        for (std::size_t k = 1; k < inverse_.size(); ++k) inverse_[k] = 1.0 / static_cast<double>(k);
    }

    void set_weights(const double* w) { cut_.set_weights(w); }

    // y: in, any labelling to start from; out, the best one found. Unknown labels stay 0. A control that asks to stop
    // is an exhausted limit, unless the call must finish.
    Bracket solve(const double* u, const std::uint8_t* truth, double tol, std::uint8_t* y, Control* control = nullptr,
                  bool on_caller = true, bool must_finish = false) {
        answer_ = {};
        reduced_.run(cut_, u, truth, group_limit_ > 0);
        loss_ = {reduced_.m(), inverse_.data()};
        const bool small = group();
        if (groups_found_ == 0 || small) {
            for (int i = 0; i < cut_.labels(); ++i)
                y[reduced_.label_of(cut_, i)] = reduced_.state(i) == FScoreReduction::on;
            const double value = reduced_.base() + list_groups(y);
            return {value, value, 0, 0};
        }
        separate();
        tabulate();
        answer_.lower = -infinity;
        offer_start(y);
        part_.start(u_, largest_slope_);
        branch_and_bound(tol, control, on_caller, must_finish);
        for (int i = 0; i < cut_.labels(); ++i)
            y[reduced_.label_of(cut_, i)] = reduced_.state(i) == FScoreReduction::on;
        for (int i = 0; i < nodes_; ++i)
            if (best_[i]) y[part_.label_of(i)] = 1;
        rest_.write(rest_.best(loss_, reduced_.s() + incumbent_.s, reduced_.f() + incumbent_.f), y);
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

    // Finds the groups of open labels; those alone go to the rest. False: one of them is too large to be listed.
    bool group() {
        rest_.clear();
        group_of_.assign(static_cast<std::size_t>(cut_.nodes()), -1);
        members_.clear();
        first_member_.assign(1, 0);
        std::size_t largest = 0;
        for (const int i : reduced_.left()) {
            if (i < cut_.nodes() && group_of_[i] >= 0) continue;
            const std::size_t first = members_.size();
            members_.push_back(i);
            if (i < cut_.nodes()) {
                const int g = group_of_[i] = static_cast<int>(first_member_.size()) - 1;
                for (std::size_t k = first; k < members_.size(); ++k)
                    for (const auto& [j, weight] : cut_.neighbours(members_[k]))
                        if (reduced_.state(j) == FScoreReduction::open && group_of_[j] < 0) {
                            group_of_[j] = g;
                            members_.push_back(j);
                        }
            }
            if (members_.size() == first + 1) {
                rest_.add(reduced_.own(i), reduced_.label_of(cut_, i), reduced_.is_true(i));
                members_.pop_back();
                if (i < cut_.nodes()) group_of_[i] = alone;
            } else {
                largest = std::max(largest, members_.size() - first);
                first_member_.push_back(static_cast<int>(members_.size()));
            }
        }
        rest_.prepare();
        groups_found_ = static_cast<int>(first_member_.size()) - 1;
        return static_cast<int>(largest) <= group_limit_;
    }

    double list_groups(std::uint8_t* y) {
        if (groups_found_ == 0) {
            const auto best = rest_.best(loss_, reduced_.s(), reduced_.f());
            rest_.write(best, y);
            return best.value;
        }
        groups_.clear();
        place_.resize(static_cast<std::size_t>(cut_.nodes()));
        for (int g = 0; g < groups_found_; ++g) {
            const auto group = std::span(members_).subspan(first_member_[g], first_member_[g + 1] - first_member_[g]);
            const std::size_t k = group.size();
            own_.clear();
            is_true_.clear();
            names_.clear();
            for (std::size_t a = 0; a < k; ++a) {
                place_[group[a]] = static_cast<int>(a);
                own_.push_back(reduced_.own(group[a]));
                is_true_.push_back(reduced_.is_true(group[a]));
                names_.push_back(cut_.label_of(group[a]));
            }
            attraction_.assign(k * k, 0.0);
            for (std::size_t a = 0; a < k; ++a)
                for (const auto& [j, weight] : cut_.neighbours(group[a]))
                    if (group_of_[j] == g && reduced_.state(j) == FScoreReduction::open)
                        attraction_[a * k + static_cast<std::size_t>(place_[j])] = weight;
            groups_.add(own_, attraction_.data(), is_true_, names_);
        }
        return groups_.solve(loss_, reduced_.s(), reduced_.f(), rest_, y);
    }

    // The labels in groups are the nodes of the cuts.
    void separate() {
        members_.clear();
        for (const int i : reduced_.left())
            if (i < cut_.nodes() && group_of_[i] != alone) members_.push_back(i);
        part_.take(cut_, members_);
        const std::size_t n = members_.size();
        nodes_ = static_cast<int>(n);
        u_.resize(n);
        kind_.resize(n);
        now_.resize(n);
        best_.resize(n);
        s_most_ = f_most_ = 0;
        for (std::size_t k = 0; k < n; ++k) {
            u_[k] = reduced_.own(members_[k]);
            kind_[k] = reduced_.is_true(members_[k]);
            ++(kind_[k] ? s_most_ : f_most_);
        }
    }

    double& H(int s, int f) { return table_[static_cast<std::size_t>(s * (f_most_ + 1) + f)]; }

    double& upper_at(Cell c) { return upper_[static_cast<std::size_t>(c.s * (f_most_ + 1) + c.f)]; }

    void tabulate() {
        table_.resize(static_cast<std::size_t>((s_most_ + 1) * (f_most_ + 1)));
        upper_.resize(table_.size());
        visits_.resize(table_.size());
        for (int f = 0; f <= f_most_; ++f) {
            rest_.best_values(loss_, reduced_.s(), s_most_, reduced_.f() + f, column_);
            for (int s = 0; s <= s_most_; ++s) H(s, f) = reduced_.base() + column_[static_cast<std::size_t>(s)];
        }
        // No cut changes beyond slopes that outweigh every label.
        largest_slope_ = 2.0;
        for (std::size_t i = 0; i < u_.size(); ++i)
            largest_slope_ = std::max(largest_slope_, 2.0 + std::abs(u_[i]) + part_.degree(static_cast<int>(i)));
    }

    // Adds y to what is known; returns its point.
    Point offer(const std::uint8_t* y) {
        Point p{0, 0, part_.score(u_, y)};
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
        for (int i = 0; i < nodes_; ++i) now_[i] = y[part_.label_of(i)] != 0;
        offer(now_.data());
        for (int i = 0; i < nodes_; ++i) now_[i] = kind_[i];
        offer(now_.data());
        std::fill(now_.begin(), now_.end(), 0);
        offer(now_.data());
    }

    void branch_and_bound(double tol, Control* control, bool on_caller, bool must_finish) {
        answer_.upper = -infinity;
        open_.clear();
        open_.push_back({std::vector<std::uint8_t>(u_.size(), GraphCut::free_node), infinity});
        while (!open_.empty()) {
            Node node = std::move(open_.back());
            open_.pop_back();
            if (node.upper <= answer_.lower + tol) {
                answer_.upper = std::max(answer_.upper, node.upper);
                continue;
            }
            const bool out_of_time = answer_.nodes > 0 && control &&
                                     (must_finish ? control->leave_unfinished(on_caller) : control->leave(on_caller));
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
            if (node.fixed[i] == GraphCut::fixed_off) --(kind_[i] ? high.s : high.f);
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
        part_.cut(kind_.data(), slopes, node.fixed.data(), Ties::largest, now_.data());
        const Point p = offer(now_.data());
        points_.push_back(p);
        const double plane = p.score + b * p.s + l * p.f + part_.rounding();
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
        part_.cut(kind_.data(), slopes, node.fixed.data(), Ties::largest, now_.data());
        part_.cut(kind_.data(), slopes, node.fixed.data(), Ties::smallest, other_.data());
        answer_.cuts += 2;
        int chosen = -1;
        double most = -1.0;
        for (int i = 0; i < nodes_; ++i) {
            if (node.fixed[i] != GraphCut::free_node) continue;
            // Prefer labels in which the two maximisers differ, then false labels, then attracted ones.
            const double rank = (now_[i] != other_[i] ? 4.0 : 0.0) + (kind_[i] == 0 ? 2.0 : 0.0) +
                                part_.degree(i) / (1.0 + part_.degree(i));
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

    static constexpr int alone = 1 << 30;

    GraphCut cut_;   // of all labels
    GraphCut part_;  // of those in groups
    int node_limit_, group_limit_, nodes_ = 0, s_most_ = 0, f_most_ = 0, groups_found_ = 0;
    std::vector<double> inverse_;
    TabulatedFScoreLoss loss_{0, nullptr};
    FScoreReduction reduced_;
    SeparableFScore rest_;
    FScoreGroups groups_;
    std::vector<int> group_of_, members_, first_member_, place_, names_;
    std::vector<double> own_, attraction_;
    std::vector<std::uint8_t> is_true_;
    std::vector<double> u_, table_, column_, upper_;
    std::vector<int> visits_;
    std::vector<std::uint8_t> kind_, now_, other_, best_;
    std::vector<Point> points_;
    std::vector<Node> open_;
    Cell incumbent_{0, 0};
    double largest_slope_ = 0.0;
    Bracket answer_;
};

}  // namespace multimargin::inference
