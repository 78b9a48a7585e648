#pragma once
// The coordinates in which block ascent works, and the point that holds it back.
//
// Where C |x|^2 is large, or columns differ much in size, block ascent hardly moves: a step that pays to a row moves
// every other row off its maximum. So it does not work on P, but on
//
//   P + 1/2 sum_j r_j |theta_j - centre_j|^2        j: features, the constant one, and pairs
//
// whose solution is the next centre (Rockafellar 1976; in the dual, the method of multipliers). With the share
// s_j = 1 / (1 + r_j), Theta(a) and v(a) as in problem.hpp, and x_j, k_j, theta_j multiplied by
// sqrt(s_j), sqrt(s_j), 1 / sqrt(s_j), this is the old problem again with a constant added to Theta and v:
//
//   theta_j = sqrt(s_j) Theta_j(a) + (1 - s_j) centre_j      (pairs: the positive part of it)
//
// Shares are powers of four, so that nothing is rounded. None is above a lid, which falls with C |x|^2 times the number
// of true labels of a row: as many labels move together, each by its part of the loss. Beyond, shares level the columns:
// with m_j = mean of c_n x_nj^2, s_j = min(lid, level / m_j), where the level at first makes the sum of min(m_j, level)
// `easy`. Where C |x|^2 is small all shares are 1, and there is neither a copy of X nor a centre.
//
// The gap of P is the gap of the problem held back plus 1/2 sum_j r_j^2 |theta_j - centre_j|^2. The centre moves after
// every pass, long before the problem held back is solved: to solve it first takes many times the passes. Where the
// second part of the gap falls too slowly the shares rise.
//
// Passes to a gap of 1e-3, in place of gaps of .8 to 1 after 1000 passes: 87 on emotions as it comes (C |x|^2 = 4e4),
// 196 on yeast times 100 (1e4), 20 to 124 on 60 normal rows (6e2 to 6e6). Tried there: easy from 1/64 to 64, levels
// that balance the two parts, several passes for each centre. The lid, with C |x|^2 = 1: passes to 1e-3 fall from 34 to
// 17 on yeast (4 labels a row; lid 1/16), passes to 1e-2 from 98 to 58 on 502 rows with 36 of 174 labels each (1/16). A
// lid that is too low costs more than it gains: scene, one label a row, 12 passes without, 10 with 1/4, 29 with 1/16.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/submodular/problem.hpp"

namespace multimargin::submodular {

// X with its columns multiplied: a copy of the values.
template <RowMatrix X>
class ScaledRows {
  public:
    using T = typename X::value_type;

    explicit ScaledRows(const X& x) : x_(x) {
        offsets_.push_back(0);
        for (Index n = 0; n < x.rows(); ++n) offsets_.push_back(offsets_.back() + x.row(n).size());
    }

    void scale(std::span<const double> factor) {
        values_.resize(static_cast<std::size_t>(offsets_.back()));
        auto value = values_.begin();
        for (Index n = 0; n < x_.rows(); ++n) {
            const auto row = x_.row(n);
            for (Index k = 0; k < row.size(); ++k) *value++ = static_cast<T>(row.values[k] * factor[row.column(k)]);
        }
    }

    X view() const {
        if constexpr (requires { x_.row(0).columns; })
            return X(values_.data(), x_.row(0).columns.data(), offsets_.data(), x_.rows(), x_.cols());
        else
            return X(values_.data(), x_.rows(), x_.cols());
    }

  private:
    const X& x_;
    std::vector<T> values_;
    std::vector<std::int64_t> offsets_;
};

template <RowMatrix X>
class SubmodularCoordinates {
  public:
    explicit SubmodularCoordinates(const SubmodularProblem<X>& p)
        : p_(p), mean_(column_means()), lid_(first_lid()), copy_(p.x), factor_(p.factor.begin(), p.factor.end()) {
        set_level(level_for(mean_));
    }

