#pragma once
// The solver proposes, the certifier disposes.
//
//   solve(limits)   runs until the solver believes in its solution
//   propose()       takes from it what would be returned
//   certify()       bounds of that, from the data alone
//   restart()       goes on from the proposal
// A solution that is refused is worked on further, from a clean state and to a smaller gap; after a few refusals the
// status is imprecise. A solver that gave up, but whose proposal the certifier accepts, has converged.

#include "core/fit/result.hpp"

namespace multimargin::fit {

template <class Solve, class Propose, class Certify, class Restart>
FitResult run_certified(const Limits& limits, Solve&& solve, Propose&& propose, Certify&& certify, Restart&& restart) {
    constexpr int most_refusals = 3;
    Limits now = limits;
    for (int refusals = 1;; ++refusals) {
        FitResult result = solve(now);
        if (result.status == Status::hand_over) return result;
        propose();
        result.bounds = certify();
        const bool holds = result.bounds.within(limits.tol);
        if (result.status != Status::converged) {
            if (holds && result.status != Status::stopped) result.status = Status::converged;
            return result;
        }
        if (holds) return result;
        result.status = result.passes >= limits.max_iter ? Status::max_iter : Status::imprecise;
        if (refusals == most_refusals || result.status == Status::max_iter) return result;
        now.passes_before = result.passes;
        now.tol *= 0.5;
        restart();
    }
}

}  // namespace multimargin::fit
