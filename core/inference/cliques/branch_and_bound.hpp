#pragma once
// Maximum of F(y) = sum_T theta_T chi_T(y) over one connected component that is too wide for elimination.
//
// A cutset of labels is chosen once, such that with them held fixed the others can be eliminated within the treewidth
// limit. Then, for given scores:
//   1. where all subsets are pairs, roof duality fixes labels and bounds max F; if it fixes the whole cutset, one
//      elimination finishes;
//   2. depth first search over the values of the cutset's labels not yet fixed. A node is bounded by MPLP, started from
//      its parent's messages; the label held next is the one with the largest sum of |theta_T|, its likelier value
//      first. A node without labels left to hold is solved by elimination.
// The search ends when no node is open, or at the node limit; the bound is the largest one of a node left open.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/control.hpp"
#include "core/inference/cliques/elimination.hpp"
#include "core/inference/cliques/elimination_order.hpp"
#include "core/inference/cliques/mplp.hpp"
#include "core/inference/cliques/roof_duality.hpp"

namespace multimargin::inference {

class CliqueBranchAndBound {
  public:
    CliqueBranchAndBound(const LabelSubsets& subsets, const LabelGraph& graph, std::span<const std::uint32_t> component,
                         std::size_t treewidth_limit)
        : mplp_(subsets, component) {
        const auto order = elimination_order(graph, component, treewidth_limit);
        elimination_ = Elimination(subsets, order.order);
        std::vector<std::uint8_t> cut(subsets.labels, 0), inside(subsets.labels, 0);
        for (auto a : component) inside[a] = 1;
        for (auto a : order.cutset) {
            cut[a] = 1;
            cutset_.push_back(static_cast<std::uint32_t>(mplp_.place(a)));
        }
        std::vector<std::pair<int, int>> pairs;
        bool only_pairs = true;
        for (std::size_t t = 0; t < subsets.size(); ++t) {
            const auto subset = subsets[t];
            if (!inside[subset[0]]) continue;
            only_pairs &= subset.size() <= 2;
            if (subset.size() == 2) {
                pairs.emplace_back(mplp_.place(subset[0]), mplp_.place(subset[1]));
                pair_scores_.push_back(static_cast<std::uint32_t>(t));
            }
            Term term{static_cast<std::uint32_t>(t), 0, 0, true};
            term.first = static_cast<std::uint32_t>(cut_members_.size());
            for (auto a : subset) {
                if (cut[a])
                    cut_members_.push_back(static_cast<std::uint32_t>(mplp_.place(a)));
                else
                    term.constant = false;
            }
            term.last = static_cast<std::uint32_t>(cut_members_.size());
            terms_.push_back(term);
        }
        if (only_pairs) roof_.emplace(mplp_.labels(), std::move(pairs));
        depth_limit_ = std::min(cutset_.size(), deepest);
        subsets_ = subsets.size();
        words_ = (subsets.labels + 63) / 64;
    }

    struct Scratch {
        Mplp::Scratch mplp;
        std::vector<Mplp::Messages> saved;  // of each depth
        Elimination::Scratch elimination;
        std::optional<RoofDuality::Scratch> roof;
        std::vector<double> conditioned, unary, coupling;
        std::vector<std::uint8_t> on;
        std::vector<std::uint64_t> bits;
        double open = 0.0, tol = 0.0;
        int nodes = 0;
    };
    Scratch scratch() const {
        Scratch s;
        s.mplp = mplp_.scratch();
        s.saved.assign(depth_limit_, mplp_.messages());
        s.elimination = elimination_.scratch();
        if (roof_) s.roof = roof_->scratch();
        s.conditioned.resize(subsets_);
        s.unary.resize(mplp_.labels());
        s.coupling.resize(pair_scores_.size());
        s.on.resize(mplp_.labels());
        s.bits.resize(words_);
        return s;
    }

    struct Limits {
        int nodes;
        double tol;  // of a proof, relative to the sum of |theta_T|
        Control* control = nullptr;
        bool on_caller = true;
    };
    struct Answer {
        double value, bound;
        bool exact;
    };

    const Mplp& graph() const { return mplp_; }

