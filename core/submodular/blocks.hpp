#pragma once
// Multi-plane block dual ascent (problem and notation: problem.hpp).
//
// A row keeps the labellings its oracle has returned, its planes, each with a weight a >= 0; the weights of a row sum
// to one. A visit reads the scores u of the row once, then moves weight from the worst plane in use to the best plane,
// by the exact step: the derivative of D along it is decreasing and piecewise linear (theta_e = max(0, v_e)), its root
// is found by safeguarded Newton steps.
//
// A pass is one call of the oracle for every row, in small batches: the rows of a batch are scored at the same weights,
// on any number of threads, and then visited one after the other. Passes without the oracle follow, until they have
// used up most of what it found: their planes are those at hand, and where that is much better, the best of them with
// single labels flipped (label_flips.hpp). A row of many labels needs many planes, and a pass of the oracle brings one.
// With many labels these passes, too, look at the rows of a batch side by side, and what the visits change is added to
// the scores already read (row_batch.hpp).
//
// Now and then the certifier sums Theta, v and D from the planes and calls the oracle for all rows: these are the bounds,
// Theta and v are what training goes on with, and the labellings found are the next pass's. Nothing depends on the
// number of threads.
//
// Unless C |x|^2 is small, passes are held back (coordinates.hpp): Theta, v, x and k are then those of other
// coordinates, and Theta and v have a constant part.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/submodular/certifier.hpp"
#include "core/submodular/coordinates.hpp"
#include "core/submodular/label_flips.hpp"
#include "core/submodular/planes.hpp"
#include "core/submodular/row_batch.hpp"

namespace multimargin::submodular {

template <RowMatrix X>
class SubmodularBlocks {
  public:
    SubmodularBlocks(const SubmodularProblem<X>& problem, const fit::Limits& limits)
        : p_(problem),
          limits_(limits),
          certifier_(problem, limits.threads),
          coordinates_(problem),
          v_(problem.pairs.size(), 0.0),
          first_pair_(chunks_for(problem.labels, lanes<double>) * lanes<double>),
          planes_(static_cast<std::size_t>(problem.rows())),
          norm_(static_cast<std::size_t>(problem.rows())),
          before_(norm_.size()),
          cached_gap_(norm_.size(), std::numeric_limits<double>::infinity()),
          order_(norm_.size()),
          rng_(limits.seed),
          scale_(problem.total_cost() * problem.largest_loss()),
          seen_(scale_),
          scores_(first_pair_ / lanes<double> + chunks_for(static_cast<Index>(v_.size()) + 1, lanes<double>)),
          change_(first_pair_ / lanes<double>),
          together_(problem.labels >= many_labels),
          batch_(problem.x.cols(), change_.size(), most_batch, limits.threads) {
        std::iota(order_.begin(), order_.end(), 0);
        take_coordinates();
        for (int l = 0; l < p_.labels; ++l) pairs_of_.emplace_back();
        for (std::size_t e = 0; e < p_.pairs.size(); ++e)
            pairs_of_[std::min(p_.pairs[e].first, p_.pairs[e].second)].emplace_back(
                std::max(p_.pairs[e].first, p_.pairs[e].second), static_cast<int>(e));
        for (Index n = 0; n < p_.rows(); ++n) {
            std::vector<std::uint8_t> y(p_.truth_of(n), p_.truth_of(n) + p_.labels);
            for (auto& t : y) t = t == present;
            add_plane(n, y.data()).weight = 1.0;
        }
        for (int t = 0; t < limits.threads; ++t) {
            oracles_.emplace_back(p_.labels, p_.pairs, p_.loss, p_.weights, p_.node_limit);
            spare_.emplace_back(scores_.size());
            flips_.emplace_back(p_.labels, p_.pairs);
        }
    }

