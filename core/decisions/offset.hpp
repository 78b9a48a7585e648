#pragma once
// One threshold for all cells of a matrix that is best for the weighted sum of F over groups of cells: the rows of the
// matrix, or, when it is transposed, the labels.
//
//   maximise over t  sum_g v_g F_g(t),   F_g = (1 + b) TP_g / (b P_g + k_g),   k_g = cells of g with score > t
//
// Moving t down past a cell changes the F of its group alone. Each group is walked from its best cell down, and every
// change is entered at the step of the ladder of positive scores below its cell: as for a single label, the lowest
// group of equal scores above a best threshold holds a positive. Suffix sums over the ladder give the objective at
// every candidate. O(cells (log group + log positives)) time. A group without positives has F = 1 until something is
// predicted, then 0; give it v_g = 0 to leave it out.
//
// With `at_least_one` the best cell of a group is predicted whatever t is.

#include "core/decisions/cuts.hpp"

namespace multimargin::decisions {

struct OffsetProblem {
    std::span<const double> scores;           // of the cells that have one, group by group
    std::span<const std::int64_t> starts;     // group g has the cells starts[g] .. starts[g + 1]
    std::span<const std::int64_t> member_of;  // empty: every group has a cell for each member, in order
    Marks positive, unknown;                  // members of each group
    std::span<const double> group_weights, member_weights;
    double beta_squared;
    bool at_least_one;
};

struct Offset {
    double threshold, value;
};

class OffsetSweep {
  public:
    explicit OffsetSweep(const OffsetProblem& problem)
        : problem_(problem), kind_(problem.member_weights.size(), negative) {
        std::vector<double> sorted;
        for (std::size_t g = 0; g + 1 < problem.starts.size(); ++g) {
            read(g);
            for (const auto& cell : cells_)
                if (cell.positive) sorted.push_back(cell.score);
        }
        std::sort(sorted.begin(), sorted.end());
        ladder_.assign(sorted);
        gains_.assign(ladder_.size(), 0.0);
    }

    // Enters group g.
    void add(std::size_t g) {
        const double v = problem_.group_weights[g];
        read(g);
        if (v == 0.0) return;
        std::sort(cells_.begin(), cells_.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
        double hits = 0.0, predicted = 0.0;
        if (always_ != none) {
            predicted = always_weight_;
            hits = always_positive_ ? always_weight_ : 0.0;
        }
        double f = measure(hits, predicted);
        base_ += v * f;
        for (const auto& cell : cells_) {
            if (cell.score < ladder_.lowest()) {
                ladder_.saw_below(cell.score);
                break;  // the highest below is all the threshold needs
            }
            predicted += cell.weight;
            if (cell.positive) hits += cell.weight;
            const double next = measure(hits, predicted);
            const auto j = ladder_.find(cell.score);
            ladder_.saw(j, cell.score);
            gains_[j] += v * (next - f);
            f = next;
        }
    }

    Offset best() const {
        Offset best{infinity, base_};
        double value = base_;
        for (std::size_t j = gains_.size(); j-- > 0;) {
            value += gains_[j];
            if (value > best.value) best = {ladder_.threshold<double>(j), value};
        }
        return best;
    }

  private:
    enum Kind : std::uint8_t { negative, positive, unknown };
    struct Member {
        double score, weight;
        bool positive;
    };
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    double measure(double hits, double predicted) const {
        const double whole = problem_.beta_squared * positives_ + predicted;
        return whole > 0.0 ? (1.0 + problem_.beta_squared) * hits / whole : 1.0;
    }

    void read(std::size_t g) {
        cells_.clear();
        positives_ = 0.0;
        always_ = none;
        for (const auto m : problem_.positive.rows(g)) kind_[static_cast<std::size_t>(m)] = positive;
        for (const auto m : problem_.unknown.rows(g)) kind_[static_cast<std::size_t>(m)] = unknown;
        for (const auto m : problem_.positive.rows(g))
            if (kind_[static_cast<std::size_t>(m)] == positive)
                positives_ += problem_.member_weights[static_cast<std::size_t>(m)];
        const auto begin = static_cast<std::size_t>(problem_.starts[g]);
        const auto scores = problem_.scores.subspan(begin, static_cast<std::size_t>(problem_.starts[g + 1]) - begin);
        if (problem_.at_least_one) {
            for (std::size_t e = 0; e < scores.size(); ++e)
                if (scores[e] > (always_ == none ? -infinity : scores[always_])) always_ = e;
        }
        always_weight_ = 0.0;
        for (std::size_t e = 0; e < scores.size(); ++e) {
            const auto m = problem_.member_of.empty() ? e : static_cast<std::size_t>(problem_.member_of[begin + e]);
            const double w = problem_.member_weights[m];
            if (kind_[m] == unknown || w == 0.0) continue;
            const bool is_positive = kind_[m] == positive;
            if (std::isnan(scores[e])) {
                if (is_positive) positives_ -= w;
            } else if (e == always_) {
                always_weight_ = w;
                always_positive_ = is_positive;
            } else if (scores[e] > -infinity) {
                cells_.push_back({scores[e], w, is_positive});
            }
        }
        for (const auto m : problem_.positive.rows(g)) kind_[static_cast<std::size_t>(m)] = negative;
        for (const auto m : problem_.unknown.rows(g)) kind_[static_cast<std::size_t>(m)] = negative;
    }

    OffsetProblem problem_;
    std::vector<Kind> kind_;
    Ladder ladder_;
    std::vector<double> gains_;
    std::vector<Member> cells_;
    double base_ = 0.0, positives_ = 0.0, always_weight_ = 0.0;
    std::size_t always_ = none;
    bool always_positive_ = false;
};

}  // namespace multimargin::decisions
