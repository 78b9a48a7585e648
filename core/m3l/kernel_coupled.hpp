#pragma once
// Kernel M3L for a prior R = P P' that couples the labels, P of size L x r (problem: linear.hpp and
// kernel.hpp).
//
//   primal   P = 1/2 sum_il beta_il z_il + sum_il c_il max(0, m_il - y_il z_il)
//   dual     D = sum_il m_il b_il - 1/2 sum_il beta_il z_il,      0 <= b <= c,   beta = y o b
//            z_i = P (G_i + bias t),   G = P' beta' K  (r x n),   t = P' sum_i beta_i
//
// The state is G, in the r latent dimensions, never K beta in label space: when R is singular the latter is large along
// the null space of R, and its rounding would drown z.
//
// A round takes a block of rows S and alternates, on H = (G + bias t)[:, S], between
//   labels   two-variable ascent of each label over all rows of S, the curvature of label l being R_ll (K[S, S] + bias)
//   rows     exact coordinate steps in all labels of a row, the curvature of row i being R (K_ii + bias)
// Either alone stalls: labels of a row share the null space of R, rows of a label share the mean of K. Then
// G += (changes of beta P)' K[S, :]. The primal is not monotone: the best model seen is the one returned, after its
// value was computed once more in double precision (kernel_rounding.hpp).

#include "core/m3l/kernel.hpp"

namespace multimargin::m3l {

// out[c] = target[c] - sum_k weights[k] * table[k][c]
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void subtract_combination(const T* weights, Index rank,
                                                                     const Chunk<T>* table, int table_stride,
                                                                     const Chunk<T>* target, int chunks,
                                                                     Chunk<T>* out) {
    constexpr int width = 4;
    int c = 0;
    for (; c + width <= chunks; c += width) {
        Chunk<T> sum[width] = {};
        for (Index k = 0; k < rank; ++k)
            for (int e = 0; e < width; ++e) sum[e] += weights[k] * table[k * table_stride + c + e];
        for (int e = 0; e < width; ++e) out[c + e] = target[c + e] - sum[e];
    }
    for (; c < chunks; ++c) {
        Chunk<T> sum{};
        for (Index k = 0; k < rank; ++k) sum += weights[k] * table[k * table_stride + c];
        out[c] = target[c] - sum;
    }
}

// table[k] += weights[k] * change
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void add_outer(const T* weights, Index rank, const Chunk<T>* change,
                                                          int chunks, Chunk<T>* table, int table_stride) {
    for (Index k = 0; k < rank; ++k)
        for (int c = 0; c < chunks; ++c) table[k * table_stride + c] += weights[k] * change[c];
}

// Everything a sweep over the rows of a block needs, row-major: a row of the block has L labels, r latent dimensions.
template <class T>
struct RowSweep {
    RowSweep(Index size, int label_chunks, int latent_chunks)
        : label_chunks(label_chunks),
          latent_chunks(latent_chunks),
          latent(static_cast<std::size_t>(size) * latent_chunks),
          beta(static_cast<std::size_t>(size) * label_chunks),
          costs(beta.size()),
          targets(beta.size()),
          z(label_chunks),
          moved(latent_chunks) {}

