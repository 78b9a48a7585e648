#pragma once
// Features cut into at most 256 bins, once per fit: bin b of a feature holds its values in (cut b - 1, cut b].
//
// Cuts are the middles between neighbouring values. A feature with more than 256 values has cuts that leave about as
// many rows in every bin. Splits by presence have one cut, 0.
// Cost: a sort of every column; afterwards a byte a cell, or five bytes for a stored entry of sparse rows.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/control.hpp"
#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"

namespace multimargin::boosting {

inline constexpr int most_bins = 256;

enum class Split { threshold, presence };

// The values of a column, sorted, and how many other rows have the value 0: its cuts.
template <class T>
std::vector<double> cuts_of(std::span<const T> sorted, Index zeros, Split split) {
    struct Value {
        double value;
        Index rows;
    };
    std::vector<Value> values;
    const auto add = [&](double value, Index rows) {
        if (!values.empty() && values.back().value == value)
            values.back().rows += rows;
        else if (rows > 0)
            values.push_back({value, rows});
    };
    for (const T v : sorted) {
        if (v >= 0) add(0.0, std::exchange(zeros, 0));
        add(static_cast<double>(v), 1);
    }
    add(0.0, zeros);
    std::vector<double> cuts;
    if (values.size() < 2) return cuts;
    if (split == Split::presence) return values.front().value > 0 ? cuts : std::vector{0.0};
    const bool exact = values.size() <= most_bins;
    Index left = 0, inside = 0;  // rows from here on; rows of this bin so far
    for (const Value& v : values) left += v.rows;
    for (std::size_t k = 0; k + 1 < values.size() && cuts.size() + 1 < most_bins; ++k) {
        inside += values[k].rows;
        const auto bins_left = static_cast<Index>(most_bins - cuts.size());
        if (!exact && inside * bins_left < left) continue;
        const double low = values[k].value, high = values[k + 1].value, middle = low + (high - low) / 2;
        cuts.push_back(middle < high ? middle : low);
        left -= std::exchange(inside, 0);
    }
    return cuts;
}

inline std::uint8_t code_of(const std::vector<double>& cuts, double value) {
    return static_cast<std::uint8_t>(std::lower_bound(cuts.begin(), cuts.end(), value) - cuts.begin());
}

// Codes of all cells, feature by feature.
class DenseBins {
  public:
    static constexpr bool sparse = false;

    template <class T>
    DenseBins(const DenseRows<T>& x, Split split, int threads, Control& control)
        : rows_(x.rows()),
          cuts_(static_cast<std::size_t>(x.cols())),
          codes_(cuts_.size() * static_cast<std::size_t>(rows_)) {
        constexpr Index group = 16;  // columns of a cache line or two
        const Index groups = (x.cols() + group - 1) / group;
        parallel_for(static_cast<int>(groups), threads, control, [&](int g, bool on_caller) {
            const Index first = g * group, count = std::min(group, x.cols() - first);
            std::vector<T> columns(static_cast<std::size_t>(count * rows_)), sorted;
            for (Index i = 0; i < rows_; ++i)
                for (Index k = 0; k < count; ++k)
                    columns[static_cast<std::size_t>(k * rows_ + i)] =
                        x.row(i).values[static_cast<std::size_t>(first + k)];
            for (Index k = 0; k < count; ++k) {
                if (on_caller ? control.leave_after(32 * rows_) : control.stopped()) return;
                const auto column = std::span<const T>(columns).subspan(static_cast<std::size_t>(k * rows_),
                                                                        static_cast<std::size_t>(rows_));
                sorted.assign(column.begin(), column.end());
                std::ranges::sort(sorted);
                auto& cuts = cuts_[static_cast<std::size_t>(first + k)];
                cuts = cuts_of<T>(sorted, 0, split);
                std::uint8_t* codes = codes_.data() + (first + k) * rows_;
                for (Index i = 0; i < rows_; ++i)
                    codes[i] = code_of(cuts, static_cast<double>(column[static_cast<std::size_t>(i)]));
            }
        });
    }

