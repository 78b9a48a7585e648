#pragma once
// Iterative stratification: deals the rows of a multi-label data set to folds so that every fold has its
// share of every label. After Sechidis, Tsoumakas, Vlahavas, "On the stratification of multi-label data",
// ECML PKDD 2011, algorithm 1, with hard fold sizes.
//
// Given are the labels of each row (CSR: row i has the labels columns[offsets[i] .. offsets[i+1]), no label
// twice), the size of every fold, where the sizes sum to n, and its share p_f, an integer, where the shares
// sum to p. Fold f wants N_l p_f / p of the N_l rows with label l. (Shares are not sizes: in five folds of 11
// rows one fold is larger, but it must not attract every rare label.) A row without labels carries one label
// more, "none", so that such rows are spread like any other.
//
//   while rows are left:
//     l <- the label with the fewest rows left, but at least one
//     for every row i left that has l:
//       f <- among the folds with room, the one that wants most rows with l; then the one that wants most of
//       the other
//            labels of i, each label measured by its frequency; then the one with most room
//       give i to f; for every label of i, f wants one row less
//
// The paper goes straight from the first criterion to room. The first one ties often (a rare label has fewer
// rows than there are folds); looking at the row's other labels there keeps the frequent labels even too.
// Because room is a hard bound, the folds have exactly the sizes asked for, whatever the labels.
//
// Ties between labels: the one whose count fell last. Rows with l are visited in the order of a random
// permutation, and remaining ties between folds are broken at random; with a null generator both follow the
// row and fold numbers. Wants are kept as the integers N_l p_f - p (rows given), so the first and the last
// criterion are exact; the second is a sum of doubles in a fixed order without products to contract. The
// answer is the same on every platform.
//
// Cost: O(nnz (k + 1) + n k) time for k folds, by a bucket queue on the counts, whose head moves at most n +
// nnz steps; O(nnz + L k + n) memory. p times the largest N_l must stay below 2^63.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/rng.hpp"

namespace multimargin::splits {

// Labels by the number of their rows still to deal; counts only fall.
class RarestFirst {
  public:
    explicit RarestFirst(std::span<const std::int64_t> counts)
        : counts_(counts.begin(), counts.end()), next_(counts.size()), previous_(counts.size()) {
        heads_.assign(1 + static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end())), none);
        for (std::size_t l = counts.size(); l-- > 0;) link(static_cast<std::int32_t>(l));
        rarest_ = 1;
    }

    void decrement(std::int32_t label) {
        unlink(label);
        --counts_[at(label)];
        link(label);
        if (counts_[at(label)] > 0) rarest_ = std::min(rarest_, at(counts_[at(label)]));
    }

    // The label with the fewest rows left, or -1 when no row is left.
    std::int32_t rarest() {
        while (rarest_ < heads_.size() && heads_[rarest_] == none) ++rarest_;
        return rarest_ < heads_.size() ? heads_[rarest_] : none;
    }

  private:
    static constexpr std::int32_t none = -1;
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    void link(std::int32_t label) {
        auto& head = heads_[at(counts_[at(label)])];
        next_[at(label)] = head;
        previous_[at(label)] = none;
        if (head != none) previous_[at(head)] = label;
        head = label;
    }

    void unlink(std::int32_t label) {
        const auto before = previous_[at(label)], after = next_[at(label)];
        if (after != none) previous_[at(after)] = before;
        (before != none ? next_[at(before)] : heads_[at(counts_[at(label)])]) = after;
    }

    std::vector<std::int64_t> counts_;
    std::vector<std::int32_t> next_, previous_, heads_;
    std::size_t rarest_;
};

// Lists the rows of every label, in the order of `visits`: the transpose of the CSR matrix, with "none" last.
struct RowsOfLabels {
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> rows;

    RowsOfLabels(std::span<const std::int64_t> row_offsets, std::span<const std::int32_t> columns,
                 std::span<const std::int64_t> visits, std::int32_t labels)
        : offsets(static_cast<std::size_t>(labels) + 2, 0) {
        const auto each = [&](std::int64_t i, auto&& f) {
            const auto begin = row_offsets[static_cast<std::size_t>(i)];
            const auto end = row_offsets[static_cast<std::size_t>(i) + 1];
            if (begin == end) f(static_cast<std::size_t>(labels));
            for (auto e = begin; e < end; ++e) f(static_cast<std::size_t>(columns[static_cast<std::size_t>(e)]));
        };
        for (const auto i : visits) each(i, [&](std::size_t l) { ++offsets[l + 1]; });
        std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
        rows.resize(static_cast<std::size_t>(offsets.back()));
        auto cursor = offsets;
        for (const auto i : visits) each(i, [&](std::size_t l) { rows[static_cast<std::size_t>(cursor[l]++)] = i; });
    }
};

