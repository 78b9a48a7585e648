#pragma once
// Dual proximal point + semismooth Newton-CG for linear M3L (problem and notation: m3l_linear.hpp).
//
// Coordinate ascent needs many passes when features are few and correlated or C is large; this method needs few,
// each about as dear as a pass. With R = P P' (columns of P are scaled eigenvectors) and Z = U P', around a feasible
// signed dual point beta_k it minimises the smoothed primal
//
//   phi(U) = 1/2 |U|^2 + sum_il h_il(z_il),   -h_il'(z) = beta_il(z) = clip(beta_k + (target_il - z) c_il / tau, box)
//
// by Newton steps  (I + X' W_F X) d = V P - U  with V = X' beta(z), W_F = c / tau on the cells F strictly inside their
// box, solved by conjugate gradients (relative residual 0.1). Preconditioner: W_F replaced by its mean rho_l per label,
// I + X'X (x) P' diag(rho) P, inverted in the eigenbases of both factors. Then a safeguarded line search on the convex
// phi. The centre moves, beta_k += theta (beta - beta_k), by the exact dual line search whenever theta > 1/2, and tau
// is halved down to 0.1: because the centre moves, tau need not go to zero and the systems stay well conditioned. Only
// when the proximal term, not curvature, holds the dual back does tau go on falling.
//
// Certificate at every iteration, for free: P at Z (the best Z so far is kept and returned), D at the point of the dual
// line search, which is never below D(beta_k).
//
// R = I: labels are independent and come in batches of two chunks, one task each; all scalars (tau, theta, step
// lengths) are lane vectors. Other R: one batch holds all labels, scalars are shared. Both are the same code: a
// "group" is what shares scalars.
//
// Cost of an iteration: 2 + 2 (number of CG steps) (share of rows with a free cell) products of X with a panel. When
// free cells abound, CG uses every 2nd, 4th or 8th of their rows with that weight: the direction is only a direction.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/labels.hpp"
#include "core/parallel.hpp"
#include "core/solvers/m3l_linear.hpp"
#include "core/solvers/panels.hpp"

namespace multimargin {

// R = P P', P = E sqrt(Sigma), both ways round.
template <class T>
struct Coupling {
    ChunkTable<T> P;   // labels x rank
    ChunkTable<T> Pt;  // rank x labels
    Index labels, rank;
    // Eigenvalues of a symmetric matrix of this order, which is replaced by its eigenvectors, one per row.
    std::function<void(std::vector<double>& matrix, std::vector<double>& values)> eigen;
};

// X'X (constant feature included) = Q diag(values) Q'.
template <class T>
struct Eigenbasis {
    const T* Q;   // n x n, rows are features
    const T* Qt;  // its transpose
    std::vector<double> values;
};

template <RowMatrix X>
class NewtonBatch {
  public:
    using T = typename X::value_type;

    NewtonBatch(const X& x, const LabelCells<T>& labels, T bias, int first, int chunks, const Coupling<T>* coupling,
                const Eigenbasis<T>* basis)
        : x_(x),
          labels_(labels),
          coupling_(coupling),
          basis_(basis),
          first_(first),
          chunks_(chunks),
          rows_(x, bias, coupling ? coupling->P.width() : chunks),
          panel_(static_cast<std::size_t>((x.cols() + 1) * rows_.chunks())),
          groups_(coupling ? 1 : static_cast<std::size_t>(chunks) * lanes<T>),
          beta_(static_cast<std::size_t>(x.rows() * chunks)),
          scores_(static_cast<std::size_t>(x.rows() * chunks)),
          free_(static_cast<std::size_t>(x.rows() * chunks)),
          U_(panel_),
          best_(panel_),
          centre_(panel_),
          V_(panel_),
          step_(static_cast<std::size_t>(quad * std::max(chunks, rows_.chunks()))),
          state_step_(step_.size()),
          slope_(chunks),
          wide_(chunks),
          label_at_(static_cast<std::size_t>(chunks)) {
        std::iota(label_at_.begin(), label_at_.end(), 0);
        tau_.assign(groups_, 0.5);
        flat_.assign(groups_, false);
        best_primal_.assign(groups_, std::numeric_limits<double>::infinity());
        for (auto* v : {&centre_dual_, &centre_linear_, &theta_, &step_dual_, &linear_, &hinge_})
            v->assign(groups_, 0.0);
    }

