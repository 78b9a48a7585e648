#pragma once
// The best labels of score plus F-score loss where labels do not interact: max over y of sum u_i y_i + h(s, f).
//
// Among the true labels the s best are taken, among the others the f best; prefix sums give their score. For fixed s
// the value is concave in f, and its best f grows with s since the cross difference of h is >= 0: one pointer for each,
// so O(V log V) in all, by sorting. Labels outside this set may add (s, f) of their own: that is how the isolated
// labels are eliminated from the problem with pairs (f_score_cut.hpp).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

class SeparableFScore {
  public:
    void clear() {
        in_.clear();
        out_.clear();
    }
    void add(double u, int label, bool is_true) { (is_true ? in_ : out_).emplace_back(u, label); }
    // Call once after the last add().
    void prepare() {
        sort_and_sum(in_, in_sum_);
        sort_and_sum(out_, out_sum_);
        surely_out_ = 0;  // h never falls with f: labels with a positive score are always taken
        while (surely_out_ < out_.size() && out_[surely_out_].first > 0) ++surely_out_;
    }
    int true_labels() const { return static_cast<int>(in_.size()); }

    struct Best {
        double value = -std::numeric_limits<double>::infinity();
        int s = 0, f = 0;
    };

    // The best choice here when s2 true and f2 other labels are taken elsewhere.
    template <class Loss>
    Best best(const Loss& h, int s2, int f2) const {
        Best best;
        std::size_t f = surely_out_;
        for (std::size_t s = 0; s < in_sum_.size(); ++s) {
            const int all_s = s2 + static_cast<int>(s);
            double here = h(all_s, f2 + static_cast<int>(f));
            while (f < out_.size()) {
                const double next = h(all_s, f2 + static_cast<int>(f) + 1);
                if (!(out_[f].first + next - here > 0)) break;
                here = next;
                ++f;
            }
            const double value = in_sum_[s] + out_sum_[f] + here;
            if (value > best.value) best = {value, static_cast<int>(s), static_cast<int>(f)};
        }
        return best;
    }

    // values[k] = value of best(h, first + k, f2), k = 0..count. What the other labels add to h depends on the sum of the
    // true labels only.
    template <class Loss>
    void best_values(const Loss& h, int first, int count, int f2, std::vector<double>& values) {
        const std::size_t most = in_sum_.size() + static_cast<std::size_t>(count);
        reach_.resize(most);
        std::size_t f = surely_out_;
        for (std::size_t k = 0; k < most; ++k) {
            const int s = first + static_cast<int>(k);
            double here = h(s, f2 + static_cast<int>(f));
            while (f < out_.size()) {
                const double next = h(s, f2 + static_cast<int>(f) + 1);
                if (!(out_[f].first + next - here > 0)) break;
                here = next;
                ++f;
            }
            reach_[k] = out_sum_[f] + here;
        }
        values.assign(static_cast<std::size_t>(count) + 1, -std::numeric_limits<double>::infinity());
        for (std::size_t k = 0; k < values.size(); ++k)
            for (std::size_t s = 0; s < in_sum_.size(); ++s)
                values[k] = std::max(values[k], in_sum_[s] + reach_[k + s]);
    }

    void write(const Best& best, std::uint8_t* y) const {
        for (std::size_t k = 0; k < in_.size(); ++k) y[in_[k].second] = static_cast<int>(k) < best.s;
        for (std::size_t k = 0; k < out_.size(); ++k) y[out_[k].second] = static_cast<int>(k) < best.f;
    }

  private:
    using Scored = std::vector<std::pair<double, int>>;

    static void sort_and_sum(Scored& labels, std::vector<double>& sums) {
        std::sort(labels.begin(), labels.end(), std::greater<>());
        sums.assign(1, 0.0);
        for (auto& [u, label] : labels) sums.push_back(sums.back() + u);
    }

    Scored in_, out_;
    std::vector<double> in_sum_, out_sum_, reach_;
    std::size_t surely_out_ = 0;
};

}  // namespace multimargin::inference
