#pragma once
// Row-block dual coordinate ascent for a prior R that couples the labels (problem and notation: linear.hpp).
//
// A visit to row i costs the gather of its raw scores, the prior's open() (L^2 for a dense R, r L for a factor of rank
// r), and one exact step per label in turn; a label that moves updates the scores of the others at once, so the sweep
// is exact coordinate ascent without delayed updates. Shrinking: a chunk of labels whose gradients are, when its turn
// comes, beyond half of the worst projected gradients of the previous pass, each at its bound, is passed over; a row
// rests when all its chunks do. What moved goes back to the state by chunks. Only evaluation runs on several threads:
// it adds partial sums of fixed row ranges, the same for any thread count.

#include <limits>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/parallel.hpp"
#include "core/m3l/linear.hpp"
#include "core/m3l/prior.hpp"
#include "core/m3l/proximal_state.hpp"
#include "core/m3l/rows_ahead.hpp"
#include "core/numerics/panels.hpp"

namespace multimargin::m3l {

using namespace numerics;

template <RowMatrix X, class Prior>
class CoupledEngine {
  public:
    using T = typename X::value_type;
    using Kernels = KernelsFor<X>;
    static constexpr double settled_gap = 1.0;  // passes cost so much more that it does not pay to wait

    CoupledEngine(const X& x, const LabelCells<T>& labels, const Prior& prior, T bias, int threads)
        : x_(x),
          labels_(labels),
          prior_(prior),
          bias_(bias),
          threads_(threads),
          squares_(squared_norms(x)),
          schedule_(mean(squares_), labels.mean_cost() / labels.mean_margin(), bias),
          width_(prior.state_chunks()),
          state_(x.cols(), width_, bias),
          beta_(static_cast<std::size_t>(x.rows()) * labels.chunks()),
          active_(static_cast<std::size_t>(x.rows()), 1),
          highest_(labels.chunks()),
          lowest_(labels.chunks()),
          upper_(labels.chunks()),
          lower_(labels.chunks()),
          moved_(static_cast<std::size_t>(width_)),
          moves_(static_cast<std::size_t>(width_)),
          ahead_(x, labels, squares_) {
        for (Index l = 0; l < labels.labels(); ++l) diagonal_.push_back(prior.diagonal(l));
        forget_thresholds();
    }

    void start_from(const T* beta, Control&) {
        Workspace w(*this);
        for (Index i = 0; i < x_.rows(); ++i) start_row(i, beta + i * labels_.labels(), w);
        shrink_far_start(w);
        state_.start();
    }

    // Goes on from its own beta, with a state summed afresh and every variable free to move.
    void restart(Control&) {
        Workspace w(*this);
        schedule_.restart();
        state_.restart();
        for (Index i = 0; i < x_.rows(); ++i) add_row(i, w);
        state_.start();
        std::fill(active_.begin(), active_.end(), 1);
        forget_thresholds();
    }

    double pass(std::span<const std::int32_t> order, bool shrink, Control& control) {
        Workspace w(*this);
        state_.recentre(schedule_.next());
        if (schedule_.sums_afresh()) {
            state_.forget_steps();
            for (Index i = 0; i < x_.rows(); ++i) add_row(i, w);
        }
        return sweep(order, shrink, w, control);
    }

    fit::Bounds evaluate(double share, Control& control) {
        constexpr Index range = 1024;
        const int row_ranges = static_cast<int>((x_.rows() + range - 1) / range);
        const int state_ranges = static_cast<int>((x_.cols() + range) / range);
        std::vector<Sums> sums(static_cast<std::size_t>(row_ranges + state_ranges));
        parallel_for(row_ranges + state_ranges, threads_, control, [&](int k, bool on_caller) {
            Workspace w(*this);
            const bool of_rows = k < row_ranges;
            const Index begin = range * (of_rows ? k : k - row_ranges);
            const Index end = std::min(of_rows ? x_.rows() : x_.cols() + 1, begin + range);
            for (Index first = begin; first < end && !control.leave_unfinished(on_caller); first += batch) {
                const Index last = std::min(end, first + static_cast<Index>(batch));
                of_rows ? evaluate_rows(first, last, share, w, sums[k]) : evaluate_state(first, last, w, sums[k]);
            }
        });
        Sums total;
        for (const auto& s : sums) {
            total.hinge += s.hinge;
            total.linear += s.linear;
            total.cross += s.cross;
            total.quadratic += s.quadratic;
            total.lead += s.lead;
        }
        return {.primal = 0.5 * total.quadratic + total.hinge,
                .dual = total.linear - total.cross + 0.5 * (total.quadratic - total.lead)};
    }

