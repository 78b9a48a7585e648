#pragma once
// Inference in F(y) = sum_T theta_T chi_T(y), y in {0, 1}^K: maximum, max-marginals, log-partition, moments. The
// subsets are compiled once; scores come one row at a time.
//
// Connected components are independent. Those of at most 14 labels, or whose treewidth (of the order found) is within
// the limit, are solved exactly by elimination (a label without a partner is a sign test), and so are their sums.
// Others by branch and bound on MPLP bounds, after roof duality where all subsets are pairs: an answer is exact, or has
// a bracket.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/control.hpp"
#include "core/base/memory.hpp"
#include "core/inference/cliques/branch_and_bound.hpp"
#include "core/inference/cliques/elimination.hpp"
#include "core/inference/cliques/labelling_table.hpp"
#include "core/inference/cliques/mplp.hpp"

namespace multimargin::inference {

enum class InferenceMethod { automatic, elimination, exhaustive, mplp, branch_and_bound };

struct InferenceOptions {
    InferenceMethod method = InferenceMethod::automatic;
    int treewidth_limit = 12;   // of elimination
    int node_limit = 1000;      // of branch and bound, for each component
    int iteration_limit = 500;  // passes of MPLP where it is the method
    double tol = 1e-9;          // of a proof, relative to the sum of |theta_T|
};

class CliqueInference {
  public:
    static constexpr int largest_treewidth_limit = 24;
    static constexpr std::size_t largest_table = 20;    // labels of a component that is enumerated by name
    static constexpr std::size_t small_component = 14;  // never too wide

    // A connected component and how it is solved.
    struct Part {
        std::vector<std::uint32_t> labels;
        int treewidth;  // of the elimination order
        InferenceMethod method;
    };
    struct Optimum {
        double value, bound;  // F of the labelling found; no labelling has more than the bound
        bool exact;           // proved, up to rounding
    };

