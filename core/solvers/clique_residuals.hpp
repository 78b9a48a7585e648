#pragma once
// The dual residuals of candidate subsets: C_i (chi_T(y_i) - E_i chi_T) for every row in which the distribution is not
// all on the truth, and every subset T of a list. Times X they give q_T, whose norms say how much a clique would help.

#include "core/parallel.hpp"
#include "core/solvers/clique_problem.hpp"

namespace multimargin {

// Labellings with weights; those of a row are neighbours, first[k] .. first[k + 1] belong to rows[k].
struct AtomList {
    std::span<const std::int64_t> rows, first;
    std::span<const double> weight;
    const Word* bits;
};

template <class T>
void clique_residuals(const CliqueLabels& labels, const LabelSubsets& subsets, const AtomList& atoms, int threads,
                      Control& control, T* out) {
    const std::size_t words = labels.words(), width = subsets.size();
    parallel_for(threads, threads, control, [&](int thread, bool on_caller) {
        std::vector<double> sum(width), chi(width);
        for (std::size_t k = static_cast<std::size_t>(thread); k < atoms.rows.size(); k += threads) {
            if (control.leave(on_caller)) return;
            const Index i = atoms.rows[k];
            std::fill(sum.begin(), sum.end(), 0.0);
            double moved = 0.0;
            for (auto j = atoms.first[k]; j < atoms.first[k + 1]; ++j) {
                characters(subsets, atoms.bits + j * words, labels.known(i), chi.data());
                for (std::size_t t = 0; t < width; ++t) sum[t] -= atoms.weight[j] * chi[t];
                moved += atoms.weight[j];
            }
            characters(subsets, labels.truth(i), labels.known(i), chi.data());
            for (std::size_t t = 0; t < width; ++t)
                out[k * width + t] = static_cast<T>(labels.cost(i) * (sum[t] + moved * chi[t]));
        }
    });
}

}  // namespace multimargin
