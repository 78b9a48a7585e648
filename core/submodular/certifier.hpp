#pragma once
// The certifier of the problem in problem.hpp: P of a model as it is returned and D of dual variables, in
// double, from the data and nothing else. Solvers ask it whenever they state a bound; it never asks them.
//
// P takes a call of the exact oracle for every row, at scores from the model's arrays; an answer that is not exact
// counts with its upper bound. The call starts from no labelling and has a tolerance of its own, so that P is a
// function of the model.
//
// D takes the planes of every row with their weights: weights below zero count as zero, those that exceed one in sum
// are divided by it, and what they lack to one is the true labels'. Loss, Theta and v are summed afresh. On the way
// from the true labels (D = 0) to these weights D is a parabola; the best point of the way counts.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/parallel.hpp"
#include "core/submodular/problem.hpp"

namespace multimargin::submodular {

struct SubmodularPrimal {
    double value = 0.0;
    double claimed = 0.0;  // the same by the answers of the problem's own oracle, if it is not exact
    OracleCalls calls;
    bool whole = true;  // false: asked to leave before the last row
};

// What the problem's oracle found for a row.
struct RowFinding {
    const double* scores;
    const std::uint8_t* y;
    double value, own, upper;  // of y, of the true labels, and bound of all, each S + loss
};

template <RowMatrix X>
class SubmodularCertifier {
  public:
    SubmodularCertifier(const SubmodularProblem<X>& problem, int threads)
        : p_(problem),
          threads_(threads),
          weights_(problem.x, problem.bias, problem.labels),
          v_(problem.pairs.size(), 0.0),
          upper_(static_cast<std::size_t>(problem.rows())),
          claimed_(upper_.size()),
          proved_(upper_.size()),
          change_(weights_.chunks()),
          on_(static_cast<std::size_t>(problem.labels)),
          pairs_of_(static_cast<std::size_t>(problem.labels)) {
        for (std::size_t e = 0; e < p_.pairs.size(); ++e)
            pairs_of_[p_.pairs[e].first].emplace_back(p_.pairs[e].second, static_cast<int>(e));
        for (int t = 0; t < threads; ++t)
            oracles_.emplace_back(p_.labels, p_.pairs, p_.loss, p_.weights, p_.node_limit);
    }