    // Sets the bits of the labels that are on; those of the component must be clear before.
    Answer maximize(const double* scores, const Limits& limits, std::uint64_t* assignment, Scratch& s) const {
        mplp_.start(scores, s.mplp);
        s.tol = limits.tol * s.mplp.scale;
        s.open = -HUGE_VAL;
        s.nodes = 0;
        double bound = s.mplp.upper;
        if (cutset_.empty()) {
            leaf(scores, s);
        } else {
            if (roof_) {
                for (std::size_t i = 0; i < mplp_.labels(); ++i) s.unary[i] = scores[mplp_.label(i)];
                for (std::size_t e = 0; e < pair_scores_.size(); ++e) s.coupling[e] = scores[pair_scores_[e]];
                bound = std::min(bound, roof_->solve(s.unary.data(), s.coupling.data(), s.mplp.fixed.data(), *s.roof));
                for (std::size_t i = 0; i < mplp_.labels(); ++i)
                    if (s.mplp.fixed[i]) mplp_.hold(i, s.mplp.fixed[i], s.mplp);
            }
            search(scores, limits, 0, bound, s);
        }
        const double value = s.mplp.lower;
        bound = std::max(value, std::min(bound, s.open));
        for (std::size_t i = 0; i < mplp_.labels(); ++i)
            if (s.mplp.best_on[i]) assignment[mplp_.label(i) >> 6] |= std::uint64_t{1} << (mplp_.label(i) & 63);
        return {value, bound, bound <= value + s.tol};
    }

  private:
    static constexpr std::size_t deepest = 64;  // levels of the search at most: each keeps its messages
    static constexpr int passes_at_root = 100, passes_at_node = 30;
    static constexpr double stall_at_root = 0.01, stall_at_node = 0.05;

    struct Term {
        std::uint32_t score, first, last;  // its labels in the cutset
        bool constant;                     // it has no others
    };

    void search(const double* scores, const Limits& limits, std::size_t depth, double bound, Scratch& s) const {
        if (s.nodes >= limits.nodes || (limits.control && limits.control->leave(limits.on_caller))) {
            s.open = std::max(s.open, bound);
            return;
        }
        ++s.nodes;
        const std::uint32_t i = undecided(s);
        if (i == none) return leaf(scores, s);
        mplp_.tighten(scores, depth ? passes_at_node : passes_at_root, depth ? stall_at_node : stall_at_root,
                      s.mplp.lower + s.tol, s.tol, s.mplp);
        bound = std::min(bound, s.mplp.upper);
        if (bound <= s.mplp.lower + s.tol) {
            s.open = std::max(s.open, bound);
            return;
        }
        if (depth == 0) leaf(scores, s);  // a good labelling to start with
        if (depth == depth_limit_) {
            s.open = std::max(s.open, bound);
            return;
        }
        s.saved[depth] = s.mplp.now;
        const int first = s.mplp.now.belief[i] > 0 ? 1 : -1;
        for (int sign : {first, -first}) {
            s.mplp.now = s.saved[depth];
            mplp_.hold(i, sign, s.mplp);
            search(scores, limits, depth + 1, bound, s);
        }
        s.mplp.fixed[i] = 0;
    }

    static constexpr std::uint32_t none = ~std::uint32_t{0};

    // The label of the cutset that is not held and whose subsets weigh most.
    std::uint32_t undecided(const Scratch& s) const {
        std::uint32_t best = none;
        for (auto i : cutset_)
            if (!s.mplp.fixed[i] && (best == none || s.mplp.weight[i] > s.mplp.weight[best])) best = i;
        return best;
    }

    // Elimination of all labels outside the cutset, which is as held, or as believed.
    void leaf(const double* scores, Scratch& s) const {
        for (auto i : cutset_) s.on[i] = s.mplp.fixed[i] ? s.mplp.fixed[i] > 0 : s.mplp.now.belief[i] > 0;
        double value = 0.0;
        for (const Term& term : terms_) {
            unsigned off = 0;
            for (auto k = term.first; k < term.last; ++k) off ^= s.on[cut_members_[k]] ^ 1u;
            const double score = off & 1u ? -scores[term.score] : scores[term.score];
            s.conditioned[term.score] = score;
            if (term.constant) value += score;
        }
        std::fill(s.bits.begin(), s.bits.end(), 0);
        value += elimination_.maximize(s.conditioned.data(), s.bits.data(), s.elimination);
        if (!(value > s.mplp.lower)) return;
        s.mplp.lower = value;
        for (std::size_t i = 0; i < mplp_.labels(); ++i) {
            const auto a = mplp_.label(i);
            s.mplp.best_on[i] = s.bits[a >> 6] >> (a & 63) & 1;
        }
        for (auto i : cutset_) s.mplp.best_on[i] = s.on[i];
    }

    Mplp mplp_;
    Elimination elimination_;
    std::optional<RoofDuality> roof_;
    std::vector<std::uint32_t> cutset_, cut_members_, pair_scores_;
    std::vector<Term> terms_;
    std::size_t depth_limit_ = 0, subsets_ = 0, words_ = 0;
};

}  // namespace multimargin::inference
