#pragma once
// What every target needs: a Control that never stops, and the promises of a table. A broken promise traps.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/text/table.hpp"

namespace multimargin::text {

constexpr std::size_t fuzz_bytes = 1 << 26;

class NoControl final : public Control {
  public:
    NoControl() : Control(std::numeric_limits<double>::infinity()) {}

  protected:
    bool report(const Progress&) override { return false; }
    void check_interrupt() override {}
};

inline void promise(bool kept) {
    if (!kept) __builtin_trap();
}

// Rows follow each other; columns of a row grow and exist.
inline void check_rows(const std::vector<std::int32_t>& columns, const std::vector<std::int64_t>& offsets,
                       Index width) {
    promise(!offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<std::int64_t>(columns.size()));
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
        promise(offsets[row] <= offsets[row + 1]);
        for (auto k = offsets[row]; k < offsets[row + 1]; ++k) {
            const auto column = columns[static_cast<std::size_t>(k)];
            promise(column >= 0 && column < width);
            promise(k == offsets[row] || columns[static_cast<std::size_t>(k - 1)] < column);
        }
    }
}

inline void check_values(const std::vector<double>& values, bool may_miss) {
    for (const double value : values) promise(std::isfinite(value) || (may_miss && std::isnan(value)));
}

// Reads the rows as the Python side asks for them: the last attributes are labels, nominal ones become one column per
// category, other types are left out.
template <class ReadRows>
void check_table(std::string_view text, const Header& header, ReadRows read_rows) {
    const auto width = header.attributes.size();
    for (const std::size_t n_labels : {std::size_t{0}, std::size_t{1}, width / 2}) {
        std::vector<std::int32_t> label_of(width, -1), column_of(width, -1);
        std::int32_t columns = 0;
        for (std::size_t a = 0; a < width; ++a) {
            const Attribute& attribute = header.attributes[a];
            if (attribute.kind == Kind::other) continue;
            if (a + n_labels >= width) {
                label_of[a] = static_cast<std::int32_t>(a + n_labels - width);
                continue;
            }
            column_of[a] = columns;
            columns += attribute.kind == Kind::nominal ? static_cast<std::int32_t>(attribute.categories.size()) : 1;
        }
        for (const bool missing_as_nan : {false, true}) {
            const Index text_at = missing_as_nan && width > n_labels ? 0 : -1;
            const bool dense = !header.sparse && missing_as_nan;
            try {
                NoControl control;
                Table table(header, {label_of, column_of, columns, dense, missing_as_nan, fuzz_bytes, text_at});
                read_rows(text, header, table, control);
                const auto rows = table.labels.offsets.size() - 1;
                check_rows(table.labels.columns, table.labels.offsets, static_cast<Index>(n_labels));
                check_rows(table.unknown.columns, table.unknown.offsets, static_cast<Index>(n_labels));
                promise(table.unknown.offsets.size() == rows + 1);
                promise(table.texts.size() == (text_at < 0 ? 0 : rows));
                if (dense) {
                    promise(table.dense.size() == rows * static_cast<std::size_t>(columns));
                } else {
                    promise(table.sparse.offsets.size() == rows + 1);
                    check_rows(table.sparse.columns, table.sparse.offsets, columns);
                }
                check_values(dense ? table.dense : table.sparse.values, missing_as_nan);
            } catch (const TextError&) {
            }
        }
    }
}

}  // namespace multimargin::text
