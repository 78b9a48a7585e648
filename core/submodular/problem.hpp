#pragma once
// Structured SVM with attracting label pairs (Petterson & Caetano, NIPS 2011).
//
//   score    S(x, y) = sum_l y_l theta_l.x + sum_e k_e theta_e y_i y_j,   e = (i, j),  theta_e >= 0
//   primal   P = 1/2 |theta|^2 + sum_n c_n [ max_y (S(x_n, y) + loss(y, y_n)) - S(x_n, y_n) ]
//   dual     D = sum_n c_n sum_y a_ny loss(y, y_n) - 1/2 |Theta|^2 - 1/2 |max(0, v)|^2,   a_n in the simplex
//            Theta_l = sum_n c_n x_n (y_n - sum_y a_ny y)_l          (labels x features; theta_l = Theta_l)
//            v_e     = sum_n c_n k_e (z_n - sum_y a_ny z)_e,  z_e = y_i y_j;   theta_e = max(0, v_e)
//
// k_e = scale * joint frequency of the pair. x has a last, constant feature `bias`. Labels unknown in a row are off in
// every y of that row and not counted in its loss. An oracle that stops early gives a labelling, which makes a valid
// plane for D, and an upper bound, which makes P valid: P - D >= 0 always certifies.

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/fit/run.hpp"
#include "core/inference/cuts/row_oracle.hpp"
#include "core/labels/set_losses.hpp"
#include "core/numerics/label_weights.hpp"

namespace multimargin::submodular {

using namespace inference;
using namespace labels;
using namespace numerics;

template <RowMatrix X>
struct SubmodularProblem {
    const X& x;
    double bias;
    int labels;
    std::vector<std::pair<int, int>> pairs;
    std::span<const double> factor;       // k_e
    std::span<const double> cost;         // c_n
    std::span<const std::uint8_t> truth;  // rows x labels, of enum Truth
    LossKind loss;
    MistakeWeights weights;  // of the Hamming loss
    OracleKind oracle;
    int node_limit;

    Index rows() const { return x.rows(); }
    const std::uint8_t* truth_of(Index n) const { return truth.data() + n * labels; }
    double total_cost() const {
        double sum = 0.0;
        for (double c : cost) sum += c;
        return sum;
    }
    double loss_of(Index n, const std::uint8_t* y) const {
        const auto* t = truth_of(n);
        int s = 0, f = 0, m = 0;
        double wrong = 0.0;
        for (int l = 0; l < labels; ++l) {
            const auto at = static_cast<std::size_t>(l);
            const bool has = t[l] == present;
            m += has;
            if (y[l]) ++(has ? s : f);
            if (has != (y[l] != 0)) wrong += has ? weights.miss[at] : weights.excess[at];
        }
        return loss == LossKind::f_score ? FScoreLoss{m}(s, f) : wrong;
    }
    double largest_loss() const { return loss == LossKind::f_score ? 1.0 : weights.largest(); }
};

// How many calls of an oracle there were, and how many of them were proved exact.
struct OracleCalls {
    Index made = 0, proved = 0;

    double exact() const { return made ? static_cast<double>(proved) / static_cast<double>(made) : 1.0; }
};

// As it is returned: coef is labels x cols; attraction[e] = k_e theta_e.
struct SubmodularModel {
    std::vector<double> coef, intercept, attraction;
};

}  // namespace multimargin::submodular
