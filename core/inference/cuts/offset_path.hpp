#pragma once
// All predictions along an offset: the maximisers of S(y) + d |y| for d in [low, high].
//
// They grow with d. Isolated labels enter at d = -u_i. For the others the lines S(y) + d |y| have an upper envelope;
// where two neighbouring lines meet, one cut tells whether another line passes above (Eisner & Severance 1976).

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/inference/cuts/f_score_cut.hpp"
#include "core/inference/cuts/graph_cut.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

class OffsetPath {
  public:
    struct Step {
        double offset;  // from here on
        double change;  // the row's F-score changes by this much
    };

    OffsetPath(int labels, std::span<const std::pair<int, int>> pairs, const double* w) : cut_(labels, pairs) {
        cut_.set_weights(w);
    }

    // The F-score of a row at `low`, and its changes up to `high` in order. Unknown labels are not counted; `firm`
    // labels do not move with the offset.
    double walk(const double* u, const std::uint8_t* truth, const std::uint8_t* firm, double low, double high,
                std::vector<Step>& steps) {
        truth_ = truth;
        events_.clear();
        int s = 0, f = 0, m = 0;
        for (int l = 0; l < cut_.labels(); ++l) m += truth[l] == present;
        for (int l : cut_.isolated()) {
            if (truth[l] == unknown) continue;
            const double entry = firm[l] ? (u[l] > 0 ? low : high) : -u[l];
            if (firm[l] ? u[l] > 0 : entry < low)
                ++(truth[l] == present ? s : f);
            else if (entry < high)
                events_.push_back({entry, l});
        }
        walk_nodes(u, low, high, s, f);
        std::sort(events_.begin(), events_.end());
        const FScoreLoss loss{m};
        const double start = 1.0 - loss(s, f);
        double last = start;
        for (auto [offset, l] : events_) {
            ++(truth[l] == present ? s : f);
            const double now = 1.0 - loss(s, f);
            steps.push_back({offset, now - last});
            last = now;
        }
        return start;
    }

  private:
    struct Line {
        std::vector<std::uint8_t> y;
        double score;
        int size;
        double at(double d) const { return score + d * size; }
    };

    void walk_nodes(const double* u, double low, double high, int& s, int& f) {
        if (!cut_.nodes()) return;
        u_.resize(static_cast<std::size_t>(cut_.nodes()));
        for (int i = 0; i < cut_.nodes(); ++i) u_[i] = u[cut_.label_of(i)];
        cut_.start(u_, std::max(std::abs(low), std::abs(high)));
        const Line first = line(low), last = line(high);
        for (int i = 0; i < cut_.nodes(); ++i)
            if (first.y[i]) {
                const auto t = truth_[cut_.label_of(i)];
                if (t != unknown) ++(t == present ? s : f);
            }
        between(first, last, low, high);
    }

    Line line(double d) {
        Line result{std::vector<std::uint8_t>(u_.size()), 0.0, 0};
        const double slopes[] = {d};
        cut_.cut(nullptr, slopes, nullptr, Ties::smallest, result.y.data());
        result.score = cut_.score(u_, result.y.data());
        result.size = static_cast<int>(std::count(result.y.begin(), result.y.end(), std::uint8_t{1}));
        return result;
    }

    void between(const Line& a, const Line& b, double low, double high) {
        if (a.size >= b.size) return;
        const double meet = std::clamp((a.score - b.score) / (b.size - a.size), low, high);
        Line middle = line(meet);
        const double slack = cut_.rounding() + 1e-12 * (1.0 + std::abs(a.at(meet)));
        if (middle.at(meet) > a.at(meet) + slack && middle.size > a.size && middle.size < b.size) {
            between(a, middle, low, meet);
            between(middle, b, meet, high);
            return;
        }
        for (int i = 0; i < cut_.nodes(); ++i)
            if (b.y[i] && !a.y[i] && truth_[cut_.label_of(i)] != unknown) events_.push_back({meet, cut_.label_of(i)});
    }

    GraphCut cut_;
    const std::uint8_t* truth_ = nullptr;
    std::vector<double> u_;
    std::vector<std::pair<double, int>> events_;
};

}  // namespace multimargin::inference
