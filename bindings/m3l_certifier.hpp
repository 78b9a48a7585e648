#pragma once
// The certifier of linear M3L, as solvers called from Python use it: what the solver proposes is what Python will
// return.
#include "bindings/labels.hpp"
#include "core/m3l/linear.hpp"
#include "core/m3l/linear_certifier.hpp"

namespace multimargin::bindings {

using namespace labels;
using namespace m3l;

template <RowMatrix X>
class Certifier {
  public:
    // arguments: (costs in double, targets or None, forms or None); forms(weights, V) -> (tr(Z R^+ Z'), tr(V R V')) for
    // a prior R, which is I otherwise.
    Certifier(const X& x, Index labels, const nb::object& positives, const nb::object& missing,
              const nb::tuple& arguments, double bias, int threads)
        : x_(x), bias_(bias), threads_(threads), forms_(arguments[2]) {
        const auto costs = nb::cast<nb::tuple>(arguments[0]);
        const nb::object targets = arguments[1];
        cells_ = {x.rows(),
                  labels,
                  cell_list(positives, x.rows(), labels),
                  cell_list(missing, x.rows(), labels),
                  cell_costs<double>(costs, x.rows(), labels),
                  targets.is_none() ? nullptr : matrix_of<double>(targets, x.rows(), labels).data()};
    }

    // weights: labels x (cols + 1), the last column the intercepts. Called with the GIL.
    template <class W, class Beta>
    Evaluation operator()(const nb::object& weights, const Beta& beta, Control& control) const {
        const auto Z = matrix_of<W>(weights, cells_.labels, x_.cols() + 1);
        LinearSums sums;
        const auto compute = [&](double* V) {
            nb::gil_scoped_release release;
            sums = linear_sums(x_, cells_, bias_, Z.data(), beta, V, threads_, control);
        };
        if (forms_.is_none()) {
            compute(nullptr);
        } else {
            const auto V = new_array<double>(
                {static_cast<std::size_t>(x_.cols() + 1), static_cast<std::size_t>(cells_.labels)}, compute);
            const nb::tuple forms = nb::cast<nb::tuple>(forms_(weights, V));
            sums.weights = nb::cast<double>(forms[0]);
            sums.duals = nb::cast<double>(forms[1]);
        }
        return {.primal = 0.5 * sums.weights + sums.hinge, .dual = sums.linear - 0.5 * sums.duals};
    }

  private:
    const X& x_;
    double bias_;
    int threads_;
    nb::object forms_;
    Cells cells_;
};

// The solver proposes, the certifier disposes: solve() runs until the solver believes in its solution, propose() hands
// out the weights, certify(weights) judges them. A solution that is refused is worked on further, from a clean state
// and to a smaller gap; after a few refusals the status is imprecise.
template <class Solve, class Propose, class Certify, class Restart>
M3LResult run_certified(const M3LParams& limits, Solve&& solve, Propose&& propose, Certify&& certify,
                        Restart&& restart) {
    constexpr int most_refusals = 3;
    M3LParams params = limits;
    for (int refusals = 1;; ++refusals) {
        M3LResult result = solve(params);
        if (result.status == Status::hand_over) return result;
        propose();
        result.certificate = certify();
        const bool holds = result.certificate.within(limits.tol);
        if (result.status != Status::converged) {
            if (holds && result.status != Status::stopped) result.status = Status::converged;
            return result;
        }
        if (holds) return result;
        result.status = Status::imprecise;
        if (refusals == most_refusals) return result;
        if (result.passes >= limits.max_iter) {
            result.status = Status::max_iter;
            return result;
        }
        params.passes_before = result.passes;
        params.tol *= 0.5;
        restart();
    }
}

}  // namespace multimargin::bindings
