#pragma once
// Kernel M3L (problem and notation: linear.hpp, with x_i.x_j replaced by K_ij + bias).
//
//   R = I:
//   primal   P(f, w) = sum_l 1/2 beta_l' K beta_l + w_l^2 / (2 bias) + sum_i c_il max(0, m_il - y_il (F_il + w_l))
//   dual     D(b)    = sum_l sum_i m_il b_il - 1/2 beta_l' K beta_l - bias/2 t_l^2,     0 <= b <= c
//            beta = y o b,   F = K beta,   t_l = sum_i beta_il;   at the optimum w = bias t
//
// Method: rounds over blocks of rows S (kernel_blocks.hpp, RowPicker). K[S, S] is gathered once and serves all labels.
// Each label works on its variables of S that are free or violated, by two-variable ascent inside the cache
// (pair_ascent.hpp); then F += K[:, S] (changes) for all labels together, so that a Gram row read from memory is used
// for every label that moved it. After the first pass every round ends with the exact certificate; the shift w_l is
// optimised for it (a one-dimensional convex problem), and F + w_l is the model that is returned and certified.
// A label whose own gap is below tol of its own objective rests.
//
// Stopping: P - D <= tol P. In single precision, where rounding may show or the tolerance is below 3e-4, the scores of
// some rows are computed once more in double precision; where the gap may thus be off by more than a tenth of the
// tolerance, those of all rows, and P and D with them (kernel_rounding.hpp). |S| is 1024, or 2048 where few variables of a block are in use. Cost
// of a round: |S|^2 to gather, a multiply-add per row and moved variable. Memory: Gram rows within their budget, and three
// numbers per cell.
//   kernel_coupled.hpp   other R

#include "core/m3l/kernel_rounding.hpp"
#include "core/m3l/kernel_sums.hpp"
#include "core/m3l/linear.hpp"

namespace multimargin::m3l {

inline constexpr Index kernel_block_rows = 1024;
inline constexpr Index large_block_rows = 2048;    // where few variables of a block are in use
inline constexpr double steps_per_variable = 3.0;  // at most, in a label's turn
inline constexpr double local_accuracy = 0.1;      // of the largest violation, in a label's turn

template <class T>
class KernelEngine {
  public:
    KernelEngine(GramRows<T>& gram, const LabelCells<T>& labels, T bias, double tol, int threads)
        : gram_(gram),
          bias_(bias),
          tol_(tol),
          threads_(threads),
          block_size_(std::min({gram.rows(), gram.capacity(), large_block_rows})),
          costs_(signed_costs(labels)),
          targets_(labels),
          beta_(labels.labels(), gram.rows()),
          scores_(labels.labels(), gram.rows()),
          sums_(static_cast<std::size_t>(labels.labels()), 0.0),
          shifts_(sums_.size(), 0.0),
          worst_(sums_.size(), 1e30),
          values_(sums_.size(), fit::Bounds{0.0, 0.0}),
          used_(sums_.size(), 0.0),
          done_(sums_.size(), 0),
          moves_(sums_.size()),
          block_(block_size_) {
        for (int t = 0; t < threads; ++t) workspaces_.emplace_back(block_size_);
    }

    // Rows of the next round: more of them if few variables of the last ones are in use.
    Index next_block_size() const {
        constexpr double few = 0.3;
        double used = 0.0, all = 0.0;
        for (Index l = 0; l < labels(); ++l) {
            if (done_[l]) continue;
            used += used_[l];
            all += static_cast<double>(block_.size());
        }
        return used < few * all ? block_size_ : std::min(block_size_, kernel_block_rows);
    }

    void start_from(const T* beta, Control& control) {
        read_beta(beta, costs_, gram_.rows(), beta_);
        multiply(gram_, beta_, block_size_, scores_, threads_, control);
        for (Index l = 0; l < labels(); ++l) {
            sums_[l] = std::accumulate(beta_.row(l), beta_.row(l) + gram_.rows(), 0.0);
            shifts_[l] = static_cast<double>(bias_) * sums_[l];
        }
    }