    // Continues from the planes, planes.planes_of(n, visit(weight, labels)), and the model of an earlier run on the
    // same rows.
    template <class Planes>
    void start_from(const Planes& planes, const SubmodularModel& model, Control& control) {
        std::vector<std::uint8_t> y(static_cast<std::size_t>(p_.labels));
        for (Index n = 0; n < p_.rows(); ++n) {
            auto& row = planes_[n];
            planes.planes_of(n, [&](double weight, std::span<const std::int32_t> labels) {
                std::fill(y.begin(), y.end(), 0);
                for (int l : labels) y[l] = p_.truth_of(n)[l] != unknown;
                Plane& plane = add_plane(n, y.data());
                if (row.same(plane, row.planes[0])) {
                    row.items.resize(static_cast<std::size_t>(plane.first));
                    row.planes.pop_back();
                    return;
                }
                plane.weight = weight;
                row.planes[0].weight -= weight;
            });
            row.planes[0].weight = std::max(row.planes[0].weight, 0.0);
        }
        if (coordinates_.held_back()) start_centre(model);
        sum_afresh(control);
    }

    // certify: false where nobody reads the bounds of a run that was cut short.
    fit::FitResult run(bool certify, Control& control) {
        fit::FitResult result = fit::run(*this, limits_, control, {scale_, 0.0}, certify);
        result.oracle_exact = calls_.exact();
        return result;
    }

    void pass(const fit::Moment&, Control& control) {
        if (recentre_) recentre(schedule_.factor(held_), control);
        rng_.shuffle(std::span(order_));
        // An answer, and planes, within a part of the gap will do; held back, of the gap seen, however small.
        recentre_ = coordinates_.held_back();
        const double enough = recentre_ ? 0.0 : limits_.tol * scale_;
        seen_ = oracle_pass(order_, 0.05 * std::max(enough, seen_) / p_.total_cost(), control);
        cached_passes(order_, std::max(cached_goal() * seen_, 0.25 * enough), rng_, control);
        held_ = held_back_gap();
    }
    bool pays(const fit::Moment& now) const {
        return now.pass == next_evaluation_ || optimism_ * seen_ + held_ <= 1.1 * limits_.tol * scale_;
    }
    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        if (now.pass >= next_evaluation_) next_evaluation_ = 3 * now.pass;
        const fit::Bounds found = bounds(control);
        scale_ = found.primal;
        if (seen_ > 0) optimism_ = std::clamp((found.gap() - held_) / seen_, 0.1, 1.0);
        return found;
    }
    // With an approximate oracle, as far as that can see. A gap below zero is no proof.
    bool converged(const fit::Moment& now) const {
        const bool exact = p_.oracle == OracleKind::exact;
        const double primal = exact ? now.bounds.primal : claimed_primal_, gap = primal - now.bounds.dual;
        return gap <= limits_.tol * primal && (!exact || gap >= -1e-9 * primal);
    }

    SubmodularModel model() const {
        const auto width = static_cast<Index>(weights_->chunks()) * lanes<double>;
        const Index cols = p_.x.cols();
        SubmodularModel model;
        model.coef.resize(static_cast<std::size_t>(p_.labels * cols));
        for (int l = 0; l < p_.labels; ++l) {
            for (Index j = 0; j < cols; ++j)
                model.coef[l * cols + j] = coordinates_.root(j) * weights_->values()[j * width + l];
            model.intercept.push_back(coordinates_.bias() * weights_->values()[cols * width + l]);
        }
        for (std::size_t e = 0; e < v_.size(); ++e)
            model.attraction.push_back(coordinates_.factor(e) * std::max(v_[e], 0.0));
        return model;
    }
    SubmodularModel iterate() const { return model(); }
    // visit(weight, labels) for the planes of a row in use except the true labels
    template <class Visit>
    void planes_of(Index n, Visit&& visit) const {
        for (const Plane& plane : std::span(planes_[n].planes).subspan(1))
            if (plane.weight > 0) visit(plane.weight, planes_[n].labels(plane));
    }

