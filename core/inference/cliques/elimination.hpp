#pragma once
// Exact maximum, log-partition and marginals of F(y) = sum_T theta_T chi_T(y) by bucket elimination, compiled once for
// the subsets and run for many scores.
//
// Everything is kept as coefficients of label subsets. The bucket of a label v holds those of the subsets whose first
// label to be eliminated is v; with S the neighbours of v at that time, their sum is s_v B(x_S), s_v = +-1, and
//
//   max over s_v:           max s_v B = |B(x_S)|
//   log sum exp over s_v:   log 2 cosh B(x_S)
//
// whose coefficients, again over subsets of S, are added to later buckets. So a step is: transform the bucket to the
// values B (kept), apply the function, transform back, add. A leaf of a forest costs two absolute values. The last
// labels of a component, each a neighbour of all that follow, form its root: their buckets lie side by side as one
// table over all their labellings, which is enumerated.
//
// Downwards: y_v follows from the sign of B; moments by reverse differentiation, E chi_{v + U} being the transform of
// p(x_S) tanh B(x_S); max-marginals from M(x_S, s_v) = M(x_S) - |B(x_S)| + s_v B(x_S), where M(x_S) is the maximum of F
// given x_S, maximised out of the clique of the next label of S.
//
// Cost: per label O(w 2^w) additions, w its neighbours at elimination; memory about 32 bytes times the sum of 2^w.

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/memory.hpp"
#include "core/inference/cliques/elimination_order.hpp"
#include "core/inference/cliques/label_subsets.hpp"
#include "core/inference/cliques/walsh.hpp"

namespace multimargin::inference {

class Elimination {
  public:
    Elimination() = default;

    // Over the labels of `order` only. A subset that holds other labels too counts as its part inside `order`: its
    // score must then carry the sign of the labels outside.
    Elimination(const LabelSubsets& subsets, std::span<const std::uint32_t> order) { compile(subsets, order); }

    struct Scratch {
        Buffer<double> slots, values, moments, cliques;
        std::vector<std::uint8_t> off;
    };
    Scratch scratch() const {
        return {Buffer<double>(slots_), Buffer<double>(std::size_t{1} << largest_), Buffer<double>(slots_),
                Buffer<double>(clique_entries_), std::vector<std::uint8_t>(labels_, 0)};
    }

    bool empty() const { return roots_.empty(); }

    // Maximum over the labels of the order, whose bits are set in `assignment` where on; they must be clear before.
    double maximize(const double* scores, std::uint64_t* assignment, Scratch& scratch) const {
        return run_max(*this, scores, assignment, scratch.slots.data(), scratch.values.data(), scratch.off.data());
    }

    // log of the sum of exp F; moments[t] = E chi_T for every subset that lies inside the order.
    double log_partition(const double* scores, double* moments, Scratch& scratch) const {
        return run_sum(*this, scores, moments, scratch.slots.data(), scratch.values.data(), scratch.moments.data());
    }

    // difference[k] = max of F with y_k = 1 minus max of F with y_k = 0, for the labels k of the order.
    void max_marginals(const double* scores, double* difference, Scratch& scratch) const {
        run_marginals(*this, scores, difference, scratch.slots.data(), scratch.values.data(), scratch.cliques.data());
    }

  private:
    struct Step {
        std::uint32_t label;
        int width;                         // neighbours at elimination
        std::size_t bucket, targets;       // first slot of its bucket; where its message's coefficients go
        std::size_t scope;                 // its neighbours, the last to be eliminated first
        std::size_t clique, above;         // its table and that of the next label, for max-marginals
        std::uint32_t above_bits, shared;  // bits of the table above; those that are its neighbours
    };
    struct Root {
        int width;  // labels
        std::size_t table, scope, clique;
    };
    struct Load {
        std::uint32_t score;
        bool whole;  // the subset lies inside the order
        std::size_t slot;
    };
    // What becomes of a bucket's values B; sums also keep the slope tanh B for the way down.
    struct MaxProduct {
        static MULTIMARGIN_INLINE double of(double b, double*) { return std::fabs(b); }
    };
    struct SumProduct {
        static MULTIMARGIN_INLINE double of(double b, double* slope) {
            const LogCosh result = log_2cosh(b);
            *slope = result.slope;
            return result.value;
        }
    };

