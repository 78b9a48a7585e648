// The solvers of linear M3L in double precision: a file of their own, since they take long to compile.
#include "core/m3l/linear_fit.hpp"

namespace multimargin::m3l {

template LinearSolution<double> solve_linear(const LinearProblem<DenseRows<double>>&, const fit::Limits&,
                                             std::optional<double>, const LinearStart<double>&, bool, Control&);
template LinearSolution<double> solve_linear(const LinearProblem<CsrRows<double>>&, const fit::Limits&,
                                             std::optional<double>, const LinearStart<double>&, bool, Control&);

}  // namespace multimargin::m3l