  private:
    static constexpr std::size_t least_batch = 8, most_batch = 64;  // rows whose oracles see the same weights
    static constexpr int many_labels = 128;         // the scores of a row cost more than its products with a batch
    static constexpr int most_cached_passes = 20;   // after each pass of the oracle
    static constexpr int most_steps = 30;           // in a visit
    static constexpr double enough_of_row = 0.1;    // steps end at this part of the gap of the row's planes
    static constexpr int passes_between_sums = 16;  // of Theta and v, against rounding
    static constexpr std::size_t most_planes = 50;
    static constexpr int idle_passes = 3;

    // Cached passes end at this part of the gap the oracle saw. With many labels its calls cost more than visits do.
    double cached_goal() const { return together_ ? 0.35 : 0.5; }

    Plane& add_plane(Index n, const std::uint8_t* y) {
        auto& [planes, items] = planes_[n];
        Plane plane;
        plane.loss = p_.loss_of(n, y);
        plane.first = static_cast<int>(items.size());
        for (int l = 0; l < p_.labels; ++l)
            if (y[l]) items.push_back(l);
        plane.labels = static_cast<int>(items.size()) - plane.first;
        for (int k = plane.first, end = plane.first + plane.labels; k < end; ++k)
            for (auto [other, e] : pairs_of_[items[k]])
                if (y[other]) items.push_back(first_pair_ + e);
        std::sort(items.begin() + plane.first + plane.labels, items.end());
        plane.size = static_cast<int>(items.size()) - plane.first;
        items.resize(static_cast<std::size_t>(plane.first + plane.padded()), first_pair_ + static_cast<int>(v_.size()));
        return planes.emplace_back(plane);
    }

    static double value_of(const Plane& plane, const std::int32_t* items, const ChunkVector<double>& scores) {
        double sum[4] = {plane.loss, 0.0, 0.0, 0.0};  // four chains of additions
        for (const std::int32_t *item = items + plane.first, *end = item + plane.padded(); item < end; item += 4)
            for (int k = 0; k < 4; ++k) sum[k] += scores[item[k]];
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }

    double* pair_scores() { return &scores_[first_pair_]; }
    void set_pair(std::size_t e, double v) {
        v_[e] = v;
        scores_[first_pair_ + static_cast<Index>(e)] = coordinates_.factor(e) * std::max(v, 0.0);
    }

    void take_coordinates() {
        x_.emplace(coordinates_.x());
        weights_.emplace(*x_, coordinates_.bias(), p_.labels);
        for (Index n = 0; n < p_.rows(); ++n)
            norm_[n] = squared_norm(x_->row(n)) + coordinates_.bias() * coordinates_.bias();
        if (coordinates_.held_back() && centre_.empty()) centre_.resize(weights_->size() + v_.size(), 0.0);
    }

    void start_centre(const SubmodularModel& model) {
        const Index cols = p_.x.cols();
        for (int l = 0; l < p_.labels; ++l) {
            for (Index j = 0; j < cols; ++j) centre_[j * first_pair_ + l] = model.coef[l * cols + j];
            centre_[cols * first_pair_ + l] = p_.bias > 0 ? model.intercept[l] / p_.bias : 0.0;
        }
        for (std::size_t e = 0; e < v_.size(); ++e)
            centre_[weights_->size() + e] = p_.factor[e] > 0 ? model.attraction[e] / p_.factor[e] : 0.0;
    }

    // visit(place in centre_, sqrt(s), weight in these coordinates)
    template <class Visit>
    void each_weight(Visit&& visit) const {
        const auto width = static_cast<std::size_t>(first_pair_), size = weights_->size();
        for (std::size_t k = 0; k < size; ++k)
            visit(k, coordinates_.root(static_cast<Index>(k / width)), weights_->values()[k]);
        for (std::size_t e = 0; e < v_.size(); ++e) visit(size + e, coordinates_.pair_root(e), std::max(v_[e], 0.0));
    }

