// The solvers of linear M3L in single precision: a file of their own, since they take long to compile.
#include "core/m3l/linear_fit.hpp"

namespace multimargin::m3l {

template class LinearFit<DenseRows<float>>;
template class LinearFit<CsrRows<float>>;

}  // namespace multimargin::m3l
