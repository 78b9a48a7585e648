#pragma once
// Row-block dual coordinate ascent for R = I (problem and notation: linear.hpp).
//
// The labels are split into blocks of chunks. A block is a problem of its own, with its own state, so blocks run on
// different threads; all see the same row order, and no arithmetic depends on the split: any number of threads gives
// the same bits. Within a block a row has one bit per chunk: 1 while some label of the chunk may still move.
// Shrinking as in Hsieh et al. (ICML 2008): a chunk rests when every label in it is at a bound with a gradient beyond
// half of the worst projected gradient of the previous pass.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/parallel.hpp"
#include "core/m3l/linear.hpp"
#include "core/m3l/proximal_state.hpp"
#include "core/m3l/rows_ahead.hpp"
#include "core/numerics/panels.hpp"

namespace multimargin::m3l {

using namespace numerics;

template <RowMatrix X>
class SeparableBlock {
  public:
    using T = typename X::value_type;
    using Kernels = KernelsFor<X>;
    static constexpr int max_chunks = 64;

    SeparableBlock(const X& x, const LabelCells<T>& labels, const std::vector<T>& squares, T bias, int first,
                   int chunks)
        : x_(x),
          labels_(labels),
          squares_(squares),
          bias_(bias),
          first_(first),
          chunks_(chunks),
          state_(x.cols(), chunks, bias),
          beta_(static_cast<std::size_t>(x.rows()) * chunks),
          active_(static_cast<std::size_t>(x.rows()), all_active()),
          upper_(static_cast<std::size_t>(chunks)),
          lower_(static_cast<std::size_t>(chunks)),
          highest_(chunks),
          lowest_(chunks),
          panel_rows_(x, bias, chunks),
          ahead_(x, labels, squares) {
        forget_thresholds();
    }

    // For the thread that will work here most.
    void prepare() {
        state_.touch();
        beta_.touch();
    }

    // Starts from given beta (rows x labels), moved into the box.
    void start_from(const T* beta) {
        for (Index i = 0; i < x_.rows(); ++i) start_row(i, beta + i * labels_.labels());
        shrink_far_start();
        state_.start();
    }

    // Goes on from its own beta, with a state summed afresh and every variable free to move.
    void restart() {
        state_.restart();
        for (Index i = 0; i < x_.rows(); ++i) add_row(i, beta_.data() + i * chunks_);
        state_.start();
        std::fill(active_.begin(), active_.end(), all_active());
        forget_thresholds();
    }

    void recentre(const ProximalShares<T>& shares, bool sum_afresh) {
        state_.recentre(shares);
        if (!sum_afresh) return;
        state_.forget_steps();
        for (Index i = 0; i < x_.rows(); ++i) add_row(i, beta_.data() + i * chunks_);
    }

    double pass(std::span<const std::int32_t> order, bool shrink, Control& control, bool on_caller) {
        highest_.clear();
        lowest_.clear();
        double gap = 0.0;
        for (std::size_t first = 0; first < order.size() && !control.leave(on_caller); first += batch)
            gap += visit(order, first, std::min(first + batch, order.size()), shrink);
        set_thresholds();
        return gap;
    }

    // Adds this block's part of sum c max(t, 0), sum m b, tr(V(b) V'), tr(V V') and tr((V(b) - V) (V(b) - V)') to
    // totals[0..4], label by label.
    void evaluate(double share, std::vector<double>* totals, Control& control, bool on_caller) {
        ChunkVector<T> sums[3] = {ChunkVector<T>(chunks_), ChunkVector<T>(chunks_), ChunkVector<T>(chunks_)};
        for (Index first = 0; first < x_.rows(); first += batch) {
            if (control.leave_unfinished(on_caller)) return;
            evaluate_rows(first, std::min(x_.rows(), first + static_cast<Index>(batch)), share, sums);
            for (int q = 0; q < 3; ++q) drain(sums[q], totals[q]);
        }
        for (Index first = 0; first <= x_.cols(); first += batch) {
            if (control.leave_unfinished(on_caller)) return;
            square_state(first, std::min(x_.cols() + 1, first + static_cast<Index>(batch)), sums[0], sums[1]);
            drain(sums[0], totals[3]);
            drain(sums[1], totals[4]);
        }
    }

