#pragma once
// The label set of largest expected F of one row whose labels are independent with probabilities p_1 >= p_2 >= ...
//
//   f(k) = E[(1 + b) a / (k + b (a + c))],  a = positives among the k most likely labels, c = among the others;
//   f(0) = P(no label), for an empty set is right for an empty row.
//
// A best set consists of the k most likely labels: putting j in the place of i changes E F by (p_j - p_i) times a
// positive expectation. With m_k = p_1 + ... + p_k, by Jensen's inequality,
//
//   sum_{i <= k} (1 + b) p_i / (k + b (1 + m_L - p_i))  <=  f(k)  <=  (1 + b) m_k / (k + b m_k),
//
// and the upper bound never rises with k. So only k up to the first K whose upper bound is not above the best lower
// bound are looked at (f itself may fall and rise again). For those, the distributions of a and c are built up by one
// label at a time; entries of c below 1e-16 at its upper end are dropped. O(L log L + L width + K^2 width).

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace multimargin::decisions {

class ExpectedF {
  public:
    explicit ExpectedF(double beta_squared) : b_(beta_squared) {}

    // Writes 1 for the labels of the best set, 0 elsewhere. Equally likely labels: the first ones. Returns its value.
    double decode(std::span<const double> p, std::span<std::uint8_t> chosen) {
        order_.resize(p.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::stable_sort(order_.begin(), order_.end(), [&](std::size_t i, std::size_t j) { return p[i] > p[j]; });
        sorted_.resize(p.size());
        for (std::size_t r = 0; r < p.size(); ++r) sorted_[r] = p[order_[r]];
        const auto [size, value] = best();
        std::fill(chosen.begin(), chosen.end(), std::uint8_t{0});
        for (std::size_t r = 0; r < size; ++r) chosen[order_[r]] = 1;
        return value;
    }

  private:
    static constexpr double negligible = 1e-16;
    struct Best {
        std::size_t size;
        double value;
    };

    std::size_t largest_size(double empty) const {
        const double total = std::accumulate(sorted_.begin(), sorted_.end(), 0.0);
        double lower = empty, mass = 0.0;
        std::size_t k = 0;
        while (k < sorted_.size()) {
            mass += sorted_[k];
            const double size = static_cast<double>(k + 1);
            if (mass <= 0.0 || (1.0 + b_) * mass / (size + b_ * mass) <= lower) break;
            ++k;
            double sum = 0.0;
            for (std::size_t i = 0; i < k; ++i) sum += sorted_[i] / (size + b_ * (1.0 + total - sorted_[i]));
            // A hair below the bound, so that rounding never cuts off the best size.
            lower = std::max(lower, (1.0 + b_) * sum * (1.0 - 1e-12));
        }
        return k;
    }

    static void toss(double p, std::vector<double>& counts) {
        counts.push_back(0.0);
        for (std::size_t c = counts.size(); c-- > 1;) counts[c] = (1.0 - p) * counts[c] + p * counts[c - 1];
        counts[0] *= 1.0 - p;
        while (counts.size() > 1 && counts.back() < negligible) counts.pop_back();
    }

    Best best() {
        double empty = 1.0;
        for (const double p : sorted_) empty *= 1.0 - p;
        const auto most = largest_size(empty);
        // rest_[k]: distribution of the positives beyond the k most likely labels
        if (rest_.size() < most + 1) rest_.resize(most + 1);
        rest_[most].assign(1, 1.0);
        for (std::size_t r = most; r < sorted_.size(); ++r) toss(sorted_[r], rest_[most]);
        for (std::size_t k = most; k-- > 0;) {
            rest_[k] = rest_[k + 1];
            toss(sorted_[k], rest_[k]);
        }
        Best best{0, empty};
        first_.assign(1, 1.0);
        for (std::size_t k = 1; k <= most; ++k) {
            toss(sorted_[k - 1], first_);
            const auto& rest = rest_[k];
            double value = 0.0;
            for (std::size_t a = 1; a < first_.size(); ++a) {
                if (first_[a] < negligible) continue;
                double mean = 0.0;
                for (std::size_t c = 0; c < rest.size(); ++c)
                    mean += rest[c] / (static_cast<double>(k) + b_ * static_cast<double>(a + c));
                value += first_[a] * static_cast<double>(a) * mean;
            }
            value *= 1.0 + b_;
            if (value > best.value) best = {k, value};
        }
        return best;
    }

    double b_;
    std::vector<std::size_t> order_;
    std::vector<double> sorted_, first_;
    std::vector<std::vector<double>> rest_;
};

}  // namespace multimargin::decisions
