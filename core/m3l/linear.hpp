#pragma once
// Linear M3L: max-margin multi-label learning with a prior R on label correlations.
//
//   primal   P(Z) = 1/2 tr(Z R^+ Z') + sum_il c_il max(0, m_il - y_il z_l.x_i)
//   dual     D(b) = sum_il m_il b_il - 1/2 tr(V R V'),    0 <= b_il <= c_il
//            V = sum_i x_i (b_i o y_i)',   Z = V R
//
// R is positive semidefinite and never inverted; Z stays in its range, so P - D >= 0 certifies any feasible b even
// if R is singular. y in {-1, 1}; c_il = 0 for an unknown label. m_il = 1, or y_il (R y_i)_l for the loss that
// depends on the prior. x_i has a last, constant feature `bias`.
//
// Method: row-block dual coordinate ascent. Solvers keep the signed beta = y o b and V row-major, so that the
// weights of one feature for all labels are neighbours. A visit to row i reads its scores s = V' x_i once for all
// labels, takes an exact one-coordinate step in each label, and adds x_i (change of beta_i)' to V. Rows come in a
// fresh random order each pass: a fixed order stalls the primal. From pass to pass V is held back by a proximal term
// (proximal_state.hpp), so that V is not quite the V(b) of the dual variables.
//   linear_separable.hpp   R = I: labels do not interact, one vector operation steps a chunk of labels
//   linear_coupled.hpp     other R: labels of a row are stepped one after the other, prior.hpp keeps their scores right
// Where that would take long and features are few, newton.hpp and newton_coupled.hpp take over.
//
// Stopping: (P - D) <= tol P, both evaluated over all rows. With t = m - y z and lead = V(b) - V,
// P - D = sum_il [c max(t, 0) - b t] + 1/2 tr(lead R lead'), every term >= 0; the first sum collected during a pass
// estimates the gap and tells when an evaluation pays.
// Shrinking leaves out variables that sit firmly at a bound; evaluation brings back every one that should move, so
// it cannot stop early with a wrong answer. Cost of a pass: one multiply-add per stored entry of X and active label.
//
// Rounding: with V and lead from the arrays kept by the solver and V(b) = V + lead + E,
//   D = sum m b - tr(V(b) R V') + 1/2 tr(V R V') - 1/2 tr(lead R lead')
// up to terms in E lead, which is small, and E E. P belongs to the returned V; both are summed in double.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/control.hpp"
#include "core/base/matrix.hpp"
#include "core/base/rng.hpp"
#include "core/labels/cells.hpp"

