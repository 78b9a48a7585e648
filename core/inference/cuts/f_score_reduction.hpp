#pragma once
// Labels whose value in some maximiser of G(y) = S(y) + h(s, f) (f_score_cut.hpp) follows from bounds.
//
// One more label changes h by
//   true labels    h(s + 1, f) - h(s, f) = -2 t / ((s + t) (s + t + 1)),   t = f + m,   which grows with s and with f,
//   other labels   h(s, f + 1) - h(s, f) =  2 s / ((s + t) (s + t + 1)) >= 0,   which grows with s and falls with f.
// With bounds of s and f, and of what the label itself adds to S (its score, with the pairs to labels known to be on,
// or with all that may be on), a label that cannot lower G is on, one that cannot raise it is off. Each decision
// tightens the bounds of the others, until nothing changes. What is left has scores that include the pairs to labels
// that are on.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/inference/cuts/graph_cut.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

// What is known of label i of a row.
enum Truth : std::uint8_t { absent = 0, present = 1, unknown = 2 };

class FScoreReduction {
  public:
    // Items are the nodes of the graph, then its isolated labels.
    enum State : std::uint8_t { off = 0, on = 1, open = 2 };

    // Without `decide` only unknown labels are off, and all others stay open.
    void run(const GraphCut& graph, const double* u, const std::uint8_t* truth, bool decide) {
        prepare(graph, u, truth);
        for (bool changed = decide; changed && !open_.empty();) {
            const Limits now = limits();
            std::size_t kept = 0;
            for (const int i : open_) {
                const bool must = truth_[i] ? own_[i] >= now.most_lost : own_[i] >= 0;
                const bool never = truth_[i] ? reach_[i] <= now.least_lost : reach_[i] + now.most_won <= 0;
                if (must || never)
                    settle(graph, i, must);
                else
                    open_[kept++] = i;
            }
            changed = kept < open_.size();
            open_.resize(kept);
        }
    }

    static int label_of(const GraphCut& graph, int item) {
        return item < graph.nodes() ? graph.label_of(item) : graph.isolated()[item - graph.nodes()];
    }
    const std::vector<int>& left() const { return open_; }
    State state(int item) const { return state_[item]; }
    bool is_true(int item) const { return truth_[item] != 0; }
    double own(int item) const { return own_[item]; }  // score of an open item, with its pairs to items that are on
    double base() const { return base_; }              // S of the items that are on
    int s() const { return s_low_; }                   // how many of them are true labels,
    int f() const { return f_low_; }                   // and how many are not
    int m() const { return m_; }

  private:
    struct Limits {
        double most_lost, least_lost, most_won;
    };

    void prepare(const GraphCut& graph, const double* u, const std::uint8_t* truth) {
        const auto items = static_cast<std::size_t>(graph.labels());
        own_.resize(items);
        reach_.resize(items);
        truth_.resize(items);
        state_.resize(items);
        open_.clear();
        s_low_ = f_low_ = s_high_ = f_high_ = 0;
        base_ = 0.0;
        bool some_unknown = false;
        for (int i = 0; i < graph.labels(); ++i) {
            const int l = label_of(graph, i);
            own_[i] = reach_[i] = u[l];
            if (i < graph.nodes()) reach_[i] += graph.degree(i);
            truth_[i] = truth[l] == present;
            state_[i] = truth[l] == unknown ? off : open;
            if (state_[i] == open) {
                ++(truth_[i] ? s_high_ : f_high_);
                open_.push_back(i);
            } else {
                some_unknown = true;
            }
        }
        m_ = s_high_;
        if (!some_unknown) return;
        for (int i = 0; i < graph.nodes(); ++i)
            if (state_[i] == off) tell_neighbours(graph, i);
    }

    // By how much one more label can change h.
    Limits limits() const {
        if (m_ == 0) return {0.0, 0.0, f_low_ > 0 ? 0.0 : 1.0};
        const auto lost = [&](int s, int f) {
            const double t = f + m_;
            return 2.0 * t / ((s + t) * (s + t + 1.0));
        };
        const double all = s_high_ + f_low_ + m_;
        return {lost(s_low_, f_low_), lost(std::max(s_high_ - 1, 0), f_high_), 2.0 * s_high_ / (all * (all + 1.0))};
    }

    void settle(const GraphCut& graph, int i, bool must) {
        state_[i] = must ? on : off;
        if (must) {
            base_ += own_[i];
            ++(truth_[i] ? s_low_ : f_low_);
        } else {
            --(truth_[i] ? s_high_ : f_high_);
        }
        if (i < graph.nodes()) tell_neighbours(graph, i);
    }
    void tell_neighbours(const GraphCut& graph, int i) {
        for (const auto& [j, weight] : graph.neighbours(i)) {
            if (state_[i] == on)
                own_[j] += weight;
            else
                reach_[j] -= weight;
        }
    }

    std::vector<double> own_, reach_;
    std::vector<std::uint8_t> truth_;
    std::vector<State> state_;
    std::vector<int> open_;
    int s_low_ = 0, f_low_ = 0, s_high_ = 0, f_high_ = 0, m_ = 0;
    double base_ = 0.0;
};

}  // namespace multimargin::inference