    // The state that belongs to the dual variables and the centre. Returns D.
    double sum_afresh(Control& control) {
        passes_since_sum_ = 0;
        const double dual = certifier_.dual([&](Index n, auto&& visit) { planes_of(n, visit); }, control);
        const auto held = [&](std::size_t k, double root, double free) {
            return root < 1 ? root * free + (1 - root * root) / root * centre_[k] : free;
        };
        const auto width = static_cast<std::size_t>(first_pair_), size = weights_->size();
        for (std::size_t k = 0; k < size; ++k)
            weights_->values()[k] =
                held(k, coordinates_.root(static_cast<Index>(k / width)), certifier_.theta().values()[k]);
        for (std::size_t e = 0; e < v_.size(); ++e)
            set_pair(e, held(size + e, coordinates_.pair_root(e), certifier_.v()[e]));
        return dual;
    }

    // What the centre adds to the gap of P.
    double held_back_gap() const {
        double sum = 0.0;
        if (coordinates_.held_back())
            each_weight([&](std::size_t k, double root, double weight) {
                const double part = (1 / (root * root) - 1) * (root * weight - centre_[k]);
                sum += part * part;
            });
        return 0.5 * sum;
    }

    // The weights are the next centre, and the shares are raised. With the same shares theta moves by (1 - s) times what
    // the centre moves by.
    void recentre(double factor, Control& control) {
        if (factor != 1 || ++passes_since_sum_ >= passes_between_sums) {
            each_weight([&](std::size_t k, double root, double weight) { centre_[k] = root * weight; });
            if (factor != 1) {
                coordinates_.raise(factor);
                take_coordinates();
            }
            sum_afresh(control);
            return;
        }
        const auto moved = [&](std::size_t k, double root, double weight) {
            const double before = std::exchange(centre_[k], root * weight);
            return (1 - root * root) / root * (centre_[k] - before);
        };
        const auto width = static_cast<std::size_t>(first_pair_), size = weights_->size();
        for (std::size_t k = 0; k < size; ++k) {
            double& weight = weights_->values()[k];
            weight += moved(k, coordinates_.root(static_cast<Index>(k / width)), weight);
        }
        for (std::size_t e = 0; e < v_.size(); ++e)
            set_pair(e, v_[e] + moved(size + e, coordinates_.pair_root(e), std::max(v_[e], 0.0)));
    }

    // One call of the oracle for every row, each followed by a visit; returns the gap it saw. After an evaluation the
    // answers are already there.
    double oracle_pass(std::span<const std::int32_t> order, double tol, Control& control) {
        double seen = 0.0;
        const auto size = std::clamp(order.size() / 64, least_batch, most_batch);
        for (std::size_t first = 0; first < order.size(); first += size) {
            const auto rows = order.subspan(first, std::min(size, order.size() - first));
            const auto start = [&](int t) { oracles_[t].set_weights(pair_scores(), p_.oracle); };
            const auto call = [&](Index n, const ChunkVector<double>& u, int t, bool on_caller) {
                if (!fresh_) call_oracle(n, oracles_[t], tol, u, control, on_caller);
            };
            if ((together_ || !fresh_) && !read(rows, control, start, call)) break;
            for (std::size_t k = 0; k < rows.size(); ++k) {
                if (control.leave(true)) break;
                seen += p_.cost[rows[k]] * before_[rows[k]];
                if (together_)
                    batch_.read(k, scores_.chunks());
                else
                    weights_->scores(rows[k], scores_.chunks());
                cached_gap_[rows[k]] = visit(rows[k], k, 0.0, false);
            }
        }
        fresh_ = false;
        return seen;
    }

    // Visits with the planes at hand, until their part of the gap is at most `goal`.
    void cached_passes(std::span<std::int32_t> order, double goal, Rng& rng, Control& control) {
        const double enough = 0.5 * goal / static_cast<double>(order.size());
        const std::size_t size = together_ ? most_batch : 1;
        const auto look = [&](Index n, const ChunkVector<double>& u, int t, bool) {
            cached_gap_[n] = look_around(n, u, enough, flips_[t]);
        };
        for (int pass = 0; pass < most_cached_passes && !control.stopped(); ++pass) {
            rng.shuffle(order);
            waiting_.clear();
            for (auto n : order)
                if (pass % 4 == 3 || !(cached_gap_[n] < 0.5 * enough)) waiting_.push_back(n);
            double sum = 0.0;
            for (std::size_t first = 0; first < waiting_.size(); first += size) {
                const auto rows = std::span(waiting_).subspan(first, std::min(size, waiting_.size() - first));
                if (!read(rows, control, [](int) {}, look)) return;
                for (std::size_t k = 0; k < rows.size(); ++k) {
                    if (control.leave(true)) return;
                    double& gap = cached_gap_[rows[k]];
                    if (gap > enough) {
                        batch_.read(k, scores_.chunks());
                        gap = visit(rows[k], k, enough, size == 1);
                    }
                    sum += gap;
                }
            }
            if (sum <= goal) return;
        }
    }

