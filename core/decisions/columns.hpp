#pragma once
// Scores and labels, column by column. A column is the list of cells that have a score: all rows of a dense matrix,
// the stored cells of a sparse one. A score of NaN says that the cell cannot be used; -inf, like a cell that is not
// stored, that it is never predicted. Cells whose label is unknown and rows of weight 0 are left out, too.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace multimargin::decisions {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
struct Column {
    std::span<const T> values;
    std::span<const std::int64_t> rows;  // empty: value e belongs to row e
    std::size_t row(std::size_t e) const { return rows.empty() ? e : static_cast<std::size_t>(rows[e]); }
};

// Columns of a row-major matrix, a few at a time: a column alone would read one number of every cache line.
template <class T>
class DenseColumns {
  public:
    using value_type = T;
    DenseColumns(const T* data, std::size_t rows, std::size_t cols) : data_(data), rows_(rows), cols_(cols) {}
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return cols_; }

    Column<T> column(std::size_t l) {
        if (cols_ == 1) return {{data_, rows_}, {}};
        if (l < first_ || l >= first_ + width_) load(l);
        return {std::span<const T>(block_).subspan((l - first_) * rows_, rows_), {}};
    }

  private:
    static constexpr std::size_t columns_at_once = 64 / sizeof(T);

    void load(std::size_t l) {
        first_ = l;
        width_ = std::min(columns_at_once, cols_ - l);
        block_.resize(width_ * rows_);
        for (std::size_t i = 0; i < rows_; ++i)
            for (std::size_t k = 0; k < width_; ++k) block_[k * rows_ + i] = data_[i * cols_ + l + k];
    }

    const T* data_;
    std::size_t rows_, cols_, first_ = 0, width_ = 0;
    std::vector<T> block_;
};

template <class T>
class SparseColumns {
  public:
    using value_type = T;
    SparseColumns(std::span<const T> values, std::span<const std::int64_t> row_of,
                  std::span<const std::int64_t> offsets, std::size_t rows)
        : values_(values), row_of_(row_of), offsets_(offsets), rows_(rows) {}
    std::size_t rows() const { return rows_; }
    std::size_t cols() const { return offsets_.size() - 1; }

    Column<T> column(std::size_t l) const {
        const auto begin = static_cast<std::size_t>(offsets_[l]), end = static_cast<std::size_t>(offsets_[l + 1]);
        return {values_.subspan(begin, end - begin), row_of_.subspan(begin, end - begin)};
    }

  private:
    std::span<const T> values_;
    std::span<const std::int64_t> row_of_, offsets_;
    std::size_t rows_;
};

// Marked cells, as the rows of each column.
struct Marks {
    std::span<const std::int64_t> offsets, row_of;  // empty: nothing is marked
    std::span<const std::int64_t> rows(std::size_t l) const {
        if (offsets.empty()) return {};
        return row_of.subspan(static_cast<std::size_t>(offsets[l]),
                              static_cast<std::size_t>(offsets[l + 1] - offsets[l]));
    }
};

struct ColumnLabels {
    Marks positive, unknown;
};

struct Cell {
    double score, weight;
};

// The usable cells of one label, and what they weigh.
struct ScoredCells {
    std::vector<Cell> positive, negative;  // with a score above -inf
    double all_known = 0.0, all_positives = 0.0;
    double known = 0.0, positives = 0.0, squares = 0.0;  // of usable cells; squares: of the weights of positives
    bool unit_weights = true;
};

class ColumnReader {
  public:
    ColumnReader(const ColumnLabels& labels, std::span<const double> weights)
        : labels_(labels), weights_(weights), kind_(weights.size(), negative) {
        for (const double w : weights) total_ += w;
    }

    template <class Scores>
    const ScoredCells& read(Scores& scores, std::size_t l) {
        cells_.positive.clear();
        cells_.negative.clear();
        cells_.all_known = total_;
        cells_.all_positives = cells_.squares = 0.0;
        cells_.unit_weights = true;
        for (const auto i : labels_.positive.rows(l)) mark(i, positive);
        for (const auto i : labels_.unknown.rows(l)) {
            mark(i, unknown);
            cells_.all_known -= weights_[at(i)];
        }
        for (const auto i : labels_.positive.rows(l)) {
            if (kind_[at(i)] != positive) continue;
            cells_.all_positives += weights_[at(i)];
            cells_.squares += weights_[at(i)] * weights_[at(i)];
        }
        cells_.known = cells_.all_known;
        cells_.positives = cells_.all_positives;
        const auto column = scores.column(l);
        for (std::size_t e = 0; e < column.values.size(); ++e) {
            const auto i = column.row(e);
            const double w = weights_[i];
            if (w == 0.0 || kind_[i] == unknown) continue;
            const auto s = static_cast<double>(column.values[e]);
            const bool is_positive = kind_[i] == positive;
            if (std::isnan(s)) {
                cells_.known -= w;
                if (is_positive) {
                    cells_.positives -= w;
                    cells_.squares -= w * w;
                }
            } else if (s > -infinity) {
                (is_positive ? cells_.positive : cells_.negative).push_back({s, w});
                cells_.unit_weights = cells_.unit_weights && w == 1.0;
            }
        }
        for (const auto i : labels_.positive.rows(l)) mark(i, negative);
        for (const auto i : labels_.unknown.rows(l)) mark(i, negative);
        return cells_;
    }

  private:
    enum Kind : std::uint8_t { negative, positive, unknown };
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    void mark(std::int64_t i, Kind kind) { kind_[at(i)] = kind; }

    ColumnLabels labels_;
    std::span<const double> weights_;
    std::vector<Kind> kind_;
    double total_ = 0.0;
    ScoredCells cells_;
};

}  // namespace multimargin::decisions
