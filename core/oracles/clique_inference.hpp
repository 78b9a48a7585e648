#pragma once
// Inference in F(y) = sum_T theta_T chi_T(y), y in {0, 1}^K: maximum, max-marginals, log-partition, moments. The
// subsets are compiled once; scores come one row at a time.
//
// Connected components are independent. Those whose treewidth (by min-fill) is within the limit are solved exactly by
// elimination, labels without a partner among them (a sign test); so are their sums. Others by branch and bound on
// MPLP bounds, after roof duality where all subsets are pairs: an answer is exact or comes with a bracket.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/oracles/elimination.hpp"
#include "core/oracles/label_tables.hpp"

namespace multimargin {

enum class InferenceMethod { automatic, elimination, exhaustive, mplp, branch_and_bound };

struct InferenceOptions {
    InferenceMethod method = InferenceMethod::automatic;
    int treewidth_limit = 12;  // of elimination
};

class CliqueInference {
  public:
    static constexpr int largest_treewidth_limit = 24;
    static constexpr std::size_t largest_table = 22;       // labels enumerated at most
    static constexpr std::size_t largest_covariance = 14;  // labels of a component with covariances at most

    // A connected component and how it is solved.
    struct Part {
        std::vector<std::uint32_t> labels;
        int treewidth;
        InferenceMethod method;
    };
    struct Optimum {
        double value, bound;  // F of the labelling found; no labelling has more than the bound
        bool exact;           // proved, up to rounding
    };

    CliqueInference(LabelSubsets subsets, InferenceOptions options) : subsets_(std::move(subsets)), options_(options) {
        check_label_subsets(subsets_);
        if (options_.treewidth_limit < 1 || options_.treewidth_limit > largest_treewidth_limit)
            throw std::invalid_argument("treewidth_limit must be between 1 and " +
                                        std::to_string(largest_treewidth_limit) + "; got " +
                                        std::to_string(options_.treewidth_limit));
        const LabelGraph graph(subsets_);
        std::vector<std::uint32_t> easy, every;
        for (auto& component : graph.components([](std::uint32_t) { return true; })) {
            const auto order = min_fill(graph, component, subsets_.labels);
            has_sums_ &= order.width <= options_.treewidth_limit;
            has_covariances_ &= component.size() <= largest_covariance;
            const auto method = method_for(component.size(), order.width);
            every.insert(every.end(), order.order.begin(), order.order.end());
            if (method == InferenceMethod::elimination)
                easy.insert(easy.end(), order.order.begin(), order.order.end());
            else if (method == InferenceMethod::exhaustive)
                tables_.emplace_back(subsets_, component);
            else
                throw std::invalid_argument("treewidth " + std::to_string(order.width) + " is beyond treewidth_limit=" +
                                            std::to_string(options_.treewidth_limit) + "; raise the limit");
            parts_.push_back({std::move(component), order.width, method});
        }
        elimination_ = Elimination(subsets_, easy);
        if (has_sums_ && easy.size() < every.size()) sums_ = Elimination(subsets_, every);
        if (has_covariances_)
            for (const Part& part : parts_) covariance_tables_.emplace_back(subsets_, part.labels);
    }

    const LabelSubsets& subsets() const { return subsets_; }
    const std::vector<Part>& parts() const { return parts_; }
    std::size_t words() const { return (subsets_.labels + 63) / 64; }

    // All memory that a call needs: one for each thread.
    class Workspace {
        friend class CliqueInference;
        Elimination::Scratch elimination, sums;
        Buffer<double> table;
    };
    Workspace workspace() const {
        Workspace space;
        space.elimination = elimination_.scratch();
        if (sums_) space.sums = sums_->scratch();
        std::size_t entries = 0;
        for (const auto& table : tables_) entries = std::max(entries, table.entries());
        for (const auto& table : covariance_tables_) entries = std::max(entries, table.entries());
        space.table = Buffer<double>(entries);
        return space;
    }

    // Bit k of the assignment is y_k. Of equal decisions a label is off.
    Optimum maximize(const double* scores, std::uint64_t* assignment, Workspace& space) const {
        std::fill_n(assignment, words(), 0);
        double value = elimination_.maximize(scores, assignment, space.elimination);
        for (const auto& table : tables_) value += table.maximize(scores, assignment, space.table.data());
        return {value, value, true};
    }

    // difference[k] = max of F with y_k = 1 minus max of F with y_k = 0.
    void max_marginals(const double* scores, double* difference, Workspace& space) const {
        elimination_.max_marginals(scores, difference, space.elimination);
        for (const auto& table : tables_) table.max_marginals(scores, difference, space.table.data());
    }

    // Whether every component is within the treewidth limit, so that sums over all labellings can be had.
    bool has_sums() const { return has_sums_; }

    // log of the sum over y of exp F(y); moments[t] = E chi_T under the distribution proportional to exp F.
    double log_partition(const double* scores, double* moments, Workspace& space) const {
        if (!has_sums_) throw std::invalid_argument("sums over labellings need every component within treewidth_limit");
        return sums_ ? sums_->log_partition(scores, moments, space.sums)
                     : elimination_.log_partition(scores, moments, space.elimination);
    }

    // Whether every component has at most 14 labels.
    bool has_covariances() const { return has_covariances_; }

    // covariance[s * size + t] = E chi_S chi_T - E chi_S E chi_T; zero where S and T lie in different components.
    void covariances(const double* scores, double* moments, double* covariance, Workspace& space) const {
        if (!has_covariances_)
            throw std::invalid_argument("covariances need components of at most " + std::to_string(largest_covariance) +
                                        " labels");
        const std::size_t size = subsets_.size();
        std::fill_n(covariance, size * size, 0.0);
        for (const auto& table : covariance_tables_) {
            table.log_partition(scores, moments, space.table.data());
            table.covariances(space.table.data(), size, covariance);
        }
    }

  private:
    InferenceMethod method_for(std::size_t labels, int treewidth) const {
        const int limit = options_.treewidth_limit;
        switch (options_.method) {
            case InferenceMethod::exhaustive:
                if (labels > largest_table)
                    throw std::invalid_argument("exhaustive inference enumerates components of at most " +
                                                std::to_string(largest_table) + " labels; got one of " +
                                                std::to_string(labels) + ". Use elimination or automatic");
                return InferenceMethod::exhaustive;
            case InferenceMethod::elimination:
                if (treewidth > limit)
                    throw std::invalid_argument(
                        "elimination needs treewidth <= treewidth_limit = " + std::to_string(limit) + "; got " +
                        std::to_string(treewidth) + ". Raise treewidth_limit or use automatic");
                return InferenceMethod::elimination;
            case InferenceMethod::automatic:
                return treewidth <= limit ? InferenceMethod::elimination : InferenceMethod::branch_and_bound;
            default:
                return options_.method;
        }
    }

    LabelSubsets subsets_;
    InferenceOptions options_;
    std::vector<Part> parts_;
    bool has_sums_ = true, has_covariances_ = true;
    Elimination elimination_;
    std::optional<Elimination> sums_;
    std::vector<LabelTable> tables_, covariance_tables_;
};

}  // namespace multimargin
