#pragma once
// LIBSVM and XMC: what was read, written again, reads the same.

#include <charconv>

#include "core/text/sparse.hpp"
#include "fuzz/text/target.hpp"

namespace multimargin::text {

inline std::string written(const SparseText& table, bool header) {
    std::string out;
    const auto rows = table.labels.offsets.size() - 1;
    if (header)
        out +=
            std::to_string(rows) + " " + std::to_string(table.n_features) + " " + std::to_string(table.n_labels) + "\n";
    for (std::size_t row = 0; row < rows; ++row) {
        std::string line;
        for (auto k = table.labels.offsets[row]; k < table.labels.offsets[row + 1]; ++k)
            line += (line.empty() ? "" : ",") + std::to_string(table.labels.columns[static_cast<std::size_t>(k)]);
        for (auto k = table.features.offsets[row]; k < table.features.offsets[row + 1]; ++k) {
            char digits[64];
            const auto end = std::to_chars(digits, digits + 64, table.features.values[static_cast<std::size_t>(k)]).ptr;
            line += " " + std::to_string(table.features.columns[static_cast<std::size_t>(k)]) + ":";
            line.append(digits, end);
        }
        if (line.empty() && !header) line = " 0:0";  // without a header an empty line is no row
        out += line + "\n";
    }
    return out;
}

template <class Read>
void check_sparse(std::string_view text, Read read, bool header) {
    NoControl control;
    SparseText table;
    try {
        table = read(text, fuzz_bytes, control);
    } catch (const TextError&) {
        return;
    }
    promise(table.features.offsets.size() == table.labels.offsets.size());
    check_rows(table.features.columns, table.features.offsets, table.n_features);
    check_rows(table.labels.columns, table.labels.offsets, table.n_labels);
    check_values(table.features.values, false);
    promise(!header || table.n_rows + 1 == static_cast<std::int64_t>(table.labels.offsets.size()));
    const std::string again = written(table, header);
    const SparseText same = read(again, fuzz_bytes, control);
    promise(same.features.columns == table.features.columns && same.features.offsets == table.features.offsets);
    promise(same.features.values == table.features.values);
    promise(same.labels.columns == table.labels.columns && same.labels.offsets == table.labels.offsets);
}

}  // namespace multimargin::text
