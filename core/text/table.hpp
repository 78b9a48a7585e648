#pragma once
// Files whose columns are declared first and whose rows follow (ARFF, CSV): the declaration, and the rows as
// they become a feature matrix, dense or CSR, a CSR matrix of labels and one of unknown labels, and texts.

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text/scan.hpp"

namespace multimargin::text {

struct Token {
    std::string_view text;
    bool quoted = false;
};

enum class Kind { number, binary, nominal, other };

struct Attribute {
    std::string name;
    Kind kind = Kind::number;
    std::vector<std::string> categories;  // of a nominal attribute, in the order of the file
    Index line = 0;
};

struct Header {
    std::string relation;
    std::vector<Attribute> attributes;
    std::size_t rows_begin = 0;  // where the rows start in the text
    Index rows_line = 0;         // how many lines come before
    bool sparse = false;         // rows are lists of (column, value)
    bool csv = false;            // empty cells and NA are missing values, true and false are numbers, decimal commas
    char delimiter = ',';
};

// What the name of a column or of a category takes, here and in the lists of Python it becomes.
constexpr std::size_t bytes_of_name = 512;
// What a text takes beside its letters.
constexpr std::size_t bytes_of_text = 128;

inline void check_names(const std::vector<Attribute>& attributes, const char* what) {
    std::unordered_map<std::string_view, Index> lines;
    for (const Attribute& a : attributes)
        if (const auto [known, fresh] = lines.emplace(a.name, a.line); !fresh)
            fail(a.line, std::string("different names for all ") + what, a.name,
                 "rename one of the two" +
                     (known->second == a.line ? "" : " (the first is on line " + std::to_string(known->second) + ")"));
}

struct CsrMatrix {
    std::vector<double> values;
    std::vector<std::int32_t> columns;
    std::vector<std::int64_t> offsets{0};

    void append(const std::vector<std::pair<std::int32_t, double>>& row) {
        for (const auto& [column, value] : row) {
            columns.push_back(column);
            values.push_back(value);
        }
        offsets.push_back(static_cast<std::int64_t>(columns.size()));
    }
    std::size_t bytes() const { return 12 * columns.size() + 8 * offsets.size(); }
};

struct LabelRows {
    std::vector<std::int32_t> columns;
    std::vector<std::int64_t> offsets{0};

    void append(const std::vector<std::int32_t>& row) {
        columns.insert(columns.end(), row.begin(), row.end());
        offsets.push_back(static_cast<std::int64_t>(columns.size()));
    }
    std::size_t bytes() const { return 12 * columns.size() + 8 * offsets.size(); }  // with the ones of Python
};

// What becomes of each attribute: label_of >= 0: that label; else column_of >= 0: features from that column
// on (one column per category for a nominal attribute); else it is left out, but for the one whose texts are kept.
struct Plan {
    std::span<const std::int32_t> label_of;
    std::span<const std::int32_t> column_of;
    Index columns = 0;
    bool dense = false;
    bool missing_as_nan = false;
    std::size_t max_bytes = SIZE_MAX;
    Index text_at = -1;
};

// Sorts the entries of one row by column. True if a column occurs twice.
template <class Entry>
bool sort_row(std::vector<Entry>& row) {
    const auto by_column = [](const Entry& a, const Entry& b) { return a.first < b.first; };
    if (!std::is_sorted(row.begin(), row.end(), by_column)) std::sort(row.begin(), row.end(), by_column);
    return std::adjacent_find(row.begin(), row.end(),
                              [](const Entry& a, const Entry& b) { return a.first == b.first; }) != row.end();
}

class Table {
  public:
    Table(const Header& header, const Plan& plan);

    // One cell of the present row; `quoted` cells are never missing.
    void cell(std::size_t attribute, std::string_view token, bool quoted, Index line);
    // In a sparse row the attributes not mentioned have their first category, or 0: a short row may hold many cells.
    void end_row(Index line);
    // Makes room for the rows of a text, which has a line for each row and a byte or more for each cell.
    void expect(std::string_view text);

    std::vector<double> dense;
    CsrMatrix sparse;
    LabelRows labels;
    LabelRows unknown;               // labels of which it is not known whether they are present
    std::vector<std::string> texts;  // one for each row, if the plan names an attribute for them

  private:
    void put(std::size_t attribute, double value);
    double value_of(std::size_t attribute, std::string_view token, bool quoted, Index line);
    double number_of(std::size_t attribute, std::string_view token, Index line);
    double label_value(const Attribute& attribute, std::string_view token, Index line) const;
    void check_decimal_mark(std::string_view token, Index line);
    double category_of(std::size_t attribute, std::string_view token, Index line) const;
    bool is_missing(std::string_view token, bool quoted) const;
    void prepare_label(std::size_t attribute);