    // Starts at the given signed beta (rows x labels), which must lie in the box up to rounding.
    void start_from(const T* beta, Control& control, bool on_caller) {
        for (Index i = 0; i < x_.rows(); ++i) {
            std::memcpy(static_cast<void*>(beta_.data() + i * chunks_), beta + i * labels_.labels() + first_label(),
                        static_cast<std::size_t>(own_labels()) * sizeof(T));
        }
        clear(centre_);
        for_rows(control, on_caller, [&](Index a, Index b) { add_centre(a, b); });
        copy(centre_, U_);
        for_rows(control, on_caller, [&](Index a, Index b) { score_rows(a, b, U_.data(), scores_.data()); });
        const auto squares = dots(centre_, centre_);
        for (std::size_t g = 0; g < groups_; ++g) {
            centre_linear_[g] = linear_[g];
            centre_dual_[g] = linear_[g] - 0.5 * squares[g];
        }
    }

    // P and D at the present point; remembers the best weights.
    void assess(Control& control, bool on_caller) {
        compute_gradient(control, on_caller);
        const auto uu = dots(U_, U_), vv = dots(V_, V_), vc = dots(V_, centre_), cc = dots(centre_, centre_);
        std::vector<double> improved(groups_);
        for (std::size_t g = 0; g < groups_; ++g) {
            const double primal = hinge_[g] + 0.5 * uu[g];
            improved[g] = primal < best_primal_[g];
            best_primal_[g] = std::min(best_primal_[g], primal);
            const double rise = (linear_[g] - centre_linear_[g]) - (vc[g] - cc[g]);
            const double curvature = vv[g] - 2 * vc[g] + cc[g];
            theta_[g] = rise <= 0 ? 0.0 : curvature > rise ? rise / curvature : 1.0;
            step_dual_[g] = centre_dual_[g] + theta_[g] * rise - 0.5 * theta_[g] * theta_[g] * curvature;
            flat_[g] = curvature < 0.25 * rise;
        }
        keep_where(improved);
    }

    Evaluation value() const {
        Evaluation sum{0.0, 0.0};
        for (std::size_t g = 0; g < groups_; ++g) {
            if (!real_group(g)) continue;
            sum.primal += best_primal_[g];
            sum.dual += std::max(step_dual_[g], centre_dual_[g]);
        }
        return sum;
    }

    // One Newton iteration, after assess().
    void advance(Control& control, bool on_caller) {
        std::vector<double> accepted(groups_);
        bool any_accepted = false;
        for (std::size_t g = 0; g < groups_; ++g) {
            if (iteration_ == 0 || theta_[g] <= 0.5) continue;
            accepted[g] = theta_[g];
            any_accepted = true;
        }
        if (any_accepted) {
            move_centre(accepted);
            for (std::size_t g = 0; g < groups_; ++g)
                if (accepted[g] > 0)
                    tau_[g] = flat_[g] ? std::max(1e-8, 0.25 * tau_[g])
                                       : std::max(std::min(tau_[g], usual_tau), 0.5 * tau_[g]);
            compute_gradient(control, on_caller);
        }
        Buffer<Chunk<T>> direction(panel_);
        find_direction(direction, control, on_caller);
        Buffer<Chunk<T>> change(static_cast<std::size_t>(x_.rows() * chunks_));
        for_rows(control, on_caller, [&](Index a, Index b) { score_rows(a, b, direction.data(), change.data()); });
        const auto lengths = line_search(direction, change, control, on_caller);
        spread(lengths, wide_);
        add_scaled(change.data(), x_.rows(), chunks_, wide_, scores_.data());
        ChunkVector<T> panel_lengths(rows_.chunks());
        spread(lengths, panel_lengths);
        add_scaled(direction.data(), x_.cols() + 1, rows_.chunks(), panel_lengths, U_.data());
        ++iteration_;
    }

    // Moves the centre to the point whose dual value was reported.
    void finish() { move_centre(theta_); }

    // weights: labels x (cols + 1), the last column for the constant feature.
    void copy_weights(T* weights) const {
        const int width = rows_.chunks();
        for (Index j = 0; j <= x_.cols(); ++j) {
            const T* u = reinterpret_cast<const T*>(best_.data() + j * width);
            for (Index l = 0; l < own_labels(); ++l)
                weights[(first_label() + l) * (x_.cols() + 1) + j] =
                    coupling_ ? coupling_->P.dot_row(l, best_.data() + j * width) : u[l];
        }
    }
    void copy_beta(T* beta) const {
        for (Index i = 0; i < x_.rows(); ++i)
            std::memcpy(beta + i * labels_.labels() + first_label(), beta_.data() + i * chunks_,
                        static_cast<std::size_t>(own_labels()) * sizeof(T));
    }