    bool held_back() const { return lid_ < 1 || level_ < *std::max_element(mean_.begin(), mean_.end()); }
    // factor: a power of four
    void raise(double factor) {
        lid_ = std::min(1.0, factor * lid_);
        set_level(level_ * factor);
    }

    X x() const { return held_back() ? copy_.view() : p_.x; }
    double bias() const { return p_.bias * root(p_.x.cols()); }
    // sqrt(s) of a feature, cols for the constant one
    double root(Index j) const { return root_[static_cast<std::size_t>(j)]; }
    double pair_root(std::size_t e) const { return root_[first_pair() + e]; }
    double factor(std::size_t e) const { return factor_[e]; }

  private:
    static constexpr double easy = 24.0;
    static constexpr double lowest_lid = 1.0 / 16;

    std::size_t first_pair() const { return static_cast<std::size_t>(p_.x.cols()) + 1; }

    void set_level(double level) {
        level_ = level;
        root_.clear();
        const double most = std::sqrt(lid_);
        for (double m : mean_)
            root_.push_back(m > level ? std::min(most, std::exp2(std::floor(0.5 * std::log2(level / m)))) : most);
        for (std::size_t e = 0; e < factor_.size(); ++e) factor_[e] = p_.factor[e] * pair_root(e);
        if (held_back()) copy_.scale(root_);
    }

    // About 1 / (4 C |x|^2 times the true labels of a row); of C |x|^2 the level takes care beyond 1. The Hamming loss of a
    // label does not depend on the others.
    double first_lid() const {
        double square = 0.0, labels = 0.0;
        for (std::size_t j = 0; j < first_pair(); ++j) square += mean_[j];
        for (auto t : p_.truth) labels += t == present;
        const double per_row = p_.loss == LossKind::f_score ? labels / static_cast<double>(p_.rows()) : 1.0;
        const double hardness = 4.0 * std::min(square, 1.0) * std::max(per_row, 1.0);
        if (!(hardness > 1)) return 1.0;
        return std::max(lowest_lid, std::exp2(-2.0 * std::floor(0.5 * std::log2(hardness))));
    }

    // Means of c_n x_nj^2: of the features, the constant one, and the pairs.
    std::vector<double> column_means() const {
        std::vector<double> mean(first_pair(), 0.0);
        double cost = 0.0;
        for (Index n = 0; n < p_.rows(); ++n) {
            const auto row = p_.x.row(n);
            cost += p_.cost[n];
            for (Index k = 0; k < row.size(); ++k) {
                const double x = row.values[k];
                mean[row.column(k)] += p_.cost[n] * x * x;
            }
        }
        mean.back() = cost * p_.bias * p_.bias;
        for (double k : p_.factor) mean.push_back(cost * k * k);
        for (double& m : mean) m /= static_cast<double>(p_.rows());
        return mean;
    }

    // Sum of min(mean, level) = easy, if the sum of the means is larger.
    static double level_for(std::vector<double> mean) {
        std::sort(mean.begin(), mean.end());
        double below = 0.0;
        for (std::size_t j = 0; j < mean.size(); ++j) {
            const double level = (easy - below) / static_cast<double>(mean.size() - j);
            if (level <= mean[j]) return level;
            below += mean[j];
        }
        return mean.back();
    }

    const SubmodularProblem<X>& p_;
    std::vector<double> mean_, root_;  // features, the constant one, pairs
    double lid_;                       // of the shares
    double level_ = 0.0;
    ScaledRows<X> copy_;
    std::vector<double> factor_;
};

// By what to raise the level, pass by pass: four, where what the centre adds to the gap has not halved in forty passes.
class HoldSchedule {
  public:
    double factor(double held) {
        least_ = std::min(least_, held);
        if (++passes_ < 40) return 1.0;
        const bool slow = least_ > 0.5 * last_;
        passes_ = 0;
        last_ = least_;
        return slow ? 4.0 : 1.0;
    }

  private:
    int passes_ = 0;
    double least_ = std::numeric_limits<double>::infinity(), last_ = least_;
};

}  // namespace multimargin::submodular