    CliqueInference(LabelSubsets subsets, InferenceOptions options) : subsets_(std::move(subsets)), options_(options) {
        check_label_subsets(subsets_);
        check_range("treewidth_limit", options_.treewidth_limit, 0, largest_treewidth_limit);
        check_range("node_limit", options_.node_limit, 1, 1'000'000'000);
        check_range("iteration_limit", options_.iteration_limit, 0, 1'000'000'000);
        const LabelGraph graph(subsets_);
        std::vector<std::uint32_t> easy, every;
        for (auto& component : graph.components([](std::uint32_t) { return true; })) {
            const bool small = component.size() <= small_component;
            const auto order = elimination_order(graph, component, small ? small_component : options_.treewidth_limit);
            const bool narrow = order.cutset.empty();
            const int treewidth = narrow ? order.width : min_degree_width(graph, component);
            has_sums_ &= narrow;
            const auto method = method_for(component.size(), narrow, treewidth);
            every.insert(every.end(), order.order.begin(), order.order.end());
            if (method == InferenceMethod::elimination)
                easy.insert(easy.end(), order.order.begin(), order.order.end());
            else if (method == InferenceMethod::exhaustive)
                tables_.emplace_back(subsets_, component);
            else if (method == InferenceMethod::mplp)
                mplp_.emplace_back(subsets_, component);
            else
                searches_.emplace_back(subsets_, graph, component, options_.treewidth_limit);
            parts_.push_back({std::move(component), treewidth, method});
        }
        elimination_ = Elimination(subsets_, easy);
        if (has_sums_ && easy.size() < every.size()) sums_ = Elimination(subsets_, every);
    }

    const LabelSubsets& subsets() const { return subsets_; }
    const std::vector<Part>& parts() const { return parts_; }
    std::size_t words() const { return (subsets_.labels + 63) / 64; }

    // All memory that a call needs: one for each thread.
    class Workspace {
      public:
        // Lets a long search look at the outside world; told to stop, it returns the bracket that it has.
        void watch(Control& control, bool on_caller) {
            control_ = &control;
            on_caller_ = on_caller;
        }

      private:
        friend class CliqueInference;
        Elimination::Scratch elimination, sums;
        std::vector<Mplp::Scratch> mplp;
        std::vector<CliqueBranchAndBound::Scratch> searches;
        Buffer<double> table;
        std::vector<double> held;  // scores with one label held
        std::vector<std::uint64_t> best, other;
        Control* control_ = nullptr;
        bool on_caller_ = true;
    };
    Workspace workspace() const {
        Workspace space;
        space.elimination = elimination_.scratch();
        if (sums_) space.sums = sums_->scratch();
        for (const auto& part : mplp_) space.mplp.push_back(part.scratch());
        for (const auto& part : searches_) space.searches.push_back(part.scratch());
        space.held.resize(subsets_.size());
        space.best.resize(words());
        space.other.resize(words());
        std::size_t entries = 0;
        for (const auto& table : tables_) entries = std::max(entries, table.entries());
        space.table = Buffer<double>(entries);
        return space;
    }

    // Bit k of the assignment is y_k. The same scores give the same labelling; a label that makes no difference is off.
    Optimum maximize(const double* scores, std::uint64_t* assignment, Workspace& space) const {
        std::fill_n(assignment, words(), 0);
        double value = elimination_.maximize(scores, assignment, space.elimination);
        for (const auto& table : tables_) value += table.maximize(scores, assignment, space.table.data());
        Optimum all{value, value, true};
        for (std::size_t p = 0; p < hard_parts(); ++p) {
            const Optimum part = solve_hard(p, scores, assignment, space);
            all.value += part.value;
            all.bound += part.bound;
            all.exact &= part.exact;
        }
        return all;
    }

    // difference[k] = max of F with y_k = 1 minus max of F with y_k = 0. In components solved by MPLP or by branch and
    // bound each of the two is the value of a labelling found: the difference is exact if both searches are.
    void max_marginals(const double* scores, double* difference, Workspace& space) const {
        elimination_.max_marginals(scores, difference, space.elimination);
        for (const auto& table : tables_) table.max_marginals(scores, difference, space.table.data());
        for (std::size_t p = 0; p < hard_parts(); ++p) hard_marginals(p, scores, difference, space);
    }

    // Whether every component is small or within the treewidth limit, so that sums over all labellings can be had.
    bool has_sums() const { return has_sums_; }

    // log of the sum over y of exp F(y); moments[t] = E chi_T under the distribution proportional to exp F.
    double log_partition(const double* scores, double* moments, Workspace& space) const {
        if (!has_sums_)
            throw std::invalid_argument("sums over labellings need every component within treewidth_limit = " +
                                        std::to_string(options_.treewidth_limit));
        return sums_ ? sums_->log_partition(scores, moments, space.sums)
                     : elimination_.log_partition(scores, moments, space.elimination);
    }

  private:
    static void check_range(const char* name, int value, int low, int high) {
        if (value < low || value > high)
            throw std::invalid_argument(std::string(name) + " must be between " + std::to_string(low) + " and " +
                                        std::to_string(high) + "; got " + std::to_string(value));
    }

    InferenceMethod method_for(std::size_t labels, bool narrow, int treewidth) const {
        const int limit = options_.treewidth_limit;
        switch (options_.method) {
            case InferenceMethod::exhaustive:
                if (labels > largest_table)
                    throw std::invalid_argument("exhaustive inference enumerates components of at most " +
                                                std::to_string(largest_table) + " labels; got one of " +
                                                std::to_string(labels) + ". Use elimination or automatic");
                return InferenceMethod::exhaustive;
            case InferenceMethod::elimination:
                if (!narrow)
                    throw std::invalid_argument(
                        "elimination needs treewidth <= treewidth_limit = " + std::to_string(limit) + "; got " +
                        std::to_string(treewidth) + ". Raise treewidth_limit or use automatic");
                return InferenceMethod::elimination;
            case InferenceMethod::automatic:
                return narrow ? InferenceMethod::elimination : InferenceMethod::branch_and_bound;
            default:
                return options_.method;
        }
    }

    // Components solved by MPLP, then those solved by branch and bound.
    std::size_t hard_parts() const { return mplp_.size() + searches_.size(); }
    const Mplp& hard_part(std::size_t p) const {
        return p < mplp_.size() ? mplp_[p] : searches_[p - mplp_.size()].graph();
    }

    Optimum solve_hard(std::size_t p, const double* scores, std::uint64_t* assignment, Workspace& space) const {
        if (p >= mplp_.size()) {
            p -= mplp_.size();
            const CliqueBranchAndBound::Limits limits{options_.node_limit, options_.tol, space.control_,
                                                      space.on_caller_};
            const auto answer = searches_[p].maximize(scores, limits, assignment, space.searches[p]);
            return {answer.value, answer.bound, answer.exact};
        }
        const Mplp& part = mplp_[p];
        auto& s = space.mplp[p];
        part.start(scores, s);
        const double tol = options_.tol * s.scale;
        part.tighten(scores, options_.iteration_limit, mplp_stall, -HUGE_VAL, tol, s);
        for (std::size_t i = 0; i < part.labels(); ++i)
            if (s.best_on[i]) assignment[part.label(i) >> 6] |= std::uint64_t{1} << (part.label(i) & 63);
        return {s.lower, std::max(s.lower, s.upper), s.upper <= s.lower + tol};
    }

    // A label is held at a value by a score that outweighs all subsets with it.
    void hard_marginals(std::size_t p, const double* scores, double* difference, Workspace& space) const {
        const Mplp& part = hard_part(p);
        std::fill(space.best.begin(), space.best.end(), 0);
        const double best = solve_hard(p, scores, space.best.data(), space).value;
        std::copy_n(scores, subsets_.size(), space.held.begin());
        for (std::size_t i = 0; i < part.labels(); ++i) {
            const auto k = part.label(i);
            const bool on = space.best[k >> 6] >> (k & 63) & 1;
            const double weight = part.weight(i, scores);
            space.held[k] = scores[k] + (on ? -weight : weight);
            std::fill(space.other.begin(), space.other.end(), 0);
            const double other = solve_hard(p, space.held.data(), space.other.data(), space).value - weight;
            space.held[k] = scores[k];
            difference[k] = on ? best - other : other - best;
        }
    }

    static constexpr double mplp_stall = 1e-5;

    LabelSubsets subsets_;
    InferenceOptions options_;
    std::vector<Part> parts_;
    bool has_sums_ = true;
    Elimination elimination_;
    std::optional<Elimination> sums_;
    std::vector<LabellingTable> tables_;
    std::vector<Mplp> mplp_;
    std::vector<CliqueBranchAndBound> searches_;
};

}  // namespace multimargin::inference