  private:
    static constexpr double usual_tau = 0.1;
    static constexpr Index batch = 128;  // rows between two looks at the outside world; a multiple of four
    using Groups = std::vector<double>;

    Index first_label() const { return static_cast<Index>(first_) * lanes<T>; }
    Index own_labels() const {
        return std::min<Index>(static_cast<Index>(chunks_) * lanes<T>, labels_.labels() - first_label());
    }
    bool real_group(std::size_t g) const { return coupling_ || static_cast<Index>(g) < own_labels(); }
    static void clear(Buffer<Chunk<T>>& b) { std::memset(static_cast<void*>(b.data()), 0, b.size() * 32); }
    static void copy(const Buffer<Chunk<T>>& from, Buffer<Chunk<T>>& to) {
        std::memcpy(static_cast<void*>(to.data()), from.data(), from.size() * 32);
    }

    template <class Work>
    void for_rows(Control& control, bool on_caller, Work&& work) {
        for (Index a = 0; a < x_.rows() && !control.leave_unfinished(on_caller); a += batch)
            work(a, std::min(x_.rows(), a + batch));
    }

    // Lane vector of a value per group.
    void spread(const Groups& values, ChunkVector<T>& lanes_out) const {
        for (Index l = 0; l < static_cast<Index>(lanes_out.size()) * lanes<T>; ++l)
            lanes_out[l] = static_cast<T>(values[coupling_ ? 0 : static_cast<std::size_t>(l)]);
    }
    void add_to_groups(ChunkVector<T>& sums, Groups& totals) const {
        for (Index l = 0; l < static_cast<Index>(sums.size()) * lanes<T>; ++l)
            totals[coupling_ ? 0 : static_cast<std::size_t>(l)] += static_cast<double>(sums[l]);
        sums.clear();
    }
    // Sums of products of two panels, per group.
    Groups dots(const Buffer<Chunk<T>>& a, const Buffer<Chunk<T>>& b) const {
        Groups totals(groups_);
        ChunkVector<T> sums(rows_.chunks());
        for (Index j = 0; j <= x_.cols(); j += 64) {
            multiply_add(a.data(), b.data(), j, std::min(x_.cols() + 1, j + 64), sums.chunks());
            add_to_groups(sums, totals);
        }
        return totals;
    }
    MULTIMARGIN_SIMD void multiply_add(const Chunk<T>* a, const Chunk<T>* b, Index first, Index last,
                                       Chunk<T>* sums) const {
        const int width = rows_.chunks();
        for (Index j = first; j < last; ++j)
            for (int k = 0; k < width; ++k) sums[k] += a[j * width + k] * b[j * width + k];
    }
    MULTIMARGIN_SIMD void add_scaled(const Chunk<T>* from, Index n, int width, const ChunkVector<T>& scale,
                                     Chunk<T>* to) const {
        for (Index j = 0; j < n; ++j)
            for (int k = 0; k < width; ++k) to[j * width + k] += scale.chunks()[k] * from[j * width + k];
    }

    struct Cell {
        Chunk<T> y, cost, low, high;
    };
    MULTIMARGIN_INLINE Cell cell(Index i, int k) const {
        const Chunk<T> zero{}, one = zero + T(1);
        const auto positive = labels_.is_positive(i, first_ + k);
        const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
        return {positive ? one : -one, cost, positive ? zero : -cost, positive ? cost : zero};
    }
    // beta(z) of the smoothed loss.
    MULTIMARGIN_INLINE Chunk<T> dual_of(const Cell& c, Chunk<T> centre, Chunk<T> score, Chunk<T> slope) const {
        return lane_min(c.high, lane_max(c.low, centre + (c.y - score) * (c.cost * slope)));
    }

    // step_ (per row: chunks_ label chunks) into the panel, through P' when labels are coupled.
    MULTIMARGIN_INLINE void push(const std::int32_t* rows, int count, Chunk<T>* panel) {
        if (!coupling_) return rows_.scatter(rows, count, step_.data(), panel);
        for (int k = count * chunks_; k < quad * chunks_; ++k) step_[k] = Chunk<T>{};
        multiply_quad<T>(reinterpret_cast<const T*>(step_.data()), static_cast<Index>(chunks_) * lanes<T>,
                         coupling_->labels, coupling_->P, state_at(), state_step_.data());
        rows_.scatter(rows, count, state_step_.data(), panel);
    }
    // Label scores of four rows into step_.
    MULTIMARGIN_INLINE void pull(const std::int32_t* rows, int count, const Chunk<T>* panel) {
        if (!coupling_) return rows_.gather(rows, count, panel, step_.data());
        rows_.gather(rows, count, panel, state_step_.data());
        for (int k = count * rows_.chunks(); k < quad * rows_.chunks(); ++k) state_step_[k] = Chunk<T>{};
        multiply_quad<T>(reinterpret_cast<const T*>(state_step_.data()), static_cast<Index>(rows_.chunks()) * lanes<T>,
                         coupling_->rank, coupling_->Pt, label_at_, step_.data());
    }
    const std::vector<int>& state_at() const { return rows_.positions(); }

