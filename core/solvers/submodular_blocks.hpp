#pragma once
// Multi-plane block dual ascent (problem and notation: submodular_problem.hpp).
//
// A row keeps the labellings its oracle has returned, its planes, each with a weight a >= 0; the weights of a row sum
// to one. A visit reads the scores u of the row once, then moves weight from the worst plane in use to the best plane,
// by the exact step: the derivative of D along it is decreasing and piecewise linear (theta_e = max(0, v_e)), its root
// is found by safeguarded Newton steps.
//
// A pass is one call of the oracle for every row, in batches: the rows of a batch are scored at the same weights, on
// any number of threads, and then visited one after the other. Passes over the cached planes alone follow, until they
// have used up most of what the oracle found. Every few passes the batch is all rows: that gives P exactly, for the
// certificate, at no extra cost. Nothing depends on the number of threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "core/chunks.hpp"
#include "core/parallel.hpp"
#include "core/rng.hpp"
#include "core/solvers/submodular_problem.hpp"

namespace multimargin {

struct Plane {
    double loss = 0.0, weight = 0.0, value = 0.0;
    int labels = 0;  // items: so many labels, then pairs, both ascending
    int idle = 0;    // passes since the plane had a weight
    std::vector<std::int32_t> items;
};

template <RowMatrix X>
class SubmodularBlocks {
  public:
    SubmodularBlocks(const SubmodularProblem<X>& problem, const SubmodularParams& params)
        : p_(problem),
          params_(params),
          weights_(problem.x, problem.bias, problem.labels),
          v_(problem.pairs.size(), 0.0),
          w_(problem.pairs.size(), 0.0),
          planes_(static_cast<std::size_t>(problem.rows())),
          norm_(static_cast<std::size_t>(problem.rows())),
          upper_(norm_.size()),
          claimed_(norm_.size()),
          before_(norm_.size()),
          cached_gap_(norm_.size(), std::numeric_limits<double>::infinity()),
          proved_(norm_.size()),
          scores_(weights_.chunks()),
          change_(weights_.chunks()) {
        for (int l = 0; l < p_.labels; ++l) pairs_of_.emplace_back();
        for (std::size_t e = 0; e < p_.pairs.size(); ++e)
            pairs_of_[std::min(p_.pairs[e].first, p_.pairs[e].second)].emplace_back(
                std::max(p_.pairs[e].first, p_.pairs[e].second), static_cast<int>(e));
        for (Index n = 0; n < p_.rows(); ++n) {
            norm_[n] = squared_norm(p_.x.row(n)) + p_.bias * p_.bias;
            std::vector<std::uint8_t> y(p_.truth_of(n), p_.truth_of(n) + p_.labels);
            for (auto& t : y) t = t == present;
            planes_[n].push_back(make_plane(n, y.data()));
            planes_[n][0].weight = 1.0;
        }
        for (int t = 0; t < params.threads; ++t) {
            oracles_.emplace_back(p_.labels, p_.pairs, p_.loss, p_.node_limit);
            spare_.emplace_back(weights_.chunks());
        }
    }

    // Continues from planes of an earlier run on the same rows: plane k belongs to row[k] and has labels
    // [offsets[k], offsets[k + 1]).
    void start_from(std::span<const std::int64_t> row, std::span<const double> weight,
                    std::span<const std::int64_t> offsets, std::span<const std::int32_t> labels) {
        std::vector<std::uint8_t> y(static_cast<std::size_t>(p_.labels));
        for (std::size_t k = 0; k < row.size(); ++k) {
            std::fill(y.begin(), y.end(), 0);
            const Index n = row[k];
            for (auto j = offsets[k]; j < offsets[k + 1]; ++j) y[labels[j]] = p_.truth_of(n)[labels[j]] != unknown;
            Plane plane = make_plane(n, y.data());
            if (plane.items == planes_[n][0].items) continue;
            plane.weight = weight[k];
            planes_[n][0].weight -= weight[k];
            planes_[n].push_back(std::move(plane));
        }
        for (Index n = 0; n < p_.rows(); ++n) place(n);
        refresh_pairs();
    }

