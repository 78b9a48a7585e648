#pragma once
// Linear M3L from the data to certified weights: which solver works when (problem and notation: linear.hpp).
//
// Coordinate ascent (linear_separable.hpp, linear_coupled.hpp) begins. Where features are few (at most 1000, fewer than
// rows) and it would take more passes than a Newton finish is worth, the finish takes over (newton.hpp,
// newton_coupled.hpp): 400 passes for sparse rows; for dense ones, where the finish forms matrices with a row and a
// column per feature, as many as those cost, 45 to 90 on 120 features, 250 to 300 on 252. With a prior a third of that,
// or 1000 where rows are few.
//
// A prior spread over many directions ("mild") starts from the problem with the diagonal of R alone, which is one with
// R = I, costs c_l R_ll and dual variables that grow alike: its passes are cheaper, and the Newton finish for
// independent labels chooses its steps label by label and makes progress even from afar. Where only coordinate ascent
// can serve, a few such passes are a head start; more of them soon lead astray.
// The dual variables go from solver to solver here; nobody outside sees them before the last one has finished.

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/fit/certified.hpp"
#include "core/m3l/linear_coupled.hpp"
#include "core/m3l/linear_problem.hpp"
#include "core/m3l/linear_separable.hpp"
#include "core/m3l/newton_coupled.hpp"

namespace multimargin::m3l {

template <RowMatrix X>
class LinearFit {
  public:
    using T = typename X::value_type;
    using Solution = LinearSolution<T>;

    LinearFit(const LinearProblem<X>& problem, const fit::Limits& limits, std::optional<double> patience,
              Control& control)
        : p_(problem),
          limits_(limits),
          patience_(patience),
          control_(control),
          rows_(problem.x.rows()),
          labels_(problem.cells.labels),
          columns_(problem.x.cols() + 1),
          cells_(problem.cells) {
        constexpr double least_passes = 4.0;
        limits_.threads = threads_for_work(least_passes * work_of_product(p_.x, labels_), limits.threads);
        if (!p_.prior) return;
        diagonal_.assign(p_.prior->diagonal.begin(), p_.prior->diagonal.end());
        if (may_refine() && p_.prior->root) coupling_ = coupling();
    }

    Solution solve(const LinearStart<T>& start, bool keep) {
        near_ = start.weights != nullptr;
        Solution found = p_.prior ? solve_coupled(start, keep) : solve_separable(start, keep);
        if (!keep && found.result.status != Status::imprecise) found.beta = {};
        return found;
    }

  private:
    static constexpr double unlimited = std::numeric_limits<double>::infinity();
    enum class Problem { whole, alone };  // alone: with the diagonal of R

    bool may_refine() const { return newton_may_serve(rows_, p_.x.cols()) && patience_.value_or(0.0) < unlimited; }

    // Passes of coordinate ascent that a Newton finish is worth; from weights nearby it takes a third of its iterations.
    double patience(bool near, bool coupled) const {
        if (!may_refine()) return unlimited;
        if (patience_) return *patience_;
        if (p_.prior && is_crowded()) return crowded_passes;
        const auto n = static_cast<double>(p_.x.cols());
        const double worth = is_dense<X> ? std::clamp(n * n * n / 36000, 16.0, 300.0) : 400.0;
        return near || coupled ? worth / 3 : worth;
    }

    // Few rows for their features are nearly separable: the gap hardly moves for tens of passes, then falls fast. With a
    // prior a Newton finish makes slow work of that: 322 rows of 271 features that are not scaled, 19 labels, took 165
    // passes, 0.13 s, where the finish had come to a gap of 2e-2 after 1.5 s; 400 rows of 120 features 0.15 s instead of
    // 0.47. Of 391 rows of 72 features (emotions) the finish is done when coordinate ascent stands at 4e-2 after 5000
    // passes.
    bool is_crowded() const { return rows_ < 4 * p_.x.cols(); }
    static constexpr double crowded_passes = 1000;

    Solution solve_separable(const LinearStart<T>& start, bool keep) {
        if (start.weights && start.after_newton && may_refine())
            return refine(start.beta, limits_.passes_before, start.weights);
        Solution found = ascend(start.beta, keep, Problem::whole, limits_);
        if (found.result.status != Status::hand_over) return found;
        return refine(found.beta.data(), found.result.passes, start.weights);
    }

