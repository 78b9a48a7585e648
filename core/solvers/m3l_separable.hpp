#pragma once
// Row-block dual coordinate ascent for R = I (problem and notation: m3l_linear.hpp).
//
// The labels are split into blocks of chunks. A block is a problem of its own, with its own state, so blocks run on
// different threads; all see the same row order, and no arithmetic depends on the split: any number of threads gives
// the same bits. Within a block a row has one bit per chunk: 1 while some label of the chunk may still move.
// Shrinking as in Hsieh et al. (ICML 2008): a chunk rests when every label in it is at a bound with a gradient beyond
// half of the worst projected gradient of the previous pass.

#include <cstdint>
#include <limits>
#include <vector>

#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/solvers/m3l_linear.hpp"
#include "core/solvers/row_kernels.hpp"

namespace multimargin {

template <RowMatrix X>
class SeparableBlock {
  public:
    using T = typename X::value_type;
    using Kernels = KernelsFor<X>;
    static constexpr int max_chunks = 64;

    SeparableBlock(const X& x, const LabelCells<T>& labels, const std::vector<T>& norms, T bias, int first, int chunks)
        : x_(x),
          labels_(labels),
          norms_(norms),
          bias_(bias),
          first_(first),
          chunks_(chunks),
          state_(static_cast<std::size_t>(x.cols() + 1) * chunks),
          beta_(static_cast<std::size_t>(x.rows()) * chunks),
          active_(static_cast<std::size_t>(x.rows()), all_active()),
          upper_(static_cast<std::size_t>(chunks)),
          lower_(static_cast<std::size_t>(chunks)) {
        forget_thresholds();
    }

    // Starts from given beta (rows x labels), moved into the box.
    void start_from(const T* beta) {
        for (Index i = 0; i < x_.rows(); ++i) start_row(i, beta + i * labels_.labels());
    }

    MULTIMARGIN_SIMD double pass(std::span<const std::int32_t> order, bool shrink, Control& control, bool on_caller) {
        const Chunk<T> zero{}, one = zero + T(1);
        Buffer<Chunk<T>> worst(static_cast<std::size_t>(2 * chunks_));
        Chunk<T>*highest = worst.data(), *lowest = worst.data() + chunks_;
        Chunk<T> scores[max_chunks], steps[max_chunks];
        int at[max_chunks], moved[max_chunks];
        double gap = 0.0;
        Chunk<T> partial = zero;
        for (std::size_t visit = 0; visit < order.size(); ++visit) {
            if (visit % 64 == 0) {
                gap += drain(partial);
                if (control.leave(on_caller)) break;
            }
            const Index i = order[visit];
            std::uint64_t bits = active_[i];
            if (!bits) continue;
            int count = 0;
            for (; bits; bits &= bits - 1) at[count++] = __builtin_ctzll(bits);
            const auto row = x_.row(i);
            Kernels::gather(row, state_.data(), chunks_, x_.cols(), bias_, at, count, scores);
            const T length = step_length(norms_[i]);
            Chunk<T>* beta = beta_.data() + i * chunks_;
            int changes = 0;
            std::uint64_t still_active = 0;
            for (int e = 0; e < count; ++e) {
                const int k = at[e];
                const auto positive = labels_.is_positive(i, first_ + k);
                const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
                const Chunk<T> y = positive ? one : -one;
                const Chunk<T> high = positive ? cost : zero, low = positive ? zero : -cost;
                const Chunk<T> old = beta[k], g = y - scores[e], t = y * g;
                partial += cost * lane_max(t, zero) - g * old;
                const Chunk<T> now = lane_min(high, lane_max(low, old + g * length));
                const Chunk<T> change = now - old;
                const bool moves = any(change != 0);
                if (moves) {
                    beta[k] = now;
                    steps[changes] = change;
                    moved[changes++] = k;
                }
                // t restricted to the directions the box allows
                const auto at_zero = (y * old <= zero), at_cost = (y * old >= cost);
                Chunk<T> projected = at_cost ? lane_min(t, zero) : t;
                projected = at_zero ? lane_max(t, zero) : projected;
                projected = (at_zero & at_cost) ? zero : projected;
                highest[k] = lane_max(highest[k], projected);
                lowest[k] = lane_min(lowest[k], projected);
                const auto rests = (at_zero & (t < lower_[k])) | (at_cost & (t > upper_[k])) | (at_zero & at_cost);
                if (moves || !all(rests)) still_active |= std::uint64_t{1} << k;
            }
            if (changes) Kernels::scatter(row, state_.data(), chunks_, x_.cols(), bias_, moved, changes, steps);
            if (shrink) active_[i] = still_active;
        }
        set_thresholds(highest, lowest);
        return gap + drain(partial);
    }