    // Upwards. Afterwards slots hold B of every bucket and F of every root.
    template <class Product>
    static MULTIMARGIN_INLINE void upwards(const Elimination& plan, const double* scores, double* slots, double* values,
                                           double* slopes) {
        std::memset(slots, 0, plan.slots_ * sizeof(double));
        for (const Load& load : plan.loads_) slots[load.slot] += scores[load.score];
        for (const Step& step : plan.steps_) {
            double* bucket = slots + step.bucket;
            double* slope = slopes + step.bucket;
            const std::uint32_t* target = plan.targets_.data() + step.targets;
            if (step.width == 1) {
                const double plus = bucket[0] + bucket[1], minus = bucket[0] - bucket[1];
                const double a = Product::of(plus, slope), b = Product::of(minus, slope + 1);
                bucket[0] = plus;
                bucket[1] = minus;
                slots[target[0]] += 0.5 * (a + b);
                slots[target[1]] += 0.5 * (a - b);
            } else if (step.width == 2) {
                const double a = bucket[0] + bucket[1], b = bucket[0] - bucket[1];
                const double c = bucket[2] + bucket[3], d = bucket[2] - bucket[3];
                bucket[0] = a + c;
                bucket[1] = b + d;
                bucket[2] = a - c;
                bucket[3] = b - d;
                const double p = Product::of(bucket[0], slope), q = Product::of(bucket[1], slope + 1);
                const double r = Product::of(bucket[2], slope + 2), s = Product::of(bucket[3], slope + 3);
                slots[target[0]] += 0.25 * ((p + q) + (r + s));
                slots[target[1]] += 0.25 * ((p - q) + (r - s));
                slots[target[2]] += 0.25 * ((p + q) - (r + s));
                slots[target[3]] += 0.25 * ((p - q) - (r - s));
            } else {
                const std::size_t n = std::size_t{1} << step.width;
                walsh_transform(bucket, step.width);
                for (std::size_t i = 0; i < n; ++i) values[i] = Product::of(bucket[i], slope + i);
                walsh_transform(values, step.width);
                const double scale = 1.0 / static_cast<double>(n);
                for (std::size_t i = 0; i < n; ++i) slots[target[i]] += scale * values[i];
            }
        }
        for (const Root& root : plan.roots_) walsh_transform(slots + root.table, root.width);
    }

    MULTIMARGIN_SIMD static double run_max(const Elimination& plan, const double* scores, std::uint64_t* assignment,
                                           double* slots, double* values, std::uint8_t* off) {
        upwards<MaxProduct>(plan, scores, slots, values, slots);
        double total = 0.0;
        const auto decide = [&](std::uint32_t label, std::size_t is_off) {
            off[label] = static_cast<std::uint8_t>(is_off);
            assignment[label >> 6] |= static_cast<std::uint64_t>(is_off ^ 1) << (label & 63);
        };
        for (const Root& root : plan.roots_) {
            const double* table = slots + root.table;
            const std::size_t best = last_largest(table, std::size_t{1} << root.width);
            total += table[best];
            for (int j = 0; j < root.width; ++j) decide(plan.scopes_[root.scope + j], best >> j & 1);
        }
        for (auto step = plan.steps_.rbegin(); step != plan.steps_.rend(); ++step) {
            const std::uint32_t* scope = plan.scopes_.data() + step->scope;
            std::size_t index = 0;
            for (int j = 0; j < step->width; ++j) index |= static_cast<std::size_t>(off[scope[j]]) << j;
            decide(step->label, slots[step->bucket + index] <= 0.0);
        }
        return total;
    }