    int label_chunks, latent_chunks;
    Buffer<Chunk<T>> latent, beta, costs, targets;
    ChunkVector<T> z, moved;
};

struct SweepOrder {
    const std::int32_t* first;
    const std::int32_t* last;
};

// Exact steps in every label of each row in turn, a few times over; the latent state of the other rows follows.
// factor: L rows of latent_chunks; factor_t: r rows of label_chunks; R: L rows of label_chunks; kernel: block rows.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void sweep_rows(SweepOrder order, RowSweep<T>& w, const Chunk<T>* factor,
                                                           const Chunk<T>* factor_t, const Chunk<T>* R, Index labels,
                                                           Index rank, const SquareBlock<T>& block) {
    constexpr int most_passes = 3;
    constexpr T enough = T(0.01);  // of the box: smaller steps do not ask for another pass
    T* z = &w.z[0];
    for (const auto* at = order.first; at != order.last; ++at) {
        const Index i = *at;
        Chunk<T>* latent = w.latent.data() + i * w.latent_chunks;
        T* beta = reinterpret_cast<T*>(w.beta.data() + i * w.label_chunks);
        const T* costs = reinterpret_cast<const T*>(w.costs.data() + i * w.label_chunks);
        const T* targets = reinterpret_cast<const T*>(w.targets.data() + i * w.label_chunks);
        const T* kernel = block.row(i);
        w.z.clear();
        w.moved.clear();
        for (Index k = 0; k < rank; ++k) {
            const T h = reinterpret_cast<const T*>(latent)[k];
            for (int c = 0; c < w.label_chunks; ++c) w.z.chunks()[c] += h * factor_t[k * w.label_chunks + c];
        }
        bool changed = false;
        for (int pass = 0; pass < most_passes; ++pass) {
            bool again = false;
            for (Index l = 0; l < labels; ++l) {
                const T cost = costs[l], old = beta[l], g = targets[l] - z[l];
                const T low = cost < 0 ? cost : T(0), high = cost < 0 ? T(0) : cost;
                if ((old <= low && g <= 0) || (old >= high && g >= 0)) continue;
                const T curvature = kernel[i] * reinterpret_cast<const T*>(R + l * w.label_chunks)[l];
                const T now = curvature > 0 ? within(old + g / curvature, low, high) : (g > 0 ? high : low);
                const T change = now - old;
                if ((change < 0 ? -change : change) <= pair_rounding<T> * T(0.1) * (high - low)) continue;
                beta[l] = now;
                changed = true;
                again |= (change < 0 ? -change : change) > enough * (high - low);
                for (int c = 0; c < w.label_chunks; ++c)
                    w.z.chunks()[c] += change * kernel[i] * R[l * w.label_chunks + c];
                for (int c = 0; c < w.latent_chunks; ++c)
                    w.moved.chunks()[c] += change * factor[l * w.latent_chunks + c];
            }
            if (!again) break;
        }
        if (!changed) continue;
        for (Index j = 0; j < block.size(); ++j)
            for (int c = 0; c < w.latent_chunks; ++c)
                w.latent[static_cast<std::size_t>(j * w.latent_chunks + c)] += kernel[j] * w.moved.chunks()[c];
    }
}

template <class T>
class CoupledKernelEngine {
  public:
    // factor: P, L x rank.
    CoupledKernelEngine(GramRows<T>& gram, const LabelCells<T>& labels, const T* factor, Index rank, T bias,
                        int threads)
        : gram_(gram),
          bias_(bias),
          threads_(threads),
          rank_(rank),
          block_size_(std::min({gram.rows(), gram.capacity(), kernel_block_rows})),
          block_stride_(static_cast<int>(SquareBlock<T>::padded(block_size_) / lanes<T>)),
          factor_values_(factor, factor + labels.labels() * rank),
          factor_(factor, labels.labels(), rank),
          factor_t_(transposed(factor, labels.labels(), rank).data(), rank, labels.labels()),
          R_(product(factor, labels.labels(), rank).data(), labels.labels(), labels.labels()),
          costs_(signed_costs(labels)),
          targets_(labels),
          beta_(labels.labels(), gram.rows()),
          best_beta_(labels.labels(), gram.rows()),
          latent_(rank, gram.rows()),
          scores_(labels.labels(), gram.rows()),
          sums_(static_cast<std::size_t>(rank), 0.0),
          best_sums_(sums_),
          shifts_(static_cast<std::size_t>(labels.labels()), 0.0),
          worst_(shifts_.size(), 1e30),
          block_(block_size_),
          workspace_(block_size_),
          sweep_(block_size_, factor_t_.width(), factor_.width()),
          state_(static_cast<std::size_t>(rank) * block_stride_),
          before_(static_cast<std::size_t>(labels.labels() * block_size_)),
          moves_(static_cast<std::size_t>(rank * block_size_)) {}