    // P and D at the present weights, after these were summed afresh. The planes found are kept.
    fit::Bounds bounds(Control& control) {
        const double dual = sum_afresh(control);
        const auto primal = certifier_.primal(model(), true, control, [&](Index n, const RowFinding& found) {
            best_plane(n, [&](const Plane& plane) {
                double sum = plane.loss;
                for (int l : planes_[n].labels(plane)) sum += found.scores[l];
                for (int place : planes_[n].pairs(plane)) sum += pair_scores()[place - first_pair_];
                return sum;
            });
            keep_better(n, found.y, found.value, found.upper);
        });
        fresh_ = true;
        claimed_primal_ = primal.claimed;
        calls_ = primal.calls;
        return {primal.value, dual};
    }

    // Calls begin(thread), then use(n, scores, thread, on_caller) for these rows with their scores and those of the
    // pairs at the present weights, on any thread. False: asked to leave.
    template <class Begin, class Use>
    bool read(std::span<const std::int32_t> rows, Control& control, Begin&& begin, Use&& use) {
        // To wake threads takes longer than to call the oracle for a batch with few labels.
        const bool worth = rows.size() * static_cast<std::size_t>(p_.labels) >= 3000;
        std::atomic<bool> left{false};
        std::atomic<std::size_t> next{0};
        batch_.begin(coordinates_.bias());
        parallel_for(worth ? limits_.threads : 1, limits_.threads, control, [&](int t, bool on_caller) {
            ChunkVector<double>& u = spare_[t];
            begin(t);
            std::copy_n(pair_scores(), v_.size(), &u[first_pair_]);
            for (std::size_t k = next++; k < rows.size(); k = next++) {
                if (control.leave(on_caller)) {
                    left = true;
                    return;
                }
                weights_->scores(rows[k], u.chunks());
                if (together_ || rows.size() == 1) batch_.take(*x_, rows, k, u.chunks(), t);
                use(rows[k], u, t, on_caller);
            }
        });
        return !left;
    }

    void call_oracle(Index n, RowOracle& oracle, double tol, const ChunkVector<double>& u, Control& control,
                     bool on_caller) {
        const auto value = [&](const Plane& plane) { return value_of(plane, planes_[n].items.data(), u); };
        std::vector<std::uint8_t> y(static_cast<std::size_t>(p_.labels));
        for (int l : planes_[n].labels(best_plane(n, value))) y[l] = 1;
        const RowAnswer answer =
            oracle.solve(&u[0], p_.truth_of(n), p_.oracle, tol, y.data(), control, on_caller, false);
        keep_better(n, y.data(), answer.lower, answer.upper);
    }

    template <class Value>
    const Plane& best_plane(Index n, Value&& value) {
        auto& planes = planes_[n].planes;
        for (Plane& plane : planes) plane.value = value(plane);
        return *std::max_element(planes.begin(), planes.end(),
                                 [](const Plane& a, const Plane& b) { return a.value < b.value; });
    }

    // The largest and the mean of the values of a row's planes.
    std::pair<double, double> best_and_mean(Index n) const {
        double best = -std::numeric_limits<double>::infinity(), mean = 0.0;
        for (const Plane& plane : planes_[n].planes) {
            best = std::max(best, plane.value);
            mean += plane.weight * plane.value;
        }
        return {best, mean};
    }