namespace multimargin::m3l {

using namespace labels;

struct M3LParams {
    double tol;
    int max_iter;
    int threads;
    std::uint64_t seed;
    int passes_before = 0;  // passes of another solver, which count
    // hand over when coordinate ascent would take more passes than this
    double patience = std::numeric_limits<double>::infinity();
};

struct Evaluation {
    double primal, dual;
    double gap() const { return primal - dual; }
    bool within(double tol) const { return gap() <= tol * primal && gap() >= -1e-3 * tol * primal - 1e-9 * primal; }
};

struct M3LResult {
    Evaluation certificate;
    int passes;
    Status status;
};

// Squared lengths of the rows, without the constant feature.
template <RowMatrix X>
std::vector<typename X::value_type> squared_norms(const X& x) {
    std::vector<typename X::value_type> squares(static_cast<std::size_t>(x.rows()));
    for (Index i = 0; i < x.rows(); ++i) squares[static_cast<std::size_t>(i)] = squared_norm(x.row(i));
    return squares;
}

template <class T>
double mean(const std::vector<T>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A row without curvature takes its full step at once.
template <class T>
MULTIMARGIN_INLINE T step_length(T curvature) {
    return curvature > 0 ? 1 / curvature : T(1e30);
}

// How much of dual variables to start from, given sum m b and tr(V R V') of them: all, unless the dual value along them
// is largest well before. Where C or the constant feature is large, the solution of another problem may lie so far
// outside that no number of passes would bring it back.
inline double start_length(double linear, double square) {
    constexpr double tolerated = 0.5;
    return linear < tolerated * square ? std::max(linear, 0.0) / square : 1.0;
}

// Passes that coordinate ascent still needs if the gap goes on falling like a power of their number, from its estimates
// at half of the passes and now.
inline double passes_left(const std::vector<double>& estimates, double goal) {
    const std::size_t passes = estimates.size(), half = passes / 2;
    const double now = estimates.back(), before = estimates[passes - 1 - half];
    if (now <= goal) return 0.0;
    if (now >= before) return std::numeric_limits<double>::infinity();
    const double doublings = std::log(now / goal) / std::log(before / now);
    return (std::exp2(doublings) - 1) * static_cast<double>(passes);
}

// Judges the weights that an engine would return now and its dual variables, from the data alone (linear_certifier.hpp).
using Judge = std::function<Evaluation()>;

// Runs passes of an engine until the judge, if there is one, finds the gap within tolerance. An Engine offers
//   double pass(order, shrink, control)   one sweep over the rows in this order; returns the estimated gap
//   Evaluation evaluate(share, control)   P and D by what it keeps; reactivates variables whose share of the gap
//                                         exceeds `share`
//   void restart(control)                 goes on from its dual variables alone
//   settled_gap                           relative gap from which on passes_left() is believed
// Where the engine sees a gap within tolerance and the judge does not, rounding has led the engine astray: it restarts,
// and after a few times the status is imprecise. The same in single precision where passes no longer halve the gap
// while their number doubles: double precision is needed.
// warm: whether the engine starts at the solution of a problem much like this one.
template <class Engine>
M3LResult run_passes(Engine& engine, Index rows, Index cells, bool warm, const Judge& judge, const M3LParams& params,
                     Control& control) {
    const int first_evaluation = warm ? 1 : 4;
    const int passes_without_shrinking = warm ? 1 : 2;
    constexpr int first_hand_over = 8, first_stall = 64, most_contradictions = 3;
    constexpr bool single = std::is_same_v<typename Engine::T, float>;
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    Rng rng(params.seed);

    Evaluation last{0.0, 0.0};
    double gap_before = std::numeric_limits<double>::infinity();  // at half of the passes
    std::vector<double> estimates;
    double optimism = 1.0;  // true gap / estimated gap at the last evaluation
    int next_evaluation = first_evaluation, contradictions = 0;
    for (int pass = 1;; ++pass) {
        rng.shuffle(std::span(order));
        const double estimate = engine.pass(order, pass > passes_without_shrinking, control);
        estimates.push_back(estimate);
        const int count = params.passes_before + pass;
        const bool final_pass = count >= params.max_iter;
        const bool promising = pass > first_evaluation && optimism * estimate <= params.tol * last.primal;
        const bool due = pass >= next_evaluation;
        Progress progress{.pass = count, .time = control.elapsed()};
        bool converged = false, refused = false, stalled = false;
        const auto ask_judge = [&] {
            last = judge();
            converged = last.within(params.tol);
            refused = !converged;
        };
        // The judge's look costs about three of the engine's: a doubtful gap is shown to the engine first.
        if (judge && promising && optimism * estimate <= 0.8 * params.tol * last.primal) ask_judge();
        if (!converged && (promising || due || final_pass || control.stopped())) {
            const double share = 0.1 * params.tol * std::max(last.primal, 0.0) / static_cast<double>(cells);
            last = engine.evaluate(share, control);
            optimism = estimate > 0 ? std::clamp(last.gap() / estimate, 0.2, 2.0) : 1.0;
            converged = last.within(params.tol);
            if (converged && judge && !refused) ask_judge();
            if (converged && refused) {
                converged = false;
                if (++contradictions == most_contradictions) stalled = true;
                engine.restart(control);
            }
            if (due) {
                next_evaluation = std::max(4, 2 * next_evaluation);
                stalled |= single && pass >= first_stall && !(last.gap() < 0.5 * gap_before);
                gap_before = last.gap();
            }
        }
        progress.evaluated = converged || promising || due || final_pass || control.stopped();
        progress.primal = last.primal;
        progress.dual = last.dual;
        progress.time = control.elapsed();
        const bool stop = control.tick(progress);
        if (converged) return {last, count, Status::converged};
        if (stop && progress.evaluated) return {last, count, control.reason()};
        if (final_pass) return {last, count, Status::max_iter};
        if (stop) return {engine.evaluate(0.0, control), count, control.reason()};
        const bool foreseeable = estimate <= Engine::settled_gap * last.primal;
        if (pass >= first_hand_over && (foreseeable || pass >= params.patience) &&
            passes_left(estimates, params.tol * last.primal) > params.patience)
            return {last, count, Status::hand_over};
        if (stalled) return {last, count, Status::imprecise};
    }
}

}  // namespace multimargin::m3l
