// Any bytes as LIBSVM: a table that reads back the same, or a TextError.
#include "fuzz/text/sparse_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace multimargin::text;
    check_sparse({reinterpret_cast<const char*>(data), size}, read_libsvm, false);
    return 0;
}