    static MULTIMARGIN_INLINE int next_quad(Index i, Index last, std::int32_t* rows) {
        const int count = static_cast<int>(std::min<Index>(quad, last - i));
        for (int r = 0; r < count; ++r) rows[r] = static_cast<std::int32_t>(i + r);
        return count;
    }

    // centre_ += x beta_k', linear_ += y beta_k; clips beta_k to the box first.
    void add_centre(Index first, Index last) {
        ChunkVector<T> linear(chunks_);
        add_centre_rows(first, last, linear.chunks());
        add_to_groups(linear, linear_);
    }
    MULTIMARGIN_SIMD void add_centre_rows(Index first, Index last, Chunk<T>* linear) {
        std::int32_t rows[quad];
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const Cell c = cell(i + r, k);
                    Chunk<T>& b = beta_[static_cast<std::size_t>((i + r) * chunks_ + k)];
                    b = lane_min(c.high, lane_max(c.low, b));
                    step_[static_cast<std::size_t>(r * chunks_ + k)] = b;
                    linear[k] += c.y * b;
                }
            push(rows, count, centre_.data());
        }
    }
    MULTIMARGIN_SIMD void score_rows(Index first, Index last, const Chunk<T>* panel, Chunk<T>* out) {
        std::int32_t rows[quad];
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            pull(rows, count, panel);
            std::memcpy(static_cast<void*>(out + i * chunks_), step_.data(),
                        static_cast<std::size_t>(count * chunks_) * 32);
        }
    }

    // V = X' beta(z) (times P), the free cells, sum y beta and the hinge loss, all at the present scores.
    void compute_gradient(Control& control, bool on_caller) {
        Groups inverse(groups_);
        for (std::size_t g = 0; g < groups_; ++g) {
            inverse[g] = 1.0 / tau_[g];
            linear_[g] = hinge_[g] = 0.0;
        }
        spread(inverse, slope_);
        clear(V_);
        ChunkVector<T> linear(chunks_), hinge(chunks_);
        for_rows(control, on_caller, [&](Index a, Index b) {
            gradient_rows(a, b, linear.chunks(), hinge.chunks());
            add_to_groups(linear, linear_);
            add_to_groups(hinge, hinge_);
        });
    }
    MULTIMARGIN_SIMD void gradient_rows(Index first, Index last, Chunk<T>* linear, Chunk<T>* hinge) {
        std::int32_t rows[quad];
        const Chunk<T> zero{};
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const auto at = static_cast<std::size_t>((i + r) * chunks_ + k);
                    const Cell c = cell(i + r, k);
                    const Chunk<T> b = dual_of(c, beta_[at], scores_[at], slope_.chunks()[k]);
                    step_[static_cast<std::size_t>(r * chunks_ + k)] = b;
                    linear[k] += c.y * b;
                    hinge[k] += c.cost * lane_max(c.y * (c.y - scores_[at]), zero);
                    free_[at] = pack_flags<T>((b > c.low) & (b < c.high));
                }
            push(rows, count, V_.data());
        }
    }

    // beta_k += theta (beta - beta_k) and what depends on it; the scores and tau are those of the last gradient.
    void move_centre(const Groups& theta) {
        const auto vc = dots(V_, centre_), cc = dots(centre_, centre_), vv = dots(V_, V_);
        for (std::size_t g = 0; g < groups_; ++g) {
            const double t = theta[g], rise = (linear_[g] - centre_linear_[g]) - (vc[g] - cc[g]);
            centre_dual_[g] += t * rise - 0.5 * t * t * (vv[g] - 2 * vc[g] + cc[g]);
            centre_linear_[g] += t * (linear_[g] - centre_linear_[g]);
        }
        spread(theta, wide_);
        move_centre_rows();
        ChunkVector<T> panel_theta(rows_.chunks());
        spread(theta, panel_theta);
        move_centre_panel(panel_theta.chunks());
    }
    MULTIMARGIN_SIMD void move_centre_rows() {
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < chunks_; ++k) {
                const auto at = static_cast<std::size_t>(i * chunks_ + k);
                const Cell c = cell(i, k);
                const Chunk<T> b = dual_of(c, beta_[at], scores_[at], slope_.chunks()[k]);
                const Chunk<T> moved = beta_[at] + wide_.chunks()[k] * (b - beta_[at]);
                beta_[at] = lane_min(c.high, lane_max(c.low, moved));
            }
    }
    MULTIMARGIN_SIMD void move_centre_panel(const Chunk<T>* theta) {
        const int width = rows_.chunks();
        for (Index j = 0; j <= x_.cols(); ++j)
            for (int k = 0; k < width; ++k) {
                Chunk<T>& c = centre_[static_cast<std::size_t>(j * width + k)];
                c += theta[k] * (V_[static_cast<std::size_t>(j * width + k)] - c);
            }
    }
    void keep_where(const Groups& improved) {
        ChunkVector<T> flag(rows_.chunks());
        spread(improved, flag);
        const int width = rows_.chunks();
        for (Index j = 0; j <= x_.cols(); ++j)
            for (int k = 0; k < width; ++k) {
                const auto at = static_cast<std::size_t>(j * width + k);
                best_[at] = flag.chunks()[k] > T(0) ? U_[at] : best_[at];
            }
    }

    // Conjugate gradients in lock-step over the groups.
    void find_direction(Buffer<Chunk<T>>& direction, Control& control, bool on_caller) {
        constexpr int max_steps = 20;
        constexpr double residual = 0.1, share_left_over = 0.1;
        const auto rows = rows_with_free_cells();
        Buffer<Chunk<T>> r(panel_), z(panel_), p(panel_), q(panel_);
        for (std::size_t e = 0; e < panel_; ++e) r[e] = V_[e] - U_[e];
        precondition(r, z);
        copy(z, p);
        auto rz = dots(r, z);
        const auto rr0 = dots(r, r);
        auto rr = rr0;
        ChunkVector<T> scale(rows_.chunks());
        for (int step = 0; step < max_steps && !control.leave_unfinished(on_caller); ++step) {
            std::vector<bool> active(groups_);
            std::size_t left = 0, real = 0;
            for (std::size_t g = 0; g < groups_; ++g) {
                active[g] = real_group(g) && rr[g] > residual * residual * rr0[g];
                left += active[g];
                real += real_group(g);
            }
            if (static_cast<double>(left) <= share_left_over * static_cast<double>(real)) break;
            copy(p, q);
            for (std::size_t a = 0; a < rows.size() && !control.leave_unfinished(on_caller); a += batch)
                curvature_rows(rows.data() + a, std::min<std::size_t>(batch, rows.size() - a), p.data(), q.data());
            const auto pq = dots(p, q);
            Groups alpha(groups_);
            for (std::size_t g = 0; g < groups_; ++g) alpha[g] = active[g] && pq[g] > 0 ? rz[g] / pq[g] : 0.0;
            spread(alpha, scale);
            add_scaled(p.data(), x_.cols() + 1, rows_.chunks(), scale, direction.data());
            for (auto& a : alpha) a = -a;
            spread(alpha, scale);
            add_scaled(q.data(), x_.cols() + 1, rows_.chunks(), scale, r.data());
            rr = dots(r, r);
            precondition(r, z);
            const auto rz_new = dots(r, z);
            Groups ratio(groups_);
            for (std::size_t g = 0; g < groups_; ++g) ratio[g] = active[g] && rz[g] > 0 ? rz_new[g] / rz[g] : 0.0;
            rz = rz_new;
            spread(ratio, scale);
            for (Index j = 0; j <= x_.cols(); ++j)
                for (int k = 0; k < rows_.chunks(); ++k) {
                    const auto at = static_cast<std::size_t>(j * rows_.chunks() + k);
                    p[at] = z[at] + scale.chunks()[k] * p[at];
                }
        }
    }

    // The rows CG looks at; sets wide_ to 1 / tau times the subsampling weight, and the preconditioner to the mean of
    // W_F.
    std::vector<std::int32_t> rows_with_free_cells() {
        constexpr int largest_stride = 8;
        constexpr double rows_per_unknown = 6.0;
        std::vector<std::int32_t> rows;
        std::int64_t free_cells = 0;
        ChunkVector<T> costs(chunks_);
        std::vector<double> rho(static_cast<std::size_t>(chunks_) * lanes<T>);
        for (Index i = 0; i < x_.rows(); ++i) {
            int found = 0;
            for (int k = 0; k < chunks_; ++k)
                found += __builtin_popcount(free_[static_cast<std::size_t>(i * chunks_ + k)]);
            if (found) rows.push_back(static_cast<std::int32_t>(i));
            free_cells += found;
        }
        for (std::size_t a = 0; a < rows.size(); a += batch) {
            free_costs(rows.data() + a, std::min<std::size_t>(batch, rows.size() - a), costs.chunks());
            for (std::size_t l = 0; l < rho.size(); ++l) rho[l] += static_cast<double>(costs[static_cast<Index>(l)]);
            costs.clear();
        }
        for (std::size_t l = 0; l < rho.size(); ++l) rho[l] /= static_cast<double>(x_.rows()) * tau_[coupling_ ? 0 : l];
        set_preconditioner(rho);
        const double per_label = static_cast<double>(free_cells) / static_cast<double>(own_labels());
        int stride = 1;
        while (stride < largest_stride && per_label / (2 * stride) > rows_per_unknown * static_cast<double>(x_.cols()))
            stride *= 2;
        Groups scale(groups_);
        for (std::size_t g = 0; g < groups_; ++g) scale[g] = stride / tau_[g];
        spread(scale, wide_);
        if (stride == 1) return rows;
        std::vector<std::int32_t> some;
        for (std::size_t a = static_cast<std::size_t>(iteration_ % stride); a < rows.size(); a += stride)
            some.push_back(rows[a]);
        return some;
    }
    MULTIMARGIN_SIMD void free_costs(const std::int32_t* rows, std::size_t n, Chunk<T>* sums) const {
        for (std::size_t a = 0; a < n; ++a)
            for (int k = 0; k < chunks_; ++k) {
                const auto inside =
                    expand_flags<T>(free_[static_cast<std::size_t>(static_cast<Index>(rows[a]) * chunks_ + k)]);
                sums[k] += inside ? cell(rows[a], k).cost : Chunk<T>{};
            }
    }
    // q += X' W_F X p over these rows.
    MULTIMARGIN_SIMD void curvature_rows(const std::int32_t* rows, std::size_t n, const Chunk<T>* p, Chunk<T>* q) {
        for (std::size_t a = 0; a < n; a += quad) {
            const int count = static_cast<int>(std::min<std::size_t>(quad, n - a));
            pull(rows + a, count, p);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const Index i = rows[a + static_cast<std::size_t>(r)];
                    const auto inside = expand_flags<T>(free_[static_cast<std::size_t>(i * chunks_ + k)]);
                    Chunk<T>& s = step_[static_cast<std::size_t>(r * chunks_ + k)];
                    s = inside ? s * (cell(i, k).cost * wide_.chunks()[k]) : Chunk<T>{};
                }
            push(rows + a, count, q);
        }
    }

    // Eigenbasis and eigenvalues of P' diag(rho) P; for independent labels, rho itself.
    void set_preconditioner(const std::vector<double>& rho) {
        if (!coupling_) {
            column_weight_ = rho;
            return;
        }
        const Index r = coupling_->rank;
        std::vector<double> M(static_cast<std::size_t>(r * r));
        for (Index l = 0; l < coupling_->labels; ++l) {
            const T* p = reinterpret_cast<const T*>(coupling_->P.row(l));
            for (Index a = 0; a < r; ++a) {
                const double scaled = rho[static_cast<std::size_t>(l)] * static_cast<double>(p[a]);
                for (Index b = 0; b < r; ++b)
                    M[static_cast<std::size_t>(a * r + b)] += scaled * static_cast<double>(p[b]);
            }
        }
        coupling_->eigen(M, column_weight_);
        std::vector<T> rows(M.begin(), M.end()), columns(rows.size());
        for (Index a = 0; a < r; ++a)
            for (Index b = 0; b < r; ++b)
                columns[static_cast<std::size_t>(b * r + a)] = rows[static_cast<std::size_t>(a * r + b)];
        from_eigen_.emplace(rows.data(), r, r);
        to_eigen_.emplace(columns.data(), r, r);
        column_weight_.resize(static_cast<std::size_t>(rows_.chunks()) * lanes<T>, 0.0);
    }
    // z = Q E diag(1 / (1 + lam_j weight_k)) E' Q' r, or r without a basis.
    void precondition(const Buffer<Chunk<T>>& r, Buffer<Chunk<T>>& z) const {
        if (!basis_) return copy(r, z);
        Buffer<Chunk<T>> rotated(panel_);
        rotate(basis_->Qt, r.data(), rotated.data());
        if (coupling_) turn_columns(*to_eigen_, rotated);
        for (Index j = 0; j <= x_.cols(); ++j) {
            T* row = reinterpret_cast<T*>(rotated.data() + j * rows_.chunks());
            const double lam = std::max(basis_->values[static_cast<std::size_t>(j)], 0.0);
            for (std::size_t c = 0; c < column_weight_.size(); ++c)
                row[c] /= static_cast<T>(1.0 + lam * std::max(column_weight_[c], 0.0));
        }
        if (coupling_) turn_columns(*from_eigen_, rotated);
        rotate(basis_->Q, rotated.data(), z.data());
    }
    // panel = panel * table, four rows at a time.
    void turn_columns(const ChunkTable<T>& table, Buffer<Chunk<T>>& panel) const {
        const Index n = x_.cols() + 1;
        const int width = rows_.chunks();
        Buffer<Chunk<T>> in(static_cast<std::size_t>(quad * width)), out(in.size());
        for (Index j = 0; j < n; j += quad) {
            const auto bytes = static_cast<std::size_t>(std::min<Index>(quad, n - j) * width) * 32;
            std::memcpy(static_cast<void*>(in.data()), panel.data() + j * width, bytes);
            multiply_quad<T>(reinterpret_cast<const T*>(in.data()), static_cast<Index>(width) * lanes<T>,
                             coupling_->rank, table, state_at(), out.data());
            std::memcpy(static_cast<void*>(panel.data() + j * width), out.data(), bytes);
        }
    }
    void rotate(const T* table, const Chunk<T>* from, Chunk<T>* to) const {
        const Index n = x_.cols() + 1;
        const int width = rows_.chunks();
        Buffer<Chunk<T>> out(static_cast<std::size_t>(quad * width));
        for (Index i = 0; i < n; i += quad) {
            const T* rows[quad];
            for (int r = 0; r < quad; ++r) rows[r] = table + std::min(i + r, n - 1) * n;
            clear(out);
            QuadKernels<T>::gather(rows, n, from, width, state_at().data(), width, width, out.data());
            std::memcpy(static_cast<void*>(to + i * width), out.data(),
                        static_cast<std::size_t>(std::min<Index>(quad, n - i) * width) * 32);
        }
    }

    // Step lengths along the direction: phi'(a) brought below a fifth of phi'(0) in absolute value, by Newton steps
    // inside a bracket; if that fails, the largest point that was still going down.
    Groups line_search(const Buffer<Chunk<T>>& direction, const Buffer<Chunk<T>>& change, Control& control,
                       bool on_caller) {
        constexpr int max_trials = 8;
        constexpr double enough = 0.2;
        const auto ud = dots(U_, direction), dd = dots(direction, direction), dv = dots(direction, V_);
        Groups a(groups_, 1.0), lower(groups_, 0.0), upper(groups_, std::numeric_limits<double>::infinity()),
            start(groups_);
        std::vector<bool> done(groups_);
        for (std::size_t g = 0; g < groups_; ++g) {
            start[g] = ud[g] - dv[g];
            if (!(start[g] < 0) || !real_group(g)) {
                a[g] = 0.0;
                done[g] = true;
            }
        }
        ChunkVector<T> slope(chunks_), curvature(chunks_);
        for (int trial = 0; trial < max_trials && !all_true(done); ++trial) {
            spread(a, wide_);
            Groups first(groups_), second(groups_);
            for_rows(control, on_caller, [&](Index i, Index j) {
                line_rows(i, j, change.data(), slope.chunks(), curvature.chunks());
                add_to_groups(slope, first);
                add_to_groups(curvature, second);
            });
            for (std::size_t g = 0; g < groups_; ++g) {
                if (done[g]) continue;
                const double derivative = ud[g] + a[g] * dd[g] - first[g];
                if (std::abs(derivative) <= enough * std::abs(start[g])) {
                    done[g] = true;
                    continue;
                }
                (derivative < 0 ? lower[g] : upper[g]) = a[g];
                double next = a[g] - derivative / (dd[g] + second[g] / tau_[g] + 1e-300);
                if (!(next > lower[g] && next < upper[g]))
                    next = std::isinf(upper[g]) ? 2 * a[g] : 0.5 * (lower[g] + upper[g]);
                a[g] = next;
            }
        }
        for (std::size_t g = 0; g < groups_; ++g)
            if (!done[g]) a[g] = lower[g] > 0 ? lower[g] : std::min(a[g], 0.1 * upper[g]);
        return a;
    }
    static bool all_true(const std::vector<bool>& flags) {
        return std::all_of(flags.begin(), flags.end(), [](bool b) { return b; });
    }
    // Sums of beta(z + a dz) dz and of c dz^2 over free cells.
    MULTIMARGIN_SIMD void line_rows(Index first, Index last, const Chunk<T>* change, Chunk<T>* slope,
                                    Chunk<T>* curvature) const {
        for (Index i = first; i < last; ++i)
            for (int k = 0; k < chunks_; ++k) {
                const auto at = static_cast<std::size_t>(i * chunks_ + k);
                const Cell c = cell(i, k);
                const Chunk<T> dz = change[at];
                const Chunk<T> b = dual_of(c, beta_[at], scores_[at] + wide_.chunks()[k] * dz, slope_.chunks()[k]);
                slope[k] += b * dz;
                curvature[k] += ((b > c.low) & (b < c.high)) ? c.cost * dz * dz : Chunk<T>{};
            }
    }

    const X& x_;
    const LabelCells<T>& labels_;
    const Coupling<T>* coupling_;
    const Eigenbasis<T>* basis_;
    int first_, chunks_;
    PanelRows<X> rows_;
    std::size_t panel_, groups_;
    Buffer<Chunk<T>> beta_, scores_;
    Buffer<std::uint8_t> free_;
    Buffer<Chunk<T>> U_, best_, centre_, V_;
    Buffer<Chunk<T>> step_, state_step_;
    ChunkVector<T> slope_, wide_;  // 1 / tau; scratch for spread()
    std::vector<int> label_at_;
    std::vector<double> column_weight_;
    std::optional<ChunkTable<T>> to_eigen_, from_eigen_;
    int iteration_ = 0;
    std::vector<bool> flat_;  // the last dual rise was held back by the proximal term, not by curvature
    Groups tau_, best_primal_, centre_dual_, centre_linear_, theta_, step_dual_, linear_, hinge_;
};

