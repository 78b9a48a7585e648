#pragma once
// Structured SVM with label cliques (clique generating machine; Tan et al., CVPR 2015), in Walsh form.
//
// A labelling y in {0,1}^K has the characters chi_T(y) = prod_{k in T} (2 y_k - 1), one for each label subset T of the
// model: the singletons, and the subsets of the cliques c. Its score is F(x, y) = sum_T (W_T . x) chi_T(y).
//
//   primal   P = 1/2 |u|^2 + 1/2 |(|v_c|)_c|_r^2 + sum_i C_i max_y [ loss_i(y) + F(x_i, y) - F(x_i, y_i) ]
//   dual     D = sum_i C_i E_i loss_i - 1/2 [ 1/2 sum_k |q_k|^2 + (sum of the r largest s_c) ]
//            q_T = sum_i C_i (chi_T(y_i) - E_i chi_T) x_i,    s_c = scale_c sum_{T in c} |q_T|^2,    scale_c = 2^-|c|
//
// E_i is the mean over a distribution on labellings, the dual variable of row i; |.|_r is the k-support norm
// (k_support.hpp). u and v_c are the weights of the 2 K node and 2^|c| clique indicators of which the characters are a
// rotation. For fixed eta in [0, 1]^cliques the model is W_T = kappa_T q_T with
//
//   kappa_T = 1/2 [T is a singleton] + sum_{c contains T} eta_c scale_c,      |v_c| = eta_c sqrt(s_c),
//
// and any eta > 0 and any distributions give a valid P and a valid D. Moving mass to y_i scales q: D is reported at the
// best such scale. loss_i(y) is the number of wrong labels among the known ones of row i, or the sum of their weights,
// which folds into the scores of single labels all the same; subsets that contain an unknown label do not take part in that row, which is to say that F is averaged over the states of unknown labels.

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/matrix.hpp"
#include "core/inference/cliques/label_subsets.hpp"
#include "core/labels/bits.hpp"
#include "core/numerics/k_support.hpp"

namespace multimargin::cliques {

using namespace inference;
using namespace labels;
using namespace numerics;

// The cliques in use: the subsets of each, as positions in the list of subsets.
struct CliqueList {
    std::vector<std::size_t> starts;
    std::vector<std::uint32_t> members;
    std::vector<double> scale;
    std::size_t budget = 0;  // r

    std::size_t size() const { return scale.size(); }
    std::span<const std::uint32_t> operator[](std::size_t c) const {
        return {members.data() + starts[c], starts[c + 1] - starts[c]};
    }
};

// chi_T(y) for every subset T; 0 where T contains a label that is not known.
inline void characters(const LabelSubsets& subsets, const Word* y, const Word* known, double* chi) {
    for (std::size_t k = 0; k < subsets.labels; ++k) chi[k] = !bit(known, k) ? 0.0 : bit(y, k) ? 1.0 : -1.0;
    for (std::size_t t = subsets.labels; t < subsets.size(); ++t) {
        double product = 1.0;
        for (auto k : subsets[t]) product *= chi[k];
        chi[t] = product;
    }
}

// max over 0 <= t <= 1 of t linear - t^2 quadratic
inline double best_scaled_dual(double linear, double quadratic) {
    const double t = 2 * quadratic > linear ? linear / (2 * quadratic) : 1.0;
    return t * linear - t * t * quadratic;
}

}  // namespace multimargin::cliques