    MULTIMARGIN_SIMD static double run_sum(const Elimination& plan, const double* scores, double* moments,
                                           double* slots, double* values, double* means) {
        upwards<SumProduct>(plan, scores, slots, values, means);
        double total = 0.0;
        for (const Root& root : plan.roots_) {
            const std::size_t n = std::size_t{1} << root.width;
            double* table = means + root.table;
            std::memcpy(table, slots + root.table, n * sizeof(double));
            total += softmax(table, n);
            walsh_transform(table, root.width);
        }
        for (auto step = plan.steps_.rbegin(); step != plan.steps_.rend(); ++step) {
            const std::size_t n = std::size_t{1} << step->width;
            const std::uint32_t* target = plan.targets_.data() + step->targets;
            double* mean = means + step->bucket;  // holds the slopes
            const double scale = 1.0 / static_cast<double>(n);
            if (step->width == 1) {
                const double together = means[target[0]], apart = means[target[1]];
                const double a = 0.5 * (together + apart) * mean[0], b = 0.5 * (together - apart) * mean[1];
                mean[0] = a + b;
                mean[1] = a - b;
                continue;
            }
            for (std::size_t i = 0; i < n; ++i) values[i] = scale * means[target[i]];
            walsh_transform(values, step->width);
            for (std::size_t i = 0; i < n; ++i) mean[i] *= values[i];
            walsh_transform(mean, step->width);
        }
        for (const Load& load : plan.loads_)
            if (load.whole) moments[load.score] = means[load.slot];
        return total;
    }

    MULTIMARGIN_SIMD static void run_marginals(const Elimination& plan, const double* scores, double* difference,
                                               double* slots, double* values, double* cliques) {
        upwards<MaxProduct>(plan, scores, slots, values, slots);
        for (const Root& root : plan.roots_) {
            double* table = cliques + root.clique;
            std::memcpy(table, slots + root.table, sizeof(double) << root.width);
            const std::uint32_t* labels = plan.scopes_.data() + root.scope;
            bit_differences(table, root.width, values, [&](int j, double d) { difference[labels[j]] = d; });
        }
        for (auto step = plan.steps_.rbegin(); step != plan.steps_.rend(); ++step) {
            const std::size_t n = std::size_t{1} << step->width;
            const double* above = cliques + step->above;
            const double* b = slots + step->bucket;
            double* table = cliques + step->clique;
            const std::size_t dropped = ((std::size_t{1} << step->above_bits) - 1) & ~std::size_t{step->shared};
            std::size_t kept = 0;
            for (std::size_t i = 0; i < n; ++i, kept = (kept - step->shared) & step->shared) {
                double most = above[kept];
                for (std::size_t d = dropped; d; d = (d - 1) & dropped) most = std::max(most, above[kept | d]);
                table[i] = most - std::fabs(b[i]) + b[i];
                table[i + n] = most - std::fabs(b[i]) - b[i];
            }
            difference[step->label] = largest(table, n) - largest(table + n, n);
        }
    }

    static constexpr std::uint32_t outside = ~std::uint32_t{0};

