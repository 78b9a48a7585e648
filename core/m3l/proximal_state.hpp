#pragma once
// The state V of coordinate ascent, held back by a proximal term. A pass works not on P but on
//
//   P + 1/2 sum_j k_j |V_j - centre_j|^2      j: feature; norm and Z = V R as in P; centre: V after the last pass
//
// for which, with V(b) the state that belongs to the dual variables alone and s_j = 1 / (1 + k_j) the shares,
//
//   V_j = s_j V_j(b) + (1 - s_j) centre_j                                                                        (*)
//
// So only the share s_j of a step reaches the state, which makes steps longer, and between passes
//
//   V_j, centre_j  <-  V_j + s_j k_j (V_j - centre_j),  V_j      (s_j of the next pass, k_j of the last one)
//
// keeps (*). Where this stands still, V = centre = V(b): the solution of the problem itself.
//
// Why: along V(b) the primal lags far behind the dual, since a step that hardly matters to D moves every row with a
// feature in common off its margin. As P is strongly convex, k may grow with the passes, and the gap falls like the
// square of their number instead of like the number: the second algorithm of Chambolle and Pock (2011), with exact
// coordinate steps in place of one projected gradient step. On text the passes to a gap of 1e-3 fall to two fifths
// (C = 1) and a quarter (C = 8), those to 1e-5 to a thirteenth (RCV1, C = 8: 2857 to 214). Where the rows are separable
// and differ much in length, k grows too fast: up to 1.6 times the passes (synthetic counts).
//
// The constant feature, common to all rows, is held back more, so that its part in a row's curvature is a tenth; yet
// not so far that all rows of a label together, each at its bound, could move its score by less than ten margins a
// pass. Without the latter it would stand still wherever the features are small beside it: their steps then all end at
// a bound, and nothing but the constant feature can reach the margin. Its k grows by at most 1 a pass, as much as the
// strong convexity of P allows: growing faster, it would outrun its own solution.
//
// Rounding: of a step only s_j is added, so its rounding counts 1 / s_j times in V(b). Hence k starts again at 1 now
// and then, and V is summed afresh even more often.
//
// Constants are from tmc2007, bibtex and RCV1: k / pass of 1/4 to 1/16, k at first of 1/2 to 3, the constant feature's
// part of 1/3 to 1/25, several passes for each centre, and k_j by the frequency of feature j were all tried; most make
// a difference of a tenth.

#include <algorithm>
#include <cstring>

#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/simd.hpp"

namespace multimargin::m3l {

template <class T>
struct ProximalShares {
    T features = 1, constant = 1;  // s_j
    T bias;                        // value of the constant feature

    // What a unit step in a row of this squared length (without the constant feature) adds to the row's own score.
    MULTIMARGIN_INLINE T curvature(T square) const { return features * square + constant * bias * bias; }
    // The value of the constant feature for steps that have been multiplied by `features`.
    MULTIMARGIN_INLINE T step_bias() const { return bias * (constant / features); }
};

// The shares, pass by pass.
template <class T>
class ProximalSchedule {
  public:
    // mean_square: mean squared length of the rows without the constant feature; cost: of all cells of a label, by its
    // margin.
    ProximalSchedule(double mean_square, double cost, T bias) : bias_(bias) {
        constexpr double part = 0.1, reach = 10;
        const double square = static_cast<double>(bias) * static_cast<double>(bias);
        const double held_back = std::max(part * mean_square, reach / cost);
        constant_ratio_ = held_back < square ? held_back / square : 1.0;
    }

    // The first pass is not held back: there is no centre worth staying near.
    ProximalShares<T> next() {
        constexpr int restart = 256;
        constexpr double growth = 1.0 / 8;
        const int pass = pass_++;
        if (pass == 0) return {.bias = bias_};
        const double k = std::max(1.0, growth * (pass % restart));
        const double constant = 2 / constant_ratio_ + std::min(1 / constant_ratio_, 1 / growth) * (k - 1);
        return {.features = static_cast<T>(1 / (1 + k)), .constant = static_cast<T>(1 / constant), .bias = bias_};
    }
    void restart() { pass_ = 0; }
    // Whether V should be summed afresh after the last next().
    bool sums_afresh() const { return pass_ % 64 == 0; }

