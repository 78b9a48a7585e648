#pragma once
// Bundle method (BMRM, Teo et al. 2010) for the problem of problem.hpp.
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
// All of A is kept, passes x labels x features numbers, and the labellings y* behind it, a bit for each row and label:
// alpha is thereby a weight of labellings for every row, from which the certifier sums D as it does for other solvers.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/submodular/certifier.hpp"

namespace multimargin::submodular {

template <RowMatrix X>
class SubmodularBundle {
  public:
    // stride in (0, 1]: of the way from the best point to the master's
    SubmodularBundle(const SubmodularProblem<X>& problem, const fit::Limits& limits, double stride)
        : p_(problem),
          limits_(limits),
          stride_(stride),
          certifier_(problem, limits.threads),
          weights_(problem.x, problem.bias, problem.labels),
          theta_(problem.pairs.size(), 0.0),
          best_(weights_.size(), 0.0),
          best_theta_(theta_),
          target_(weights_.size(), 0.0) {
        planes_.push_back(
            {std::vector<double>(weights_.size(), 0.0), std::vector<double>(theta_.size(), 0.0), 0.0, {}});
        gram_.push_back({0.0});
        alpha_.push_back(1.0);
        found_.resize(static_cast<std::size_t>(p_.rows()) * p_.labels);
    }

    fit::FitResult run(Control& control) {
        fit::FitResult result = fit::run(*this, limits_, control);
        if (!certified_) result.bounds.dual = certified_dual(control);
        result.oracle_exact = calls_.exact();
        return result;
    }

    void pass(const fit::Moment& now, Control& control) {
        const bool first = now.pass == limits_.passes_before + 1;  // it is always finished
        if (!first) move();
        if (!visit(first, control)) return;
        add_plane();
        solve_master(0.05 * limits_.tol * std::abs(primal_), control);
        dual_ = dual();
    }
    static bool pays(const fit::Moment&) { return true; }
    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        certified_ = within() || now.final_pass || now.stopped;
        if (certified_) dual_ = certified_dual(control);
        return {primal_, dual_};
    }
    bool converged(const fit::Moment&) const { return certified_ && within(); }

    SubmodularModel model() const { return model_at(best_.data(), best_theta_); }
    // Where the oracle was called in the last pass.
    SubmodularModel iterate() const { return model_at(weights_.values(), theta_); }
    // visit(weight, labels) for the planes of a row
    template <class Visit>
    void planes_of(Index n, Visit&& visit) const {
        std::vector<std::int32_t> labels;
        for (std::size_t j = 1; j < planes_.size(); ++j) {
            if (!(alpha_[j] > 0)) continue;
            labels.clear();
            for (int l = 0; l < p_.labels; ++l)
                if (planes_[j].labellings[static_cast<std::size_t>(n * p_.labels + l)]) labels.push_back(l);
            visit(alpha_[j], std::span<const std::int32_t>(labels));
        }
    }

  private:
    struct BundlePlane {
        std::vector<double> unary, pair;
        double offset;
        std::vector<bool> labellings;  // y* of all rows
    };
    static constexpr int most_master_steps = 20000;

    SubmodularModel model_at(const double* weights, const std::vector<double>& theta) const {
        const auto width = static_cast<Index>(weights_.chunks()) * lanes<double>;
        const Index cols = p_.x.cols();
        SubmodularModel model;
        model.coef.resize(static_cast<std::size_t>(p_.labels * cols));
        for (int l = 0; l < p_.labels; ++l) {
            for (Index j = 0; j < cols; ++j) model.coef[l * cols + j] = weights[j * width + l];
            model.intercept.push_back(p_.bias * weights[cols * width + l]);
        }
        for (std::size_t e = 0; e < theta.size(); ++e) model.attraction.push_back(p_.factor[e] * theta[e]);
        return model;
    }

    // By what the problem's oracle claims.
    bool within() const {
        const double trusted = p_.oracle == OracleKind::paper ? claimed_ : primal_;
        return std::abs(trusted - dual_) <= limits_.tol * trusted;
    }
    double certified_dual(Control& control) {
        return certifier_.dual([&](Index n, auto&& visit) { planes_of(n, visit); }, control);
    }

    // P at the present point, which is kept if it is the best. False: asked to leave.
    bool visit(bool must_finish, Control& control) {
        const auto here = certifier_.primal(
            model_at(weights_.values(), theta_), must_finish, control,
            [&](Index n, const RowFinding& found) { std::copy_n(found.y, p_.labels, found_.data() + n * p_.labels); });
        if (!here.whole) return false;
        claimed_ = std::min(claimed_, here.claimed);
        if (here.value < primal_) {
            primal_ = here.value;
            calls_ = here.calls;
            std::copy(weights_.values(), weights_.values() + weights_.size(), best_.begin());
            best_theta_ = theta_;
        }
        return true;
    }

    void add_plane() {
        BundlePlane plane{std::vector<double>(weights_.size(), 0.0), std::vector<double>(theta_.size(), 0.0), 0.0,
                          std::vector<bool>(found_.begin(), found_.end())};
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
    const fit::Limits& limits_;
    double primal_ = std::numeric_limits<double>::infinity(), dual_ = 0.0, claimed_ = primal_;  // the best so far
    bool certified_ = false;
    OracleCalls calls_;
    double stride_;
    SubmodularCertifier<X> certifier_;
    LabelWeights<X> weights_;
    std::vector<double> theta_, best_, best_theta_, target_;
    std::vector<BundlePlane> planes_;
    std::vector<std::vector<double>> gram_;
    std::vector<double> alpha_, product_, v_;
    std::vector<std::uint8_t> found_;
};

}  // namespace multimargin::submodular