    const Header& header_;
    const Plan plan_;
    std::vector<std::unordered_map<std::string_view, int>> codes_;  // category -> number, for nominal attributes
    std::vector<std::size_t> nonzero_if_omitted_;
    std::vector<Index> last_row_;  // the last sparse row that mentions the attribute
    std::vector<std::pair<std::int32_t, double>> row_;
    std::vector<std::int32_t> row_labels_;
    std::vector<std::int32_t> row_unknown_;
    std::size_t text_bytes_ = 0;
    char decimal_mark_ = '\0';  // of the first number that has one
    Index rows_ = 0;
};

// Whether a label is present, by a word for it. False: it is no such word.
inline bool parse_answer(std::string_view token, double& out) {
    for (const auto* word : {"1", "true", "yes", "y"})
        if (same_word(token, word)) return out = 1.0, true;
    for (const auto* word : {"0", "false", "no", "n"})
        if (same_word(token, word)) return out = 0.0, true;
    return false;
}

[[noreturn]] inline void refuse_label(Index line, const std::string& label, std::string_view found) {
    const bool minus = found == "-1";
    fail(line, "0 or 1, or no or yes, for label " + shown(label), found,
         minus ? "write 0 for a label that is absent, and leave the cell empty (? in ARFF) if it is unknown"
               : "make a column of 0 and 1 for each value, or leave the column out with ignore=[" + shown(label) + "]");
}

inline Table::Table(const Header& header, const Plan& plan)
    : header_(header), plan_(plan), codes_(header.attributes.size()), last_row_(header.attributes.size(), -1) {
    for (std::size_t a = 0; a < header.attributes.size(); ++a) {
        const Attribute& attribute = header.attributes[a];
        if (plan.label_of[a] < 0 && plan.column_of[a] < 0) continue;
        if (attribute.kind == Kind::nominal) {
            for (std::size_t c = 0; c < attribute.categories.size(); ++c)
                codes_[a].emplace(attribute.categories[c], static_cast<int>(c));
            if (plan.label_of[a] >= 0)
                prepare_label(a);
            else
                nonzero_if_omitted_.push_back(a);
        } else if (attribute.kind == Kind::binary && attribute.categories.front() == "1") {
            nonzero_if_omitted_.push_back(a);
        }
    }
}

inline void Table::expect(std::string_view text) {
    if (!plan_.dense) return;
    const auto rows = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    const auto columns = static_cast<std::size_t>(plan_.columns);
    const auto most = std::min(text.size(), plan_.max_bytes / sizeof(double));
    dense.reserve(columns == 0 || rows > most / columns ? most : rows * columns);
}

// A nominal label is {false, true} in any order: its codes become 0 and 1.
inline void Table::prepare_label(std::size_t a) {
    const Attribute& attribute = header_.attributes[a];
    for (auto& [category, code] : codes_[a]) {
        double value = 0.0;
        if (!parse_answer(category, value)) refuse_label(attribute.line, attribute.name, category);
        code = static_cast<int>(value);
    }
    if (codes_[a].at(attribute.categories.front()) == 1) nonzero_if_omitted_.push_back(a);
}

inline bool Table::is_missing(std::string_view token, bool quoted) const {
    if (quoted && !token.empty()) return false;
    return token == "?" || (header_.csv && (token.empty() || token == "NA" || same_word(token, "nan")));
}

inline double Table::category_of(std::size_t a, std::string_view token, Index line) const {
    const auto found = codes_[a].find(token);
    if (found == codes_[a].end())
        fail(line, "one of the declared categories of attribute " + shown(header_.attributes[a].name), token,
             "declare the category in the @attribute line, or correct the value");
    return found->second;
}

inline double Table::value_of(std::size_t a, std::string_view token, bool quoted, Index line) {
    const Attribute& attribute = header_.attributes[a];
    const bool label = plan_.label_of[a] >= 0;
    if (is_missing(token, quoted)) {
        if (!label && !plan_.missing_as_nan)
            fail(line, "a value of attribute " + shown(attribute.name), token,
                 "pass missing=\"nan\" to read missing features as NaN");
        return std::nan("");
    }
    if (attribute.kind == Kind::nominal) return category_of(a, token, line);
    if (label) return label_value(attribute, token, line);
    const double value = number_of(a, token, line);
    if (attribute.kind == Kind::binary && value != 0.0 && value != 1.0)
        fail(line, "0 or 1 for attribute " + shown(attribute.name), token);
    return value;
}

inline double Table::label_value(const Attribute& attribute, std::string_view token, Index line) const {
    double value = 0.0;
    if (parse_answer(token, value)) return value;
    if (!parse_number(token, value) || (value != 0.0 && value != 1.0)) refuse_label(line, attribute.name, token);
    return value;
}

inline double Table::number_of(std::size_t a, std::string_view token, Index line) {
    double value = 0.0;
    const auto comma = header_.csv ? token.find(',') : token.npos;
    if (comma != token.npos && header_.delimiter != ',') {
        std::string with_point(token);
        with_point[comma] = '.';
        if (parse_number(with_point, value)) {
            check_decimal_mark(token, line);
            return value;
        }
    } else if (parse_number(token, value)) {
        if (header_.csv && header_.delimiter != ',') check_decimal_mark(token, line);
        return value;
    }
    const bool yes = header_.csv && same_word(token, "true");
    if (!yes && !(header_.csv && same_word(token, "false"))) {
        const auto& name = header_.attributes[a].name;
        const std::string remedy =
            comma != token.npos && parse_number(token.substr(0, comma), value)
                ? "write numbers with a decimal point and nothing between thousands"
                : "encode text as numbers, or leave the column out with ignore=[" + shown(name) + "]";
        fail(line, "a finite number for attribute " + shown(name), token, header_.csv ? remedy : "");
    }
    return yes;
}

// 1,234 beside 0.5 is a thousand and more, not one and a bit: a file has one decimal mark.
inline void Table::check_decimal_mark(std::string_view token, Index line) {
    const auto at = token.find_first_of(".,");
    if (at == token.npos) return;
    if (decimal_mark_ == '\0') decimal_mark_ = token[at];
    if (decimal_mark_ != token[at])
        fail(line, "one decimal mark in all numbers, " + shown({&decimal_mark_, 1}) + " as before", token,
             "write all numbers with a decimal point and nothing between thousands");
}

inline void Table::put(std::size_t a, double value) {
    if (plan_.label_of[a] >= 0) {
        if (std::isnan(value))
            row_unknown_.push_back(plan_.label_of[a]);
        else if (value != 0.0)
            row_labels_.push_back(plan_.label_of[a]);
        return;
    }
    auto column = plan_.column_of[a];
    const Attribute& attribute = header_.attributes[a];
    if (attribute.kind == Kind::nominal) {
        if (std::isnan(value)) {  // every column of the one-hot block is unknown
            for (std::size_t c = 0; c < attribute.categories.size(); ++c)
                row_.emplace_back(column + static_cast<std::int32_t>(c), value);
            return;
        }
        column += static_cast<std::int32_t>(value);
        value = 1.0;
    }
    if (value != 0.0) row_.emplace_back(column, value);
}

inline void Table::cell(std::size_t a, std::string_view token, bool quoted, Index line) {
    if (header_.sparse && std::exchange(last_row_[a], rows_) == rows_)
        fail(line, "each attribute once in a row", header_.attributes[a].name, "remove one of the two values");
    if (static_cast<Index>(a) == plan_.text_at) {
        texts.emplace_back(token);
        text_bytes_ += token.size() + bytes_of_text;
    }
    if (plan_.label_of[a] < 0 && plan_.column_of[a] < 0) return;
    put(a, value_of(a, token, quoted, line));
}

inline void Table::end_row(Index line) {
    if (header_.sparse)
        for (const auto a : nonzero_if_omitted_)
            if (last_row_[a] != rows_) put(a, header_.attributes[a].kind == Kind::binary || plan_.label_of[a] >= 0);
    ++rows_;
    if (plan_.text_at >= 0) texts.resize(static_cast<std::size_t>(rows_));  // a sparse row may not mention it
    std::sort(row_labels_.begin(), row_labels_.end());
    labels.append(row_labels_);
    std::sort(row_unknown_.begin(), row_unknown_.end());
    unknown.append(row_unknown_);
    if (plan_.dense) {
        const auto base = dense.size();
        dense.resize(base + static_cast<std::size_t>(plan_.columns), 0.0);
        for (const auto& [column, value] : row_) dense[base + static_cast<std::size_t>(column)] = value;
    } else {
        sort_row(row_);
        sparse.append(row_);
    }
    check_room(line, sizeof(double) * dense.size() + sparse.bytes() + labels.bytes() + unknown.bytes() + text_bytes_,
               plan_.max_bytes);
    row_.clear();
    row_labels_.clear();
    row_unknown_.clear();
}

}  // namespace multimargin::text
