#pragma once
// Reading text without copying it: lines, tokens, numbers, and errors that name the line.

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/matrix.hpp"

namespace multimargin::text {

// what() is ":<line>: <message>", or ": <message>" when no single line is to blame; the caller puts the path
// in front.
struct TextError : std::runtime_error {
    TextError(Index line, const std::string& message)
        : std::runtime_error(line > 0 ? ":" + std::to_string(line) + ": " + message : ": " + message) {}
};

// A piece of the file as it may appear in a message: in quotes, printable, short.
inline std::string shown(std::string_view piece) {
    constexpr std::size_t longest = 40;
    constexpr char digits[] = "0123456789abcdef";
    std::string out = "'";
    for (const char c : piece.substr(0, longest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        }
    }
    return out + (piece.size() > longest ? "...'" : "'");
}

[[noreturn]] inline void fail(Index line, const std::string& expected, std::string_view found,
                              const std::string& remedy = "") {
    const std::string seen = found.empty() ? "nothing" : shown(found);
    throw TextError(line, "expected " + expected + ", found " + seen + (remedy.empty() ? "" : "; " + remedy));
}

// Refuses a table before it takes more memory than the caller allows.
inline void check_room(Index line, std::size_t bytes, std::size_t max_bytes) {
    if (bytes > max_bytes)
        throw TextError(line, "expected a table of at most " + std::to_string(max_bytes) + " bytes, found one of " +
                                  std::to_string(bytes) + " bytes or more; raise max_bytes if there is memory for it");
}

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

inline std::string_view trimmed(std::string_view s) {
    while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
    while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
    return s;
}

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// `word` is given in lower case.
inline bool same_word(std::string_view s, std::string_view word) {
    if (s.size() != word.size()) return false;
    for (std::size_t i = 0; i < s.size(); ++i)
        if (lower(s[i]) != word[i]) return false;
    return true;
}

// Walks over the lines of a text; line() counts from 1.
class Lines {
  public:
    Lines(std::string_view text, Index line_before) : text_(text), line_(line_before) {}

    bool next(std::string_view& out) {
        if (at_ >= text_.size()) return false;
        const auto end = std::min(text_.find('\n', at_), text_.size());
        out = text_.substr(at_, end - at_);
        at_ = end + 1;
        ++line_;
        return true;
    }
    Index line() const { return line_; }
    std::size_t position() const { return std::min(at_, text_.size()); }

  private:
    std::string_view text_;
    std::size_t at_ = 0;
    Index line_;
};

// Of a decimal number beyond double precision: whether it is too small rather than too large.
inline bool is_tiny(std::string_view digits) {
    std::int64_t power = 0;  // of ten, of the first digit that is not 0, without the exponent
    bool significant = false, fraction = false;
    const auto mark = std::min(digits.find_first_of("eE"), digits.size());
    for (const char c : digits.substr(0, mark)) {
        if (c == '.') fraction = true;
        if (c < '0' || c > '9') continue;
        significant = significant || c != '0';
        if (significant != fraction) power += fraction ? -1 : 1;
    }
    std::string_view exponent = digits.substr(std::min(mark + 1, digits.size()));
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    std::int64_t shift = 0;
    const auto [stop, error] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), shift);
    return error == std::errc::result_out_of_range ? exponent.starts_with('-') : shift < -power;
}

// The whole token as a number. A number too small for double precision is 0; infinities and NaN are no
// numbers.
inline bool parse_number(std::string_view token, double& out) {
    const char* begin = token.data();
    const char* end = begin + token.size();
    if (begin != end && *begin == '+') {
        ++begin;
        if (begin != end && *begin == '-') return false;
    }
    const auto [stop, error] = std::from_chars(begin, end, out);
    if (stop != end) return false;
    if (error == std::errc::result_out_of_range) {
        out = 0.0;
        return is_tiny(token);
    }
    return error == std::errc() && std::isfinite(out);
}

// Reads digits at `at`, moves it behind them. False: no digit there, or a value above `largest`.
inline bool take_integer(const char*& at, const char* end, std::int64_t largest, std::int64_t& out) {
    if (at == end || *at < '0' || *at > '9') return false;
    const auto [stop, error] = std::from_chars(at, end, out);
    at = stop;
    return error == std::errc() && out <= largest;
}

}  // namespace multimargin::text