    // Keeps a labelling that is better than all planes of its row, whose values are known.
    void keep_better(Index n, const std::uint8_t* y, double found, double upper) {
        const auto [best, mean] = best_and_mean(n);
        before_[n] = std::max(upper, best) - mean;
        if (!(found > best + 1e-10)) return;
        make_room(planes_[n]);
        add_plane(n, y).value = found;
    }

    // Forgets planes that have had no weight for long, and the worst of them if there are too many.
    static void make_room(RowPlanes& row) {
        auto& planes = row.planes;
        row.keep([&](std::size_t k) {
            planes[k].idle = planes[k].weight > 0 ? 0 : planes[k].idle + 1;
            return k == 0 || planes[k].idle <= idle_passes;
        });
        if (planes.size() < most_planes) return;
        std::size_t worst = 0;
        for (std::size_t k = 1; k < planes.size(); ++k)
            if (planes[k].weight <= 0 && (worst == 0 || planes[k].value < planes[worst].value)) worst = k;
        if (worst > 0) row.keep([&](std::size_t k) { return k != worst; });
    }

    // The row's part of the gap over its planes, at these scores. The best plane with labels flipped joins the planes, if
    // it is better by more than `enough`; the approximate oracle's planes alone are what its user wants to see.
    double look_around(Index n, const ChunkVector<double>& u, double enough, LabelFlips& flips) {
        auto& row = planes_[n];
        const Plane& best = best_plane(n, [&](const Plane& p) { return value_of(p, row.items.data(), u); });
        if (p_.loss == LossKind::f_score && p_.oracle == OracleKind::exact) {
            std::vector<std::uint8_t> near(static_cast<std::size_t>(p_.labels));
            for (int l : row.labels(best)) near[l] = 1;
            const double value = best.value;
            const double gained = flips.improve(&u[0], &u[first_pair_], p_.truth_of(n), near.data());
            if (p_.cost[n] * gained > enough) {
                make_room(row);
                add_plane(n, near.data()).value = value + gained;
            }
        }
        const auto [most, mean] = best_and_mean(n);
        return row.planes.size() < 2 ? 0.0 : p_.cost[n] * (most - mean);
    }

    // Moves weight between the planes of a row, number k of its batch; returns the row's part of the gap over its planes
    // before that. Needs the scores. known: the planes have their values.
    double visit(Index n, std::size_t k, double enough, bool known) {
        auto& planes = planes_[n].planes;
        const std::int32_t* items = planes_[n].items.data();
        if (planes.size() < 2) return 0.0;
        const double c = p_.cost[n];
        double gap = 0.0, bar = 0.0;
        bool moved = false;
        for (int step = 0; step < most_steps; ++step) {
            std::size_t best = 0, worst = planes.size();
            double mean = 0.0;
            for (std::size_t p = 0; p < planes.size(); ++p) {
                Plane& plane = planes[p];
                if (plane.weight == 0 && step > 0 && plane.value < bar) continue;  // it will hardly become the best
                if (step > 0 || !known) plane.value = value_of(plane, items, scores_);
                mean += plane.weight * plane.value;
                if (plane.value > planes[best].value) best = p;
                if (plane.weight > 0 && (worst == planes.size() || plane.value < planes[worst].value)) worst = p;
            }
            bar = mean;
            const double here = c * (planes[best].value - mean);
            if (step == 0) gap = here;
            if (here <= std::max(enough, enough_of_row * gap * (step > 0)) || worst == best) break;
            if (!moved) change_.clear();
            moved = true;
            if (!shift(n, planes[best], planes[worst])) break;
        }
        if (moved) {
            const auto& changes = batch_.tell(k, change_);
            weights_->add(n, changes.at.data(), static_cast<int>(changes.at.size()), changes.by.chunks());
        }
        return gap;
    }