    void forget_centre() { state_.forget_centre(); }

    // weights: labels x (cols + 1), the last column for the constant feature. A few features at a time for every label,
    // so that each cache line of the result is written once.
    void copy_weights(T* weights) const {
        constexpr Index tile = 64;
        const Index columns = x_.cols() + 1;
        for (Index first = 0; first < columns; first += tile)
            for (Index l = 0; l < own_labels(); ++l)
                for (Index j = first; j < std::min(columns, first + tile); ++j)
                    weights[(first_label() + l) * columns + j] = lane(state_.row(j), l);
    }
    // Between the two the weights as copied hold the state, so that there is room for them beside the centre.
    void set_aside_state() { state_.set_aside(); }
    bool state_is_aside() const { return state_.is_aside(); }
    void take_back_state(const T* weights) {
        state_.take_back();
        const Index columns = x_.cols() + 1;
        for (Index j = 0; j < x_.cols(); ++j)
            for (Index l = 0; l < own_labels(); ++l)
                reinterpret_cast<T*>(state_.data() + j * chunks_)[l] = weights[(first_label() + l) * columns + j];
    }
    Index first_label() const { return static_cast<Index>(first_) * lanes<T>; }
    Index end_label() const { return first_label() + own_labels(); }
    // Of those labels from `first` on that are its own; `out` belongs to `first`.
    void read_beta(Index i, Index first, Index count, double* out) const {
        const Index begin = std::max(first, first_label()), end = std::min(first + count, end_label());
        const Chunk<T>* beta = beta_.data() + i * chunks_;
        for (Index l = begin; l < end; ++l) out[l - first] = static_cast<double>(lane(beta, l - first_label()));
    }
    void copy_beta(T* beta) const {
        for (Index i = 0; i < x_.rows(); ++i)
            for (Index l = 0; l < own_labels(); ++l)
                beta[i * labels_.labels() + first_label() + l] = lane(beta_.data() + i * chunks_, l);
    }

  protected:                                  // partition_ascent.hpp works on the same block
    static constexpr std::size_t batch = 64;  // rows between two looks at the outside world

    // One exact step in every active label of the rows order[first..last); returns their part of the gap before.
    MULTIMARGIN_SIMD double visit(std::span<const std::int32_t> order, std::size_t first, std::size_t last,
                                  bool shrink) {
        Chunk<T> gap{};
        if constexpr (is_dense<X>) {
            for (std::size_t q = first; q < last; q += quad) {
                for (std::size_t r = q; r < q + quad; ++r)
                    ahead_.prefetch(order, r, active_.data(), beta_.data(), chunks_);
                visit_dense(order.data() + q, static_cast<int>(std::min<std::size_t>(quad, last - q)), shrink, gap);
            }
        } else {
            switch (chunks_) {
                case 1:
                    visit_narrow<1>(order, first, last, shrink, gap);
                    break;
                case 2:
                    visit_narrow<2>(order, first, last, shrink, gap);
                    break;
                case 3:
                    visit_narrow<3>(order, first, last, shrink, gap);
                    break;
                case 4:
                    visit_narrow<4>(order, first, last, shrink, gap);
                    break;
                default:
                    for (std::size_t q = first; q < last; ++q) {
                        ahead_.prefetch(order, q, active_.data(), beta_.data(), chunks_);
                        if (active_[order[q]]) visit_sparse(order[q], shrink, gap);
                    }
            }
        }
        double total = 0.0;
        for (int e = 0; e < lanes<T>; ++e) total += static_cast<double>(gap[e]);
        return total;
    }