    SubmodularResult run(Control& control) {
        std::vector<std::int32_t> order(static_cast<std::size_t>(p_.rows()));
        std::iota(order.begin(), order.end(), 0);
        const std::vector<std::int32_t> in_order(order);
        Rng rng(params_.seed);
        SubmodularResult result;
        double scale = p_.total_cost() * (p_.loss == LossKind::hamming ? p_.labels : 1);
        double optimism = 0.5;  // gap at an evaluation / gap seen by the pass before it
        double last_gap = scale;
        int next_evaluation = 1;
        for (int pass = 1;; ++pass) {
            rng.shuffle(std::span(order));
            // Far from the optimum an answer within a twentieth of the gap will do; so will it in the certificate.
            const double oracle_tol = tolerance_for(last_gap, scale);
            const double seen = oracle_pass(order, fresh_, oracle_tol, control);
            last_gap = seen;
            cached_passes(order, std::max(cached_goal * seen, 0.25 * params_.tol * scale), rng, control);
            const bool final_pass = pass >= params_.max_iter;
            Progress progress{.pass = pass, .time = control.elapsed()};
            if (pass == next_evaluation || optimism * seen <= params_.tol * scale || final_pass || control.stopped()) {
                if (pass >= next_evaluation) next_evaluation = 2 * pass;
                evaluate(in_order, std::min(oracle_tol, tolerance_for(optimism * seen, scale)), result, control);
                scale = result.primal;
                if (seen > 0) optimism = std::clamp((result.primal - result.dual) / seen, 0.1, 1.0);
                progress.evaluated = true;
                progress.primal = result.primal;
                progress.dual = result.dual;
            }
            progress.time = control.elapsed();
            const bool stop = control.tick(progress);
            result.passes = pass;
            if (progress.evaluated) {
                const double claimed = p_.oracle == OracleKind::paper ? claimed_primal_ : result.primal;
                if (claimed - result.dual <= params_.tol * claimed) {
                    result.status = Status::converged;
                    return result;
                }
            }
            if (stop && !progress.evaluated) evaluate(in_order, oracle_tol, result, control);
            result.status = stop ? control.reason() : Status::max_iter;
            if (stop || final_pass) return result;
        }
    }

    const LabelWeights<X>& weights() const { return weights_; }
    std::vector<double> pair_weights() const {
        std::vector<double> theta(v_);
        for (double& t : theta) t = std::max(t, 0.0);
        return theta;
    }
    // visit(row, plane) for every plane in use except the true labels
    template <class Visit>
    void each_plane(Visit&& visit) const {
        for (Index n = 0; n < p_.rows(); ++n)
            for (std::size_t k = 1; k < planes_[n].size(); ++k)
                if (planes_[n][k].weight > 0) visit(n, planes_[n][k]);
    }

  private:
    static constexpr std::size_t batch = 32;       // rows whose oracles see the same weights
    static constexpr int most_cached_passes = 20;  // after each pass of the oracle
    static constexpr int most_steps = 3;           // in a visit
    static constexpr double cached_goal = 0.3;     // cached passes end at this part of the gap the oracle saw
    static constexpr std::size_t most_planes = 50;
    static constexpr int idle_passes = 3;

    Plane make_plane(Index n, const std::uint8_t* y) const {
        Plane plane;
        plane.loss = p_.loss_of(n, y);
        for (int l = 0; l < p_.labels; ++l)
            if (y[l]) plane.items.push_back(l);
        plane.labels = static_cast<int>(plane.items.size());
        for (int k = 0; k < plane.labels; ++k)
            for (auto [other, e] : pairs_of_[plane.items[k]])
                if (y[other]) plane.items.push_back(e);
        std::sort(plane.items.begin() + plane.labels, plane.items.end());
        return plane;
    }

    double value_of(const Plane& plane, const ChunkVector<double>& u) const {
        double sum = plane.loss;
        const std::int32_t *item = plane.items.data(), *pairs = item + plane.labels, *end = item + plane.items.size();
        for (; item < pairs; ++item) sum += u[*item];
        for (; item < end; ++item) sum += w_[*item];
        return sum;
    }

