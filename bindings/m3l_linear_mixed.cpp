// The solvers of linear M3L in single precision on rows in double: a file of their own, since they take long to compile.
#include "core/m3l/linear_fit.hpp"

namespace multimargin::m3l {

template LinearSolution<float> solve_linear(const LinearProblem<ReadAs<DenseRows<double>, float>>&, const fit::Limits&,
                                            std::optional<double>, const LinearStart<float>&, bool, Control&);
template LinearSolution<float> solve_linear(const LinearProblem<ReadAs<CsrRows<double>, float>>&, const fit::Limits&,
                                            std::optional<double>, const LinearStart<float>&, bool, Control&);

}  // namespace multimargin::m3l
