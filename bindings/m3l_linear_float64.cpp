// The solvers of linear M3L in double precision: a file of their own, since they take long to compile.
#include "core/m3l/linear_fit.hpp"

namespace multimargin::m3l {

template class LinearFit<DenseRows<double>>;
template class LinearFit<CsrRows<double>>;

}  // namespace multimargin::m3l
