#pragma once
// Linear M3L: max-margin multi-label learning with a prior R on label correlations.
//
//   primal   P(Z) = 1/2 tr(Z R^+ Z') + sum_il c_il max(0, m_il - y_il z_l.x_i)
//   dual     D(b) = sum_il m_il b_il - 1/2 tr(V R V'),    0 <= b_il <= c_il
//            V = sum_i x_i (b_i o y_i)',   Z = V R
//
// R is positive semidefinite and never inverted; Z stays in its range, so P - D >= 0 certifies any feasible b even
// if R is singular. y in {-1, 1}; c_il = 0 for an unknown label. The margin m_il >= 0 is 1 unless the user says
// otherwise, times y_il (R y_i)_l for the loss that depends on the prior. x_i has a last, constant feature `bias`.
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

#include "core/base/matrix.hpp"
#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/labels/cells.hpp"

namespace multimargin::m3l {

using namespace labels;

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

// The certifier's word on the weights that an engine would return now and its dual variables (linear_certifier.hpp).
using Judge = std::function<fit::Bounds()>;

// Passes of coordinate ascent in the frame of fit/run.hpp, until the judge, if there is one, finds the gap within
// tolerance. An Engine offers
//   double pass(order, shrink, control)   one sweep over the rows in this order; returns the estimated gap
//   Bounds evaluate(share, control)       P and D by what it keeps; reactivates variables whose share of the gap
//                                         exceeds `share`
//   void restart(control)                 goes on from its dual variables alone
//   settled_gap                           relative gap from which on passes_left() is believed, unless another is given
// Where the engine sees a gap within tolerance and the judge does not, rounding has led the engine astray: it restarts,
// and after a few times the status is imprecise. The same in single precision where passes no longer halve the gap
// while their number doubles: double precision is needed. The engine hands over when it would take more passes than
// `patience`.
template <class Engine>
class AscentPasses {
  public:
    // warm: whether the engine starts at the solution of a problem much like this one.
    AscentPasses(Engine& engine, Index rows, Index cells, bool warm, Judge judge, double patience, std::uint64_t seed,
                 double settled_gap = Engine::settled_gap)
        : engine_(engine),
          settled_gap_(settled_gap),
          cells_(static_cast<double>(cells)),
          first_evaluation_(warm ? 1 : 4),
          passes_without_shrinking_(warm ? 1 : 2),
          next_evaluation_(first_evaluation_),
          judge_(std::move(judge)),
          patience_(patience),
          rng_(seed),
          order_(static_cast<std::size_t>(rows)) {
        std::iota(order_.begin(), order_.end(), 0);
    }

    void pass(const fit::Moment&, Control& control) {
        ++passes_;
        converged_ = stalled_ = false;
        rng_.shuffle(std::span(order_));
        estimates_.push_back(engine_.pass(order_, passes_ > passes_without_shrinking_, control));
    }

    bool pays(const fit::Moment& now) {
        promising_ = passes_ > first_evaluation_ && expected_gap() <= now.tolerated();
        due_ = passes_ >= next_evaluation_;
        return promising_ || due_;
    }

    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        constexpr int first_stall = 64, most_contradictions = 3;
        constexpr bool single = std::is_same_v<typename Engine::T, float>;
        const double tol = now.limits.tol;
        fit::Bounds found = now.bounds;
        bool refused = false;
        const auto ask_judge = [&] {
            found = judge_();
            converged_ = found.within(tol);
            refused = !converged_;
        };
        // The judge's look costs about three of the engine's: a doubtful gap is shown to the engine first.
        if (judge_ && promising_ && expected_gap() <= 0.8 * now.tolerated()) ask_judge();
        if (converged_) return found;
        found = engine_.evaluate(0.1 * tol * std::max(found.primal, 0.0) / cells_, control);
        const double estimate = estimates_.back();
        optimism_ = estimate > 0 ? std::clamp(found.gap() / estimate, 0.2, 2.0) : 1.0;
        converged_ = found.within(tol);
        if (converged_ && judge_ && !refused) {
            ask_judge();
        } else if (converged_ && refused) {
            converged_ = false;
            stalled_ = ++contradictions_ == most_contradictions;
            engine_.restart(control);
        }
        if (due_) {
            next_evaluation_ = std::max(4, 2 * next_evaluation_);
            stalled_ |= single && passes_ >= first_stall && !(found.gap() < 0.5 * gap_before_);
            gap_before_ = found.gap();
        }
        return found;
    }

    bool converged(const fit::Moment&) const { return converged_; }

    Status gives_up(const fit::Moment& now) const {
        constexpr int first_hand_over = 8;
        const bool foreseeable = estimates_.back() <= settled_gap_ * now.bounds.primal;
        if (passes_ >= first_hand_over && (foreseeable || passes_ >= patience_) &&
            passes_left(estimates_, now.tolerated()) > patience_)
            return Status::hand_over;
        return stalled_ ? Status::imprecise : Status::converged;
    }

  private:
    double expected_gap() const { return optimism_ * estimates_.back(); }

    Engine& engine_;
    double settled_gap_, cells_;
    int first_evaluation_, passes_without_shrinking_, next_evaluation_;
    Judge judge_;
    double patience_;
    Rng rng_;
    std::vector<std::int32_t> order_;
    std::vector<double> estimates_;
    double optimism_ = 1.0;                                        // true gap / estimated gap at the last evaluation
    double gap_before_ = std::numeric_limits<double>::infinity();  // at half of the passes
    int passes_ = 0, contradictions_ = 0;
    bool promising_ = false, due_ = false, converged_ = false, stalled_ = false;
};

}  // namespace multimargin::m3l