    // Makes room for what is copied from here after the last pass.
    void forget_centre() { state_.forget_centre(); }

    // The state, (cols + 1) x state_labels(): V, or U = V F for a factor without diagonal.
    void copy_state(T* out, Index state_labels) const {
        for (Index j = 0; j <= x_.cols(); ++j)
            std::memcpy(out + j * state_labels, state_.row(j), static_cast<std::size_t>(state_labels) * sizeof(T));
    }
    void copy_beta(T* beta) const {
        for (Index i = 0; i < x_.rows(); ++i)
            std::memcpy(beta + i * labels_.labels(), beta_.data() + i * labels_.chunks(),
                        static_cast<std::size_t>(labels_.labels()) * sizeof(T));
    }

    // Dual variables of the labels first..first + count of row i.
    void read_beta(Index i, Index first, Index count, double* out) const {
        const T* beta = reinterpret_cast<const T*>(beta_.data() + i * labels_.chunks()) + first;
        for (Index l = 0; l < count; ++l) out[l] = static_cast<double>(beta[l]);
    }

  protected:  // partition_ascent.hpp works on the same state
    struct Sums {
        double hinge = 0.0, linear = 0.0, cross = 0.0, quadratic = 0.0, lead = 0.0;
    };

    // One open row: its scores, its box, and target = y m, so that the gradient along beta is target - z.
    struct Workspace {
        explicit Workspace(const CoupledEngine& e)
            : row(e.prior_),
              raw(e.width_),
              lead(e.width_),
              low(e.labels_.chunks()),
              high(e.labels_.chunks()),
              target(e.labels_.chunks()) {}
        typename Prior::Row row;
        ChunkVector<T> raw, lead, low, high, target;
    };

    double sweep(std::span<const std::int32_t> order, bool shrink, Workspace& w, Control& control) {
        highest_.clear();
        lowest_.clear();
        double gap = 0.0;
        for (std::size_t first = 0; first < order.size() && !control.leave(true); first += batch)
            gap += visit(order, first, std::min(first + batch, order.size()), shrink, w);
        for (Index l = 0; l < labels_.labels(); ++l) {
            upper_[l] = highest_[l] > 0 ? T(0.5) * highest_[l] : std::numeric_limits<T>::max();
            lower_[l] = lowest_[l] < 0 ? T(0.5) * lowest_[l] : -std::numeric_limits<T>::max();
        }
        return gap;
    }

    T* beta_of(Index i) { return reinterpret_cast<T*>(beta_.data() + i * labels_.chunks()); }

    void shrink_far_start(Workspace& w) {
        double linear = 0.0;
        Sums sums;
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < labels_.chunks(); ++k) {
                const Chunk<T> target = labels_.target(i, k, labels_.is_positive(i, k)),
                               beta = beta_[static_cast<std::size_t>(i * labels_.chunks() + k)];
                for (int e = 0; e < lanes<T>; ++e)
                    linear += static_cast<double>(target[e]) * static_cast<double>(beta[e]);
            }
        evaluate_state(0, x_.cols() + 1, w, sums);
        const T length = static_cast<T>(start_length(linear, sums.quadratic));
        if (length == 1) return;
        for (std::size_t k = 0; k < beta_.size(); ++k) beta_[k] *= length;
        for (Index k = 0; k < (x_.cols() + 1) * width_; ++k) state_.data()[k] *= length;
    }

