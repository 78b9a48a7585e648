// Parts of linear M3L in single precision: a file of their own, since they take long to compile.
#include "core/m3l/partition.hpp"

namespace multimargin::m3l {

template class Partition<DenseRows<float>>;
template class Partition<CsrRows<float>>;

}  // namespace multimargin::m3l
