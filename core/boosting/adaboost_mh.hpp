#pragma once
// AdaBoost.MH with trees of one level (Schapire and Singer, 2000), the learner of BoosTexter.
//
//   loss     (1 / nL) sum_il exp(-s_il f_l(x_i)),   s_il = 1 for a label of row i, -1 for one it lacks
//   f        sum_t h_t;  h_t has a value c_bl for each label l on either side b of a split of the rows by one feature
//   round    with weights D_il that sum to 1, uniform at first: the split with the smallest Z (stumps.hpp),
//            c_bl = 1/2 ln((W+_bl + eps) / (W-_bl + eps)),   eps = smoothing / (nL)
//            D_il <- D_il exp(-s_il c_bl) / Z_t,   Z_t what makes the sum 1 again
//
// The loss after a round is the product of all Z_t so far; no Z_t is above 1. A round costs
// rows x features x labels additions, or stored entries x labels; exp is taken of 4 L numbers only.
// Ends after max_iter rounds, or where no split lowers the loss. There is no certificate: the steps are greedy.

#include <vector>

#include "core/boosting/stumps.hpp"
#include "core/fit/run.hpp"

namespace multimargin::boosting {

template <class Bins>
class AdaBoostMH {
  public:
    // What the rounds leave; values are rounds x labels.
    struct Rounds {
        std::vector<std::int32_t> features;
        std::vector<double> thresholds, below, above;
    };

    AdaBoostMH(const Bins& bins, const labels::CellList& positives, Index labels, double smoothing, int threads)
        : bins_(bins),
          weights_(bins.rows(), labels),
          finder_(bins, labels, threads),
          smoothing_(smoothing / (static_cast<double>(bins.rows()) * static_cast<double>(labels))) {
        weights_.set_uniform(positives);
    }

    // The engine of fit/run.hpp: a pass is a round, the primal value the loss, which is never below 0.
    void pass(const fit::Moment&, Control& control) {
        const Stump stump = finder_.find(weights_, control);
        if (control.stopped()) return;
        ended_ = stump.feature < 0 || stump.z >= 1.0 - least_progress;
        if (!ended_) add(stump);
    }
    bool pays(const fit::Moment&) const { return true; }
    fit::Bounds evaluate(const fit::Moment&, Control&) const { return {.primal = loss_, .dual = 0.0}; }
    bool converged(const fit::Moment&) const { return ended_; }

    Rounds take_rounds() { return std::move(rounds_); }

  private:
    static constexpr double least_progress = 1e-12;

    void add(const Stump& stump) {
        const std::uint8_t* codes = bins_.codes(stump.feature, codes_);
        rounds_.features.push_back(static_cast<std::int32_t>(stump.feature));
        rounds_.thresholds.push_back(bins_.cut(stump.feature, stump.bin));
        Buffer<SignedSums<double>> factors(2 * static_cast<std::size_t>(weights_.chunks()));
        double before = 0.0, after = 0.0;
        for (int k = 0; k < weights_.chunks(); ++k) {
            SignedSums<double>* blocks = factors.data() + 2 * k;
            WeightKernels::block_sums(weights_.of(k), codes, weights_.rows(), stump.bin, blocks);
            const Index labels = std::min<Index>(lanes<double>, weights_.labels() - Index{k} * lanes<double>);
            for (int b = 0; b < 2; ++b)
                for (Index e = 0; e < labels; ++e) {
                    double positive = blocks[b].positive[e], negative = blocks[b].negative[e];
                    const double value = 0.5 * std::log((positive + smoothing_) / (negative + smoothing_));
                    (b == 0 ? rounds_.below : rounds_.above).push_back(value);
                    blocks[b].positive[e] = std::exp(-value);
                    blocks[b].negative[e] = std::exp(value);
                    before += positive + negative;
                    after += positive * blocks[b].positive[e] + negative * blocks[b].negative[e];
                }
        }
        const double normaliser = after / before;
        loss_ *= normaliser;
        for (int k = 0; k < weights_.chunks(); ++k) {
            SignedSums<double>* blocks = factors.data() + 2 * k;
            for (int b = 0; b < 2; ++b) {
                blocks[b].positive /= normaliser;
                blocks[b].negative /= normaliser;
            }
            WeightKernels::scale(weights_.of(k), codes, weights_.rows(), stump.bin, blocks);
        }
    }

    const Bins& bins_;
    CellWeights<double> weights_;
    StumpFinder<Bins> finder_;
    double smoothing_;
    Rounds rounds_;
    std::vector<std::uint8_t> codes_;
    double loss_ = 1.0;
    bool ended_ = false;
};

}  // namespace multimargin::boosting
