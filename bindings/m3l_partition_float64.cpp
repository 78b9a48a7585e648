// Parts of linear M3L in double precision: a file of their own, since they take long to compile.
#include "core/m3l/partition.hpp"

namespace multimargin::m3l {

template class Partition<DenseRows<double>>;
template class Partition<CsrRows<double>>;

}  // namespace multimargin::m3l
