// Any bytes as CSV: a table that keeps its promises, or a TextError.
#include "core/text/csv.hpp"

#include "fuzz/text/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace multimargin::text;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const char delimiter : {'\0', ' '}) {
        try {
            check_table(text, read_csv_header(text, delimiter, fuzz_bytes), read_csv_rows);
        } catch (const TextError&) {
        }
    }
    return 0;
}