    // Adds the contribution of a restored row to Theta, v and the loss.
    void place(Index n) {
        change_.clear();
        const double c = p_.cost[n];
        const Plane& truth = planes_[n][0];
        for (std::size_t k = 1; k < planes_[n].size(); ++k) {
            const Plane& plane = planes_[n][k];
            const double a = c * plane.weight;
            loss_ += a * plane.loss;
            for (int i = 0; i < truth.labels; ++i) change_[truth.items[i]] += a;
            for (int i = 0; i < plane.labels; ++i) change_[plane.items[i]] -= a;
            for (std::size_t i = truth.labels; i < truth.items.size(); ++i)
                v_[truth.items[i]] += a * p_.factor[truth.items[i]];
            for (std::size_t i = plane.labels; i < plane.items.size(); ++i)
                v_[plane.items[i]] -= a * p_.factor[plane.items[i]];
        }
        apply_change(n);
    }
    void refresh_pairs() {
        for (std::size_t e = 0; e < v_.size(); ++e) w_[e] = p_.factor[e] * std::max(v_[e], 0.0);
    }

    void apply_change(Index n) {
        at_.clear();
        for (int k = 0; k < change_.size(); ++k)
            if (any(change_.chunks()[k] != 0)) at_.push_back(k);
        if (at_.empty()) return;
        if (static_cast<int>(at_.size()) == change_.size())
            return weights_.add(n, at_.data(), change_.size(), change_.chunks());
        Chunk<double> steps[64];
        for (std::size_t first = 0; first < at_.size(); first += 64) {
            const int count = static_cast<int>(std::min<std::size_t>(64, at_.size() - first));
            for (int k = 0; k < count; ++k) steps[k] = change_.chunks()[at_[first + k]];
            weights_.add(n, at_.data() + first, count, steps);
        }
    }

    // One call of the oracle for every row, each followed by a visit; returns the gap it saw. After an evaluation the
    // answers are already there.
    double oracle_pass(std::span<const std::int32_t> order, bool fresh, double tol, Control& control) {
        double seen = 0.0;
        const auto size = fresh ? order.size() : batch;
        for (std::size_t first = 0; first < order.size(); first += size) {
            const auto rows = order.subspan(first, std::min(size, order.size() - first));
            if (!fresh) {
                if (!call_oracles(rows, p_.oracle, tol, false, control)) break;
            }
            for (Index n : rows) {
                if (control.leave(true)) break;
                seen += p_.cost[n] * before_[n];
                cached_gap_[n] = visit(n, 0.0);
            }
        }
        fresh_ = false;
        return seen;
    }

    // Visits with the planes at hand, until their part of the gap is at most `goal`.
    void cached_passes(std::span<std::int32_t> order, double goal, Rng& rng, Control& control) {
        const double enough = 0.5 * goal / static_cast<double>(order.size());
        for (int k = 0; k < most_cached_passes && !control.stopped(); ++k) {
            rng.shuffle(order);
            double sum = 0.0;
            for (Index n : order) {
                if (control.leave(true)) return;
                if (k % 4 != 3 && cached_gap_[n] < 0.5 * enough) continue;
                cached_gap_[n] = visit(n, enough);
                sum += cached_gap_[n];
            }
            if (sum <= goal) return;
        }
    }

    double tolerance_for(double gap, double scale) const {
        return 0.05 * std::max(params_.tol * scale, gap) / std::max(p_.total_cost(), 1e-300);
    }

    // P and D at the present weights. The planes found are kept.
    void evaluate(std::span<const std::int32_t> rows, double tol, SubmodularResult& result, Control& control) {
        if (p_.oracle == OracleKind::paper) {
            call_oracles(rows, OracleKind::paper, tol, true, control);
            count_calls(rows, result);
            claimed_primal_ = regulariser();
            for (Index n : rows) claimed_primal_ += p_.cost[n] * claimed_[n];
            const std::vector<double> claimed_gap(before_);
            const auto kept = planes_;  // what the exact oracle finds only serves the certificate
            call_oracles(rows, OracleKind::exact, tol, true, control);
            planes_ = kept;
            before_ = claimed_gap;
        } else {
            call_oracles(rows, OracleKind::exact, tol, true, control);
            count_calls(rows, result);
        }
        fresh_ = true;
        const double half_norm = regulariser();
        result.primal = half_norm;
        for (Index n : rows) result.primal += p_.cost[n] * upper_[n];
        result.dual = loss_ - half_norm;
    }