    // Few chunks: to list the active ones and to jump to their kernels would cost more than to read and write all.
    template <int M>
    MULTIMARGIN_INLINE void visit_narrow(std::span<const std::int32_t> order, std::size_t first, std::size_t last,
                                         bool shrink, Chunk<T>& gap) {
        for (std::size_t q = first; q < last; ++q) {
            ahead_.prefetch(order, q, active_.data(), beta_.data(), M);
            const Index i = order[q];
            const std::uint64_t active = active_[i];
            if (!active) continue;
            const auto row = x_.row(i);
            Chunk<T> scores[M], steps[M];
            gather_chunks<M, true, T>(row, state_.data(), M, x_.cols(), bias_, nullptr, scores);
            const T length = step_length(state_.shares().curvature(squares_[i]));
            std::uint64_t still_active = 0;
            Chunk<T> moved{};
            for (int k = 0; k < M; ++k) {
                steps[k] = Chunk<T>{};
                if (!(active >> k & 1)) continue;
                bool stays = false;
                steps[k] = step_chunk(i, k, scores[k], length, gap, stays);
                still_active |= std::uint64_t{stays} << k;
                moved = steps[k] != 0 ? steps[k] : moved;
            }
            if (any(moved != 0))
                scatter_chunks<M, true, T>(row, state_.data(), M, x_.cols(), state_.shares().step_bias(), nullptr,
                                           steps);
            if (shrink) active_[i] = still_active;
        }
    }

    MULTIMARGIN_INLINE void visit_sparse(Index i, bool shrink, Chunk<T>& gap) {
        Chunk<T> scores[max_chunks], steps[max_chunks];
        int at[max_chunks], moved[max_chunks];
        const int count = list_chunks(active_[i], at);
        const auto row = x_.row(i);
        Kernels::gather(row, state_.data(), chunks_, x_.cols(), bias_, at, count, scores);
        const T length = step_length(state_.shares().curvature(squares_[i]));
        int changes = 0;
        std::uint64_t still_active = 0;
        for (int e = 0; e < count; ++e) {
            bool stays = false;
            const Chunk<T> change = step_chunk(i, at[e], scores[e], length, gap, stays);
            if (!stays) continue;
            still_active |= std::uint64_t{1} << at[e];
            if (!any(change != 0)) continue;
            steps[changes] = change;
            moved[changes++] = at[e];
        }
        scatter(row, moved, changes, steps);
        if (shrink) active_[i] = still_active;
    }

    // Four rows with one look at the state: each row's scores are corrected for the steps of those before it, so the
    // result is that of four visits.
    MULTIMARGIN_INLINE void visit_dense(const std::int32_t* rows, int count, bool shrink, Chunk<T>& gap) {
        Chunk<T> scores[quad * max_chunks], steps[quad * max_chunks];
        int at[max_chunks];
        std::uint64_t together = 0;
        for (int r = 0; r < count; ++r) together |= active_[rows[r]];
        if (!together) return;
        const int width = list_chunks(together, at);
        const T* x[quad];
        panel_rows_.point_at(rows, count, x);
        Chunk<T>* last = state_.data() + x_.cols() * chunks_;
        for (int r = 0; r < quad; ++r)
            for (int e = 0; e < width; ++e) scores[r * width + e] = bias_ * last[at[e]];
        QuadKernels<T>::gather(x, x_.cols(), state_.data(), chunks_, at, width, width, scores);
        const T step_bias = state_.shares().step_bias();
        T gram[quad][quad];
        QuadKernels<T>::gram(x, x_.cols(), gram);
        bool moves = false;
        for (int r = 0; r < quad; ++r) {
            if (r >= count) {
                for (int e = 0; e < width; ++e) steps[r * width + e] = Chunk<T>{};
                continue;
            }
            const Index i = rows[r];
            const T length = step_length(state_.shares().curvature(squares_[i]));
            std::uint64_t still_active = 0;
            for (int e = 0; e < width; ++e) {
                Chunk<T>& step = steps[r * width + e];
                step = Chunk<T>{};
                if (!(active_[i] >> at[e] & 1)) continue;
                Chunk<T> score = scores[r * width + e];
                for (int b = 0; b < r; ++b) score += (gram[r][b] + bias_ * step_bias) * steps[b * width + e];
                bool stays = false;
                step = step_chunk(i, at[e], score, length, gap, stays);
                if (stays) still_active |= std::uint64_t{1} << at[e];
                moves |= any(step != 0);
            }
            if (shrink) active_[i] = still_active;
        }
        if (!moves) return;
        for (int r = 0; r < count; ++r)
            for (int e = 0; e < width; ++e) last[at[e]] += step_bias * steps[r * width + e];
        QuadKernels<T>::scatter(x, x_.cols(), state_.data(), chunks_, at, width, width, steps);
    }

