#pragma once
// Labellings near a given one: labels are flipped one by one, in their order, as long as that raises
//
//   S(y) + h(s, f)      (F-score loss, set_losses.hpp)
//
// No bound comes of it, and no maximum where two labels would have to change together, but a plane like any other, in a
// small part of the time an oracle takes.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/inference/cuts/f_score_reduction.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::submodular {

using namespace inference;
using namespace labels;

class LabelFlips {
  public:
    LabelFlips(int labels, std::span<const std::pair<int, int>> pairs)
        : first_(static_cast<std::size_t>(labels) + 1, 0), own_(static_cast<std::size_t>(labels)) {
        for (const auto& [a, b] : pairs) {
            ++first_[a + 1];
            ++first_[b + 1];
        }
        for (int l = 0; l < labels; ++l) first_[l + 1] += first_[l];
        arcs_.resize(2 * pairs.size());
        std::vector<int> next(first_.begin(), first_.end() - 1);
        for (std::size_t e = 0; e < pairs.size(); ++e) {
            const auto [a, b] = pairs[e];
            arcs_[next[a]++] = {b, static_cast<int>(e)};
            arcs_[next[b]++] = {a, static_cast<int>(e)};
        }
    }

    // Flips labels of y; returns by how much its value has grown. u: scores of labels, w: of pairs
    double improve(const double* u, const double* w, const std::uint8_t* truth, std::uint8_t* y) {
        const auto labels = own_.size();
        s_ = f_ = loss_.m = 0;
        for (std::size_t l = 0; l < labels; ++l) {
            own_[l] = u[l];
            loss_.m += truth[l] == present;
            if (y[l]) ++(truth[l] == present ? s_ : f_);
        }
        for (std::size_t l = 0; l < labels; ++l)
            if (y[l]) tell(l, 1.0, w);
        look();
        double gained = 0.0;
        for (int sweep = 0; sweep < most_sweeps; ++sweep) {
            bool flipped = false;
            for (std::size_t l = 0; l < labels; ++l) {
                if (truth[l] == unknown) continue;
                const bool has = truth[l] == present, on = y[l] != 0;
                const double gain = on ? without_[has] - own_[l] : with_[has] + own_[l];
                if (!(gain > least_gain)) continue;
                gained += gain;
                flipped = true;
                y[l] = !on;
                (has ? s_ : f_) += on ? -1 : 1;
                tell(l, on ? -1.0 : 1.0, w);
                look();
            }
            if (!flipped) break;
        }
        return gained;
    }

  private:
    static constexpr int most_sweeps = 10;
    static constexpr double least_gain = 1e-9;

    // By how much the loss changes with one true or other label more, and with one less.
    void look() {
        const double now = loss_(s_, f_);
        with_[1] = loss_(s_ + 1, f_) - now;
        with_[0] = loss_(s_, f_ + 1) - now;
        without_[1] = s_ > 0 ? loss_(s_ - 1, f_) - now : 0.0;
        without_[0] = f_ > 0 ? loss_(s_, f_ - 1) - now : 0.0;
    }
    // own_: score of each label with its pairs to labels that are on
    void tell(std::size_t l, double sign, const double* w) {
        for (int a = first_[l]; a < first_[l + 1]; ++a) own_[arcs_[a].first] += sign * w[arcs_[a].second];
    }

    std::vector<int> first_;                 // arcs of label l: [first_[l], first_[l + 1])
    std::vector<std::pair<int, int>> arcs_;  // the other label, the pair
    std::vector<double> own_;
    FScoreLoss loss_{0};
    int s_ = 0, f_ = 0;
    double with_[2] = {}, without_[2] = {};
};

}  // namespace multimargin::submodular