    MULTIMARGIN_SIMD void start_row(Index i, const T* start, Workspace& w) {
        std::memcpy(beta_of(i), start, static_cast<std::size_t>(labels_.labels()) * sizeof(T));
        Chunk<T>* beta = beta_.data() + i * labels_.chunks();
        for (int k = 0; k < labels_.chunks(); ++k) beta[k] = labels_.in_box(i, k, beta[k]);
        add_row(i, w);
    }
    // Adds x_i beta_i' to the state, as much of it as the shares let through.
    MULTIMARGIN_SIMD void add_row(Index i, Workspace& w) {
        scatter_moves(i, w.row.step_of(beta_.data() + i * labels_.chunks()));
    }
    MULTIMARGIN_INLINE void open_row(Index i, Workspace& w) const {
        open_row(i, w, [](Index) {});
    }
    template <class Between>
    MULTIMARGIN_INLINE void open_row(Index i, Workspace& w, Between&& between) const {
        Kernels::gather_all(x_.row(i), state_.data(), width_, x_.cols(), bias_, w.raw.chunks());
        w.row.open(w.raw.chunks(), between);
        const Chunk<T> zero{};
        for (int k = 0; k < labels_.chunks(); ++k) {
            const auto positive = labels_.is_positive(i, k);
            const Chunk<T> cost = labels_.cost(i, k, positive);
            w.high.chunks()[k] = positive ? cost : zero;
            w.low.chunks()[k] = positive ? zero : -cost;
            w.target.chunks()[k] = labels_.target(i, k, positive);
        }
    }
    // sum_l c max(t, 0) - b t at the scores the row was opened with; t = y (target - z).
    MULTIMARGIN_INLINE double local_gap(const Workspace& w, const T* beta) const {
        Chunk<T> sum{};
        const Chunk<T> zero{};
        for (int k = 0; k < labels_.chunks(); ++k) {
            const Chunk<T> g = w.target.chunks()[k] - w.row.scores().chunks()[k];
            const Chunk<T> gain = lane_max(g * w.high.chunks()[k], g * w.low.chunks()[k]);
            sum += lane_max(gain, zero) - g * reinterpret_cast<const Chunk<T>*>(beta)[k];
        }
        double total = 0.0;
        for (int e = 0; e < lanes<T>; ++e) total += static_cast<double>(sum[e]);
        return total;
    }

    static constexpr std::size_t batch = 16;  // rows between two looks at the outside world

    // One exact step in every label of the rows order[first..last), in turn; returns their part of the gap before.
    MULTIMARGIN_SIMD double visit(std::span<const std::int32_t> order, std::size_t first, std::size_t last, bool shrink,
                                  Workspace& w) {
        double gap = 0.0;
        for (std::size_t q = first; q < last; ++q) {
            const Index i = order[q];
            if constexpr (is_dense<X>) {
                if (!active_[i]) continue;
                open_row(i, w);
            } else {
                ahead_.prefetch(order, q, active_.data(), beta_.data(), labels_.chunks());
                if (!active_[i]) continue;
                const auto next = x_.row(next_far_row(order, q));
                open_row(i, w, [&](Index l) __attribute__((always_inline)) { prefetch_state(next, l); });
            }
            T* beta = beta_of(i);
            gap += local_gap(w, beta);
            bool changed = false, rests = true;
            for (int k = 0; k < labels_.chunks(); ++k) {
                if (chunk_rests(w, k, beta)) {
                    if (shrink) continue;
                } else {
                    rests = false;
                }
                changed |= step_chunk(i, k, beta, w);
            }
            if (changed) scatter_moves(i, w.row.step());
            if (shrink && rests && !changed) active_[i] = 0;
        }
        return gap;
    }

    // The row whose state is asked for while R is applied to order[q]: the next one, if the state outgrows the
    // processor's own cache; else this one, which is there already.
    MULTIMARGIN_INLINE Index next_far_row(std::span<const std::int32_t> order, std::size_t q) const {
        constexpr std::size_t own_cache = std::size_t{1} << 22;
        const bool far = state_.bytes() > own_cache;
        return order[far && q + 1 < order.size() && active_[order[q + 1]] ? q + 1 : q];
    }
    template <class Row>
    MULTIMARGIN_INLINE void prefetch_state(const Row& row, Index k) const {
        if (k >= row.size()) return;
        const Chunk<T>* v = state_.row(row.column(k));
        for (int c = 0; c < width_; c += 2) __builtin_prefetch(v + c, 0, 2);
    }

