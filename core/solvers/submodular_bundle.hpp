#pragma once
// Bundle method (BMRM, Teo et al. 2010) for the problem of submodular_problem.hpp.
//
// The risk R(theta) = sum_n c_n [max_y (S + loss) - S(y_n)] is bounded below by planes o_j + <a_j, theta>, one for each
// point visited: a_j = sum_n c_n (phi(x_n, y*) - phi(x_n, y_n)), o_j = sum_n c_n loss(y*_n, y_n). (The published
// algorithm has the gradient and the value of the whole objective in their place, which gives no lower bound.) The
// plane (0, 0) is always there. The master problem, over the simplex,
//
//   max_alpha  o'alpha - 1/2 |A_U alpha|^2 - 1/2 |max(0, -A_P alpha)|^2,   theta = (-A_U alpha, max(0, -A_P alpha)),
//
// is solved by exact pairwise steps. The next point lies between the best point so far and the master's: at the
// master's if the stride is 1, which is BMRM; near the best with a small stride, which needs a fraction of the passes.
// All of A is kept: passes x labels x features numbers.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/chunks.hpp"
#include "core/parallel.hpp"
#include "core/solvers/submodular_problem.hpp"

namespace multimargin {

template <RowMatrix X>
class SubmodularBundle {
  public:
    // stride in (0, 1]: of the way from the best point to the master's
    SubmodularBundle(const SubmodularProblem<X>& problem, const SubmodularParams& params, double stride)
        : p_(problem),
          params_(params),
          stride_(stride),
          weights_(problem.x, problem.bias, problem.labels),
          theta_(problem.pairs.size(), 0.0),
          w_(problem.pairs.size(), 0.0),
          best_(weights_.size(), 0.0),
          best_theta_(theta_),
          target_(weights_.size(), 0.0) {
        for (int t = 0; t < params.threads; ++t) oracles_.emplace_back(p_.labels, p_.pairs, p_.loss, p_.node_limit);
        planes_.push_back({std::vector<double>(weights_.size(), 0.0), std::vector<double>(theta_.size(), 0.0), 0.0});
        gram_.push_back({0.0});
        alpha_.push_back(1.0);
        found_.resize(static_cast<std::size_t>(p_.rows()) * p_.labels);
        upper_.resize(static_cast<std::size_t>(p_.rows()));
        claimed_.resize(upper_.size());
        proved_.resize(upper_.size());
    }

    SubmodularResult run(Control& control) {
        SubmodularResult result;
        result.primal = std::numeric_limits<double>::infinity();
        double claimed = result.primal;
        for (int pass = 1;; ++pass) {
            const bool whole = visit(result, claimed, control);
            if (whole) {
                add_plane();
                solve_master(0.05 * params_.tol * std::abs(result.primal), control);
                result.dual = std::max(pass == 1 ? 0.0 : result.dual, dual());
            }
            result.passes = pass;
            Progress progress{pass, control.elapsed(), true, result.primal, result.dual};
            const bool stop = control.tick(progress);
            const double trusted = p_.oracle == OracleKind::paper ? claimed : result.primal;
            const bool converged = trusted - result.dual <= params_.tol * trusted;
            if (converged || stop || pass >= params_.max_iter) {
                result.status = converged ? Status::converged : stop ? control.reason() : Status::max_iter;
                break;
            }
            move();
        }
        std::copy(best_.begin(), best_.end(), weights_.values());
        theta_ = best_theta_;
        return result;
    }

    const LabelWeights<X>& weights() const { return weights_; }
    const std::vector<double>& pair_weights() const { return theta_; }

  private:
    struct BundlePlane {
        std::vector<double> unary, pair;
        double offset;
    };
    static constexpr int most_master_steps = 20000;