    static MULTIMARGIN_INLINE int list_chunks(std::uint64_t bits, int* at) {
        int count = 0;
        for (; bits; bits &= bits - 1) at[count++] = __builtin_ctzll(bits);
        return count;
    }

    // The exact step of chunk k of row i at these scores, as it reaches the state; adds the local gap, tells whether
    // the chunk stays active.
    MULTIMARGIN_INLINE Chunk<T> step_chunk(Index i, int k, Chunk<T> score, T length, Chunk<T>& gap, bool& stays) {
        const Chunk<T> zero{};
        const auto positive = labels_.is_positive(i, first_ + k);
        const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
        const Chunk<T> high = positive ? cost : zero, low = positive ? zero : -cost;
        Chunk<T>& beta = beta_[static_cast<std::size_t>(i * chunks_ + k)];
        const Chunk<T> old = beta, g = labels_.target(i, first_ + k, positive) - score, t = positive ? g : -g;
        gap += lane_max(g * high, g * low) - g * old;
        beta = lane_min(high, lane_max(low, old + g * length));
        const Chunk<T> change = beta - old;
        // A label that its exact step does not move is at the bound t pushes it to.
        const auto moves = change != zero;
        const Chunk<T> projected = moves ? t : zero;
        Chunk<T>&highest = highest_.chunks()[k], &lowest = lowest_.chunks()[k];
        highest = lane_max(highest, projected);
        lowest = lane_min(lowest, projected);
        const auto firmly = (t < lower_[k]) | (t > upper_[k]) | (cost == zero);
        stays = any(moves | ~firmly);
        return state_.shares().features * change;
    }

    // sums: c max(t, 0), m b, beta z per label, over these rows.
    MULTIMARGIN_SIMD void evaluate_rows(Index first, Index last, double share, ChunkVector<T>* sums) {
        const Chunk<T> zero{}, tiny = zero + static_cast<T>(share);
        Chunk<T>*hinge = sums[0].chunks(), *linear = sums[1].chunks(), *cross = sums[2].chunks();
        Chunk<T> scores[quad * max_chunks];
        std::int32_t rows[quad];
        for (Index q = first; q < last; q += quad) {
            const int count = static_cast<int>(std::min<Index>(quad, last - q));
            for (int r = 0; r < count; ++r) rows[r] = static_cast<std::int32_t>(q + r);
            panel_rows_.gather(rows, count, state_.data(), scores);
            for (int r = 0; r < count; ++r) {
                const Index i = q + r;
                const Chunk<T>* beta = beta_.data() + i * chunks_;
                for (int k = 0; k < chunks_; ++k) {
                    const auto positive = labels_.is_positive(i, first_ + k);
                    const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
                    const Chunk<T> target = labels_.target(i, first_ + k, positive);
                    const Chunk<T> score = scores[r * chunks_ + k], g = target - score;
                    const Chunk<T> loss = cost * lane_max(positive ? g : -g, zero);
                    hinge[k] += loss;
                    linear[k] += target * beta[k];
                    cross[k] += beta[k] * score;
                    if (any(loss - beta[k] * g > tiny)) active_[i] |= std::uint64_t{1} << k;
                }
            }
        }
    }
    MULTIMARGIN_SIMD void square_state(Index first, Index last, ChunkVector<T>& squares, ChunkVector<T>& leads) const {
        for (Index j = first; j < last; ++j)
            for (int k = 0; k < chunks_; ++k) {
                const Chunk<T> v = state_.row(j)[k], lead = state_.lead(j, k);
                squares.chunks()[k] += v * v;
                leads.chunks()[k] += lead * lead;
            }
    }
    void drain(ChunkVector<T>& sums, std::vector<double>& totals) const {
        for (Index l = 0; l < own_labels(); ++l)
            totals[static_cast<std::size_t>(first_label() + l)] += static_cast<double>(sums[l]);
        sums.clear();
    }

    static T lane(const Chunk<T>* chunks, Index l) { return reinterpret_cast<const T*>(chunks)[l]; }
    Index own_labels() const {
        return std::min<Index>(static_cast<Index>(chunks_) * lanes<T>, labels_.labels() - first_label());
    }
    std::uint64_t all_active() const { return chunks_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << chunks_) - 1; }

