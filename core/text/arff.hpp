#pragma once
// ARFF, the format of Weka, Mulan and MEKA:
//
//   @relation <name>
//   @attribute <name> numeric | real | integer | {category, ...}
//   @data
//   <value>,<value>,...            a dense row, or
//   {<attribute> <value>, ...}     a sparse row, attributes counted from 0
//
// Names and values may stand in single or double quotes, with backslash escapes; % begins a comment line.

#include "core/base/control.hpp"
#include "core/text/table.hpp"

namespace multimargin::text {

// Takes tokens from one line.
class TokenReader {
  public:
    TokenReader(std::string_view line, Index number) : at_(line.data()), end_(at_ + line.size()), line_(number) {}

    void skip_blanks() {
        while (at_ != end_ && is_blank(*at_)) ++at_;
    }
    bool done() {
        skip_blanks();
        return at_ == end_;
    }
    char peek() const { return at_ == end_ ? '\0' : *at_; }
    bool take(char c) {
        skip_blanks();
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }
    std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

    // The token up to one of `stops` (a blank in `stops` means any blank); valid until the next call.
    Token next(std::string_view stops) {
        skip_blanks();
        if (at_ != end_ && (*at_ == '\'' || *at_ == '"')) return {quoted(*at_), true};
        const bool blank_stops = stops.find(' ') != stops.npos;
        const char* begin = at_;
        while (at_ != end_ && stops.find(*at_) == stops.npos && !(blank_stops && is_blank(*at_))) ++at_;
        return {trimmed({begin, static_cast<std::size_t>(at_ - begin)}), false};
    }

    bool take_index(std::int64_t& out) {
        skip_blanks();
        return take_integer(at_, end_, INT64_MAX, out) && (at_ == end_ || is_blank(*at_));
    }

  private:
    std::string_view quoted(char quote) {
        const char* begin = at_++;
        buffer_.clear();
        for (; at_ != end_ && *at_ != quote; ++at_) {
            if (*at_ == '\\' && at_ + 1 != end_) ++at_;
            buffer_ += *at_;
        }
        if (at_ == end_)
            fail(line_, "a closing quote", {begin, static_cast<std::size_t>(end_ - begin)}, "close the quotes");
        ++at_;
        return buffer_;
    }

    const char* at_;
    const char* end_;
    Index line_;
    std::string buffer_;
};

inline void read_categories(TokenReader& reader, Attribute& attribute) {
    bool only_bits = true;
    do {
        const Token token = reader.next(",}");
        if (token.text.empty() && !token.quoted)
            fail(attribute.line, "a category of attribute " + shown(attribute.name), reader.rest(),
                 "write the categories as {a,b,c}");
        only_bits = only_bits && (token.text == "0" || token.text == "1");
        attribute.categories.emplace_back(token.text);
    } while (reader.take(','));
    if (!reader.take('}'))
        fail(attribute.line, "'}' after the categories of attribute " + shown(attribute.name), reader.rest());
    auto sorted = attribute.categories;
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
        fail(attribute.line, "different categories in attribute " + shown(attribute.name), *twice,
             "remove the second one");
    attribute.kind = only_bits ? Kind::binary : Kind::nominal;
}

inline Attribute read_attribute(TokenReader& reader, Index line) {
    Attribute attribute;
    attribute.line = line;
    attribute.name = reader.next(" {").text;
    if (attribute.name.empty()) fail(line, "an attribute name", reader.rest(), "write @attribute <name> numeric");
    if (reader.take('{')) {
        read_categories(reader, attribute);
        return attribute;
    }
    const std::string_view type = reader.next(" ").text;
    if (same_word(type, "numeric") || same_word(type, "real") || same_word(type, "integer"))
        attribute.kind = Kind::number;
    else if (same_word(type, "string") || same_word(type, "date") || same_word(type, "relational"))
        attribute.kind = Kind::other;
    else
        fail(line, "the type of attribute " + shown(attribute.name) + " (numeric or {categories})", type);
    return attribute;
}

inline Header read_arff_header(std::string_view text, std::size_t max_bytes) {
    Header header;
    std::size_t names = 0;
    Lines lines(text, 0);
    std::string_view line;
    while (lines.next(line)) {
        line = trimmed(line);
        if (line.empty() || line.front() == '%') continue;
        TokenReader reader(line, lines.line());
        const std::string_view keyword = reader.next(" ").text;
        if (same_word(keyword, "@relation")) {
            header.relation = reader.next("").text;
        } else if (same_word(keyword, "@attribute")) {
            header.attributes.push_back(read_attribute(reader, lines.line()));
            names += 1 + header.attributes.back().categories.size();
            check_room(lines.line(), bytes_of_name * names, max_bytes);
        } else if (same_word(keyword, "@data")) {
            if (header.attributes.empty()) fail(lines.line(), "@attribute lines before @data", "");
            check_names(header.attributes, "attributes");
            header.rows_begin = lines.position();
            header.rows_line = lines.line();
            // The first row tells dense from sparse.
            while (lines.next(line)) {
                line = trimmed(line);
                if (line.empty() || line.front() == '%') continue;
                header.sparse = line.front() == '{';
                break;
            }
            return header;
        } else {
            fail(lines.line(), "@relation, @attribute or @data", line, "is this an ARFF file?");
        }
    }
    throw TextError(lines.line(), "expected a line @data, found the end of the file; is the file complete?");
}

inline void read_dense_row(TokenReader& reader, const Header& header, Table& table, Index line) {
    const auto width = header.attributes.size();
    std::size_t count = 0;
    do {
        const Token token = reader.next(",");
        if (count < width) table.cell(count, token.text, token.quoted, line);
        ++count;
    } while (reader.take(','));
    if (!reader.done()) fail(line, "a comma after the value", reader.rest());
    if (count != width)
        throw TextError(
            line, "expected " + std::to_string(width) + " values, one per attribute, found " + std::to_string(count));
}

inline void read_sparse_row(TokenReader& reader, const Header& header, Table& table, Index line) {
    const auto width = static_cast<std::int64_t>(header.attributes.size());
    if (!reader.take('}')) {
        do {
            const std::string_view before = reader.rest();
            std::int64_t index = 0;
            if (!reader.take_index(index)) fail(line, "an attribute number and a value", before);
            if (index >= width)
                fail(line, "an attribute number below " + std::to_string(width), std::to_string(index),
                     "attributes are counted from 0");
            const Token token = reader.next(",}");
            table.cell(static_cast<std::size_t>(index), token.text, token.quoted, line);
        } while (reader.take(','));
        if (!reader.take('}')) fail(line, "'}' at the end of a sparse row", reader.rest());
    }
    if (!reader.done()) fail(line, "the end of the line after '}'", reader.rest(), "instance weights are not read");
}

inline void read_arff_rows(std::string_view text, const Header& header, Table& table, Control& control) {
    text.remove_prefix(header.rows_begin);
    table.expect(text);
    Lines lines(text, header.rows_line);
    std::string_view line;
    while (lines.next(line) && !control.leave(true)) {
        line = trimmed(line);
        if (line.empty() || line.front() == '%') continue;
        TokenReader reader(line, lines.line());
        if (reader.take('{') != header.sparse)
            fail(lines.line(),
                 header.sparse ? "a sparse row {...} like the first one" : "a dense row like the first one", line,
                 "do not mix the two");
        if (header.sparse)
            read_sparse_row(reader, header, table, lines.line());
        else
            read_dense_row(reader, header, table, lines.line());
        table.end_row(lines.line());
    }
}

}  // namespace multimargin::text