  private:
    T bias_;
    double constant_ratio_;
    int pass_ = 0;
};

// One row of `width` chunks per feature, and a last one for the constant feature.
template <class T>
class ProximalState {
  public:
    ProximalState(Index features, int width, T bias)
        : features_(features),
          width_(width),
          shares_{.bias = bias},
          state_(static_cast<std::size_t>(features + 1) * static_cast<std::size_t>(width)),
          centre_(state_.size()) {}

    Chunk<T>* data() { return state_.data(); }
    const Chunk<T>* data() const { return state_.data(); }
    const Chunk<T>* row(Index j) const { return state_.data() + j * width_; }
    std::size_t bytes() const { return state_.size() * sizeof(Chunk<T>); }
    MULTIMARGIN_INLINE const ProximalShares<T>& shares() const { return shares_; }

    void touch() {
        state_.touch();
        centre_.touch();
    }

    // After the state has been written without shares, before the first pass.
    void start() { std::memcpy(static_cast<void*>(centre_.data()), state_.data(), bytes()); }

    // Moves the centre to the state and goes on with these shares.
    void recentre(const ProximalShares<T>& shares) {
        extrapolate(0, features_, shares.features * pull(shares_.features));
        extrapolate(features_, features_ + 1, shares.constant * pull(shares_.constant));
        shares_ = shares;
    }

    // For a state that is written from outside before every pass (partition.hpp): no centre is kept.
    void set_shares(const ProximalShares<T>& shares) { shares_ = shares; }

    // After the last pass.
    void forget_centre() { centre_ = Buffer<Chunk<T>>(); }

    // Gives the memory of the state away for a while, all but the row of the constant feature.
    void set_aside() {
        constant_ = Buffer<Chunk<T>>(static_cast<std::size_t>(width_));
        std::copy_n(row(features_), width_, constant_.data());
        state_ = Buffer<Chunk<T>>();
    }
    bool is_aside() const { return state_.size() == 0; }
    // Zeroed, but for that row; the rest of the state is to be written as it was.
    void take_back() {
        state_ = Buffer<Chunk<T>>(centre_.size());
        std::copy_n(constant_.data(), width_, state_.data() + features_ * width_);
    }

    // Forgets everything; the state is to be written again, without shares.
    void restart() {
        shares_ = {.bias = shares_.bias};
        std::memset(static_cast<void*>(state_.data()), 0, bytes());
        if (!centre_.size()) centre_ = Buffer<Chunk<T>>(state_.size());
    }

    // Leaves the centre's part of (*); V(b)'s is to be added again.
    void forget_steps() {
        leave_centre(0, features_, 1 - shares_.features);
        leave_centre(features_, features_ + 1, 1 - shares_.constant);
    }

    // Chunk c of V_j(b) - V_j.
    MULTIMARGIN_INLINE Chunk<T> lead(Index j, int c) const {
        const auto at = static_cast<std::size_t>(j * width_ + c);
        return pull(j < features_ ? shares_.features : shares_.constant) * (state_[at] - centre_[at]);
    }

  private:
    static MULTIMARGIN_INLINE T pull(T share) { return (1 - share) / share; }  // k_j

    MULTIMARGIN_SIMD void extrapolate(Index first, Index last, T factor) {
        Chunk<T>*state = state_.data(), *centre = centre_.data();
        for (Index k = first * width_; k < last * width_; ++k) {
            const Chunk<T> v = state[k];
            state[k] = v + factor * (v - centre[k]);
            centre[k] = v;
        }
    }
    MULTIMARGIN_SIMD void leave_centre(Index first, Index last, T factor) {
        Chunk<T>*state = state_.data(), *centre = centre_.data();
        for (Index k = first * width_; k < last * width_; ++k) state[k] = factor * centre[k];
    }

    Index features_;
    int width_;
    ProximalShares<T> shares_;
    Buffer<Chunk<T>> state_, centre_, constant_;
};

}  // namespace multimargin::m3l
