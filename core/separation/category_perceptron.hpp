#pragma once
// The perceptron of Crammer and Singer (2003) for rankings of labels, with averaged weights.
//
// A row with labels y and labels it lacks n, both not empty, has wrong pairs E = {(k, l) in y x n: w_k.x <= w_l.x} and
// the loss c |E| / (|y| |n|), c its cost. Where E is not empty, w_k += tau_k x, with tau summing to 0:
//   uniform   the loss is shared by the pairs of E: tau_k = c |pairs of E with k| / (|y| |n|), tau_l likewise, negative
//   worst     all of it for the label of y with the lowest score, taken from the label of n with the highest
// The result is the mean of the weights after every visit. There is no objective, hence no certificate.
// Cost of a pass: rows x (labels x entries of x + labels log labels).

#include <algorithm>
#include <vector>

#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/separation/ranked_rows.hpp"

namespace multimargin::separation {

enum class PerceptronUpdate { uniform, worst };

template <RowMatrix X>
class CategoryPerceptron {
  public:
    CategoryPerceptron(const X& x, const labels::Labels& source, double bias, PerceptronUpdate update,
                       std::uint64_t seed)
        : rows_(x, source, bias),
          late_(x, source, bias),
          update_(update),
          tau_(static_cast<std::size_t>(source.labels)),
          order_(static_cast<std::size_t>(x.rows())),
          rng_(seed) {
        std::iota(order_.begin(), order_.end(), 0);
    }

    // The engine of fit/run.hpp; it has nothing to evaluate.
    void pass(const fit::Moment&, Control& control) {
        rng_.shuffle(std::span(order_));
        for (const Index i : order_) {
            if (control.leave_after(rows_.work(i))) break;
            if (rows_.has_pairs(i)) visit(i);
        }
    }
    bool pays(const fit::Moment&) const { return false; }
    fit::Bounds evaluate(const fit::Moment&, Control&) const { return {}; }

    // The mean of the weights after every visit, labels x (cols + 1).
    void copy_mean(std::vector<double>& out) const {
        std::vector<double> late(out.size());
        rows_.copy_weights(out.data());
        late_.copy_weights(late.data());
        for (std::size_t j = 0; visits_ > 0 && j < out.size(); ++j) out[j] -= late[j] / static_cast<double>(visits_);
    }

  private:
    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

    void visit(Index i) {
        const auto scores = rows_.scores(i);
        std::fill(tau_.begin(), tau_.end(), 0.0);
        on_.clear();
        off_.clear();
        for (const Index k : rows_.positive(i)) on_.push_back(scores[at(k)]);
        for (const Index l : rows_.negative(i)) off_.push_back(scores[at(l)]);
        std::ranges::sort(on_);
        std::ranges::sort(off_);
        if (on_.front() <= off_.back()) {
            share(i, scores);
            rows_.add(i, tau_.data());
            for (double& t : tau_) t *= static_cast<double>(visits_);
            late_.add(i, tau_.data());
        }
        ++visits_;
    }

    // Numbers of wrong pairs of each label, by search among the sorted scores of the other side.
    void share(Index i, std::span<const double> scores) {
        const double unit = rows_.cost(i) / static_cast<double>(on_.size() * off_.size());
        double all = 0.0;
        Index lowest = rows_.positive(i).front(), highest = rows_.negative(i).front();
        for (const Index k : rows_.positive(i)) {
            const auto wrong = off_.end() - std::ranges::lower_bound(off_, scores[at(k)]);
            all += tau_[at(k)] = unit * static_cast<double>(wrong);
            if (scores[at(k)] < scores[at(lowest)]) lowest = k;
        }
        for (const Index l : rows_.negative(i)) {
            const auto wrong = std::ranges::upper_bound(on_, scores[at(l)]) - on_.begin();
            tau_[at(l)] = -unit * static_cast<double>(wrong);
            if (scores[at(l)] > scores[at(highest)]) highest = l;
        }
        if (update_ == PerceptronUpdate::worst) {
            std::fill(tau_.begin(), tau_.end(), 0.0);
            tau_[at(lowest)] = all;
            tau_[at(highest)] = -all;
        }
    }

    RankedRows<X> rows_, late_;  // late_: updates times the visits before them
    PerceptronUpdate update_;
    std::vector<double> tau_, on_, off_;
    std::vector<std::int32_t> order_;
    Index visits_ = 0;
    Rng rng_;
};

}  // namespace multimargin::separation