    Index next_block_size() const { return block_size_; }

    void start_from(const T* beta, Control& control) {
        read_beta(beta, costs_, gram_.rows(), beta_);
        LabelMajorTable<T> combined(rank_, gram_.rows());
        for (Index l = 0; l < labels(); ++l)
            for (Index k = 0; k < rank_; ++k)
                for (Index i = 0; i < gram_.rows(); ++i)
                    combined.row(k)[i] += factor_values_[l * rank_ + k] * beta_.row(l)[i];
        multiply(gram_, combined, block_size_, latent_, threads_, control);
        for (Index k = 0; k < rank_; ++k)
            sums_[k] = std::accumulate(combined.row(k), combined.row(k) + gram_.rows(), 0.0);
    }

    void round(std::span<const std::int32_t> rows, Rng& rng, Control& control) {
        gram_.request(rows);
        block_.gather(gram_, rows, bias_, threads_, control);
        rounding_.see(block_);
        open_block(rows);
        for (Index l = 0; l < labels() && !control.leave(true); ++l) move_label(l, rows);
        move_rows(rows, rng, control);
        const auto moved = close_block(rows);
        add_all_dense_products<T>(gram_, moved, moves_.data(), block_size_, latent_, threads_, control);
    }

    fit::Bounds evaluate(Buffer<T>& row_scores, Control& control) {
        compute_scores(control);
        if (bias_ > 0) {
            std::atomic<Index> next{0};
            parallel_for(threads_, threads_, control, [&](int, bool on_caller) {
                for (Index l = next++; l < labels() && !control.leave_unfinished(on_caller); l = next++)
                    shifts_[l] =
                        best_shift<T>(cells(l), static_cast<double>(bias_), shifts_[l], 0.0, beta_.chunks()).at;
            });
        }
        const auto sums = scan_labels<T>(
            labels(), [&](Index l) { return cells(l); }, beta_, shifts_, false, row_scores, threads_, control);
        fit::Bounds now{0.0, 0.0};
        for (Index l = 0; l < labels(); ++l) {
            now.primal += 0.5 * sums[l].cross + sums[l].hinge;
            now.dual += sums[l].linear - 0.5 * sums[l].cross;
            worst_[l] = sums[l].worst;
        }
        if (!seen_ || now.primal < best_.primal) {
            best_.primal = now.primal;
            best_beta_.assign(beta_);
            best_sums_ = sums_;
        }
        best_.dual = seen_ ? std::max(best_.dual, now.dual) : now.dual;
        seen_ = true;
        return best_;
    }

    double gram_rounding(Control& control) const {
        std::vector<double> of(static_cast<std::size_t>(labels()));
        parallel_for(static_cast<int>(labels()), threads_, control, [&](int l, bool on_caller) {
            if (control.leave_unfinished(on_caller)) return;
            std::vector<double> weights(static_cast<std::size_t>(gram_.rows()));
            for (Index m = 0; m < labels(); ++m) {
                const double r = static_cast<double>(reinterpret_cast<const T*>(R_.row(l))[m]);
                for (Index i = 0; i < gram_.rows(); ++i) weights[i] += r * static_cast<double>(best_beta_.row(m)[i]);
            }
            of[l] = rounding_.of_label(weights.data(), best_beta_.row(l), costs_.row(l), gram_.rows());
        });
        return std::accumulate(of.begin(), of.end(), 0.0);
    }
    fit::Bounds evaluate_exactly(double tol, Control& control) {
        fit::Bounds best = exact_values(best_beta_, control);
        if (best.gap() <= tol * best.primal) return best;
        const fit::Bounds last = exact_values(beta_, control);
        best.dual = std::max(best.dual, last.dual);
        return best;
    }
    void aim_at(double) {}