    Solution solve_coupled(const LinearStart<T>& start, bool keep) {
        const bool goes_on = start.beta && !start.after_newton && is_crowded();
        if (coupling_ && p_.prior->mild && is_wide() && !goes_on) return solve_wide(start, keep);
        constexpr int head_start = 5;  // passes
        Solution first;
        fit::Limits limits = limits_;
        const T* beta = start.beta;
        if (!beta && !coupling_ && p_.prior->mild) {
            first = probe(head_start);
            from_alone(first.beta);
            beta = first.beta.data();
            limits.passes_before = first.result.passes;
            if (control_.stopped() || first.result.passes >= limits_.max_iter) {
                // what is left to do is the certificate of this point
                limits.passes_before = first.result.passes - 1;
                limits.max_iter = first.result.passes;
                limits.telling = fit::Telling::nothing;
                Solution last = ascend(beta, keep, Problem::whole, limits);
                if (last.result.status == Status::max_iter) last.result.status = first.result.status;
                return last;
            }
        }
        Solution found = ascend(beta, keep, Problem::whole, limits);
        if (found.result.status != Status::hand_over) return found;
        return refine_coupled(found.beta.data(), found.result.passes, nullptr, limits_);
    }

    // Where products with X are cheaper label by label than through the root of R.
    bool is_wide() const {
        const Index rank = coupling_->rank, features = p_.x.cols();
        return rank * (features + labels_) >= features * labels_;
    }

    Solution solve_wide(const LinearStart<T>& start, bool keep) {
        // After these passes it is mostly clear which solver suits; then the relative gap to solve to for a start.
        constexpr int probe_passes = 24;
        constexpr double probe_tol = 0.1;
        if (start.beta && start.weights) return refine_wide(start.beta, limits_.passes_before, start.weights);
        Solution found = probe(probe_passes);
        const Status status = found.result.status;
        if ((status == Status::max_iter || status == Status::converged) && found.result.passes < limits_.max_iter) {
            from_alone(found.beta);
            fit::Limits rest = limits_;
            rest.passes_before = found.result.passes;
            found = ascend(found.beta.data(), keep, Problem::whole, rest);
            if (found.result.status != Status::hand_over) return found;
            to_alone(found.beta);
        }
        if (found.result.status == Status::hand_over) {
            fit::Limits first = limits_;
            first.passes_before = found.result.passes;
            first.tol = std::max(probe_tol, limits_.tol);
            first.telling = fit::Telling::passes;
            found = refine_separable(found.beta.data(), nullptr, Problem::alone, first);
        }
        from_alone(found.beta);
        const Buffer<T> near = nearby(std::move(found.weights));
        if (found.result.status == Status::converged)
            return refine_wide(found.beta.data(), found.result.passes, near.data());
        // Stopped: the certificate of this point is all that is left to do.
        fit::Limits last = limits_;
        last.max_iter = found.result.passes;
        last.telling = fit::Telling::nothing;
        Solution end = refine_coupled(found.beta.data(), found.result.passes - 1, near.data(), last);
        if (end.result.status == Status::max_iter) end.result.status = found.result.status;
        return end;
    }

    // Labels in batches; if that creeps, all labels together with one common tau and theta. (It took 20 to 40 iterations
    // to a gap of 1e-3 and 35 to 110 to 1e-4; with a prior close to the identity and a small C, over 1000 to 1e-6.)
    Solution refine_wide(const T* beta, int passes, const T* weights) {
        constexpr int most_iterations = 300;
        fit::Limits limits = limits_;
        limits.max_iter = std::min(limits_.max_iter, passes + most_iterations);
        Solution found = refine_coupled(beta, passes, weights, limits);
        if (found.result.status == Status::max_iter && limits.max_iter < limits_.max_iter)
            return refine_coupled(found.beta.data(), found.result.passes, nullptr, limits_);
        return found;
    }

    Solution probe(int passes) {
        fit::Limits limits = limits_;
        limits.max_iter = std::min(passes, limits_.max_iter);
        limits.telling = fit::Telling::passes;
        return ascend(nullptr, true, Problem::alone, limits);
    }