    void forget_thresholds() {
        for (int k = 0; k < chunks_; ++k) {
            upper_[k] = Chunk<T>{} + std::numeric_limits<T>::max();
            lower_[k] = Chunk<T>{} - std::numeric_limits<T>::max();
        }
    }
    void set_thresholds() {
        constexpr T far = std::numeric_limits<T>::max();
        for (int k = 0; k < chunks_; ++k)
            for (int e = 0; e < lanes<T>; ++e) {
                const T highest = highest_.chunks()[k][e], lowest = lowest_.chunks()[k][e];
                upper_[k][e] = highest > 0 ? T(0.5) * highest : far;
                lower_[k][e] = lowest < 0 ? T(0.5) * lowest : -far;
            }
    }
    // Scales the labels whose start is far too long, label by label.
    void shrink_far_start() {
        Buffer<Chunk<T>> lengths(static_cast<std::size_t>(chunks_));
        bool far = false;
        for (Index l = 0; l < static_cast<Index>(chunks_) * lanes<T>; ++l) {
            double linear = 0.0, square = 0.0;
            const int chunk = first_ + static_cast<int>(l / lanes<T>);
            for (Index i = 0; i < x_.rows(); ++i)
                linear += static_cast<double>(labels_.target(i, chunk, labels_.is_positive(i, chunk))[l % lanes<T>]) *
                          static_cast<double>(lane(beta_.data() + i * chunks_, l));
            for (Index j = 0; j <= x_.cols(); ++j) {
                const double v = static_cast<double>(lane(state_.row(j), l));
                square += v * v;
            }
            const double length = start_length(linear, square);
            far |= length < 1;
            lengths[static_cast<std::size_t>(l / lanes<T>)][l % lanes<T>] = static_cast<T>(length);
        }
        if (!far) return;
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < chunks_; ++k) beta_[static_cast<std::size_t>(i * chunks_ + k)] *= lengths[k];
        for (Index j = 0; j <= x_.cols(); ++j)
            for (int k = 0; k < chunks_; ++k) state_.data()[j * chunks_ + k] *= lengths[k];
    }

    MULTIMARGIN_SIMD void start_row(Index i, const T* beta) {
        Chunk<T>* start = beta_.data() + i * chunks_;
        std::memcpy(static_cast<void*>(start), beta + first_label(),
                    static_cast<std::size_t>(own_labels()) * sizeof(T));
        for (int k = 0; k < chunks_; ++k) start[k] = labels_.in_box(i, first_ + k, start[k]);
        add_row(i, start);
    }
    // Adds x_i beta_i' to the state, as much of it as the shares let through.
    MULTIMARGIN_INLINE void add_row(Index i, const Chunk<T>* beta) {
        Chunk<T> steps[max_chunks];
        int at[max_chunks], count = 0;
        for (int k = 0; k < chunks_; ++k) {
            if (!any(beta[k] != 0)) continue;
            steps[count] = state_.shares().features * beta[k];
            at[count++] = k;
        }
        scatter(x_.row(i), at, count, steps);
    }
    template <class Row>
    MULTIMARGIN_INLINE void scatter(const Row& row, const int* at, int count, const Chunk<T>* steps) {
        if (count)
            Kernels::scatter(row, state_.data(), chunks_, x_.cols(), state_.shares().step_bias(), at, count, steps);
    }

    const X& x_;
    const LabelCells<T>& labels_;
    const std::vector<T>& squares_;  // squared lengths of the rows without the constant feature
    T bias_;
    int first_, chunks_;
    ProximalState<T> state_;
    Buffer<Chunk<T>> beta_;
    std::vector<std::uint64_t> active_;
    Buffer<Chunk<T>> upper_, lower_;
    ChunkVector<T> highest_, lowest_;  // worst projected gradients of the running pass
    PanelRows<X> panel_rows_;
    RowsAhead<X> ahead_;
};

// Blocks of labels, a multiple of the threads: blocks of so many chunks that the state of the features, which sparse rows
// gather from everywhere, stays in the second-level cache, if a few chunks do.
template <RowMatrix X>
int block_count(const X& x, int chunks, int threads) {
    constexpr Index most_chunks = 32, few_chunks = 4, cache = Index{5} << 18;
    const Index held = cache / ((x.cols() + 1) * Index{sizeof(Chunk<typename X::value_type>)});
    const bool whole = is_dense<X> || held < few_chunks || held > most_chunks;
    const int size = static_cast<int>(whole ? most_chunks : held), enough = (chunks + size - 1) / size;
    return std::min(chunks, (enough + threads - 1) / threads * threads);
}

