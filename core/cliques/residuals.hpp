#pragma once
// The dual residuals of candidate subsets: C_i (chi_T(y_i) - E_i chi_T) for every row in which the distribution is not
// all on the truth, and every subset T of a list. Times X they give q_T, whose norms say how much a clique would help.

#include "core/base/parallel.hpp"
#include "core/cliques/problem.hpp"

namespace multimargin::cliques {

// Labellings with weights; those of a row are neighbours, first[k] .. first[k + 1] belong to rows[k].
struct AtomList {
    std::span<const std::int64_t> rows, first;
    std::span<const double> weight;
    const Word* bits;
};

// The list may hold any subsets, in any order; pairs take a loop of their own, since there are so many.
struct SubsetSums {
    explicit SubsetSums(const LabelSubsets& subsets) : subsets(subsets), signs(subsets.labels), sum(subsets.size()) {
        for (std::size_t t = 0; t < subsets.size(); ++t) all_pairs &= subsets[t].size() == 2;
    }
    void clear() { std::fill(sum.begin(), sum.end(), 0.0); }
    // sum_T += weight chi_T(y)
    void add(double weight, const Word* y, const Word* known) {
        for (std::size_t k = 0; k < signs.size(); ++k) signs[k] = !bit(known, k) ? 0.0 : bit(y, k) ? 1.0 : -1.0;
        const std::uint32_t* member = subsets.members.data();
        if (all_pairs) {
            for (std::size_t t = 0; t < sum.size(); ++t, member += 2)
                sum[t] += weight * signs[member[0]] * signs[member[1]];
            return;
        }
        for (std::size_t t = 0; t < sum.size(); ++t) {
            double product = weight;
            for (auto k : subsets[t]) product *= signs[k];
            sum[t] += product;
        }
    }

    const LabelSubsets& subsets;
    bool all_pairs = true;
    std::vector<double> signs, sum;
};

template <class T>
void clique_residuals(const LabelBits& labels, const LabelSubsets& subsets, const AtomList& atoms, int threads,
                      Control& control, T* out) {
    const std::size_t words = labels.words(), width = subsets.size();
    parallel_for(threads, threads, control, [&](int thread, bool on_caller) {
        SubsetSums sums(subsets);
        for (std::size_t k = static_cast<std::size_t>(thread); k < atoms.rows.size(); k += threads) {
            if (control.leave(on_caller)) return;
            const Index i = atoms.rows[k];
            const double cost = labels.cost(i);
            sums.clear();
            double moved = 0.0;
            for (auto j = atoms.first[k]; j < atoms.first[k + 1]; ++j) {
                sums.add(-cost * atoms.weight[j], atoms.bits + j * words, labels.known(i));
                moved += atoms.weight[j];
            }
            sums.add(cost * moved, labels.truth(i), labels.known(i));
            for (std::size_t t = 0; t < width; ++t) out[k * width + t] = static_cast<T>(sums.sum[t]);
        }
    });
}

}  // namespace multimargin::cliques