    // Coordinate ascent. Dual variables are returned where they are kept or another solver goes on from them.
    Solution ascend(const T* beta, bool keep, Problem which, const fit::Limits& limits) {
        if (!p_.prior || which == Problem::alone) {
            const auto alone = alone_cells(which);
            SeparableEngine<X> engine(p_.x, alone ? *alone : cells_, static_cast<T>(p_.bias), limits.threads);
            engine.prepare(control_);
            const auto weigh = [&](T* weights) {
                if (engine.state_is_aside()) return;  // they are the weights already
                engine.copy_weights(weights, control_);
                scale_constant(weights, p_.bias);
                engine.set_aside_state();
            };
            return ascend(engine, beta, keep, which, limits, weigh,
                          [&](const T* weights) { engine.take_back_state(weights); });
        }
        return with_prior<T>(p_.prior->arrays, labels_, [&](const auto& prior, Index width) {
            CoupledEngine engine(p_.x, cells_, prior, static_cast<T>(p_.bias), limits.threads);
            const auto weigh = [&](T* weights) {
                std::vector<T> state(static_cast<std::size_t>(columns_ * width));
                engine.copy_state(state.data(), width);
                p_.products.weigh(state.data(), width, weights);
            };
            return ascend(engine, beta, keep, which, limits, weigh, [](const T*) {});
        });
    }

    // weigh(weights): fills in those to return; go_on(weights): called where they are refused on the way.
    template <class Engine, class Weigh, class GoOn>
    Solution ascend(Engine& engine, const T* beta, bool keep, Problem which, const fit::Limits& limits, Weigh&& weigh,
                    GoOn&& go_on) {
        Solution found;
        const auto propose = [&] {
            if (!found.weights.size()) found.weights = room_for_weights();
            weigh(found.weights.data());
        };
        const bool certified = which == Problem::whole;
        const Judge judge = [&] {
            propose();
            return bounds(found.weights.data(), [&](Index i, Index first, Index count, double* out) {
                engine.read_beta(i, first, count, out);
            });
        };
        const Judge judge_on_the_way = [&] {
            const auto value = judge();
            if (!value.within(limits.tol)) go_on(found.weights.data());
            return value;
        };
        if (beta) engine.start_from(beta, control_);
        const bool coupled = p_.prior && certified;
        AscentPasses passes(engine, rows_, rows_ * labels_, beta && limits.passes_before == 0,
                            certified ? judge_on_the_way : Judge(), patience(near_, coupled), limits.seed,
                            coupled && is_crowded() ? SeparableEngine<X>::settled_gap : Engine::settled_gap);
        found.result = fit::run(passes, limits, control_);
        engine.forget_centre();
        Status& status = found.result.status;
        if (status == Status::hand_over) {
            found.weights = {};
        } else if (!certified) {
            propose();
        } else if (status != Status::converged) {
            found.result.bounds = judge();
            if (found.result.bounds.within(limits.tol) && status != Status::stopped) status = Status::converged;
        }
        if (keep || status == Status::hand_over || status == Status::imprecise) {
            found.beta.resize(static_cast<std::size_t>(rows_ * labels_));
            engine.copy_beta(found.beta.data());
        }
        return found;
    }

    Solution refine(const T* beta, int passes, const T* weights) {
        fit::Limits limits = limits_;
        limits.passes_before = passes;
        return refine_separable(beta, weights, Problem::whole, limits);
    }
    Solution refine_separable(const T* beta, const T* weights, Problem which, const fit::Limits& limits) {
        const auto alone = alone_cells(which);
        const Eigenbasis<T> basis = eigenbasis();
        NewtonEngine<X> engine(p_.x, alone ? *alone : cells_, static_cast<T>(p_.bias), &basis, limits.threads);
        return refine(engine, beta, weights, which, limits);
    }
    // With weights, the root of R is applied to panels, not row by row.
    Solution refine_coupled(const T* beta, int passes, const T* weights, fit::Limits limits) {
        limits.passes_before = passes;
        const Eigenbasis<T> basis = eigenbasis();
        CoupledNewton<X> engine(p_.x, cells_, static_cast<T>(p_.bias), *coupling_, basis, weights != nullptr,
                                limits.threads);
        return refine(engine, beta, weights, Problem::whole, limits);
    }