    // Adds this block's part of sum c max(t, 0), sum m b, tr(V(b) V') and tr(V V') to totals[0..3], label by label.
    MULTIMARGIN_SIMD void evaluate(double share, std::vector<double>* totals, Control& control, bool on_caller) {
        const Chunk<T> zero{}, one = zero + T(1);
        const Chunk<T> tiny = zero + static_cast<T>(share);
        const std::size_t n = static_cast<std::size_t>(chunks_);
        Buffer<Chunk<T>> partial(3 * n);
        Chunk<T>*hinge = partial.data(), *linear = hinge + n, *cross = linear + n;
        Chunk<T> scores[max_chunks];
        auto flush = [&] {
            for (int q = 0; q < 3; ++q) add_lanes(partial.data() + q * n, totals[q]);
        };
        for (Index i = 0; i < x_.rows(); ++i) {
            if (i % 64 == 0) {
                flush();
                if (control.leave_unfinished(on_caller)) return;
            }
            Kernels::gather_all(x_.row(i), state_.data(), chunks_, x_.cols(), bias_, scores);
            const Chunk<T>* beta = beta_.data() + i * chunks_;
            for (int k = 0; k < chunks_; ++k) {
                const auto positive = labels_.is_positive(i, first_ + k);
                const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
                const Chunk<T> y = positive ? one : -one;
                const Chunk<T> b = y * beta[k], t = one - y * scores[k];
                const Chunk<T> loss = cost * lane_max(t, zero);
                hinge[k] += loss;
                linear[k] += b;
                cross[k] += beta[k] * scores[k];
                if (any(loss - b * t > tiny)) active_[i] |= std::uint64_t{1} << k;
            }
        }
        flush();
        Buffer<Chunk<T>> squares(n);
        for (Index j = 0; j <= x_.cols(); ++j) {
            for (int k = 0; k < chunks_; ++k) {
                const Chunk<T> v = state_[static_cast<std::size_t>(j * chunks_ + k)];
                squares[static_cast<std::size_t>(k)] += v * v;
            }
            if (j % 64 == 63 || j == x_.cols()) add_lanes(squares.data(), totals[3]);
        }
    }

    // weights: labels x (cols + 1), the last column for the constant feature.
    void copy_weights(T* weights) const {
        for (Index j = 0; j <= x_.cols(); ++j)
            for (Index l = 0; l < own_labels(); ++l)
                weights[(first_label() + l) * (x_.cols() + 1) + j] = lane(state_.data() + j * chunks_, l);
    }
    void copy_beta(T* beta) const {
        for (Index i = 0; i < x_.rows(); ++i)
            for (Index l = 0; l < own_labels(); ++l)
                beta[i * labels_.labels() + first_label() + l] = lane(beta_.data() + i * chunks_, l);
    }

  private:
    static T lane(const Chunk<T>* chunks, Index l) { return reinterpret_cast<const T*>(chunks)[l]; }
    Index first_label() const { return static_cast<Index>(first_) * lanes<T>; }
    Index own_labels() const {
        return std::min<Index>(static_cast<Index>(chunks_) * lanes<T>, labels_.labels() - first_label());
    }
    std::uint64_t all_active() const { return chunks_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << chunks_) - 1; }