    void copy_beta(T* beta) const { write_beta(best_beta_, gram_.rows(), beta); }
    // Of the last round, whose dual value is the largest.
    void copy_dual_beta(T* beta) const { write_beta(beta_, gram_.rows(), beta); }
    // t in latent space: the intercepts are bias P t.
    void copy_intercept(T* sums) const {
        for (Index k = 0; k < rank_; ++k) sums[k] = static_cast<T>(best_sums_[k]);
    }

  private:
    Index labels() const { return costs_.labels(); }
    LabelCellsRow<T> cells(Index l) const { return {scores_.chunk_row(l), costs_.chunk_row(l), targets_.of(l)}; }
    T target(Index l, Index i) const { return targets_.of(l).at(i, costs_.row(l)[i]); }
    T diagonal(Index l) const { return reinterpret_cast<const T*>(R_.row(l))[l]; }
    T& state(Index k, Index a) { return reinterpret_cast<T*>(state_.data() + k * block_stride_)[a]; }

    static std::vector<T> transposed(const T* factor, Index labels, Index rank) {
        std::vector<T> out(static_cast<std::size_t>(labels * rank));
        for (Index l = 0; l < labels; ++l)
            for (Index k = 0; k < rank; ++k) out[k * labels + l] = factor[l * rank + k];
        return out;
    }
    static std::vector<T> product(const T* factor, Index labels, Index rank) {
        std::vector<T> out(static_cast<std::size_t>(labels * labels));
        for (Index l = 0; l < labels; ++l)
            for (Index m = 0; m < labels; ++m)
                for (Index k = 0; k < rank; ++k) out[l * labels + m] += factor[l * rank + k] * factor[m * rank + k];
        return out;
    }

    // P and D of a beta in double precision.
    fit::Bounds exact_values(const LabelMajorTable<T>& beta, Control& control) {
        LabelMajorTable<double> combined(rank_, gram_.rows());
        for (Index l = 0; l < labels(); ++l)
            for (Index k = 0; k < rank_; ++k) {
                const double weight = static_cast<double>(factor_values_[l * rank_ + k]);
                for (Index i = 0; i < gram_.rows(); ++i)
                    combined.row(k)[i] += weight * static_cast<double>(beta.row(l)[i]);
            }
        auto latent = exact_products(gram_, combined, block_size_, threads_, control);
        for (Index k = 0; k < rank_; ++k) {
            const double shift =
                static_cast<double>(bias_) * std::accumulate(combined.row(k), combined.row(k) + gram_.rows(), 0.0);
            for (Index i = 0; i < gram_.rows(); ++i) latent.row(k)[i] += shift;
        }
        ExactSums sums;
        std::vector<double> z(static_cast<std::size_t>(gram_.rows()));
        for (Index l = 0; l < labels(); ++l) {
            std::fill(z.begin(), z.end(), 0.0);
            for (Index k = 0; k < rank_; ++k)
                for (Index i = 0; i < gram_.rows(); ++i)
                    z[i] += static_cast<double>(factor_values_[l * rank_ + k]) * latent.row(k)[i];
            for (Index i = 0; i < gram_.rows(); ++i)
                add_cell(sums, static_cast<double>(beta.row(l)[i]), static_cast<double>(costs_.row(l)[i]),
                         static_cast<double>(target(l, i)), z[i], 0.0);
        }
        return {.primal = 0.5 * sums.cross + sums.hinge, .dual = sums.linear - 0.5 * sums.cross};
    }

    // H = (G + bias t)[:, S], and beta before the round.
    void open_block(std::span<const std::int32_t> rows) {
        for (Index k = 0; k < rank_; ++k) {
            const T shift = bias_ * static_cast<T>(sums_[k]);
            for (std::size_t a = 0; a < rows.size(); ++a) state(k, a) = latent_.row(k)[rows[a]] + shift;
        }
        for (Index l = 0; l < labels(); ++l)
            for (std::size_t a = 0; a < rows.size(); ++a) before_[l * block_size_ + a] = beta_.row(l)[rows[a]];
    }