    template <class Engine>
    Solution refine(Engine& engine, const T* beta, const T* weights, Problem which, const fit::Limits& limits) {
        Solution found;
        found.newton = true;
        found.weights = room_for_weights();
        found.beta.resize(static_cast<std::size_t>(rows_ * labels_));
        const auto solve = [&](const fit::Limits& now) {
            NewtonIterations iterations(engine);
            const fit::FitResult result = fit::run(iterations, now, control_);
            engine.finish();
            return result;
        };
        const auto propose = [&] {
            engine.copy_weights(found.weights.data());
            scale_constant(found.weights.data(), p_.bias);
            if (p_.prior && which == Problem::whole) p_.products.into_range(found.weights.data());
            engine.copy_beta(found.beta.data());
        };
        engine.start_from(beta, weights, control_);
        if (which == Problem::alone) {
            found.result = solve(limits);
            propose();
            return found;
        }
        const auto certify = [&] {
            const T* values = found.beta.data();
            return bounds(found.weights.data(), [&](Index i, Index first, Index count, double* out) {
                std::copy_n(values + i * labels_ + first, count, out);
            });
        };
        const auto restart = [&] { engine.start_from(found.beta.data(), weights, control_); };
        found.result = fit::run_certified(limits, solve, propose, certify, restart);
        return found;
    }

    template <class Beta>
    fit::Bounds bounds(const T* weights, const Beta& beta) {
        std::function<PriorForms(const double*)> forms;
        if (p_.prior) forms = [&](const double* V) { return p_.products.forms(weights, V); };
        return linear_bounds(as_stored(p_.x), p_.cells, p_.bias, weights, beta, forms, limits_.threads, control_);
    }

    Coupling<T> coupling() const {
        const Index rank = p_.prior->root_rank;
        const double* root = p_.prior->root;
        Coupling<T> result{std::vector<T>(root, root + labels_ * rank), std::vector<T>(root, root + labels_ * rank),
                           labels_, rank, p_.prior->eigen};
        for (Index l = 0; l < labels_; ++l)
            for (Index k = 0; k < rank; ++k) result.Pt[k * labels_ + l] = result.P[l * rank + k];
        return result;
    }

    Eigenbasis<T> eigenbasis() {
        if (!basis_) basis_ = p_.eigenbasis();
        return {basis_->Q.data(), basis_->Qt.data(), basis_->values};
    }

    std::optional<LabelCells<T>> alone_cells(Problem which) const {
        if (!p_.prior || which == Problem::whole) return std::nullopt;
        return std::optional<LabelCells<T>>(std::in_place, p_.cells, diagonal_.data());
    }
    void to_alone(std::vector<T>& beta) const {
        for (std::size_t k = 0; k < beta.size(); ++k) beta[k] *= diagonal_[k % diagonal_.size()];
    }
    void from_alone(std::vector<T>& beta) const {
        for (std::size_t k = 0; k < beta.size(); ++k) {
            const T d = diagonal_[k % diagonal_.size()];
            beta[k] *= d > 0 ? 1 / d : T(0);
        }
    }

    // Between intercepts and the weights of the constant feature.
    void scale_constant(T* weights, double factor) const {
        for (Index l = 0; l < labels_; ++l) weights[l * columns_ + columns_ - 1] *= static_cast<T>(factor);
    }
    Buffer<T> room_for_weights() const { return Buffer<T>(static_cast<std::size_t>(labels_ * columns_)); }
    Buffer<T> nearby(Buffer<T> weights) const {
        scale_constant(weights.data(), p_.bias ? 1 / p_.bias : 0.0);
        return weights;
    }

    const LinearProblem<X>& p_;
    fit::Limits limits_;
    std::optional<double> patience_;
    Control& control_;
    Index rows_, labels_, columns_;
    LabelCells<T> cells_;
    std::vector<T> diagonal_;
    std::optional<Coupling<T>> coupling_;
    std::optional<OwnedBasis<T>> basis_;
    bool near_ = false;  // whether the weights of a problem much like this one are known
};

template <RowMatrix X>
LinearSolution<typename X::value_type> solve_linear(const LinearProblem<X>& problem, const fit::Limits& limits,
                                                    std::optional<double> patience,
                                                    const LinearStart<typename X::value_type>& start, bool keep,
                                                    Control& control) {
    return LinearFit<X>(problem, limits, patience, control).solve(start, keep);
}

}  // namespace multimargin::m3l
