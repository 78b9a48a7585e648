#pragma once
// What every solver is given besides its problem, and what it reports besides its model.

#include <cstdint>

#include "core/base/control.hpp"

namespace multimargin::fit {

// What of a pass reaches the outside world: a solver may work on another problem than the user's for a start.
enum class Telling { bounds, passes, nothing };

struct Limits {
    double tol;    // relative gap at which training ends
    int max_iter;  // passes, those of a solver before included
    int threads;
    std::uint64_t seed;
    int passes_before = 0;
    Telling telling = Telling::bounds;
};

// An upper and a lower bound of the optimum.
struct Bounds {
    double primal = 0.0, dual = 0.0;

    double gap() const { return primal - dual; }
    // A lower bound above the upper one by more than rounding proves nothing.
    bool within(double tol) const { return gap() <= tol * primal && gap() >= -1e-3 * tol * primal - 1e-9 * primal; }
};

struct FitResult {
    Bounds bounds;
    int passes = 0;
    Status status = Status::max_iter;
    double oracle_exact = 1.0;  // share of the oracle calls behind the upper bound that were proved exact
};

}  // namespace multimargin::fit