    static MULTIMARGIN_INLINE double drain(Chunk<T>& sums) {
        double total = 0.0;
        for (int e = 0; e < lanes<T>; ++e) total += static_cast<double>(sums[e]);
        sums = Chunk<T>{};
        return total;
    }
    MULTIMARGIN_INLINE void add_lanes(Chunk<T>* sums, std::vector<double>& totals) const {
        for (Index l = 0; l < own_labels(); ++l)
            totals[static_cast<std::size_t>(first_label() + l)] += static_cast<double>(lane(sums, l));
        for (int k = 0; k < chunks_; ++k) sums[k] = Chunk<T>{};
    }
    void forget_thresholds() {
        for (int k = 0; k < chunks_; ++k) {
            upper_[k] = Chunk<T>{} + std::numeric_limits<T>::max();
            lower_[k] = Chunk<T>{} - std::numeric_limits<T>::max();
        }
    }
    MULTIMARGIN_INLINE void set_thresholds(const Chunk<T>* highest, const Chunk<T>* lowest) {
        const Chunk<T> zero{}, far = zero + std::numeric_limits<T>::max();
        for (int k = 0; k < chunks_; ++k) {
            upper_[k] = highest[k] > zero ? T(0.5) * highest[k] : far;
            lower_[k] = lowest[k] < zero ? T(0.5) * lowest[k] : -far;
        }
    }
    MULTIMARGIN_SIMD void start_row(Index i, const T* beta) {
        Chunk<T> start[max_chunks];
        std::memset(static_cast<void*>(start), 0, sizeof start);
        std::memcpy(static_cast<void*>(start), beta + first_label(), static_cast<std::size_t>(own_labels()) * sizeof(T));
        for (int k = 0; k < chunks_; ++k) {
            const auto positive = labels_.is_positive(i, first_ + k);
            const Chunk<T> cost = labels_.cost(i, first_ + k, positive), zero{};
            start[k] = lane_min(positive ? cost : zero, lane_max(positive ? zero : -cost, start[k]));
            beta_[static_cast<std::size_t>(i * chunks_ + k)] = start[k];
        }
        Kernels::scatter_all(x_.row(i), state_.data(), chunks_, x_.cols(), bias_, start);
    }

    const X& x_;
    const LabelCells<T>& labels_;
    const std::vector<T>& norms_;
    T bias_;
    int first_, chunks_;
    Buffer<Chunk<T>> state_, beta_;
    std::vector<std::uint64_t> active_;
    Buffer<Chunk<T>> upper_, lower_;
};

template <RowMatrix X>
class SeparableEngine {
  public:
    using T = typename X::value_type;

    SeparableEngine(const X& x, const LabelCells<T>& labels, T bias, int threads)
        : labels_(labels), threads_(threads), norms_(squared_norms(x, bias)) {
        constexpr int preferred_chunks = 32;
        const int chunks = labels.chunks();
        const int enough = (chunks + preferred_chunks - 1) / preferred_chunks;
        const int count = std::min(chunks, (enough + threads - 1) / threads * threads);
        for (int b = 0, first = 0; b < count; ++b) {
            const int size = chunks / count + (b < chunks % count);
            blocks_.emplace_back(x, labels, norms_, bias, first, size);
            first += size;
        }
    }

    void start_from(const T* beta) {
        for (auto& block : blocks_) block.start_from(beta);
    }

    double pass(std::span<const std::int32_t> order, bool shrink, Control& control) {
        std::vector<double> gaps(blocks_.size());
        for_blocks(control, [&](std::size_t b, bool on_caller) {
            gaps[b] = blocks_[b].pass(order, shrink, control, on_caller);
        });
        return std::accumulate(gaps.begin(), gaps.end(), 0.0);
    }

    Evaluation evaluate(double share, Control& control) {
        std::vector<double> totals[4];
        for (auto& t : totals) t.assign(static_cast<std::size_t>(labels_.labels()), 0.0);
        for_blocks(control, [&](std::size_t b, bool on_caller) {
            blocks_[b].evaluate(share, totals, control, on_caller);
        });
        double sums[4];
        for (int q = 0; q < 4; ++q) sums[q] = std::accumulate(totals[q].begin(), totals[q].end(), 0.0);
        return {.primal = 0.5 * sums[3] + sums[0], .dual = sums[1] - sums[2] + 0.5 * sums[3]};
    }

    void copy_weights(T* weights) const {
        for (const auto& block : blocks_) block.copy_weights(weights);
    }
    void copy_beta(T* beta) const {
        for (const auto& block : blocks_) block.copy_beta(beta);
    }

  private:
    template <class Task>
    void for_blocks(Control& control, Task&& task) {
        parallel_for(static_cast<int>(blocks_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(static_cast<std::size_t>(b), on_caller); });
    }

    const LabelCells<T>& labels_;
    int threads_;
    std::vector<T> norms_;
    std::vector<SeparableBlock<X>> blocks_;
};

}  // namespace multimargin
