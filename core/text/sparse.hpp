#pragma once
// Rows of the form  <label>,<label>,... <feature>:<value> <feature>:<value> ...
// LIBSVM: no header, comments after #, empty lines skipped, features and labels counted from 0 or from 1.
// XMC:    a first line "<rows> <features> <labels>", every further line is a row, everything counted from 0.

#include "core/base/control.hpp"
#include "core/text/table.hpp"

namespace multimargin::text {

// The smallest and the largest index seen, and the first line of each.
struct Extent {
    std::int64_t smallest = INT64_MAX;
    std::int64_t largest = -1;
    Index smallest_line = 0, largest_line = 0;

    void see(std::int64_t index, Index line) {
        if (index < smallest) {
            smallest = index;
            smallest_line = line;
        }
        if (index > largest) {
            largest = index;
            largest_line = line;
        }
    }
};

constexpr std::int64_t most_features = INT32_MAX - 1, most_labels = 1 << 24;

struct SparseText {
    CsrMatrix features;
    LabelRows labels;
    Extent feature_extent, label_extent;
    std::int64_t n_rows = -1, n_features = most_features, n_labels = most_labels;  // of the header, or the limits

    std::size_t bytes() const { return features.bytes() + labels.bytes(); }
};

class SparseRowReader {
  public:
    SparseRowReader(SparseText& out, std::size_t max_bytes) : out_(out), max_bytes_(max_bytes) {}

    void read(std::string_view text, Index line) {
        at_ = text.data();
        end_ = at_ + text.size();
        line_ = line;
        row_.clear();
        labels_.clear();
        skip_blanks();
        if (at_ != end_ && token().find(':') == std::string_view::npos) read_labels();
        for (skip_blanks(); at_ != end_; skip_blanks()) read_feature();
        if (sort_row(row_))
            fail(line_, "each feature once in a row", std::to_string(repeated()), "remove one of the two");
        std::sort(labels_.begin(), labels_.end());
        if (const auto twice = std::adjacent_find(labels_.begin(), labels_.end()); twice != labels_.end())
            fail(line_, "each label once in a row", std::to_string(*twice), "remove one of the two");
        std::erase_if(row_, [](const auto& entry) { return entry.second == 0.0; });
        out_.features.append(row_);
        out_.labels.append(labels_);
        check_room(line, out_.bytes(), max_bytes_);
    }

  private:
    void skip_blanks() {
        while (at_ != end_ && is_blank(*at_)) ++at_;
    }
    std::string_view token() const {
        const char* p = at_;
        while (p != end_ && !is_blank(*p)) ++p;
        return {at_, static_cast<std::size_t>(p - at_)};
    }
    std::int64_t repeated() const {
        return std::adjacent_find(row_.begin(), row_.end(),
                                  [](const auto& a, const auto& b) { return a.first == b.first; })
            ->first;
    }

    void read_labels() {
        const std::string_view whole = token();
        const char* stop = at_ + whole.size();
        for (;;) {
            std::int64_t label = 0;
            const bool good = take_integer(at_, stop, INT32_MAX, label);
            if (!good || (at_ != stop && *at_ != ','))
                fail(line_, "labels as whole numbers joined by commas", whole,
                     "list the labels that are present, as in 0,3 5:0.2");
            if (label >= out_.n_labels)
                fail(line_, "a label below " + std::to_string(out_.n_labels), std::to_string(label));
            labels_.push_back(static_cast<std::int32_t>(label));
            out_.label_extent.see(label, line_);
            if (at_ == stop) return;
            ++at_;
        }
    }

    void read_feature() {
        const std::string_view whole = token();
        const char* stop = at_ + whole.size();
        std::int64_t index = 0;
        const bool good = take_integer(at_, stop, INT64_MAX, index);
        if (!good || at_ == stop || *at_ != ':') fail(line_, "<feature>:<value>", whole);
        if (index >= out_.n_features)
            fail(line_, "a feature below " + std::to_string(out_.n_features), std::to_string(index));
        ++at_;
        double value = 0.0;
        if (!parse_number({at_, static_cast<std::size_t>(stop - at_)}, value))
            fail(line_, "<feature>:<value> with a finite value", whole);
        at_ = stop;
        row_.emplace_back(static_cast<std::int32_t>(index), value);
        out_.feature_extent.see(index, line_);
    }

    SparseText& out_;
    const std::size_t max_bytes_;
    const char* at_ = nullptr;
    const char* end_ = nullptr;
    Index line_ = 0;
    std::vector<std::pair<std::int32_t, double>> row_;
    std::vector<std::int32_t> labels_;
};

inline SparseText read_libsvm(std::string_view text, std::size_t max_bytes, Control& control) {
    SparseText out;
    SparseRowReader reader(out, max_bytes);
    Lines lines(text, 0);
    std::string_view line;
    while (lines.next(line) && !control.leave(true)) {
        line = trimmed(line.substr(0, line.find('#')));
        if (!line.empty()) reader.read(line, lines.line());
    }
    return out;
}

inline void read_xmc_header(std::string_view line, SparseText& out) {
    const char* at = line.data();
    const char* end = at + line.size();
    for (std::int64_t* number : {&out.n_rows, &out.n_features, &out.n_labels}) {
        while (at != end && is_blank(*at)) ++at;
        if (!take_integer(at, end, INT64_MAX, *number) || (at != end && !is_blank(*at)))
            fail(1, "a first line with the numbers of rows, features and labels", line, "as in 15539 5000 3993");
    }
    if (out.n_features > most_features || out.n_labels > most_labels)
        fail(1, "at most " + std::to_string(most_features) + " features and " + std::to_string(most_labels) + " labels",
             line, "correct the first line");
    if (!trimmed({at, static_cast<std::size_t>(end - at)}).empty())
        fail(1, "three numbers in the first line", line, "as in 15539 5000 3993");
}

inline SparseText read_xmc(std::string_view text, std::size_t max_bytes, Control& control) {
    SparseText out;
    Lines lines(text, 0);
    std::string_view line;
    if (!lines.next(line)) throw TextError(1, "expected a line <rows> <features> <labels>, found the end of the file");
    read_xmc_header(line, out);
    SparseRowReader reader(out, max_bytes);
    std::int64_t rows = 0;
    while (lines.next(line) && !control.leave(true)) {
        line = trimmed(line);
        if (rows < out.n_rows) {
            reader.read(line, lines.line());
            ++rows;
        } else if (!line.empty()) {
            fail(lines.line(), "the end of the file after " + std::to_string(out.n_rows) + " rows", line,
                 "correct the number of rows in the first line");
        }
    }
    if (rows < out.n_rows)
        throw TextError(lines.line(), "expected " + std::to_string(out.n_rows) +
                                          " rows as stated in the first line, found " + std::to_string(rows) +
                                          "; is the file complete?");
    return out;
}

}  // namespace multimargin::text