    void compile(const LabelSubsets& subsets, std::span<const std::uint32_t> order) {
        labels_ = subsets.labels;
        std::vector<std::uint32_t> place(labels_, outside);
        for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<std::uint32_t>(k);
        LabelGraph graph(subsets);
        for (std::uint32_t a = 0; a < labels_; ++a)
            if (place[a] == outside) graph.remove(a);
        auto components = graph.components([&](std::uint32_t a) { return place[a] != outside; });

        std::vector<std::vector<std::uint32_t>> scope(labels_);
        std::vector<std::size_t> bucket(labels_, 0);
        std::vector<std::size_t> constant;  // slot of the empty subset, one for each component
        std::vector<std::size_t> roots;     // labels in the root of each component
        for (auto& component : components) {
            std::sort(component.begin(), component.end(), [&](auto a, auto b) { return place[a] < place[b]; });
            for (auto a : component) {
                scope[a] = graph.neighbours(a);
                std::sort(scope[a].begin(), scope[a].end(), [&](auto b, auto c) { return place[b] > place[c]; });
                graph.eliminate(a);
            }
            slots_ = (slots_ + 7) / 8 * 8;
            constant.push_back(slots_++);
            std::size_t root = 0;
            const std::size_t count = component.size();
            for (std::size_t j = 0; j < count; ++j) {
                const auto a = component[count - 1 - j];
                if (root == j && scope[a].size() == j)
                    ++root;
                else if (scope[a].size() >= 2)
                    slots_ = (slots_ + 3) / 4 * 4;
                bucket[a] = slots_;
                slots_ += std::size_t{1} << scope[a].size();
                largest_ = std::max(largest_, static_cast<int>(scope[a].size()));
            }
            roots.push_back(root);
            largest_ = std::max(largest_, static_cast<int>(root) - 1);
        }

        constexpr std::size_t most_slots = std::size_t{1} << 26;
        if (slots_ > most_slots)
            throw std::invalid_argument("elimination would need " + std::to_string(slots_ >> 25) +
                                        " GiB of memory for each thread; lower treewidth_limit");

        // Slot of the subset of `owner`'s neighbours in `members`, together with the owner.
        const auto slot_of = [&](std::uint32_t owner, std::span<const std::uint32_t> members) {
            std::size_t index = 0;
            for (std::size_t j = 0; j < scope[owner].size(); ++j)
                for (auto a : members)
                    if (a == scope[owner][j]) index |= std::size_t{1} << j;
            return bucket[owner] + index;
        };
        std::vector<std::uint32_t> inside;
        for (std::size_t t = 0; t < subsets.size(); ++t) {
            inside.clear();
            for (auto a : subsets[t])
                if (place[a] != outside) inside.push_back(a);
            if (inside.empty()) continue;
            const auto first =
                *std::min_element(inside.begin(), inside.end(), [&](auto a, auto b) { return place[a] < place[b]; });
            loads_.push_back(
                {static_cast<std::uint32_t>(t), inside.size() == subsets[t].size(), slot_of(first, inside)});
        }

        std::vector<std::size_t> clique(labels_, 0);
        for (std::size_t c = 0; c < components.size(); ++c) {
            const auto& component = components[c];
            const std::size_t eliminated = component.size() - roots[c];
            Root root{static_cast<int>(roots[c]), constant[c], scopes_.size(), clique_entries_};
            for (std::size_t j = 0; j < roots[c]; ++j) scopes_.push_back(component[component.size() - 1 - j]);
            clique_entries_ += std::size_t{1} << roots[c];
            roots_.push_back(root);
            for (std::size_t k = 0; k < eliminated; ++k) {
                clique[component[k]] = clique_entries_;
                clique_entries_ += std::size_t{2} << scope[component[k]].size();
            }
            for (std::size_t k = 0; k < eliminated; ++k) {
                const auto a = component[k];
                const auto& near = scope[a];
                const auto next = near.back();
                Step step{a, static_cast<int>(near.size()), bucket[a], targets_.size(), scopes_.size(), clique[a], 0, 0,
                          0};
                scopes_.insert(scopes_.end(), near.begin(), near.end());
                // The table above: the clique of the next label, or the root.
                std::vector<std::uint32_t> above;
                if (place[next] >= place[component[eliminated]]) {
                    step.above = root.clique;
                    above.assign(component.rbegin(), component.rbegin() + root.width);
                } else {
                    step.above = clique[next];
                    above = scope[next];
                    above.push_back(next);
                }
                step.above_bits = static_cast<std::uint32_t>(above.size());
                for (std::size_t j = 0; j < above.size(); ++j)
                    if (std::find(near.begin(), near.end(), above[j]) != near.end())
                        step.shared |= std::uint32_t{1} << j;
                // Bits of a neighbour's bucket for each bit of this scope.
                std::vector<std::vector<std::size_t>> bit(near.size(), std::vector<std::size_t>(near.size(), 0));
                for (std::size_t h = 0; h < near.size(); ++h)
                    for (std::size_t j = 0; j < h; ++j)
                        bit[h][j] = slot_of(near[h], std::span(&near[j], 1)) - bucket[near[h]];
                targets_.push_back(static_cast<std::uint32_t>(constant[c]));
                for (std::size_t h = 0; h < near.size(); ++h)
                    for (std::size_t i = 0; i < std::size_t{1} << h; ++i) {
                        std::size_t slot = bucket[near[h]];
                        for (std::size_t j = 0; j < h; ++j)
                            if (i >> j & 1) slot += bit[h][j];
                        targets_.push_back(static_cast<std::uint32_t>(slot));
                    }
                steps_.push_back(step);
            }
        }
    }

    std::size_t labels_ = 0, slots_ = 0, clique_entries_ = 0;
    int largest_ = 0;
    std::vector<Step> steps_;
    std::vector<Root> roots_;
    std::vector<Load> loads_;
    std::vector<std::uint32_t> targets_, scopes_;
};

}  // namespace multimargin::inference
