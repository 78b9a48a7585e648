#pragma once
// Constraint generation of Petterson & Caetano (NIPS 2011) for G(y) = S(y) + 1 - 2 s / (|y| + m).
//
//   g_k(y) = S(y) - 2 s / (k + m),   y_k = its largest maximiser (one cut)
//
// Algorithm 2 returns y_k for the largest k with |y_k| = k. Some optimum contains it (Theorem 1), but it need not be
// one. Going down, k = V, then k = |y_k| until |y_k| >= k, ends at the same place as their scan upwards with fewer
// cuts. Two tests prove the answer O optimal, if they hold (they often do not, though it is):
//   paper   max over i not in O of max over y with O + i of g_k(y)  <=  g_k(O) - m 2 (V - k) / ((V + m) (k + m))
//   tight   max over i not in O of max over y with O + i of g_V(y)  <=  g_k(O)
// Where no label is true the loss jumps from 0 to 1 with the first label; the answer is then optimal unless it is
// empty. Unknown labels take no part: V counts the others.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/inference/cuts/f_score_cut.hpp"
#include "core/inference/cuts/graph_cut.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

class PaperFScore {
  public:
    struct Answer {
        double value = 0.0;
        int cuts = 0;
        bool paper_certificate = false, tight_certificate = false;
    };

    PaperFScore(int labels, std::span<const std::pair<int, int>> pairs) : cut_(labels, pairs) {}

    void set_weights(const double* w) { cut_.set_weights(w); }

    // Algorithm 2 into y. Of its tests the tight one is made if `certify`; both if also `certify_paper`.
    Answer solve(const double* u, const std::uint8_t* truth, bool upwards, bool certify, bool certify_paper,
                 std::uint8_t* y) {
        answer_ = {};
        start(u, truth);
        if (upwards)
            scan_up(y);
        else
            walk_down(y);
        answer_.value = gain(y, size(y)) + (m_ + size(y) > 0 ? 1.0 : 0.0);
        if (certify) answer_.tight_certificate = proves(y, known_, 0.0);
        if (certify_paper) {
            const int k = size(y);
            const double allowance =
                m_ > 0 ? 2.0 * (known_ - k) * m_ / ((static_cast<double>(known_) + m_) * (k + m_)) : 0.0;
            answer_.paper_certificate = proves(y, k, allowance);
        }
        return answer_;
    }

  private:
    void start(const double* u, const std::uint8_t* truth) {
        labels_u_ = u;
        truth_ = truth;
        const auto n = static_cast<std::size_t>(cut_.nodes());
        u_.resize(n);
        kind_.resize(n);
        fixed_.assign(n, GraphCut::free_node);
        now_.resize(n);
        m_ = known_ = 0;
        for (int l = 0; l < cut_.labels(); ++l) {
            m_ += truth[l] == present;
            known_ += truth[l] != unknown;
        }
        for (std::size_t i = 0; i < n; ++i) {
            const int l = cut_.label_of(static_cast<int>(i));
            u_[i] = u[l];
            kind_[i] = truth[l] == present;
            if (truth[l] == unknown) fixed_[i] = GraphCut::fixed_off;
        }
        cut_.start(u_, 2.0);
    }

    double slope(int k) const { return k + m_ > 0 ? -2.0 / (k + m_) : 0.0; }
    double own(int l, double b) const { return labels_u_[l] + (truth_[l] == present ? b : 0.0); }
    int size(const std::uint8_t* y) const {
        return static_cast<int>(std::count(y, y + cut_.labels(), std::uint8_t{1}));
    }

    void maximise(int k, std::uint8_t* y) {
        ++answer_.cuts;
        const double b = slope(k);
        for (int l : cut_.isolated()) y[l] = truth_[l] != unknown && own(l, b) >= 0;
        cut_nodes(b);
        for (int i = 0; i < cut_.nodes(); ++i) y[cut_.label_of(i)] = now_[i];
    }
    void cut_nodes(double b) {
        const double slopes[] = {0.0, b};
        cut_.cut(kind_.data(), slopes, fixed_.data(), Ties::largest, now_.data());
    }

    void walk_down(std::uint8_t* y) {
        for (int k = known_;;) {
            maximise(k, y);
            const int found = size(y);
            if (found >= k) return;
            k = found;
        }
    }
    void scan_up(std::uint8_t* y) {
        std::vector<std::uint8_t> trial(static_cast<std::size_t>(cut_.labels()), 0);
        for (int k = 0; k <= known_;) {
            maximise(k, trial.data());
            const int found = size(trial.data());
            if (found >= k) std::copy(trial.begin(), trial.end(), y);
            k = found > k ? found : k + 1;
        }
    }

    // g_k(y)
    double gain(const std::uint8_t* y, int k) {
        const double b = slope(k);
        double sum = nodes_gain(y, b);
        for (int l : cut_.isolated())
            if (y[l]) sum += own(l, b);
        return sum;
    }
    double nodes_gain(const std::uint8_t* y, double b) {
        for (int i = 0; i < cut_.nodes(); ++i) now_[i] = y[cut_.label_of(i)];
        return score_now(b);
    }
    double score_now(double b) const {
        double sum = cut_.score(u_, now_.data());
        for (int i = 0; i < cut_.nodes(); ++i)
            if (now_[i] && kind_[i]) sum += b;
        return sum;
    }

    bool proves(const std::uint8_t* y, int k, double allowance) {
        const int chosen = size(y);
        if (chosen == known_) return true;
        if (m_ == 0) return chosen > 0;
        const double b = slope(k), target = gain(y, chosen) - allowance;
        double isolated = 0.0, cheapest = -std::numeric_limits<double>::infinity();
        for (int l : cut_.isolated()) {
            if (truth_[l] == unknown) continue;
            const double a = own(l, b);
            isolated += y[l] ? a : std::max(a, 0.0);
            if (!y[l]) cheapest = std::max(cheapest, std::min(a, 0.0));
        }
        for (int i = 0; i < cut_.nodes(); ++i)
            if (y[cut_.label_of(i)]) fixed_[i] = GraphCut::fixed_on;
        cut_nodes(b);
        double most = isolated + cheapest + score_now(b);
        for (int i = 0; i < cut_.nodes(); ++i) {
            if (fixed_[i] != GraphCut::free_node) continue;
            fixed_[i] = GraphCut::fixed_on;
            cut_nodes(b);
            most = std::max(most, isolated + score_now(b));
            fixed_[i] = GraphCut::free_node;
        }
        for (int i = 0; i < cut_.nodes(); ++i)
            fixed_[i] = truth_[cut_.label_of(i)] == unknown ? GraphCut::fixed_off : GraphCut::free_node;
        return most + cut_.rounding() <= target;
    }

    GraphCut cut_;
    Answer answer_;
    const double* labels_u_ = nullptr;
    const std::uint8_t* truth_ = nullptr;
    int m_ = 0, known_ = 0;
    std::vector<double> u_;
    std::vector<std::uint8_t> kind_, fixed_, now_;
};

}  // namespace multimargin::inference