    // Calls every oracle at the present point; keeps the point if its objective is the best. The first pass is always
    // finished. False: asked to leave.
    bool visit(SubmodularResult& result, double& claimed, Control& control) {
        for (std::size_t e = 0; e < w_.size(); ++e) w_[e] = p_.factor[e] * theta_[e];
        const double tol = std::min(1e-6, 0.05 * params_.tol);
        const bool must_finish = result.calls == 0;
        std::atomic<bool> left{false};
        const int threads = params_.threads;
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            ChunkVector<double> u(weights_.chunks());
            oracles_[t].set_weights(w_.data(), p_.oracle);
            oracles_[t].set_weights(w_.data(), OracleKind::exact);
            for (Index n = t; n < p_.rows(); n += threads) {
                if (must_finish ? control.leave_unfinished(on_caller) : control.leave(on_caller)) {
                    left = true;
                    return;
                }
                weights_.scores(n, u.chunks());
                call(n, oracles_[t], u, tol, control, on_caller);
            }
        });
        if (left) return false;
        double squares = weights_.squared_norm();
        for (double v : theta_) squares += v * v;
        double primal = 0.5 * squares, claim = primal;
        for (Index n = 0; n < p_.rows(); ++n) {
            primal += p_.cost[n] * upper_[n];
            claim += p_.cost[n] * claimed_[n];
            result.proved += proved_[n];
        }
        result.calls += p_.rows();
        claimed = std::min(claimed, claim);
        if (primal < result.primal) {
            result.primal = primal;
            std::copy(weights_.values(), weights_.values() + weights_.size(), best_.begin());
            best_theta_ = theta_;
        }
        return true;
    }

    void call(Index n, RowOracle& oracle, const ChunkVector<double>& u, double tol, Control& control, bool on_caller) {
        auto* y = found_.data() + n * p_.labels;
        const RowAnswer answer = oracle.solve(&u[0], p_.truth_of(n), p_.oracle, tol, y, control, on_caller);
        double upper = answer.upper;
        if (p_.oracle == OracleKind::paper) {
            std::vector<std::uint8_t> truth(y, y + p_.labels);
            upper = oracle.solve(&u[0], p_.truth_of(n), OracleKind::exact, tol, truth.data(), control, on_caller).upper;
        }
        double own = 0.0;
        for (int l = 0; l < p_.labels; ++l)
            if (p_.truth_of(n)[l] == present) own += u[l];
        for (std::size_t e = 0; e < w_.size(); ++e)
            if (p_.truth_of(n)[p_.pairs[e].first] == present && p_.truth_of(n)[p_.pairs[e].second] == present)
                own += w_[e];
        proved_[n] = answer.proved;
        upper_[n] = std::max(upper, own) - own;
        claimed_[n] = std::max(answer.lower, own) - own;
    }

    void add_plane() {
        BundlePlane plane{std::vector<double>(weights_.size(), 0.0), std::vector<double>(theta_.size(), 0.0), 0.0};
        const auto width = static_cast<std::size_t>(weights_.chunks()) * lanes<double>;
        std::vector<double> change(width);
        for (Index n = 0; n < p_.rows(); ++n) {
            const auto *y = found_.data() + n * p_.labels, *t = p_.truth_of(n);
            plane.offset += p_.cost[n] * p_.loss_of(n, y);
            for (int l = 0; l < p_.labels; ++l) change[l] = p_.cost[n] * (y[l] - (t[l] == present));
            const auto add = [&](Index j, double x) {
                double* out = plane.unary.data() + j * width;
                for (std::size_t l = 0; l < width; ++l) out[l] += x * change[l];
            };
            const auto row = p_.x.row(n);
            for (Index k = 0; k < row.size(); ++k) add(row.column(k), static_cast<double>(row.values[k]));
            add(p_.x.cols(), p_.bias);
            for (std::size_t e = 0; e < theta_.size(); ++e) {
                const auto [a, b] = p_.pairs[e];
                const int z = (y[a] & y[b]) - (t[a] == present && t[b] == present);
                plane.pair[e] += p_.cost[n] * p_.factor[e] * z;
            }
        }
        std::vector<double> row;
        for (const auto& other : planes_)
            row.push_back(std::inner_product(plane.unary.begin(), plane.unary.end(), other.unary.begin(), 0.0));
        row.push_back(std::inner_product(plane.unary.begin(), plane.unary.end(), plane.unary.begin(), 0.0));
        for (std::size_t j = 0; j < gram_.size(); ++j) gram_[j].push_back(row[j]);
        gram_.push_back(std::move(row));
        planes_.push_back(std::move(plane));
        alpha_.push_back(0.0);
    }

    void solve_master(double enough, Control& control) {
        const std::size_t n = planes_.size();
        product_.assign(n, 0.0);  // gram alpha
        v_.assign(theta_.size(), 0.0);
        for (std::size_t j = 0; j < n; ++j) {
            if (alpha_[j] == 0) continue;
            for (std::size_t i = 0; i < n; ++i) product_[i] += alpha_[j] * gram_[j][i];
            for (std::size_t e = 0; e < v_.size(); ++e) v_[e] -= alpha_[j] * planes_[j].pair[e];
        }
        std::vector<double> slope(n), direction(v_.size());
        for (int step = 0; step < most_master_steps && !control.leave(true); ++step) {
            double mean = 0.0;
            std::size_t up = 0, down = n;
            for (std::size_t j = 0; j < n; ++j) {
                slope[j] = planes_[j].offset - product_[j];
                for (std::size_t e = 0; e < v_.size(); ++e)
                    if (v_[e] > 0) slope[j] += planes_[j].pair[e] * v_[e];
                mean += alpha_[j] * slope[j];
                if (slope[j] > slope[up]) up = j;
                if (alpha_[j] > 0 && (down == n || slope[j] < slope[down])) down = j;
            }
            if (slope[up] - mean <= enough || up == down) break;
            for (std::size_t e = 0; e < v_.size(); ++e) direction[e] = planes_[down].pair[e] - planes_[up].pair[e];
            const double t = root(slope[up] - slope[down], gram_[up][up] + gram_[down][down] - 2 * gram_[up][down],
                                  direction, alpha_[down]);
            alpha_[up] += t;
            alpha_[down] = t >= alpha_[down] ? 0.0 : alpha_[down] - t;
            for (std::size_t i = 0; i < n; ++i) product_[i] += t * (gram_[up][i] - gram_[down][i]);
            for (std::size_t e = 0; e < v_.size(); ++e) v_[e] += t * direction[e];
        }
    }

    // Root in [0, most] of rise - curvature t - sum_e d (max(0, v + t d) - max(0, v)), or `most`.
    double root(double rise, double curvature, std::span<const double> d, double most) const {
        const auto at = [&](double t, double& slope) {
            double value = rise - curvature * t;
            slope = curvature;
            for (std::size_t e = 0; e < d.size(); ++e) {
                const double now = v_[e] + t * d[e];
                value -= d[e] * (std::max(now, 0.0) - std::max(v_[e], 0.0));
                if (now > 0) slope += d[e] * d[e];
            }
            return value;
        };
        double slope = 0.0, low = 0.0, high = most, t = most;
        if (at(most, slope) >= 0) return most;
        for (int k = 0; k < 60; ++k) {
            const double value = at(t, slope);
            (value > 0 ? low : high) = t;
            double next = slope > 0 ? t + value / slope : 0.5 * (low + high);
            if (!(next > low && next < high)) next = 0.5 * (low + high);
            const bool done = std::abs(next - t) <= 1e-14 * most;
            t = next;
            if (done) break;
        }
        return t;
    }

    double dual() const {
        double value = 0.0;
        for (std::size_t j = 0; j < planes_.size(); ++j) value += alpha_[j] * (planes_[j].offset - 0.5 * product_[j]);
        for (double v : v_) value -= v > 0 ? 0.5 * v * v : 0.0;
        return value;
    }

    // To the next point.
    void move() {
        std::fill(target_.begin(), target_.end(), 0.0);
        for (std::size_t j = 0; j < planes_.size(); ++j)
            if (alpha_[j] > 0)
                for (std::size_t k = 0; k < target_.size(); ++k) target_[k] -= alpha_[j] * planes_[j].unary[k];
        double* now = weights_.values();
        for (std::size_t k = 0; k < target_.size(); ++k) now[k] = best_[k] + stride_ * (target_[k] - best_[k]);
        for (std::size_t e = 0; e < theta_.size(); ++e)
            theta_[e] = best_theta_[e] + stride_ * (std::max(v_[e], 0.0) - best_theta_[e]);
    }

    const SubmodularProblem<X>& p_;
    const SubmodularParams& params_;
    double stride_;
    LabelWeights<X> weights_;
    std::vector<double> theta_, w_, best_, best_theta_, target_;
    std::vector<RowOracle> oracles_;
    std::vector<BundlePlane> planes_;
    std::vector<std::vector<double>> gram_;
    std::vector<double> alpha_, product_, v_, upper_, claimed_;
    std::vector<std::uint8_t> found_, proved_;
};

}  // namespace multimargin