class Stratifier {
  public:
    // rng may be null: no shuffling, ties to the first fold.
    Stratifier(std::span<const std::int64_t> row_offsets, std::span<const std::int32_t> columns, std::int32_t labels,
               std::span<const std::int64_t> sizes, std::span<const std::int64_t> shares, Rng* rng)
        : row_offsets_(row_offsets),
          columns_(columns),
          none_(labels),
          rng_(rng),
          total_share_(std::accumulate(shares.begin(), shares.end(), std::int64_t{0})),
          room_(sizes.begin(), sizes.end()),
          by_label_(row_offsets, columns, visits(row_offsets.size() - 1, rng), labels) {
        const auto folds = room_.size();
        wants_.resize((static_cast<std::size_t>(labels) + 1) * folds);
        for (std::size_t l = 0; l <= static_cast<std::size_t>(labels); ++l)
            for (std::size_t f = 0; f < folds; ++f) wants_[l * folds + f] = count(l) * shares[f];
    }

    // Writes the fold of every row.
    void deal(std::span<std::int32_t> fold_of_row) {
        std::fill(fold_of_row.begin(), fold_of_row.end(), -1);
        std::vector<std::int64_t> counts(static_cast<std::size_t>(none_) + 1);
        for (std::size_t l = 0; l < counts.size(); ++l) counts[l] = count(l);
        RarestFirst queue(counts);
        for (auto label = queue.rarest(); label >= 0; label = queue.rarest()) {
            const auto begin = by_label_.offsets[static_cast<std::size_t>(label)];
            const auto end = by_label_.offsets[static_cast<std::size_t>(label) + 1];
            for (auto e = begin; e < end; ++e) {
                const auto row = by_label_.rows[static_cast<std::size_t>(e)];
                auto& fold = fold_of_row[static_cast<std::size_t>(row)];
                if (fold >= 0) continue;
                const auto chosen = choose(label, labels_of(row));
                fold = static_cast<std::int32_t>(chosen);
                --room_[chosen];
                for (const auto l : labels_of(row)) {
                    wants_[static_cast<std::size_t>(l) * room_.size() + chosen] -= total_share_;
                    queue.decrement(l);
                }
            }
        }
    }

  private:
    static std::vector<std::int64_t> visits(std::size_t n, Rng* rng) {
        std::vector<std::int64_t> order(n);
        std::iota(order.begin(), order.end(), std::int64_t{0});
        if (rng) rng->shuffle(std::span(order));
        return order;
    }

    std::int64_t count(std::size_t label) const { return by_label_.offsets[label + 1] - by_label_.offsets[label]; }

    std::span<const std::int32_t> labels_of(std::int64_t row) const {
        const auto begin = static_cast<std::size_t>(row_offsets_[static_cast<std::size_t>(row)]);
        const auto end = static_cast<std::size_t>(row_offsets_[static_cast<std::size_t>(row) + 1]);
        return begin == end ? std::span(&none_, 1) : columns_.subspan(begin, end - begin);
    }

    // How much fold f wants the labels of a row: the sum of their wants, each as a share of the label's rows.
    double appetite(std::size_t fold, std::span<const std::int32_t> labels) const {
        double sum = 0.0;
        for (const auto l : labels) {
            const auto label = static_cast<std::size_t>(l);
            sum += static_cast<double>(wants_[label * room_.size() + fold]) / static_cast<double>(count(label));
        }
        return sum;
    }

    std::size_t choose(std::int32_t label, std::span<const std::int32_t> labels) {
        const auto folds = room_.size();
        const auto* wants = &wants_[static_cast<std::size_t>(label) * folds];
        std::int64_t most = std::numeric_limits<std::int64_t>::min();
        int tied = 0;
        std::size_t best = 0;
        for (std::size_t f = 0; f < folds; ++f) {
            if (room_[f] <= 0 || wants[f] < most) continue;
            tied = wants[f] > most ? 1 : tied + 1;
            if (tied == 1) best = f;
            most = wants[f];
        }
        if (tied == 1) return best;
        double best_appetite = 0.0;
        tied = 0;
        for (std::size_t f = best; f < folds; ++f) {
            if (room_[f] <= 0 || wants[f] != most) continue;
            const double a = labels.size() > 1 ? appetite(f, labels) : 0.0;
            const bool better = tied == 0 || a > best_appetite || (a == best_appetite && room_[f] > room_[best]);
            if (!better && (a < best_appetite || room_[f] < room_[best])) continue;
            tied = better ? 1 : tied + 1;
            // Keeping the t-th of the tied folds with probability 1/t makes each equally likely.
            if (better || (rng_ && rng_->below(static_cast<std::uint64_t>(tied)) == 0)) best = f;
            best_appetite = a;
        }
        return best;
    }

    std::span<const std::int64_t> row_offsets_;
    std::span<const std::int32_t> columns_;
    std::int32_t none_;
    Rng* rng_;
    std::int64_t total_share_;
    std::vector<std::int64_t> room_;
    RowsOfLabels by_label_;
    std::vector<std::int64_t> wants_;  // (labels + 1) x folds, times p
};

}  // namespace multimargin::splits