    Index rows() const { return rows_; }
    Index cols() const { return static_cast<Index>(cuts_.size()); }
    int bins(Index j) const { return static_cast<int>(cuts_[static_cast<std::size_t>(j)].size()) + 1; }
    double cut(Index j, int b) const { return cuts_[static_cast<std::size_t>(j)][static_cast<std::size_t>(b)]; }
    // Codes of all rows; the memory is not needed here.
    const std::uint8_t* codes(Index j, std::vector<std::uint8_t>&) const { return codes_.data() + j * rows_; }

  private:
    Index rows_;
    std::vector<std::vector<double>> cuts_;
    Buffer<std::uint8_t> codes_;
};

// Codes of the stored entries, column by column; all other rows have the code of 0.
class SparseBins {
  public:
    static constexpr bool sparse = true;

    struct Column {
        std::span<const std::int32_t> rows;
        std::span<const std::uint8_t> codes;
        std::uint8_t zero;
    };

    template <class T>
    SparseBins(const CsrRows<T>& x, Split split, int threads, Control& control)
        : rows_(x.rows()),
          cuts_(static_cast<std::size_t>(x.cols())),
          zero_(cuts_.size()),
          starts_(cuts_.size() + 1, 0) {
        for (Index i = 0; i < rows_; ++i)
            for (const auto j : x.row(i).columns) ++starts_[static_cast<std::size_t>(j) + 1];
        for (std::size_t j = 0; j < cuts_.size(); ++j) starts_[j + 1] += starts_[j];
        entry_rows_.resize(starts_.back());
        codes_.resize(starts_.back());
        std::vector<T> values(starts_.back());
        std::vector<std::size_t> next(starts_.begin(), starts_.end() - 1);
        for (Index i = 0; i < rows_; ++i) {
            const auto row = x.row(i);
            for (Index k = 0; k < row.size(); ++k) {
                const std::size_t e = next[static_cast<std::size_t>(row.column(k))]++;
                entry_rows_[e] = static_cast<std::int32_t>(i);
                values[e] = row.values[static_cast<std::size_t>(k)];
            }
        }
        constexpr std::size_t group = 256;
        const auto groups = static_cast<int>((cuts_.size() + group - 1) / group);
        parallel_for(groups, threads, control, [&](int g, bool on_caller) {
            std::vector<T> sorted;
            const std::size_t first = static_cast<std::size_t>(g) * group;
            for (std::size_t j = first; j < std::min(first + group, cuts_.size()); ++j) {
                const auto column = std::span<const T>(values).subspan(starts_[j], starts_[j + 1] - starts_[j]);
                const auto entries = static_cast<Index>(column.size());
                if (on_caller ? control.leave_after(32 * entries + 32) : control.stopped()) return;
                sorted.assign(column.begin(), column.end());
                std::ranges::sort(sorted);
                cuts_[j] = cuts_of<T>(sorted, rows_ - entries, split);
                zero_[j] = code_of(cuts_[j], 0.0);
                for (std::size_t e = starts_[j]; e < starts_[j + 1]; ++e)
                    codes_[e] = code_of(cuts_[j], static_cast<double>(values[e]));
            }
        });
    }

    Index rows() const { return rows_; }
    Index cols() const { return static_cast<Index>(cuts_.size()); }
    int bins(Index j) const { return static_cast<int>(cuts_[static_cast<std::size_t>(j)].size()) + 1; }
    double cut(Index j, int b) const { return cuts_[static_cast<std::size_t>(j)][static_cast<std::size_t>(b)]; }
    Column column(Index j) const {
        const auto at = static_cast<std::size_t>(j);
        const std::size_t begin = starts_[at], count = starts_[at + 1] - begin;
        return {std::span(entry_rows_).subspan(begin, count), std::span(codes_).subspan(begin, count), zero_[at]};
    }
    // Codes of all rows, written to `memory`.
    const std::uint8_t* codes(Index j, std::vector<std::uint8_t>& memory) const {
        const Column entries = column(j);
        memory.assign(static_cast<std::size_t>(rows_), entries.zero);
        for (std::size_t e = 0; e < entries.rows.size(); ++e)
            memory[static_cast<std::size_t>(entries.rows[e])] = entries.codes[e];
        return memory.data();
    }

  private:
    Index rows_;
    std::vector<std::vector<double>> cuts_;
    std::vector<std::uint8_t> zero_;
    std::vector<std::size_t> starts_;
    std::vector<std::int32_t> entry_rows_;
    std::vector<std::uint8_t> codes_;
};

}  // namespace multimargin::boosting