template <RowMatrix X>
class SeparableEngine {
  public:
    using T = typename X::value_type;
    static constexpr double settled_gap = 0.1;  // with large C the gap hardly moves for tens of passes, then falls fast

    SeparableEngine(const X& x, const LabelCells<T>& labels, T bias, int threads)
        : labels_(labels),
          threads_(threads_for_chunks<X>(labels.chunks(), threads)),
          squares_(squared_norms(x)),
          schedule_(mean(squares_), labels.mean_cost() / labels.mean_margin(), bias) {
        const int chunks = labels.chunks(), count = block_count(x, chunks, threads_);
        for (int b = 0, first = 0; b < count; ++b) {
            const int size = chunks / count + (b < chunks % count);
            blocks_.emplace_back(x, labels, squares_, bias, first, size);
            first += size;
        }
    }

    void prepare(Control& control) {
        for_blocks(control, [&](std::size_t b, bool) { blocks_[b].prepare(); });
    }

    void start_from(const T* beta, Control& control) {
        for_blocks(control, [&](std::size_t b, bool) { blocks_[b].start_from(beta); });
    }

    void restart(Control& control) {
        schedule_.restart();
        for_blocks(control, [&](std::size_t b, bool) { blocks_[b].restart(); });
    }

    double pass(std::span<const std::int32_t> order, bool shrink, Control& control) {
        std::vector<double> gaps(blocks_.size());
        const auto shares = schedule_.next();
        for_blocks(control, [&](std::size_t b, bool on_caller) {
            blocks_[b].recentre(shares, schedule_.sums_afresh());
            gaps[b] = blocks_[b].pass(order, shrink, control, on_caller);
        });
        return std::accumulate(gaps.begin(), gaps.end(), 0.0);
    }

    fit::Bounds evaluate(double share, Control& control) {
        std::vector<double> totals[5];
        for (auto& t : totals) t.assign(static_cast<std::size_t>(labels_.labels()), 0.0);
        for_blocks(control,
                   [&](std::size_t b, bool on_caller) { blocks_[b].evaluate(share, totals, control, on_caller); });
        double sums[5];
        for (int q = 0; q < 5; ++q) sums[q] = std::accumulate(totals[q].begin(), totals[q].end(), 0.0);
        return {.primal = 0.5 * sums[3] + sums[0], .dual = sums[1] - sums[2] + 0.5 * (sums[3] - sums[4])};
    }

    // Makes room for what is copied from here after the last pass.
    void forget_centre() {
        for (auto& block : blocks_) block.forget_centre();
    }
    void copy_weights(T* weights, Control& control) {
        for_blocks(control, [&](std::size_t b, bool) { blocks_[b].copy_weights(weights); });
    }
    void set_aside_state() {
        for (auto& block : blocks_) block.set_aside_state();
    }
    bool state_is_aside() const { return blocks_.front().state_is_aside(); }
    void take_back_state(const T* weights) {
        for (auto& block : blocks_) block.take_back_state(weights);
    }
    void copy_beta(T* beta) const {
        for (const auto& block : blocks_) block.copy_beta(beta);
    }
    // Dual variables of the labels first..first + count of row i.
    void read_beta(Index i, Index first, Index count, double* out) const {
        auto block = std::partition_point(blocks_.begin(), blocks_.end(),
                                          [first](const auto& b) { return b.end_label() <= first; });
        for (; block != blocks_.end() && block->first_label() < first + count; ++block)
            block->read_beta(i, first, count, out);
    }

  private:
    template <class Task>
    void for_blocks(Control& control, Task&& task) {
        parallel_for(static_cast<int>(blocks_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(static_cast<std::size_t>(b), on_caller); });
    }

    const LabelCells<T>& labels_;
    int threads_;
    std::vector<T> squares_;
    ProximalSchedule<T> schedule_;
    std::vector<SeparableBlock<X>> blocks_;
};

}  // namespace multimargin::m3l
