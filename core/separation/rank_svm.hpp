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
#include <numeric>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/labels/bits.hpp"
#include "core/numerics/row_products.hpp"

namespace multimargin::separation {

using namespace numerics;

// Labels of each row, in rising order.
class LabelLists {
  public:
    std::span<const std::int32_t> operator[](Index i) const {
        const auto begin = offsets_[static_cast<std::size_t>(i)], end = offsets_[static_cast<std::size_t>(i) + 1];
        return std::span(labels_).subspan(begin, end - begin);
    }
    void add(Index label) { labels_.push_back(static_cast<std::int32_t>(label)); }
    void end_row() { offsets_.push_back(labels_.size()); }

  private:
    std::vector<std::size_t> offsets_{0};
    std::vector<std::int32_t> labels_;
};

template <RowMatrix X>
class RankSolver {
  public:
    using Row = decltype(std::declval<const X&>().row(0));
    using Kernels = SeparationKernels<Row>;

    RankSolver(const X& x, const labels::Labels& source, double bias)
        : x_(x),
          labels_(source.labels),
          cost_(source.costs.row),
          bias_(bias),
          state_(static_cast<std::size_t>(labels_ * (x.cols() + 1))),
          scores_(static_cast<std::size_t>(labels_)),
          change_(static_cast<std::size_t>(labels_)),
          all_(static_cast<std::size_t>(labels_)),
          order_(static_cast<std::size_t>(x.rows())),
          offsets_{0} {
        std::iota(all_.begin(), all_.end(), 0);
        std::iota(order_.begin(), order_.end(), 0);
        const labels::LabelBits bits(source);
        for (Index i = 0; i < x.rows(); ++i) {
            for (std::size_t k = 0; k < bits.size(); ++k)
                if (labels::bit(bits.known(i), k))
                    (labels::bit(bits.truth(i), k) ? positive_ : negative_).add(static_cast<Index>(k));
            positive_.end_row();
            negative_.end_row();
            norms_.push_back(squared_norm(x.row(i)) + bias * bias);
            offsets_.push_back(offsets_.back() + static_cast<Index>(positive_[i].size() * negative_[i].size()));
        }
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
            if (offsets_[at(i)] < offsets_[at(i) + 1]) estimate_ += visit(i);
        }
    }
    bool pays(const fit::Moment& now) const { return passes_ == next_evaluation_ || estimate_ <= now.tolerated(); }
    // At freshly summed weights.
    fit::Bounds evaluate(const fit::Moment&, Control& control) {
        if (passes_ == next_evaluation_) next_evaluation_ *= 2;
        std::memset(state_.data(), 0, state_.size() * sizeof(double));
        double linear = 0.0, hinge = 0.0, squares = 0.0;
        for (Index i = 0; i < x_.rows(); ++i) {
            control.leave_after(row_work(i));
            std::fill(change_.begin(), change_.end(), 0.0);
            const double* alpha = alpha_.data() + offsets_[at(i)];
            for (const Index k : positive_[i])
                for (const Index l : negative_[i]) {
                    change_[at(k)] += *alpha;
                    change_[at(l)] -= *alpha;
                    linear += *alpha++;
                }
            write_changes(i);
        }
        for (Index i = 0; i < x_.rows(); ++i) {
            control.leave_after(row_work(i));
            if (offsets_[at(i)] == offsets_[at(i) + 1]) continue;
            read_scores(i);
            double losses = 0.0;
            for (const Index k : positive_[i])
                for (const Index l : negative_[i]) losses += std::max(0.0, 1.0 - (scores_[at(k)] - scores_[at(l)]));
            hinge += bound(i) * losses;
        }
        for (std::size_t j = 0; j < state_.size(); ++j) squares += state_[j] * state_[j];
        return {.primal = 0.5 * squares + hinge, .dual = linear - 0.5 * squares};
    }

    // labels x (cols + 1); the order in which the state is kept depends on the kind of rows.
    void copy_weights(double* out) const {
        const Index cols = x_.cols();
        for (Index k = 0; k < labels_; ++k)
            for (Index j = 0; j <= cols; ++j)
                out[k * (cols + 1) + j] = state_[at(Kernels::group > 1 ? k * (cols + 1) + j : j * labels_ + k)];
    }

    // Dual variables of the pairs of all rows, negative labels running fastest.
    std::vector<double> take_alpha() { return std::move(alpha_); }

  private:
    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

    // Multiply-adds of a visit, about.
    Index row_work(Index i) const { return 2 * labels_ * x_.row(i).size() + offsets_[at(i) + 1] - offsets_[at(i)]; }
    double bound(Index i) const {
        return cost_[at(i)] / static_cast<double>(positive_[i].size() * negative_[i].size());
    }
    void read_scores(Index i) {
        const Row row = x_.row(i);
        Kernels::all_scores(&row, 1, state_.data(), labels_, x_.cols(), bias_, scores_.data());
    }
    void write_changes(Index i) {
        Kernels::add(x_.row(i), state_.data(), labels_, x_.cols(), bias_, all_.data(), static_cast<int>(labels_),
                     change_.data());
    }

    // Exact steps in all pairs of a row; returns its part of the gap before them.
    double visit(Index i) {
        read_scores(i);
        std::fill(change_.begin(), change_.end(), 0.0);
        const double most = bound(i), norm = norms_[at(i)];
        double* alpha = alpha_.data() + offsets_[at(i)];
        double gap = 0.0;
        for (const Index k : positive_[i])
            for (const Index l : negative_[i]) {
                const double old = *alpha, before = 1.0 - (scores_[at(k)] - scores_[at(l)]);
                const double g = before - norm * (change_[at(k)] - change_[at(l)]);
                gap += most * std::max(0.0, before) - old * before;
                const double now = norm > 0 ? std::clamp(old + g / (2 * norm), 0.0, most) : (g > 0 ? most : 0.0);
                *alpha++ = now;
                change_[at(k)] += now - old;
                change_[at(l)] -= now - old;
            }
        write_changes(i);
        return gap;
    }

    const X& x_;
    Index labels_;
    LabelLists positive_, negative_;  // without labels that are left out
    std::span<const double> cost_;
    double bias_;
    Buffer<double> state_;
    std::vector<double> scores_, change_, norms_, alpha_;
    std::vector<std::int32_t> all_, order_;
    std::vector<Index> offsets_;
    Rng rng_{0};
    double estimate_ = 0.0;  // of the gap
    int next_evaluation_ = 1, passes_ = 0;
};

}  // namespace multimargin::separation
