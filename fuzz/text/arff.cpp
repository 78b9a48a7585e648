// Any bytes as ARFF: a table that keeps its promises, or a TextError.
#include "core/text/arff.hpp"

#include "fuzz/text/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace multimargin::text;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        check_table(text, read_arff_header(text, fuzz_bytes), read_arff_rows);
    } catch (const TextError&) {
    }
    return 0;
}
