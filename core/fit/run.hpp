#pragma once
// The one loop of training: passes, evaluations, progress, limits.
//
// An engine offers
//   void pass(now, control)          one pass over the data
//   bool pays(now)                   whether an evaluation pays after this pass
//   Bounds evaluate(now, control)    bounds of the optimum at its present point; where a certifier has a say, its word
// and may offer
//   bool converged(now)              else: now.bounds.within(tol)
//   Status gives_up(now)             why to go no further, or Status::converged to go on: another solver would finish
//                                    sooner (hand_over), or rounding hides the gap (imprecise)
// The last pass, and one that was cut short, are evaluated whatever the engine thinks, so that the bounds returned are
// those of the point where it stands; `last_counts = false` spares this where nobody reads them.

#include "core/fit/result.hpp"

namespace multimargin::fit {

// Where training stands. After evaluate(), bounds are what it returned; before the first, those given to run().
struct Moment {
    const Limits& limits;
    int pass;
    Bounds bounds;
    bool evaluated = false;  // in this pass
    bool final_pass = false;
    bool stopped = false;

    double tolerated() const { return limits.tol * bounds.primal; }
};

template <class Engine>
FitResult run(Engine& engine, const Limits& limits, Control& control, Bounds first = {}, bool last_counts = true) {
    for (Moment now{limits, limits.passes_before + 1, first};; ++now.pass) {
        engine.pass(now, control);
        now.final_pass = now.pass >= limits.max_iter;
        now.stopped = control.stopped();
        now.evaluated = engine.pays(now) || (last_counts && (now.final_pass || now.stopped));
        if (now.evaluated) now.bounds = engine.evaluate(now, control);
        const bool stop = limits.telling == Telling::nothing
                              ? control.stopped()
                              : control.tick({.pass = now.pass,
                                              .time = control.elapsed(),
                                              .evaluated = now.evaluated && limits.telling == Telling::bounds,
                                              .primal = now.bounds.primal,
                                              .dual = now.bounds.dual});
        bool converged = now.evaluated;
        if constexpr (requires { engine.converged(now); })
            converged = converged && engine.converged(now);
        else
            converged = converged && now.bounds.within(limits.tol);
        if (converged) return {now.bounds, now.pass, Status::converged};
        if (stop && !now.evaluated && last_counts) now.bounds = engine.evaluate(now, control);
        if (stop) return {now.bounds, now.pass, control.reason()};
        if (now.final_pass) return {now.bounds, now.pass, Status::max_iter};
        if constexpr (requires { engine.gives_up(now); })
            if (const Status why = engine.gives_up(now); why != Status::converged) return {now.bounds, now.pass, why};
    }
}

}  // namespace multimargin::fit