    void round(std::span<const std::int32_t> rows, Rng&, Control& control) {
        gram_.request(rows);
        block_.gather(gram_, rows, bias_, threads_, control);
        rounding_.see(block_);
        for_labels(control, [&](Index l, int thread, bool on_caller) {
            moves_[l].clear();
            if (done_[l] || control.leave(on_caller)) return;
            move_label(l, workspaces_[thread]);
            used_[l] = 0.0;
            for (auto i : rows) used_[l] += beta_.row(l)[i] != 0;
        });
        add_all_products(gram_, rows, moves_, scores_, threads_, control);
    }

    fit::Bounds evaluate(Buffer<T>& row_scores, Control& control) {
        for_labels(control, [&](Index l, int, bool on_caller) {
            if (done_[l] || control.leave_unfinished(on_caller)) return;
            if (bias_ > 0) {
                const auto shift = best_shift<T>(cells(l), static_cast<double>(bias_), shifts_[l],
                                                 static_cast<double>(bias_) * sums_[l], beta_.chunks());
                shifts_[l] = shift.at;
            }
        });
        const auto sums = scan_labels<T>(
            labels(), [&](Index l) { return done_[l] ? LabelCellsRow<T>{} : cells(l); }, beta_, shifts_, true,
            row_scores, threads_, control);
        fit::Bounds total{0.0, 0.0};
        for (Index l = 0; l < labels(); ++l) {
            if (!done_[l]) {
                const double bias = static_cast<double>(bias_), w = static_cast<double>(static_cast<T>(shifts_[l]));
                const double shift_cost = bias > 0 ? 0.5 * w * w / bias : 0.0;
                values_[l] = {.primal = 0.5 * sums[l].cross + shift_cost + sums[l].hinge,
                              .dual = sums[l].linear - 0.5 * sums[l].cross - 0.5 * bias * sums_[l] * sums_[l]};
                worst_[l] = sums[l].worst;
                done_[l] = values_[l].gap() <= tol_ * values_[l].primal;
            }
            total.primal += values_[l].primal;
            total.dual += values_[l].dual;
        }
        return total;
    }

    double gram_rounding(Control&) const {
        double total = 0.0;
        for (Index l = 0; l < labels(); ++l)
            total += rounding_.of_label(beta_.row(l), beta_.row(l), costs_.row(l), gram_.rows());
        return total;
    }
    double drift(Control& control) {
        constexpr Index width = 32;
        const auto beta = exact_beta();
        const auto scores = exact_products(gram_, beta, block_size_, threads_, control, width);
        double columns = 0.0, total = 0.0, squares = 0.0;  // of what a column adds to the gap
        for (Index first = 0; first < gram_.rows(); first += product_columns)
            for (Index i = first; i < std::min(gram_.rows(), first + width); ++i) {
                const double hidden = gap_at(i, beta, scores) - gap_at(i, beta, scores_);
                ++columns;
                total += hidden;
                squares += hidden * hidden;
            }
        const double mean = total / columns,
                     error = std::sqrt(std::max(0.0, squares / columns - mean * mean) / columns);
        return (std::abs(mean) + 3 * error) * static_cast<double>(gram_.rows());
    }
    // Leaves the exact scores, rounded once, in place of those that have gathered the rounding of all rounds.
    fit::Bounds evaluate_exactly(double, Control& control) {
        const auto beta = exact_beta();
        const auto scores = exact_products(gram_, beta, block_size_, threads_, control);
        const double bias = static_cast<double>(bias_);
        fit::Bounds total{0.0, 0.0};
        for (Index l = 0; l < labels(); ++l) {
            const double w = static_cast<double>(static_cast<T>(shifts_[l]));
            const double t = std::accumulate(beta.row(l), beta.row(l) + gram_.rows(), 0.0);
            ExactSums sums;
            for (Index i = 0; i < gram_.rows(); ++i) {
                const double cost = static_cast<double>(costs_.row(l)[i]);
                add_cell(sums, beta.row(l)[i], cost, static_cast<double>(targets_.of(l).at(i, costs_.row(l)[i])),
                         scores.row(l)[i], w);
                scores_.row(l)[i] = static_cast<T>(scores.row(l)[i]);
            }
            sums_[l] = t;
            total.primal += 0.5 * sums.cross + (bias > 0 ? 0.5 * w * w / bias : 0.0) + sums.hinge;
            total.dual += sums.linear - 0.5 * sums.cross - 0.5 * bias * t * t;
        }
        return total;
    }
    void aim_at(double tol) {
        tol_ = tol;
        std::fill(done_.begin(), done_.end(), std::uint8_t{0});
    }