    // The exact step from plane `from` to plane `to`.
    bool shift(Index n, Plane& to, Plane& from) {
        const double c = p_.cost[n], rise = to.value - from.value;
        if (!(rise > 0)) return false;
        differences_.clear();
        compare(planes_[n].labels(to), planes_[n].labels(from));
        const std::size_t labels = differences_.size();
        compare(planes_[n].pairs(to), planes_[n].pairs(from));
        const double curvature = c * norm_[n] * static_cast<double>(labels);
        const auto pairs = std::span(differences_).subspan(labels);
        const double step = root(rise, curvature, c, pairs, from.weight);
        if (!(step > 0)) return false;
        to.weight += step;
        from.weight = step >= from.weight ? 0.0 : from.weight - step;
        for (std::size_t k = 0; k < labels; ++k) {
            const double amount = step * c * differences_[k].sign;
            change_[differences_[k].item] += amount;
            scores_[differences_[k].item] += amount * norm_[n];
        }
        for (const auto& d : pairs) {
            const auto e = static_cast<std::size_t>(d.item - first_pair_);
            set_pair(e, v_[e] + step * c * coordinates_.factor(e) * d.sign);
        }
        return true;
    }

    struct Difference {
        int item;
        double sign;  // 1: only in `from`, -1: only in `to`
    };

    void compare(std::span<const std::int32_t> to, std::span<const std::int32_t> from) {
        std::size_t a = 0, b = 0;
        while (a < to.size() && b < from.size()) {
            const std::int32_t p = to[a], q = from[b];
            if (p != q) differences_.push_back(p < q ? Difference{p, -1.0} : Difference{q, 1.0});
            a += p <= q;
            b += q <= p;
        }
        for (; a < to.size(); ++a) differences_.push_back({to[a], -1.0});
        for (; b < from.size(); ++b) differences_.push_back({from[b], 1.0});
    }

    // Root in [0, most] of rise - curvature t - sum_e k s (max(0, v + t c k s) - max(0, v)), or `most`.
    double root(double rise, double curvature, double c, std::span<const Difference> pairs, double most) const {
        const auto slope_at = [&](double t, double& slope) {
            double value = rise - curvature * t;
            slope = curvature;
            for (const auto& d : pairs) {
                const auto e = static_cast<std::size_t>(d.item - first_pair_);
                const double k = coordinates_.factor(e) * d.sign, v = v_[e], now = v + t * c * k;
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
            if (std::abs(value) <= 1e-13 * rise) break;
            (value > 0 ? low : high) = t;
            double next = slope > 0 ? t + value / slope : 0.5 * (low + high);
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            const bool done = std::abs(next - t) <= 1e-14 * most;
            t = next;
            if (done) break;
        }
        return t;
    }

    const SubmodularProblem<X>& p_;
    const fit::Limits& limits_;
    SubmodularCertifier<X> certifier_;
    SubmodularCoordinates<X> coordinates_;
    std::optional<X> x_;
    std::optional<LabelWeights<X>> weights_;
    std::vector<double> v_, centre_;
    int first_pair_;
    double claimed_primal_ = 0.0;
    OracleCalls calls_;  // of the last evaluation
    bool fresh_ = false;
    std::vector<RowPlanes> planes_;
    std::vector<double> norm_, before_, cached_gap_;
    std::vector<std::vector<std::pair<int, int>>> pairs_of_;
    std::vector<RowOracle> oracles_;
    std::vector<ChunkVector<double>> spare_;
    std::vector<std::int32_t> order_, waiting_;
    Rng rng_;
    HoldSchedule schedule_;
    int passes_since_sum_ = 0;
    bool recentre_ = false;                // before the next pass
    double scale_;                         // of the objective
    double seen_;                          // gap seen by the last pass
    double held_ = 0.0;                    // part of the gap due to the centre
    double optimism_ = 0.5;                // gap at an evaluation / gap seen by the pass before it
    int next_evaluation_ = 4;              // and rarely: the pass after one works with answers for older weights
    ChunkVector<double> scores_, change_;  // of the row that is visited
    std::vector<Difference> differences_;
    std::vector<LabelFlips> flips_;
    bool together_;  // rows of a batch are read together
    RowBatch<X> batch_;
};

}  // namespace multimargin::submodular
