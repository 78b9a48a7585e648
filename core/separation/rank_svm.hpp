#pragma once
// Ranking SVM for label sets (Elisseeff and Weston, 2001).
//
//   primal   1/2 sum_k |w_k|^2 + sum_i c_i / (|y_i| |n_i|) sum_{k in y_i, l in n_i} max(0, 1 - (w_k - w_l).x_i)
//   dual     sum a_ikl - 1/2 sum_k |w_k|^2,    0 <= a_ikl <= c_i / (|y_i| |n_i|)
//            w_k = sum_i x_i (sum_l a_ikl - sum_l a_ilk)
//
// y_i: labels of row i, n_i: labels it is known to lack; rows where either is empty have no part. x_i has a last,
// constant feature `bias`. Method: dual coordinate ascent, row by row: the scores of all labels are read once, every
// pair takes an exact step, the weights are written once. Cost of a pass: rows x (labels x entries of x) + pairs.
// Stopping: P - D <= tol P, both evaluated at freshly summed weights.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/separation/ranked_rows.hpp"

namespace multimargin::separation {

template <RowMatrix X>
class RankSolver {
  public:
    RankSolver(const X& x, const labels::Labels& source, double bias)
        : rows_(x, source, bias),
          change_(static_cast<std::size_t>(source.labels)),
          order_(static_cast<std::size_t>(x.rows())),
          offsets_{0} {
        std::iota(order_.begin(), order_.end(), 0);
        for (Index i = 0; i < x.rows(); ++i)
            offsets_.push_back(offsets_.back() +
                               static_cast<Index>(rows_.positive(i).size() * rows_.negative(i).size()));
        alpha_.assign(static_cast<std::size_t>(offsets_.back()), 0.0);
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
            if (control.leave_after(row_work(i))) break;
            if (rows_.has_pairs(i)) estimate_ += visit(i);
        }
    }
    bool pays(const fit::Moment& now) const { return passes_ == next_evaluation_ || estimate_ <= now.tolerated(); }
    // At freshly summed weights.
    fit::Bounds evaluate(const fit::Moment&, Control& control) {
        if (passes_ == next_evaluation_) next_evaluation_ *= 2;
        rows_.clear();
        double linear = 0.0, hinge = 0.0;
        for (Index i = 0; i < rows_.size(); ++i) {
            control.leave_after(row_work(i));
            std::fill(change_.begin(), change_.end(), 0.0);
            const double* alpha = alpha_.data() + offsets_[at(i)];
            for (const Index k : rows_.positive(i))
                for (const Index l : rows_.negative(i)) {
                    change_[at(k)] += *alpha;
                    change_[at(l)] -= *alpha;
                    linear += *alpha++;
                }
            rows_.add(i, change_.data());
        }
        for (Index i = 0; i < rows_.size(); ++i) {
            control.leave_after(row_work(i));
            if (!rows_.has_pairs(i)) continue;
            const auto scores = rows_.scores(i);
            double losses = 0.0;
            for (const Index k : rows_.positive(i))
                for (const Index l : rows_.negative(i)) losses += std::max(0.0, 1.0 - (scores[at(k)] - scores[at(l)]));
            hinge += bound(i) * losses;
        }
        const double squares = rows_.squared_norm();
        return {.primal = 0.5 * squares + hinge, .dual = linear - 0.5 * squares};
    }

    // labels x (cols + 1)
    void copy_weights(double* out) const { rows_.copy_weights(out); }
    // Dual variables of the pairs of all rows, negative labels running fastest.
    std::vector<double> take_alpha() { return std::move(alpha_); }

  private:
    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

    // Multiply-adds of a visit, about.
    Index row_work(Index i) const { return rows_.work(i) + offsets_[at(i) + 1] - offsets_[at(i)]; }
    double bound(Index i) const {
        return rows_.cost(i) / static_cast<double>(rows_.positive(i).size() * rows_.negative(i).size());
    }

    // Exact steps in all pairs of a row; returns its part of the gap before them.
    double visit(Index i) {
        const auto scores = rows_.scores(i);
        std::fill(change_.begin(), change_.end(), 0.0);
        const double most = bound(i), norm = rows_.norm(i);
        double* alpha = alpha_.data() + offsets_[at(i)];
        double gap = 0.0;
        for (const Index k : rows_.positive(i))
            for (const Index l : rows_.negative(i)) {
                const double old = *alpha, before = 1.0 - (scores[at(k)] - scores[at(l)]);
                const double g = before - norm * (change_[at(k)] - change_[at(l)]);
                gap += most * std::max(0.0, before) - old * before;
                const double now = norm > 0 ? std::clamp(old + g / (2 * norm), 0.0, most) : (g > 0 ? most : 0.0);
                *alpha++ = now;
                change_[at(k)] += now - old;
                change_[at(l)] -= now - old;
            }
        rows_.add(i, change_.data());
        return gap;
    }

    RankedRows<X> rows_;
    std::vector<double> change_, alpha_;
    std::vector<std::int32_t> order_;
    std::vector<Index> offsets_;
    Rng rng_{0};
    double estimate_ = 0.0;  // of the gap
    int next_evaluation_ = 1, passes_ = 0;
};

}  // namespace multimargin::separation