    void copy_beta(T* beta) const { write_beta(beta_, gram_.rows(), beta); }
    void copy_dual_beta(T* beta) const { copy_beta(beta); }
    void copy_intercept(T* intercept) const {
        for (Index l = 0; l < labels(); ++l) intercept[l] = static_cast<T>(shifts_[l]);
    }

  private:
    Index labels() const { return costs_.labels(); }
    // What these scores of one row contribute to the gap.
    template <class S>
    double gap_at(Index i, const LabelMajorTable<double>& beta, const S& scores) const {
        ExactSums sums;
        for (Index l = 0; l < labels(); ++l) {
            const T cost = costs_.row(l)[i];
            add_cell(sums, beta.row(l)[i], static_cast<double>(cost), static_cast<double>(targets_.of(l).at(i, cost)),
                     static_cast<double>(scores.row(l)[i]), static_cast<double>(static_cast<T>(shifts_[l])));
        }
        return sums.cross + sums.hinge;
    }
    LabelMajorTable<double> exact_beta() const {
        LabelMajorTable<double> beta(labels(), gram_.rows());
        for (Index l = 0; l < labels(); ++l) std::copy_n(beta_.row(l), gram_.rows(), beta.row(l));
        return beta;
    }
    LabelCellsRow<T> cells(Index l) const { return {scores_.chunk_row(l), costs_.chunk_row(l), targets_.of(l)}; }

    template <class Task>
    void for_labels(Control& control, Task&& task) {
        std::atomic<Index> next{0};
        parallel_for(threads_, threads_, control, [&](int thread, bool on_caller) {
            for (Index l = next++; l < labels(); l = next++) task(l, thread, on_caller);
        });
    }

    // Two-variable ascent of one label over the rows of the round.
    void move_label(Index l, PairWorkspace<T>& w) {
        constexpr double direct_share = 0.6;  // with more variables than that, copying their kernel does not pay
        const auto rows = block_.rows();
        const T *costs = costs_.row(l), *scores = scores_.row(l);
        const LabelTargets<T>& targets = targets_.of(l);
        T* beta = beta_.row(l);
        const T dual_shift = bias_ * static_cast<T>(sums_[l]), primal_shift = static_cast<T>(shifts_[l]);
        const double largest = find_active(rows, costs, targets, scores, beta, dual_shift, primal_shift, w.active);
        if (w.active.size() < 2 && gram_.rows() > 1 && largest <= 0) return;
        const bool direct = static_cast<double>(w.active.size()) > direct_share * static_cast<double>(rows.size());
        if (direct) {
            w.active.resize(rows.size());
            std::iota(w.active.begin(), w.active.end(), 0);
        } else {
            gather_active(w);
        }
        const auto k = static_cast<Index>(w.active.size());
        for (Index a = 0; a < k; ++a) {
            const auto at = w.active[a], i = rows[at];
            const T cost = costs[i];
            w.gradient[a] = targets.at(i, cost) - scores[i] - dual_shift;
            w.beta[a] = beta[i];
            w.low[a] = std::min(cost, T(0));
            w.high[a] = std::max(cost, T(0));
            w.diagonal[a] = block_.row(at)[at];
        }
        const auto problem = w.problem(k, direct ? block_.row(0) : nullptr);
        const double tolerance =
            std::max(local_accuracy * std::min(largest, worst_[l]), least_violation * targets.typical_margin);
        if (!PairAscent<T>::run(problem, static_cast<T>(tolerance),
                                static_cast<Index>(steps_per_variable * static_cast<double>(k) + 1)))
            return;
        for (Index a = 0; a < k; ++a) {
            const auto at = w.active[a], i = rows[at];
            const T change = w.beta[a] - beta[i];
            if (change == 0) continue;
            beta[i] = w.beta[a];
            moves_[l].push_back({at, change});
            sums_[l] += static_cast<double>(change);
        }
    }