    MULTIMARGIN_INLINE bool chunk_rests(const Workspace& w, int k, const T* beta) const {
        const Chunk<T> b = reinterpret_cast<const Chunk<T>*>(beta)[k];
        const Chunk<T> g = w.target.chunks()[k] - w.row.scores().chunks()[k];
        const auto at_low = b <= w.low.chunks()[k], at_high = b >= w.high.chunks()[k];
        return all((at_low & (g < lower_.chunks()[k])) | (at_high & (g > upper_.chunks()[k])) | (at_low & at_high));
    }
    MULTIMARGIN_INLINE bool step_chunk(Index i, int k, T* beta, Workspace& w) {
        bool changed = false;
        const T curvature = state_.shares().curvature(squares_[i]);
        const Index first = static_cast<Index>(k) * lanes<T>, last = std::min(labels_.labels(), first + lanes<T>);
        for (Index l = first; l < last; ++l) {
            if (w.low[l] == w.high[l]) continue;
            const T old = beta[l];
            const T g = w.target[l] - w.row.score(l);
            const bool at_low = old <= w.low[l], at_high = old >= w.high[l];
            const T projected = at_low ? std::max(g, T(0)) : at_high ? std::min(g, T(0)) : g;
            if (projected == 0) continue;
            highest_[l] = std::max(highest_[l], projected);
            lowest_[l] = std::min(lowest_[l], projected);
            const T now = std::clamp(old + g * step_length(diagonal_[l] * curvature), w.low[l], w.high[l]);
            if (now == old) continue;
            w.row.move(l, now - old, curvature);
            beta[l] = now;
            changed = true;
        }
        return changed;
    }
    MULTIMARGIN_INLINE void scatter_moves(Index i, const Chunk<T>* step) {
        int count = 0;
        for (int k = 0; k < width_; ++k) {
            if (!any(step[k] != 0)) continue;
            moves_[static_cast<std::size_t>(count)] = state_.shares().features * step[k];
            moved_[static_cast<std::size_t>(count++)] = k;
        }
        Kernels::scatter(x_.row(i), state_.data(), width_, x_.cols(), state_.shares().step_bias(), moved_.data(), count,
                         moves_.data());
    }
    void forget_thresholds() {
        for (Index l = 0; l < static_cast<Index>(upper_.size()) * lanes<T>; ++l) {
            upper_[l] = std::numeric_limits<T>::max();
            lower_[l] = -std::numeric_limits<T>::max();
        }
    }

    MULTIMARGIN_SIMD void evaluate_rows(Index first, Index last, double share, Workspace& w, Sums& sums) {
        for (Index i = first; i < last; ++i) {
            open_row(i, w);
            const T* beta = beta_of(i);
            for (Index l = 0; l < labels_.labels(); ++l) {
                const double g = static_cast<double>(w.target[l]) - static_cast<double>(w.row.scores()[l]);
                sums.hinge += std::max({0.0, g * static_cast<double>(w.high[l]), g * static_cast<double>(w.low[l])});
                sums.linear += static_cast<double>(w.target[l]) * static_cast<double>(beta[l]);
                sums.cross += static_cast<double>(w.row.scores()[l]) * static_cast<double>(beta[l]);
            }
            if (local_gap(w, beta) > share * static_cast<double>(labels_.labels())) active_[i] = 1;
        }
    }
    MULTIMARGIN_SIMD void evaluate_state(Index first, Index last, Workspace& w, Sums& sums) const {
        for (Index j = first; j < last; ++j) {
            const Chunk<T>* v = state_.row(j);
            bool seen = false;  // a feature that no row has has no weights
            for (int k = 0; k < width_ && !seen; ++k) seen = any(v[k] != 0);
            if (!seen) continue;
            sums.quadratic += prior_.quadratic(v, w.row);
            for (int k = 0; k < width_; ++k) w.lead.chunks()[k] = state_.lead(j, k);
            sums.lead += prior_.quadratic(w.lead.chunks(), w.row);
        }
    }

    const X& x_;
    const LabelCells<T>& labels_;
    const Prior& prior_;
    T bias_;
    int threads_;
    std::vector<T> squares_;  // squared lengths of the rows without the constant feature
    ProximalSchedule<T> schedule_;
    int width_;
    ProximalState<T> state_;
    Buffer<Chunk<T>> beta_;
    std::vector<std::uint8_t> active_;
    std::vector<T> diagonal_;
    ChunkVector<T> highest_, lowest_;  // worst projected gradients of the running pass
    ChunkVector<T> upper_, lower_;
    std::vector<int> moved_;
    Buffer<Chunk<T>> moves_;
    RowsAhead<X> ahead_;
};

}  // namespace multimargin::m3l
