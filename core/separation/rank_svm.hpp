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

#include "core/base/control.hpp"
#include "core/base/memory.hpp"
#include "core/base/rng.hpp"
#include "core/numerics/row_products.hpp"

namespace multimargin::separation {

using namespace numerics;

struct LabelLists {
    std::span<const std::int64_t> offsets;
    std::span<const std::int32_t> labels;
    std::span<const std::int32_t> operator[](Index i) const {
        const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(i)]);
        return labels.subspan(begin, static_cast<std::size_t>(offsets[static_cast<std::size_t>(i + 1)]) - begin);
    }
};

struct RankResult {
    double primal, dual;
    int passes;
    Status status;
};

template <RowMatrix X>
class RankSolver {
  public:
    using Row = decltype(std::declval<const X&>().row(0));
    using Kernels = SeparationKernels<Row>;

    RankSolver(const X& x, Index labels, LabelLists positive, LabelLists negative, std::span<const double> cost,
               double bias)
        : x_(x),
          labels_(labels),
          positive_(positive),
          negative_(negative),
          cost_(cost),
          bias_(bias),
          state_(static_cast<std::size_t>(labels * (x.cols() + 1))),
          scores_(static_cast<std::size_t>(labels)),
          change_(static_cast<std::size_t>(labels)),
          all_(static_cast<std::size_t>(labels)),
          offsets_{0} {
        std::iota(all_.begin(), all_.end(), 0);
        for (Index i = 0; i < x.rows(); ++i) {
            norms_.push_back(squared_norm(x.row(i)) + bias * bias);
            offsets_.push_back(offsets_.back() + static_cast<Index>(positive[i].size() * negative[i].size()));
        }
        alpha_.assign(static_cast<std::size_t>(offsets_.back()), 0.0);
    }

    RankResult run(double tol, int max_iter, std::uint64_t seed, Control& control) {
        std::vector<std::int32_t> order(static_cast<std::size_t>(x_.rows()));
        std::iota(order.begin(), order.end(), 0);
        Rng rng(seed);
        double primal = 0.0, dual = 0.0;
        int next_evaluation = 1;
        for (int pass = 1;; ++pass) {
            rng.shuffle(std::span(order));
            double estimate = 0.0;
            for (const Index i : order) {
                if (control.leave_after(row_work(i))) break;
                if (offsets_[at(i)] < offsets_[at(i) + 1]) estimate += visit(i);
            }
            Progress progress{.pass = pass, .time = control.elapsed()};
            const bool final_pass = pass >= max_iter, stopped = control.stopped();
            const bool evaluated = pass == next_evaluation || estimate <= tol * primal || final_pass || stopped;
            if (evaluated) {
                if (pass == next_evaluation) next_evaluation *= 2;
                evaluate(control, primal, dual);
                progress = {pass, control.elapsed(), true, primal, dual};
            }
            const bool stop = control.tick(progress);
            if (evaluated && primal - dual <= tol * primal) return {primal, dual, pass, Status::converged};
            if (stop && !evaluated) evaluate(control, primal, dual);
            if (stop) return {primal, dual, pass, control.reason()};
            if (final_pass) return {primal, dual, pass, Status::max_iter};
        }
    }

    // labels x (cols + 1); the order in which the state is kept depends on the kind of rows.
    void copy_weights(double* out) const {
        const Index cols = x_.cols();
        for (Index k = 0; k < labels_; ++k)
            for (Index j = 0; j <= cols; ++j)
                out[k * (cols + 1) + j] = state_[at(Kernels::group > 1 ? k * (cols + 1) + j : j * labels_ + k)];
    }

    const std::vector<double>& alpha() const { return alpha_; }

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

    void evaluate(Control& control, double& primal, double& dual) {
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
        primal = 0.5 * squares + hinge;
        dual = linear - 0.5 * squares;
    }

    const X& x_;
    Index labels_;
    LabelLists positive_, negative_;
    std::span<const double> cost_;
    double bias_;
    Buffer<double> state_;
    std::vector<double> scores_, change_, norms_, alpha_;
    std::vector<std::int32_t> all_;
    std::vector<Index> offsets_;
};

}  // namespace multimargin::separation
