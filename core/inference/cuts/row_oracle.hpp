#pragma once
// The oracle a solver calls for one row: max over y of S(y) + loss(y, truth), by any method.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/control.hpp"
#include "core/inference/cuts/f_score_cut.hpp"
#include "core/inference/cuts/graph_cut.hpp"
#include "core/inference/cuts/paper_f_score.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

enum class LossKind { f_score, hamming };
enum class OracleKind { exact, paper };

struct RowAnswer {
    double lower, upper;  // value of the labelling found; bound of the maximum
    bool proved;          // that the labelling is a maximiser, up to the tolerance
};

// Owns workspace: one for each thread.
class RowOracle {
  public:
    // weights: of the Hamming loss
    RowOracle(int labels, std::span<const std::pair<int, int>> pairs, LossKind loss, labels::MistakeWeights weights,
              int node_limit)
        : loss_(loss),
          weights_(weights),
          exact_(labels, pairs, node_limit),
          paper_(labels, pairs),
          cut_(labels, pairs),
          shifted_(static_cast<std::size_t>(labels)),
          pairs_(pairs.size()) {}

    void set_weights(const double* w, OracleKind kind) {
        if (loss_ == LossKind::f_score)
            return kind == OracleKind::exact ? exact_.set_weights(w) : paper_.set_weights(w);
        cut_.set_weights(w);
        total_weight_ = 0.0;
        for (std::size_t e = 0; e < pairs_; ++e) total_weight_ += w[e];
    }

    // must_finish: as Control::leave_unfinished.
    RowAnswer solve(const double* u, const std::uint8_t* truth, OracleKind kind, double tol, std::uint8_t* y,
                    Control& control, bool on_caller, bool must_finish) {
        if (loss_ == LossKind::hamming) return solve_hamming(u, truth, y);
        if (kind == OracleKind::paper) {
            const auto answer = paper_.solve(u, truth, false, true, false, y);
            return {answer.value, answer.value, answer.tight_certificate};
        }
        const auto answer = exact_.solve(u, truth, tol, y, &control, on_caller, must_finish);
        return {answer.lower, answer.upper, answer.upper <= answer.lower + tol};
    }

  private:
    // The Hamming loss only shifts the scores: down for true labels, up for the others.
    RowAnswer solve_hamming(const double* u, const std::uint8_t* truth, std::uint8_t* y) {
        double all_missed = 0.0;
        for (std::size_t l = 0; l < shifted_.size(); ++l) {
            if (truth[l] == present) all_missed += weights_.miss[l];
            shifted_[l] = truth[l] == unknown   ? -1.0 - total_weight_
                          : truth[l] == present ? u[l] - weights_.miss[l]
                                                : u[l] + weights_.excess[l];
        }
        const double score = cut_.maximise(shifted_.data(), Ties::largest, y);
        return {score + all_missed, score + all_missed + cut_.rounding(), true};
    }

    LossKind loss_;
    labels::MistakeWeights weights_;
    FScoreCut exact_;
    PaperFScore paper_;
    CutPredictor cut_;
    std::vector<double> shifted_;
    std::size_t pairs_;
    double total_weight_ = 0.0;
};

}  // namespace multimargin::inference