    void count_calls(std::span<const std::int32_t> rows, SubmodularResult& result) const {
        result.calls = static_cast<Index>(rows.size());
        result.proved = 0;
        for (Index n : rows) result.proved += proved_[n];
    }

    // Calls the oracle for these rows at the present weights, keeps what it finds. False: asked to leave.
    bool call_oracles(std::span<const std::int32_t> rows, OracleKind kind, double tol, bool must_finish,
                      Control& control) {
        const int threads = std::min<int>(params_.threads, static_cast<int>(rows.size()));
        std::atomic<bool> left{false};
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            RowOracle& oracle = oracles_[t];
            ChunkVector<double>& u = spare_[t];
            std::vector<std::uint8_t> y(static_cast<std::size_t>(p_.labels));
            oracle.set_weights(w_.data(), kind);
            for (std::size_t k = static_cast<std::size_t>(t); k < rows.size(); k += threads) {
                if (must_finish ? control.leave_unfinished(on_caller) : control.leave(on_caller)) {
                    left = true;
                    return;
                }
                call_oracle(rows[k], oracle, kind, tol, u, y, control, on_caller);
            }
        });
        return !left;
    }

    void call_oracle(Index n, RowOracle& oracle, OracleKind kind, double tol, ChunkVector<double>& u,
                     std::vector<std::uint8_t>& y, Control& control, bool on_caller) {
        weights_.scores(n, u.chunks());
        auto& planes = planes_[n];
        std::size_t best = 0;
        double mean = 0.0;
        for (std::size_t k = 0; k < planes.size(); ++k) {
            planes[k].value = value_of(planes[k], u);
            mean += planes[k].weight * planes[k].value;
            if (planes[k].value > planes[best].value) best = k;
        }
        std::fill(y.begin(), y.end(), 0);
        for (int i = 0; i < planes[best].labels; ++i) y[planes[best].items[i]] = 1;
        const RowAnswer answer = oracle.solve(&u[0], p_.truth_of(n), kind, tol, y.data(), control, on_caller);
        proved_[n] = answer.proved;
        const double found = std::max(answer.lower, planes[best].value);
        claimed_[n] = found - planes[0].value;
        upper_[n] = std::max(answer.upper, found) - planes[0].value;
        before_[n] = upper_[n] + planes[0].value - mean;
        if (answer.lower > planes[best].value + 1e-10) {
            make_room(planes);
            planes.push_back(make_plane(n, y.data()));
            planes.back().value = answer.lower;
        }
    }

    // Forgets planes that have had no weight for long, and the worst of them if there are too many.
    static void make_room(std::vector<Plane>& planes) {
        std::size_t kept = 1;
        for (std::size_t k = 1; k < planes.size(); ++k) {
            planes[k].idle = planes[k].weight > 0 ? 0 : planes[k].idle + 1;
            if (planes[k].idle > idle_passes) continue;
            if (kept != k) planes[kept] = std::move(planes[k]);
            ++kept;
        }
        planes.resize(kept);
        if (kept < most_planes) return;
        std::size_t worst = 0;
        for (std::size_t k = 1; k < kept; ++k)
            if (planes[k].weight <= 0 && (worst == 0 || planes[k].value < planes[worst].value)) worst = k;
        if (worst > 0) planes.erase(planes.begin() + static_cast<std::ptrdiff_t>(worst));
    }

    // Moves weight between the planes of a row; returns the row's part of the gap over its planes before that.
    double visit(Index n, double enough) {
        auto& planes = planes_[n];
        if (planes.size() < 2) return 0.0;
        const double c = p_.cost[n];
        weights_.scores(n, scores_.chunks());
        double gap = 0.0, bar = 0.0;
        bool moved = false;
        for (int step = 0; step < most_steps; ++step) {
            std::size_t best = 0, worst = planes.size();
            double mean = 0.0;
            for (std::size_t k = 0; k < planes.size(); ++k) {
                Plane& plane = planes[k];
                if (plane.weight == 0 && step > 0 && plane.value < bar) continue;  // it will hardly become the best
                plane.value = value_of(plane, scores_);
                mean += plane.weight * plane.value;
                if (plane.value > planes[best].value) best = k;
                if (plane.weight > 0 && (worst == planes.size() || plane.value < planes[worst].value)) worst = k;
            }
            bar = mean;
            const double here = c * (planes[best].value - mean);
            if (step == 0) gap = here;
            if (here <= enough || worst == best) break;
            if (!moved) change_.clear();
            moved = true;
            if (!shift(n, planes[best], planes[worst])) break;
        }
        if (moved) apply_change(n);
        return gap;
    }

    // The exact step from plane `from` to plane `to`.
    bool shift(Index n, Plane& to, Plane& from) {
        const double c = p_.cost[n], rise = to.value - from.value;
        if (!(rise > 0)) return false;
        differences_.clear();
        compare(to, from, 0, to.labels, 0, from.labels);
        const std::size_t labels = differences_.size();
        compare(to, from, to.labels, static_cast<int>(to.items.size()), from.labels,
                static_cast<int>(from.items.size()));
        const double curvature = c * norm_[n] * static_cast<double>(labels);
        const auto pairs = std::span(differences_).subspan(labels);
        const double step = root(rise, curvature, c, pairs, from.weight);
        if (!(step > 0)) return false;
        to.weight += step;
        from.weight = step >= from.weight ? 0.0 : from.weight - step;
        loss_ += step * c * (to.loss - from.loss);
        for (std::size_t k = 0; k < labels; ++k) {
            const double amount = step * c * differences_[k].sign;
            change_[differences_[k].item] += amount;
            scores_[differences_[k].item] += amount * norm_[n];
        }
        for (const auto& d : pairs) {
            v_[d.item] += step * c * p_.factor[d.item] * d.sign;
            w_[d.item] = p_.factor[d.item] * std::max(v_[d.item], 0.0);
        }
        return true;
    }

    struct Difference {
        int item;
        double sign;  // 1: only in `from`, -1: only in `to`
    };

    void compare(const Plane& to, const Plane& from, int a, int a_end, int b, int b_end) {
        while (a < a_end || b < b_end) {
            if (b >= b_end || (a < a_end && to.items[a] < from.items[b])) {
                differences_.push_back({to.items[a++], -1.0});
            } else if (a >= a_end || from.items[b] < to.items[a]) {
                differences_.push_back({from.items[b++], 1.0});
            } else {
                ++a;
                ++b;
            }
        }
    }

    // Root in [0, most] of rise - curvature t - sum_e k s (max(0, v + t c k s) - max(0, v)), or `most`.
    double root(double rise, double curvature, double c, std::span<const Difference> pairs, double most) const {
        const auto slope_at = [&](double t, double& slope) {
            double value = rise - curvature * t;
            slope = curvature;
            for (const auto& d : pairs) {
                const double k = p_.factor[d.item] * d.sign, v = v_[d.item], now = v + t * c * k;
                value -= k * (std::max(now, 0.0) - std::max(v, 0.0));
                if (now > 0) slope += c * k * k;
            }
            return value;
        };
        double slope = 0.0;
        if (slope_at(most, slope) >= 0) return most;
        double low = 0.0, high = most, t = curvature > 0 ? std::min(most, rise / curvature) : most;
        for (int k = 0; k < 60; ++k) {
            const double value = slope_at(t, slope);
            (value > 0 ? low : high) = t;
            double next = slope > 0 ? t + value / slope : 0.5 * (low + high);
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            const bool done = std::abs(next - t) <= 1e-14 * most;
            t = next;
            if (done) break;
        }
        return t;
    }

    double regulariser() const {
        double squares = weights_.squared_norm();
        for (double v : v_) squares += v > 0 ? v * v : 0.0;
        return 0.5 * squares;
    }

    const SubmodularProblem<X>& p_;
    const SubmodularParams& params_;
    LabelWeights<X> weights_;
    std::vector<double> v_, w_;
    double loss_ = 0.0, claimed_primal_ = 0.0;
    bool fresh_ = false;
    std::vector<std::vector<Plane>> planes_;
    std::vector<double> norm_, upper_, claimed_, before_, cached_gap_;
    std::vector<std::uint8_t> proved_;
    std::vector<std::vector<std::pair<int, int>>> pairs_of_;
    std::vector<RowOracle> oracles_;
    std::vector<ChunkVector<double>> spare_;
    ChunkVector<double> scores_, change_;
    std::vector<int> at_;
    std::vector<Difference> differences_;
};

}  // namespace multimargin
