#pragma once
// Ranking of labels by the worst pair of every row (Crammer and Singer, 2003, in batch form).
//
//   primal   1/2 sum_k |w_k|^2 + sum_i c_i max(0, 1 + max_{l in n_i} w_l.x_i - min_{k in y_i} w_k.x_i)
//   dual     sum_i t_i - 1/2 sum_k |w_k|^2,    w_k = sum_i b_ik x_i
//            b_ik >= 0 for k in y_i and <= 0 for k in n_i, both summing to t_i in absolute value, 0 <= t_i <= c_i
//
// y_i: labels of row i, n_i: labels it is known to lack; rows where either is empty have no part. x_i has a last,
// constant feature. Method: dual block ascent: a visit solves the problem of the row's own variables exactly. With
// K = |x_i|^2 and f the scores without the row's part, for a given t the positive labels are lifted to a common level
// p (b = (p - f)_+ / K) and the others lowered to a level q (b = -(f - q)_+ / K), each using up t; the derivative in t,
// 1 - p + q, falls and is linear between the points where another label joins. They are met in order, from two heaps.
// Cost of a pass: rows x (labels x entries of x), and rows x labels in memory.
// Stopping: P - D <= tol P, both evaluated at freshly summed weights.

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/separation/ranked_rows.hpp"

namespace multimargin::separation {

// Where labels of one side are lifted to: level(t) solves sum_r (level - f_r)_+ = K t. The sign makes one code of both.
class WaterLevel {
  public:
    WaterLevel(std::vector<double>& heights, double norm) : heights_(heights), norm_(norm) {
        std::ranges::make_heap(heights_, std::greater<>());
        join();
    }
    double level(double t) const { return (norm_ * t + sum_) / active_; }
    double slope() const { return norm_ / active_; }
    // The t at which another label joins.
    double next() const {
        return heights_.empty() ? std::numeric_limits<double>::infinity() : (active_ * heights_.front() - sum_) / norm_;
    }
    void join() {
        sum_ += heights_.front();
        active_ += 1.0;
        std::ranges::pop_heap(heights_, std::greater<>());
        heights_.pop_back();
    }

  private:
    std::vector<double>& heights_;  // of those that have not joined
    double norm_, sum_ = 0.0, active_ = 0.0;
};

template <RowMatrix X>
class CategorySolver {
  public:
    CategorySolver(const X& x, const labels::Labels& source, double bias)
        : rows_(x, source, bias),
          order_(static_cast<std::size_t>(x.rows())),
          dual_(static_cast<std::size_t>(x.rows() * source.labels), 0.0) {
        std::iota(order_.begin(), order_.end(), 0);
    }

    fit::FitResult run(const fit::Limits& limits, Control& control) {
        rng_ = Rng(limits.seed);
        next_evaluation_ = 1;
        passes_ = 0;
        return fit::run(*this, limits, control);
    }

    // The engine of fit/run.hpp.
    void pass(const fit::Moment&, Control& control) {
        rng_.shuffle(std::span(order_));
        ++passes_;
        estimate_ = 0.0;
        for (const Index i : order_) {
            if (control.leave_after(rows_.work(i))) break;
            if (rows_.has_pairs(i)) estimate_ += visit(i);
        }
    }
    bool pays(const fit::Moment& now) const { return passes_ == next_evaluation_ || estimate_ <= now.tolerated(); }
    fit::Bounds evaluate(const fit::Moment&, Control& control) {
        if (passes_ == next_evaluation_) next_evaluation_ *= 2;
        rows_.clear();
        double linear = 0.0, hinge = 0.0;
        for (Index i = 0; i < rows_.size(); ++i) {
            control.leave_after(rows_.work(i));
            for (const Index k : rows_.positive(i)) linear += dual(i)[k];
            rows_.add(i, dual(i));
        }
        for (Index i = 0; i < rows_.size(); ++i) {
            control.leave_after(rows_.work(i));
            if (rows_.has_pairs(i)) hinge += loss(i, rows_.scores(i));
        }
        const double squares = rows_.squared_norm();
        return {.primal = 0.5 * squares + hinge, .dual = linear - 0.5 * squares};
    }

    // labels x (cols + 1)
    void copy_weights(double* out) const { rows_.copy_weights(out); }
    // rows x labels
    std::vector<double> take_dual() { return std::move(dual_); }

  private:
    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
    double* dual(Index i) { return dual_.data() + i * rows_.labels(); }

    double loss(Index i, std::span<const double> scores) const {
        double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
        for (const Index k : rows_.positive(i)) lowest = std::min(lowest, scores[at(k)]);
        for (const Index l : rows_.negative(i)) highest = std::max(highest, scores[at(l)]);
        return rows_.cost(i) * std::max(0.0, 1.0 + highest - lowest);
    }

    // The exact solution of a row; returns its part of the gap before.
    double visit(Index i) {
        const auto scores = rows_.scores(i);
        const double norm = rows_.norm(i);
        double* b = dual(i);
        double gap = loss(i, scores);
        up_.clear();
        down_.clear();
        for (const Index k : rows_.positive(i)) {
            gap -= b[k] * (1.0 - scores[at(k)]);
            up_.push_back(scores[at(k)] - norm * b[k]);
        }
        for (const Index l : rows_.negative(i)) {
            gap += b[l] * scores[at(l)];
            down_.push_back(-(scores[at(l)] - norm * b[l]));
        }
        changed_.clear();
        amounts_.clear();
        if (norm > 0) {
            const auto [high, low] = levels(rows_.cost(i), norm);
            for (const Index k : rows_.positive(i)) set(b, k, std::max(0.0, (high - scores[at(k)]) / norm + b[k]));
            for (const Index l : rows_.negative(i)) set(b, l, std::min(0.0, (low - scores[at(l)]) / norm + b[l]));
        } else {
            set(b, rows_.positive(i).front(), rows_.cost(i));
            set(b, rows_.negative(i).front(), -rows_.cost(i));
        }
        if (!changed_.empty()) rows_.add(i, changed_, amounts_.data());
        return gap;
    }

    // The levels to which positive labels are lifted and the others lowered, whose heights are in up_ and, with the
    // other sign, in down_.
    std::pair<double, double> levels(double cost, double norm) {
        WaterLevel high(up_, norm), low(down_, norm);
        double t = 0.0;
        while (true) {
            const double rise = 1.0 - high.level(t) - low.level(t);  // derivative of the dual value in t
            if (rise <= 0.0) break;
            const double next = std::min({high.next(), low.next(), cost});
            const double root = t + rise / (high.slope() + low.slope());
            t = std::max(t, std::min(root, next));
            if (root <= next || next >= cost) break;
            (high.next() <= low.next() ? high : low).join();
        }
        return {high.level(t), -low.level(t)};
    }

    void set(double* b, Index k, double value) {
        if (value == b[k]) return;
        changed_.push_back(static_cast<std::int32_t>(k));
        amounts_.push_back(value - b[k]);
        b[k] = value;
    }

    RankedRows<X> rows_;
    std::vector<std::int32_t> order_, changed_;
    std::vector<double> dual_, amounts_, up_, down_;
    Rng rng_{0};
    double estimate_ = 0.0;  // of the gap
    int next_evaluation_ = 1, passes_ = 0;
};

}  // namespace multimargin::separation