    // keep(n, finding) may use what was found, on any thread. Unless it must finish, the call may leave early.
    template <class Keep>
    SubmodularPrimal primal(const SubmodularModel& model, bool must_finish, Control& control, Keep&& keep) {
        load(model);
        std::atomic<bool> left{false};
        // To start threads takes longer than to call the oracle for few rows with few labels.
        const bool worth = p_.rows() * p_.labels >= 2000;
        const int threads = worth ? std::min<int>(threads_, static_cast<int>(p_.rows())) : 1;
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            ChunkVector<double> u(weights_.chunks());
            std::vector<std::uint8_t> y(static_cast<std::size_t>(p_.labels));
            oracles_[t].set_weights(model.attraction.data(), OracleKind::exact);
            oracles_[t].set_weights(model.attraction.data(), p_.oracle);
            for (Index n = t; n < p_.rows(); n += threads) {
                if (must_finish ? control.leave_unfinished(on_caller) : control.leave(on_caller)) {
                    left = true;
                    return;
                }
                weights_.scores(n, u.chunks());
                keep(n, call(n, oracles_[t], model, &u[0], y.data(), control, on_caller));
            }
        });
        SubmodularPrimal sum;
        sum.whole = !left;
        sum.value = sum.claimed = half_norm(model);
        sum.calls.made = p_.rows();
        for (Index n = 0; n < p_.rows(); ++n) {
            sum.value += p_.cost[n] * upper_[n];
            sum.claimed += p_.cost[n] * claimed_[n];
            sum.calls.proved += proved_[n];
        }
        return sum;
    }

    // planes_of(n, visit): calls visit(weight, labels) for the planes of row n but the true labels.
    template <class PlanesOf>
    double dual(PlanesOf&& planes_of, Control& control) {
        weights_.clear();
        std::fill(v_.begin(), v_.end(), 0.0);
        double loss = 0.0;
        for (Index n = 0; n < p_.rows(); ++n) {
            control.leave_unfinished(true);
            double sum = 0.0;
            planes_of(n, [&](double weight, std::span<const std::int32_t>) { sum += std::max(weight, 0.0); });
            if (!(sum > 0)) continue;
            const double share = p_.cost[n] / std::max(sum, 1.0);
            change_.clear();
            planes_of(n, [&](double weight, std::span<const std::int32_t> labels) {
                if (weight > 0) loss += add_plane(n, share * weight, labels);
            });
            add_truth(n, share * sum);
            weights_.add_nonzero(n, change_, 1.0);
        }
        double squares = weights_.squared_norm();
        for (double v : v_) squares += v > 0 ? v * v : 0.0;
        const double way = squares > loss ? loss / squares : 1.0;
        return way * (loss - 0.5 * way * squares);
    }

    // Of the last dual(), all of the way; until the next primal().
    const LabelWeights<X>& theta() const { return weights_; }
    const std::vector<double>& v() const { return v_; }

  private:
    static constexpr double oracle_tolerance = 1e-9;

    void load(const SubmodularModel& model) {
        const auto width = static_cast<Index>(weights_.chunks()) * lanes<double>;
        const Index cols = p_.x.cols();
        for (int l = 0; l < p_.labels; ++l) {
            for (Index j = 0; j < cols; ++j) weights_.values()[j * width + l] = model.coef[l * cols + j];
            weights_.values()[cols * width + l] = p_.bias > 0 ? model.intercept[l] / p_.bias : 0.0;
        }
    }

    double half_norm(const SubmodularModel& model) const {
        double squares = 0.0;
        for (double w : model.coef) squares += w * w;
        for (double b : model.intercept) squares += b != 0 ? (b / p_.bias) * (b / p_.bias) : 0.0;
        for (std::size_t e = 0; e < p_.pairs.size(); ++e) {
            const double theta = model.attraction[e] > 0 ? model.attraction[e] / p_.factor[e] : 0.0;
            squares += theta * theta;
        }
        return 0.5 * squares;
    }

    RowFinding call(Index n, RowOracle& oracle, const SubmodularModel& model, const double* u, std::uint8_t* y,
                    Control& control, bool on_caller) {
        const auto* truth = p_.truth_of(n);
        double own = 0.0;
        for (int l = 0; l < p_.labels; ++l)
            if (truth[l] == present) {
                own += u[l];
                for (auto [other, e] : pairs_of_[l])
                    if (truth[other] == present) own += model.attraction[e];
            }
        std::fill(y, y + p_.labels, 0);
        RowAnswer answer = oracle.solve(u, truth, OracleKind::exact, oracle_tolerance, y, control, on_caller, true);
        const double upper = std::max(answer.upper, own);
        if (p_.oracle != OracleKind::exact)
            answer = oracle.solve(u, truth, p_.oracle, oracle_tolerance, y, control, on_caller, true);
        proved_[n] = answer.proved;
        upper_[n] = upper - own;
        claimed_[n] = std::max(answer.lower, own) - own;
        return {u, y, answer.lower, own, upper};
    }

    // Returns its loss.
    double add_plane(Index n, double amount, std::span<const std::int32_t> labels) {
        const auto* truth = p_.truth_of(n);
        for (int l : labels) on_[l] = truth[l] != unknown;
        for (int l : labels) {
            if (!on_[l]) continue;
            change_[l] -= amount;
            for (auto [other, e] : pairs_of_[l])
                if (on_[other]) v_[e] -= amount * p_.factor[e];
        }
        const double loss = p_.loss_of(n, on_.data());
        for (int l : labels) on_[l] = 0;
        return amount * loss;
    }

    void add_truth(Index n, double amount) {
        const auto* truth = p_.truth_of(n);
        for (int l = 0; l < p_.labels; ++l) {
            if (truth[l] != present) continue;
            change_[l] += amount;
            for (auto [other, e] : pairs_of_[l])
                if (truth[other] == present) v_[e] += amount * p_.factor[e];
        }
    }

    const SubmodularProblem<X>& p_;
    int threads_;
    LabelWeights<X> weights_;  // of the model, or Theta
    std::vector<double> v_, upper_, claimed_;
    std::vector<std::uint8_t> proved_;
    ChunkVector<double> change_;
    std::vector<std::uint8_t> on_;
    std::vector<std::vector<std::pair<int, int>>> pairs_of_;
    std::vector<RowOracle> oracles_;
};

}  // namespace multimargin::submodular