    // One label over all rows of the block, in the variables R_ll beta.
    void move_label(Index l, std::span<const std::int32_t> rows) {
        auto& w = workspace_;
        const T scale = diagonal(l), *costs = costs_.row(l);
        T* beta = beta_.row(l);
        const auto n = static_cast<Index>(rows.size());
        for (Index a = 0; a < n; ++a) w.start[a] = target(l, rows[a]);
        for (Index a = n; a < static_cast<Index>(block_.chunks()) * lanes<T>; ++a) w.start[a] = 0;
        subtract_combination<T>(&factor_values_[l * rank_], rank_, state_.data(), block_stride_, w.start.chunks(),
                                block_.chunks(), w.start.chunks());
        T largest = 0;
        for (Index a = 0; a < n; ++a) {
            const T cost = scale * costs[rows[a]], g = w.start[a], b = scale * beta[rows[a]];
            w.gradient[a] = g;
            w.beta[a] = b;
            w.low[a] = std::min(cost, T(0));
            w.high[a] = std::max(cost, T(0));
            w.diagonal[a] = block_.row(a)[a];
            largest = std::max(largest, std::max(b < w.high[a] ? g : T(0), b > w.low[a] ? -g : T(0)));
        }
        const auto problem = w.problem(n, block_.row(0));
        const double tolerance = std::max(local_accuracy * std::min(static_cast<double>(largest), worst_[l]),
                                          least_violation * targets_.of(l).typical_margin);
        const auto steps = static_cast<Index>(steps_per_variable * static_cast<double>(n) + 1);
        if (!PairAscent<T>::run(problem, static_cast<T>(tolerance), steps)) return;
        for (Index a = 0; a < n; ++a) {
            const T cost = costs[rows[a]];
            const T now = w.beta[a] == w.high[a] ? std::max(cost, T(0))
                          : w.beta[a] == w.low[a]
                              ? std::min(cost, T(0))
                              : std::clamp(w.beta[a] / scale, std::min(cost, T(0)), std::max(cost, T(0)));
            beta[rows[a]] = now;
        }
        for (int c = 0; c < block_.chunks(); ++c)
            w.start.chunks()[c] = (w.start.chunks()[c] - w.gradient.chunks()[c]) / scale;
        add_outer<T>(&factor_values_[l * rank_], rank_, w.start.chunks(), block_.chunks(), state_.data(),
                     block_stride_);
    }

    // One sweep over the rows of the block, all labels of a row at a time.
    void move_rows(std::span<const std::int32_t> rows, Rng& rng, Control& control) {
        const auto n = static_cast<Index>(rows.size());
        for (Index a = 0; a < n; ++a) {
            T* latent = reinterpret_cast<T*>(sweep_.latent.data() + a * sweep_.latent_chunks);
            for (Index k = 0; k < rank_; ++k) latent[k] = state(k, a);
            const auto label_row = [&](Buffer<Chunk<T>>& table) {
                return reinterpret_cast<T*>(table.data() + a * sweep_.label_chunks);
            };
            T *beta = label_row(sweep_.beta), *costs = label_row(sweep_.costs), *targets = label_row(sweep_.targets);
            for (Index l = 0; l < labels(); ++l) {
                beta[l] = beta_.row(l)[rows[a]];
                costs[l] = costs_.row(l)[rows[a]];
                targets[l] = target(l, rows[a]);
            }
        }
        std::vector<std::int32_t> order(rows.size());
        std::iota(order.begin(), order.end(), 0);
        rng.shuffle(std::span(order));
        constexpr std::size_t batch = 16;
        for (std::size_t first = 0; first < order.size() && !control.leave(true); first += batch) {
            const auto last = std::min(order.size(), first + batch);
            sweep_rows<T>({order.data() + first, order.data() + last}, sweep_, factor_.row(0), factor_t_.row(0),
                          R_.row(0), labels(), rank_, block_);
        }
        for (Index a = 0; a < n; ++a) {
            const T* beta = reinterpret_cast<const T*>(sweep_.beta.data() + a * sweep_.label_chunks);
            for (Index l = 0; l < labels(); ++l) beta_.row(l)[rows[a]] = beta[l];
        }
    }