// All labels: batches in parallel, one Newton iteration of every batch a pass.
template <RowMatrix X>
class NewtonEngine {
  public:
    using T = typename X::value_type;

    NewtonEngine(const X& x, const LabelCells<T>& labels, T bias, const Coupling<T>* coupling,
                 const Eigenbasis<T>* basis, int threads)
        : threads_(threads) {
        const int per_batch = coupling ? labels.chunks() : std::min(2, labels.chunks());
        for (int first = 0; first < labels.chunks(); first += per_batch)
            batches_.push_back(std::make_unique<NewtonBatch<X>>(
                x, labels, bias, first, std::min(per_batch, labels.chunks() - first), coupling, basis));
    }

    void start_from(const T* beta, Control& control) {
        for_batches(control, [&](auto& batch, bool on_caller) { batch.start_from(beta, control, on_caller); });
    }

    // Continues the count of passes after `passes` of another solver.
    M3LResult run(int passes, const M3LParams& params, Control& control) {
        constexpr double rest_share = 0.3;  // a batch well below the tolerance waits for the others
        for (int pass = passes + 1;; ++pass) {
            for_batches(control, [&](auto& batch, bool on_caller) { batch.assess(control, on_caller); });
            Evaluation total{0.0, 0.0};
            for (const auto& batch : batches_) {
                total.primal += batch->value().primal;
                total.dual += batch->value().dual;
            }
            const bool stop = control.tick({.pass = pass,
                                            .time = control.elapsed(),
                                            .evaluated = true,
                                            .primal = total.primal,
                                            .dual = total.dual});
            const bool converged = total.gap() <= params.tol * total.primal;
            if (converged || stop || pass >= params.max_iter) {
                for (auto& batch : batches_) batch->finish();
                return {total, pass, converged ? Status::converged : stop ? control.reason() : Status::max_iter};
            }
            for_batches(control, [&](auto& batch, bool on_caller) {
                const auto value = batch.value();
                if (value.gap() > rest_share * params.tol * value.primal) batch.advance(control, on_caller);
            });
        }
    }

    void copy_weights(T* weights) const {
        for (const auto& batch : batches_) batch->copy_weights(weights);
    }
    void copy_beta(T* beta) const {
        for (const auto& batch : batches_) batch->copy_beta(beta);
    }

  private:
    template <class Task>
    void for_batches(Control& control, Task&& task) {
        parallel_for(static_cast<int>(batches_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(*batches_[static_cast<std::size_t>(b)], on_caller); });
    }
    int threads_;
    std::vector<std::unique_ptr<NewtonBatch<X>>> batches_;
};

}  // namespace multimargin
