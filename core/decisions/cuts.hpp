#pragma once
// The cuts of a column of scores that can be best for a label, and what each would predict.
//
// A cut predicts every cell of score s > t. Where predicting a negative cell never raises the objective (F-measures,
// costs, precision at a recall) the lowest group of equal scores above a best cut holds a positive cell: without one,
// leaving the group out keeps the hits and lowers the predictions. So a label with P positive cells has at most P cuts
// to look at, and no full sort is needed: the scores of the positives are sorted, every negative is searched among
// them, and suffix sums give the hits and the predictions of each cut. O(n log P) time.
//
// Equal scores are never split. The threshold of a cut is the midpoint between its lowest score above and the highest
// score below; -inf if there is nothing below.
//
// The quota cut predicts as many cells as the label has positives, in the long run: with K = all positives times the
// usable share of the cells, it lies between the K-th score and the next. Equal scores there are all left out.

#include <algorithm>

#include "core/decisions/columns.hpp"

namespace multimargin::decisions {

// A number t with below <= t < above, halfway where the numbers of type T allow.
template <class T>
double between(double below, double above) {
    if (below == -infinity) return -infinity;
    double middle = below + (above - below) / 2.0;
    if (!std::isfinite(middle)) middle = below / 2.0 + above / 2.0;
    return middle >= below && static_cast<T>(middle) < static_cast<T>(above) ? middle : below;
}

// Sorted distinct scores; finds the last one that is not above a score.
class Ladder {
  public:
    void assign(std::span<const double> sorted) {
        steps_.assign(sorted.begin(), sorted.end());
        steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
        highest_.assign(steps_.size(), -infinity);
        below_ = -infinity;
    }
    std::size_t size() const { return steps_.size(); }
    double step(std::size_t j) const { return steps_[j]; }
    double lowest() const { return steps_.empty() ? infinity : steps_.front(); }

    // For s >= lowest().
    std::size_t find(double s) const {
        const double* base = steps_.data();
        for (std::size_t length = steps_.size(); length > 1;) {
            const auto half = length / 2;
            base += base[half] <= s ? half : 0;
            length -= half;
        }
        return static_cast<std::size_t>(base - steps_.data());
    }

    // Remembers that s occurs, for the thresholds; j = find(s).
    void saw(std::size_t j, double s) { highest_[j] = std::max(highest_[j], s); }
    void saw_below(double s) { below_ = std::max(below_, s); }

    // The threshold that includes step j and nothing below.
    template <class T>
    double threshold(std::size_t j) const {
        const double below = j == 0 ? below_ : std::max(steps_[j - 1], highest_[j - 1]);
        return between<T>(below, steps_[j]);
    }

  private:
    std::vector<double> steps_, highest_;
    double below_ = -infinity;
};

struct Cuts {
    std::vector<std::int64_t> offsets{0};                          // label l has the cuts offsets[l] .. offsets[l + 1]
    std::vector<double> thresholds, hits, predicted;               // highest threshold first
    std::vector<double> positives, squares, known, quota, lowest;  // per label; quota NaN: not enough scores
};

// The threshold above which cells of the weight `quota` lie, as nearly as their scores allow.
template <class T>
double quota_cut(std::vector<Cell>& cells, bool unit_weights, double quota) {
    if (quota <= 0.0) return infinity;
    const auto higher = [](const Cell& a, const Cell& b) { return a.score > b.score; };
    const double enough = quota * (1.0 - 1e-12);
    if (unit_weights) {
        const auto k = static_cast<std::size_t>(std::ceil(enough));
        if (k > cells.size()) return std::numeric_limits<double>::quiet_NaN();
        if (k == cells.size()) return -infinity;
        std::nth_element(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(k), cells.end(), higher);
        const auto last = std::min_element(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(k),
                                           [](const Cell& a, const Cell& b) { return a.score < b.score; });
        return between<T>(cells[k].score, last->score);
    }
    std::sort(cells.begin(), cells.end(), higher);
    double weight = 0.0;
    for (std::size_t e = 0; e < cells.size(); ++e) {
        weight += cells[e].weight;
        if (weight >= enough) return e + 1 == cells.size() ? -infinity : between<T>(cells[e + 1].score, cells[e].score);
    }
    return std::numeric_limits<double>::quiet_NaN();
}

template <class Scores>
class CutFinder {
    using T = typename Scores::value_type;

  public:
    CutFinder(Scores& scores, const ColumnLabels& labels, std::span<const double> weights)
        : scores_(scores), reader_(labels, weights) {}

    void append(std::size_t l, Cuts& cuts) {
        const auto& cells = reader_.read(scores_, l);
        sorted_.clear();
        for (const auto& cell : cells.positive) sorted_.push_back(cell.score);
        std::sort(sorted_.begin(), sorted_.end());
        ladder_.assign(sorted_);
        hits_.assign(ladder_.size(), 0.0);
        misses_.assign(ladder_.size(), 0.0);
        for (const auto& cell : cells.positive) hits_[ladder_.find(cell.score)] += cell.weight;
        for (const auto& cell : cells.negative) {
            if (cell.score < ladder_.lowest()) {
                ladder_.saw_below(cell.score);
                continue;
            }
            const auto j = ladder_.find(cell.score);
            misses_[j] += cell.weight;
            ladder_.saw(j, cell.score);
        }
        double hits = 0.0, predicted = 0.0;
        for (std::size_t j = ladder_.size(); j-- > 0;) {
            hits += hits_[j];
            predicted += hits_[j] + misses_[j];
            cuts.thresholds.push_back(ladder_.template threshold<T>(j));
            cuts.hits.push_back(hits);
            cuts.predicted.push_back(predicted);
        }
        cuts.offsets.push_back(static_cast<std::int64_t>(cuts.thresholds.size()));
        cuts.positives.push_back(cells.positives);
        cuts.squares.push_back(cells.squares);
        cuts.known.push_back(cells.known);
        double lowest = infinity;
        for (const auto& cell : cells.positive) lowest = std::min(lowest, cell.score);
        for (const auto& cell : cells.negative) lowest = std::min(lowest, cell.score);
        cuts.lowest.push_back(lowest);
        const double quota = cells.all_known > 0.0 ? cells.all_positives * (cells.known / cells.all_known) : 0.0;
        const double enough = floor_of_quota(cuts, cells.unit_weights, quota);
        all_.clear();
        for (const auto& cell : cells.positive)
            if (cell.score >= enough) all_.push_back(cell);
        for (const auto& cell : cells.negative)
            if (cell.score >= enough) all_.push_back(cell);
        cuts.quota.push_back(quota_cut<T>(all_, cells.unit_weights, quota));
    }

  private:
    // A score above which there are more cells than the quota; those below need not be looked at.
    double floor_of_quota(const Cuts& cuts, bool unit_weights, double quota) const {
        if (!unit_weights) return -infinity;
        const auto begin = cuts.predicted.end() - static_cast<std::ptrdiff_t>(ladder_.size());
        const auto first = std::lower_bound(begin, cuts.predicted.end(), quota + 2.0);
        return first == cuts.predicted.end() ? -infinity : ladder_.step(ladder_.size() - 1 - (first - begin));
    }

    Scores& scores_;
    ColumnReader reader_;
    Ladder ladder_;
    std::vector<double> sorted_, hits_, misses_;
    std::vector<Cell> all_;
};

}  // namespace multimargin::decisions