    // Turns the changes of beta into changes in latent space: a row per dimension, a column per row that has moved.
    std::vector<std::int32_t> close_block(std::span<const std::int32_t> rows) {
        std::vector<double> change(static_cast<std::size_t>(rank_));
        std::vector<std::int32_t> moved;
        for (std::size_t a = 0; a < rows.size(); ++a) {
            std::fill(change.begin(), change.end(), 0.0);
            bool moves = false;
            for (Index l = 0; l < labels(); ++l) {
                const double by =
                    static_cast<double>(beta_.row(l)[rows[a]]) - static_cast<double>(before_[l * block_size_ + a]);
                if (by == 0) continue;
                moves = true;
                for (Index k = 0; k < rank_; ++k) change[k] += by * static_cast<double>(factor_values_[l * rank_ + k]);
            }
            if (!moves) continue;
            for (Index k = 0; k < rank_; ++k) {
                moves_[k * block_size_ + static_cast<Index>(moved.size())] = static_cast<T>(change[k]);
                sums_[k] += change[k];
            }
            moved.push_back(rows[a]);
        }
        return moved;
    }

    // z = P (G + bias t) for all rows.
    void compute_scores(Control& control) {
        constexpr int chunks_per_task = 256;
        std::vector<T> shifts(static_cast<std::size_t>(labels()));
        for (Index l = 0; l < labels(); ++l) {
            double shift = 0.0;
            for (Index k = 0; k < rank_; ++k) shift += static_cast<double>(factor_values_[l * rank_ + k]) * sums_[k];
            shifts[l] = static_cast<T>(shift * static_cast<double>(bias_));
        }
        const int tasks = (scores_.chunks() + chunks_per_task - 1) / chunks_per_task;
        parallel_for(tasks, threads_, control, [&](int task, bool on_caller) {
            const int first = task * chunks_per_task, count = std::min(chunks_per_task, scores_.chunks() - first);
            ChunkVector<T> zero(count), out(count);
            for (Index l = 0; l < labels() && !control.leave_unfinished(on_caller); ++l) {
                subtract_combination<T>(&factor_values_[l * rank_], rank_, latent_.chunk_row(0) + first,
                                        latent_.chunks(), zero.chunks(), count, out.chunks());
                Chunk<T>* to = scores_.chunk_row(l) + first;
                for (int c = 0; c < count; ++c) to[c] = shifts[l] - out.chunks()[c];
            }
        });
    }

    static constexpr double least_violation = std::is_same_v<T, float> ? 1e-6 : 1e-13;  // of the margin

    GramRows<T>& gram_;
    T bias_;
    int threads_;
    Index rank_, block_size_;
    int block_stride_;
    std::vector<T> factor_values_;
    ChunkTable<T> factor_, factor_t_, R_;
    LabelMajorTable<T> costs_;  // y c
    TargetTable<T> targets_;
    LabelMajorTable<T> beta_, best_beta_;
    LabelMajorTable<T> latent_, scores_;    // G, z
    std::vector<double> sums_, best_sums_;  // t
    std::vector<double> shifts_, worst_;
    SquareBlock<T> block_;
    GramRounding<T> rounding_;
    PairWorkspace<T> workspace_;
    RowSweep<T> sweep_;
    Buffer<Chunk<T>> state_;  // H
    Buffer<T> before_, moves_;
    fit::Bounds best_{0.0, 0.0};
    bool seen_ = false;
};

}  // namespace multimargin::m3l