    // Positions of the variables that are free, or violated at either shift; returns the largest violation at the
    // dual's own.
    static double find_active(std::span<const std::int32_t> rows, const T* costs, const LabelTargets<T>& targets,
                              const T* scores, const T* beta, T dual_shift, T primal_shift,
                              std::vector<std::int32_t>& active) {
        active.clear();
        T largest = 0;
        for (std::size_t a = 0; a < rows.size(); ++a) {
            const auto i = rows[a];
            const T cost = costs[i], b = beta[i];
            if (cost == 0) continue;
            const T low = std::min(cost, T(0)), high = std::max(cost, T(0)), g = targets.at(i, cost) - scores[i];
            const T v = std::max(b < high ? g - dual_shift : T(0), b > low ? dual_shift - g : T(0));
            const T u = std::max(b < high ? g - primal_shift : T(0), b > low ? primal_shift - g : T(0));
            if ((b > low && b < high) || v > 0 || u > 0) {
                active.push_back(static_cast<std::int32_t>(a));
                largest = std::max(largest, v);
            }
        }
        return static_cast<double>(largest);
    }

    void gather_active(PairWorkspace<T>& w) const {
        const auto k = w.active.size();
        const auto width = static_cast<std::size_t>(SquareBlock<T>::padded(static_cast<Index>(k)));
        for (std::size_t a = 0; a < k; ++a) {
            const T *from = block_.row(w.active[a]), *next = block_.row(w.active[std::min(a + 1, k - 1)]);
            T* to = w.kernel.data() + a * width;
            for (std::size_t c = 0; c < k; ++c) {
                __builtin_prefetch(next + w.active[c], 0, 3);
                to[c] = from[w.active[c]];
            }
            for (std::size_t c = k; c < width; ++c) to[c] = 0;
        }
    }

    static constexpr double least_violation = std::is_same_v<T, float> ? 1e-6 : 1e-13;  // of the margin

    GramRows<T>& gram_;
    T bias_;
    double tol_;
    int threads_;
    Index block_size_;
    LabelMajorTable<T> costs_;  // y c
    TargetTable<T> targets_;
    LabelMajorTable<T> beta_, scores_;   // beta, F
    std::vector<double> sums_, shifts_;  // t, w
    std::vector<double> worst_;          // largest violation at the last evaluation
    std::vector<fit::Bounds> values_;
    std::vector<double> used_;  // variables of the last round that are not 0
    std::vector<std::uint8_t> done_;
    MoveLists<T> moves_;
    SquareBlock<T> block_;
    GramRounding<T> rounding_;
    std::vector<PairWorkspace<T>> workspaces_;
};

// Rounds of an engine in the frame of fit/run.hpp, until the certificate holds. An Engine offers
//   Index next_block_size()                       rows it would like for the next round
//   void round(rows, rng, control)                one round over these rows
//   Bounds evaluate(row_scores, control)          P and D; how much each row violates optimality
//   double gram_rounding(control)                 about what the rounding of the Gram matrix does to P
//   double drift(control)                         where a sample of the rows can tell: what the rounding of all rounds
//                                                 does to the gap, at most, about
//   Bounds evaluate_exactly(tol, control)         P of the model to return and the best D, in double precision, which
//                                                 are believed where rounding may show in the others
//   void aim_at(tol)                              go on to a smaller gap
// If rounding hides more than half of the tolerance, or the gap no longer falls in single precision, the status is
// imprecise: more precision is needed.
template <class T, class Engine>
class KernelRounds {
  public:
    KernelRounds(Engine& engine, Index rows, bool warm, const fit::Limits& limits, Control& control)
        : engine_(engine),
          most_idle_(50 + static_cast<int>(5 * rows / kernel_block_rows)),
          picker_(rows, limits.seed),
          goal_(limits.tol) {
        if (!warm) return;
        last_ = engine_.evaluate(picker_.scores(), control);
        picker_.skip_first_pass();
        finished_ = is_near(last_);
    }

