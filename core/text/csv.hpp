#pragma once
// CSV: one line of column names, then rows of numbers. Cells may stand in double quotes; "" inside them is
// one quote. The first column may have no name, as pandas writes an index.

#include "core/base/control.hpp"
#include "core/text/table.hpp"

namespace multimargin::text {

class CellReader {
  public:
    CellReader(std::string_view text, Index line_before, char delimiter)
        : at_(text.data()), end_(at_ + text.size()), line_(line_before + 1), delimiter_(delimiter) {}

    bool done() const { return at_ == end_; }
    Index line() const { return line_; }
    const char* position() const { return at_; }

    void skip_empty_lines() {
        const char* p = at_;
        for (; p != end_ && (is_blank(*p) || *p == '\n'); ++p) {
            if (*p == delimiter_) return;
            if (*p != '\n') continue;
            at_ = p + 1;
            ++line_;
        }
        if (p == end_) at_ = end_;
    }

    // The next cell of the row; `last` tells whether the row ends behind it. Valid until the next call.
    Token next(bool& last) {
        const char* blank = at_;
        while (blank != end_ && is_blank(*blank) && *blank != delimiter_) ++blank;
        Token token;
        if (blank != end_ && *blank == '"') {
            at_ = blank;
            token = {quoted(), true};
            while (at_ != end_ && is_blank(*at_) && *at_ != delimiter_) ++at_;
        } else {
            const char* begin = at_;
            while (at_ != end_ && *at_ != delimiter_ && *at_ != '\n') ++at_;
            token = {trimmed({begin, static_cast<std::size_t>(at_ - begin)}), false};
        }
        last = at_ == end_ || *at_ == '\n';
        if (!last && *at_ != delimiter_)
            fail(line_, "a delimiter after the quoted cell", {at_, std::min<std::size_t>(20, end_ - at_)});
        if (at_ != end_) ++at_;
        return token;
    }
    void end_row() { line_ += 1 + std::exchange(inner_lines_, 0); }

  private:
    std::string_view quoted() {
        buffer_.clear();
        const char* begin = at_++;
        for (;; ++at_) {
            if (at_ == end_) fail(line_, "a closing quote", {begin, std::min<std::size_t>(20, end_ - begin)});
            if (*at_ == '"') {
                if (at_ + 1 == end_ || at_[1] != '"') break;
                ++at_;
            }
            if (*at_ == '\n') ++inner_lines_;
            buffer_ += *at_;
        }
        ++at_;
        return buffer_;
    }

    const char* at_;
    const char* end_;
    Index line_;
    Index inner_lines_ = 0;
    char delimiter_;
    std::string buffer_;
};

// The delimiter is the one of , ; and tab that occurs most in the first line.
inline char guess_delimiter(std::string_view line) {
    char best = ',';
    for (const char c : {';', '\t'})
        if (std::count(line.begin(), line.end(), c) > std::count(line.begin(), line.end(), best)) best = c;
    return best;
}

// As pandas calls it.
constexpr std::string_view unnamed_first_column = "Unnamed: 0";

inline Header read_csv_header(std::string_view text, char delimiter, std::size_t max_bytes) {
    Header header;
    header.csv = true;
    header.delimiter = delimiter != '\0' ? delimiter : guess_delimiter(text.substr(0, text.find('\n')));
    CellReader reader(text, 0, header.delimiter);
    reader.skip_empty_lines();
    if (reader.done()) throw TextError(1, "expected a line of column names, found the end of the file");
    for (bool last = false; !last;) {
        Attribute attribute;
        attribute.line = reader.line();
        attribute.name = reader.next(last).text;
        if (attribute.name.empty() && header.attributes.empty() && !last) attribute.name = unnamed_first_column;
        if (attribute.name.empty())
            fail(attribute.line, "a name for column " + std::to_string(header.attributes.size() + 1), "",
                 "the first line must hold the column names");
        header.attributes.push_back(std::move(attribute));
        check_room(header.attributes.back().line, bytes_of_name * header.attributes.size(), max_bytes);
    }
    reader.end_row();
    check_names(header.attributes, "columns");
    header.rows_begin = static_cast<std::size_t>(reader.position() - text.data());
    header.rows_line = reader.line() - 1;
    return header;
}

inline void read_csv_rows(std::string_view text, const Header& header, Table& table, Control& control) {
    const auto width = header.attributes.size();
    text.remove_prefix(header.rows_begin);
    table.expect(text);
    CellReader reader(text, header.rows_line, header.delimiter);
    for (reader.skip_empty_lines(); !reader.done() && !control.leave(true); reader.skip_empty_lines()) {
        std::size_t count = 0;
        for (bool last = false; !last; ++count) {
            const Token token = reader.next(last);
            if (count < width) table.cell(count, token.text, token.quoted, reader.line());
        }
        if (count != width)
            throw TextError(reader.line(), "expected " + std::to_string(width) + " cells, one per column, found " +
                                               std::to_string(count) +
                                               (count > width && header.delimiter == ','
                                                    ? "; numbers with decimal commas need semicolons between the cells"
                                                    : ""));
        table.end_row(reader.line());
        reader.end_row();
    }
}

}  // namespace multimargin::text