    void pass(const fit::Moment&, Control& control) {
        ++round_;
        converged_ = hopeless_ = false;
        if (!finished_) engine_.round(picker_.next(engine_.next_block_size()), picker_.rng(), control);
    }

    bool pays(const fit::Moment&) const { return finished_ || picker_.all_seen(); }

    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        constexpr double progress_made = 0.95;
        if (!finished_) last_ = engine_.evaluate(picker_.scores(), control);
        finished_ = false;
        converged_ = is_near(last_);
        if (single && converged_) look_through_rounding(now.limits.tol, control);
        if (last_.gap() < progress_made * least_ * last_.primal) {
            least_ = last_.gap() / last_.primal;
            least_round_ = round_;
        }
        return last_;
    }

    bool converged(const fit::Moment&) const { return converged_; }

    Status gives_up(const fit::Moment&) const {
        const bool idle = single && round_ - least_round_ > most_idle_;
        return hopeless_ || idle ? Status::imprecise : Status::converged;
    }

  private:
    static constexpr bool single = std::is_same_v<T, float>;

    bool is_near(const fit::Bounds& bounds) const { return bounds.gap() <= goal_ * bounds.primal; }

    void look_through_rounding(double tol, Control& control) {
        constexpr int most_attempts = 3;
        constexpr double tolerated_rounding = 0.1, negligible_rounding = 0.01, loose_tol = 3e-4;
        const double rounding = engine_.gram_rounding(control) / last_.primal;
        hopeless_ = rounding > tolerated_rounding * tol;
        converged_ = !hopeless_;
        if (hopeless_ || (tol >= loose_tol && rounding <= negligible_rounding * tol)) return;
        if constexpr (requires { engine_.drift(control); }) {
            const double drift = engine_.drift(control) / last_.primal;
            if (drift <= tolerated_rounding * tol) {
                converged_ = last_.gap() / last_.primal + drift <= tol;
                if (!converged_) engine_.aim_at(goal_ = std::min(goal_, tol - 1.5 * drift));
                return;
            }
        }
        const double seen = last_.gap() / last_.primal;
        last_ = engine_.evaluate_exactly(tol, control);
        converged_ = last_.gap() <= tol * last_.primal;
        if (converged_) return;
        const double hidden = last_.gap() / last_.primal - seen;
        hopeless_ = hidden > 0.5 * tol || ++attempts_ == most_attempts;
        engine_.aim_at(goal_ = std::min(goal_, tol - 1.5 * hidden));
    }

    Engine& engine_;
    int most_idle_;  // rounds, five passes and more
    RowPicker<T> picker_;
    double goal_;  // of the gap as it is seen through rounding
    fit::Bounds last_;
    double least_ = std::numeric_limits<double>::infinity();  // relative gap
    int round_ = 0, least_round_ = 0, attempts_ = 0;
    bool finished_ = false, converged_ = false, hopeless_ = false;
};

}  // namespace multimargin::m3l
