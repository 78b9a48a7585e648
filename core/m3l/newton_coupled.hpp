#pragma once
// The Newton finish for a prior R = P P' that couples the labels (method and notation: newton.hpp).
//
// The panel U has a column per column of P; one step length and one CG serve all labels, since |U|^2 ties them. tau and
// theta stay the label's own: the dual along beta_k + theta_l (beta - beta_k)_l is the quadratic
//   rise.theta - 1/2 theta' Q theta,   Q_lm = R_lm dV_l.dV_m,   dV = V(beta) - V(beta_k),
// maximised over the box [0, 1]^L, so that one label that is not ready does not stop the others. tau stays at 0.1
// until all labels are ready: a narrower smoothing of one would shorten the common step (mediamill to 1e-4: 97
// iterations instead of 248).
//
// "Wide" (P of nearly full rank): products of X run over label batches, as for R = I, on panels U P' and V; the factor
// is applied to panels, never row by row. One poor label spoils the common step length, so directions must be good:
// where features are few, the matrices X' W X of all labels are formed, which costs less than ten products, and CG runs
// on them to a residual of 0.02 (mediamill: 57 iterations with products over a sample of the rows, 22 with matrices).
// For R = I they do not pay: there a poor label spoils only itself. "Narrow" (r (D + L) < D L): one batch of all
// labels, panels of rank columns; V is never formed, so tau and theta are common to all labels.
//
// Start. One step length for all labels makes poor progress from afar: after eight passes of coupled coordinate ascent
// mediamill took 108 iterations. The solution of the problem with diag(R) instead of R, even to a relative gap of 0.1,
// is a dual point within a tenth of the optimum; from there it takes about as many iterations as R = I. Its beta is
// scaled by theta as above (centre 0), and U is fitted to its scores, weighted by the mean rho_l of W_F:
//   min 1/2 |U|^2 + 1/2 sum_l rho_l |X (U P' - Z)_l|^2.

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/m3l/newton.hpp"

namespace multimargin::m3l {

// max over theta in [0, 1]^n of rise.theta - 1/2 theta' Q theta, with theta = 0 where it is not allowed to move. Labels
// that R ties closely may gain only together: coordinate ascent alone would hardly move them, nor their centre, for
// ever. Conjugate gradients over those inside the box, up to its border, do; and where the Newton steps have converged,
// the best common theta for all labels, from which this starts as well as from 0, is near 1.
class BoxMaximum {
  public:
    BoxMaximum(const Values& rise, const std::vector<double>& Q, const std::vector<bool>& allowed)
        : n_(rise.size()), rise_(rise), Q_(Q), allowed_(allowed) {
        const Values alone = climb(0.0), together = climb(best_common());
        theta_ = value(together) > value(alone) ? together : alone;
    }
    const Values& theta() const { return theta_; }

  private:
    double value(const Values& theta) const {
        double total = 0.0;
        for (std::size_t l = 0; l < n_; ++l) {
            if (theta[l] == 0) continue;
            total += rise_[l] * theta[l];
            for (std::size_t m = 0; m < n_; ++m) total -= 0.5 * theta[l] * Q_[l * n_ + m] * theta[m];
        }
        return total;
    }
    double best_common() const {
        double rise = 0.0, curvature = 0.0;
        for (std::size_t l = 0; l < n_; ++l) {
            if (!allowed_[l]) continue;
            rise += rise_[l];
            for (std::size_t m = 0; m < n_; ++m) curvature += allowed_[m] ? Q_[l * n_ + m] : 0.0;
        }
        return rise <= 0 ? 0.0 : curvature > rise ? rise / curvature : 1.0;
    }
    Values climb(double start) {
        constexpr int rounds = 20;
        theta_.assign(n_, 0.0);
        slope_ = rise_;
        for (std::size_t l = 0; l < n_ && start > 0; ++l)
            if (allowed_[l]) move(l, start);
        sweep();
        for (int round = 0; round < rounds && move_together(); ++round) sweep();
        return theta_;
    }
    static constexpr double small = 1e-2;  // any theta is feasible: accuracy only decides how much of the rise is taken

    void move(std::size_t l, double change) {
        theta_[l] += change;
        for (std::size_t m = 0; m < n_; ++m) slope_[m] -= change * Q_[m * n_ + l];
    }
    void sweep() {
        constexpr int most = 100;
        double largest = 1.0;
        for (int pass = 0; pass < most && largest >= small; ++pass) {
            largest = 0.0;
            for (std::size_t l = 0; l < n_; ++l) {
                if (!allowed_[l]) continue;
                const double curvature = Q_[l * n_ + l];
                const double goal = curvature > 0 ? theta_[l] + slope_[l] / curvature : slope_[l] > 0 ? 1.0 : 0.0;
                const double change = std::clamp(goal, 0.0, 1.0) - theta_[l];
                if (change == 0) continue;
                move(l, change);
                largest = std::max(largest, std::abs(change));
            }
        }
    }
    // Whether a step of all that are inside the box moved any of them noticeably.
    bool move_together() {
        std::vector<std::size_t> inside;
        for (std::size_t l = 0; l < n_; ++l)
            if (allowed_[l] && theta_[l] > 0 && theta_[l] < 1) inside.push_back(l);
        const Values direction = solve(inside);
        double length = 1.0, largest = 0.0;
        for (std::size_t a = 0; a < inside.size(); ++a) {
            const double t = theta_[inside[a]], d = direction[a];
            if (d > 0) length = std::min(length, (1.0 - t) / d);
            if (d < 0) length = std::min(length, -t / d);
            largest = std::max(largest, std::abs(d));
        }
        for (std::size_t a = 0; a < inside.size(); ++a) {
            const double goal = std::clamp(theta_[inside[a]] + length * direction[a], 0.0, 1.0);
            move(inside[a], goal - theta_[inside[a]]);
        }
        return length * largest >= small;
    }
    // Q d = slope over these, roughly.
    Values solve(const std::vector<std::size_t>& inside) const {
        constexpr std::size_t most_steps = 50;
        const std::size_t k = inside.size();
        Values d(k), r(k), p, q(k);
        for (std::size_t a = 0; a < k; ++a) r[a] = slope_[inside[a]];
        p = r;
        double rr = std::inner_product(r.begin(), r.end(), r.begin(), 0.0);
        const double enough = 1e-6 * rr;
        for (std::size_t step = 0; step < std::min(k, most_steps) && rr > enough; ++step) {
            for (std::size_t a = 0; a < k; ++a) {
                q[a] = 0.0;
                for (std::size_t b = 0; b < k; ++b) q[a] += Q_[inside[a] * n_ + inside[b]] * p[b];
            }
            const double curvature = std::inner_product(p.begin(), p.end(), q.begin(), 0.0);
            if (curvature <= 0) break;
            for (std::size_t a = 0; a < k; ++a) d[a] += rr / curvature * p[a], r[a] -= rr / curvature * q[a];
            const double next = std::inner_product(r.begin(), r.end(), r.begin(), 0.0);
            for (std::size_t a = 0; a < k; ++a) p[a] = r[a] + next / rr * p[a];
            rr = next;
        }
        return d;
    }

    std::size_t n_;
    const Values& rise_;
    const std::vector<double>& Q_;
    const std::vector<bool>& allowed_;
    Values theta_, slope_;
};

template <RowMatrix X>
class CoupledNewton {
  public:
    using T = typename X::value_type;
    using Panel = Buffer<Chunk<T>>;

    CoupledNewton(const X& x, const LabelCells<T>& labels, T bias, const Coupling<T>& coupling,
                  const Eigenbasis<T>& basis, bool wide, int threads)
        : coupling_(coupling),
          threads_(threads),
          wide_(wide),
          labels_(static_cast<std::size_t>(labels.labels())),
          P_(coupling.P.data(), coupling.labels, coupling.rank),
          Pt_(coupling.Pt.data(), coupling.rank, coupling.labels),
          space_(x.cols() + 1, P_.width(), true),
          label_space_(x.cols() + 1, labels.chunks(), false),
          preconditioner_(space_, &basis, &coupling),
          U_(space_.panel()),
          best_(space_.panel()),
          centre_(space_.panel()),
          V_(space_.panel()),
          margins_(label_space_.groups()),
          tau_(label_space_.groups()),
          theta_(label_space_.groups()),
          centre_linear_(label_space_.groups()),
          linear_(label_space_.groups()),
          hinge_(label_space_.groups()) {
        const int per_batch = wide_ ? std::min(2, labels.chunks()) : labels.chunks();
        for (int first = 0; first < labels.chunks(); first += per_batch) {
            const int chunks = std::min(per_batch, labels.chunks() - first);
            batches_.push_back(std::make_unique<Batch>(x, labels, bias, first, chunks, wide_ ? nullptr : &coupling));
        }
        for (std::size_t l = 0; l < tau_.size(); ++l) {
            margins_[l] = labels.typical_margin(static_cast<Index>(l));
            tau_[l] = first_tau * margins_[l];
        }
        if (!wide_) return;
        label_V_ = label_space_.panel();
        label_centre_ = label_space_.panel();
        scratch_ = label_space_.panel();
        R_.resize(labels_ * labels_);
        for (std::size_t l = 0; l < labels_; ++l)
            for (std::size_t m = 0; m < labels_; ++m)
                for (Index k = 0; k < coupling.rank; ++k)
                    R_[l * labels_ + m] +=
                        static_cast<double>(coupling.P[l * static_cast<std::size_t>(coupling.rank) + k]) *
                        static_cast<double>(coupling.P[m * static_cast<std::size_t>(coupling.rank) + k]);
    }

    // weights: labels x (cols + 1) to fit U to; narrow: null, U = V(beta) P.
    void start_from(const T* beta, const T* weights, Control& control) {
        for_batches(control, [&](Batch& batch, bool on_caller) {
            PanelSpace<T>::clear(batch.product);
            batch.sums[0].assign(batch.rows.padded_labels(), 0.0);
            batch.rows.start_from(beta, batch.product, batch.sums[0], control, on_caller);
        });
        collect_sums(0, centre_linear_);
        collect(label_centre_, centre_);
        if (wide_) shrink_centre();
        centre_dual_ = sum(centre_linear_) - 0.5 * space_.dots(centre_, centre_)[0];
        wide_ ? fit_to(weights, control) : space_.copy(centre_, U_);
        hand_out(U_);
        for_batches(control,
                    [&](Batch& batch, bool on_caller) { batch.rows.set_scores(batch.panel, control, on_caller); });
    }

    fit::Bounds assess(Control& control) {
        compute_gradient(control);
        const double primal = sum(hinge_) + 0.5 * space_.dots(U_, U_)[0];
        if (primal < best_primal_) {
            best_primal_ = primal;
            space_.copy(U_, best_);
        }
        measure_rise();
        theta_ = best_theta(std::vector<bool>(groups(), true));
        return {best_primal_, std::max(centre_dual_, centre_dual_ + rise_along(theta_))};
    }

    void advance(double, Control& control) {
        if (iteration_ > 0) accept_centre(control);
        const Values rho = prepare_curvature(control);
        ++iteration_;
        preconditioner_.set(rho);
        auto direction = space_.panel(), r = space_.panel();
        for (std::size_t e = 0; e < r.size(); ++e) r[e] = V_[e] - U_[e];
        conjugate_gradients(
            space_, {true}, r, direction, [&](const Panel& p, Panel& q) { add_curvature(p, q, control); },
            [&](const Panel& from, Panel& to) { preconditioner_.solve(from, to); }, all_have_matrices() ? fine : rough,
            control, true);
        hand_out(direction);
        for_batches(control, [&](Batch& batch, bool on_caller) {
            batch.change = batch.rows.scores_of(batch.panel, control, on_caller);
        });
        const double length = line_search(direction, control);

        for_batches(control, [&](Batch& batch, bool) {
            batch.rows.move_scores(Values(batch.rows.padded_labels(), length), batch.change);
            batch.change = Panel();
        });
        space_.add_scaled(direction, {length}, U_);
    }

    void finish() { move_centre(theta_); }

    // weights: labels x (cols + 1), the last column for the constant feature.
    void copy_weights(T* weights) const {
        for (Index j = 0; j < space_.rows(); ++j)
            for (Index l = 0; l < coupling_.labels; ++l)
                weights[l * space_.rows() + j] = P_.dot_row(l, best_.data() + j * space_.chunks());
    }
    void copy_beta(T* beta) const {
        for (const auto& batch : batches_) batch->rows.copy_beta(beta);
    }

  private:
    struct Batch {
        Batch(const X& x, const LabelCells<T>& labels, T bias, int first, int chunks, const Coupling<T>* narrow)
            : rows(x, labels, bias, first, chunks, narrow, true),
              panel(static_cast<std::size_t>((x.cols() + 1) * rows.panel_chunks())),
              product(panel.size()) {}
        NewtonRows<X> rows;
        Panel panel, product;  // what X is multiplied by, and what comes back
        Panel change;
        Values sums[3];
    };

    std::size_t groups() const { return wide_ ? labels_ : 1; }
    std::size_t first_of(const Batch& batch) const { return static_cast<std::size_t>(batch.rows.first_label()); }
    Values own(const Batch& batch, const Values& all) const {
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(first_of(batch));
        return Values(first, first + static_cast<std::ptrdiff_t>(batch.rows.padded_labels()));
    }
    double sum(const Values& values) const {
        return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(labels_), 0.0);
    }
    template <class Task>
    void for_batches(Control& control, Task&& task) {
        parallel_for(static_cast<int>(batches_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(*batches_[static_cast<std::size_t>(b)], on_caller); });
    }

    // Every batch's panel = its labels' columns of U P' (narrow: U).
    void hand_out(const Panel& U) {
        if (!wide_) return space_.copy(U, batches_[0]->panel);
        times_table(U, space_.rows(), space_.chunks(), coupling_.rank, Pt_, scratch_);
        split(scratch_);
    }
    void split(const Panel& by_label) {
        for (auto& batch : batches_)
            for (Index j = 0; j < space_.rows(); ++j)
                std::memcpy(static_cast<void*>(batch->panel.data() + j * batch->rows.chunks()),
                            by_label.data() + j * label_space_.chunks() + batch->rows.first_chunk(),
                            static_cast<std::size_t>(batch->rows.chunks()) * 32);
    }
    // by_label = the batches' products side by side, out = by_label P (narrow: out = the product).
    void collect(Panel& by_label, Panel& out) {
        if (!wide_) return space_.copy(batches_[0]->product, out);
        for (const auto& batch : batches_)
            for (Index j = 0; j < space_.rows(); ++j)
                std::memcpy(static_cast<void*>(by_label.data() + j * label_space_.chunks() + batch->rows.first_chunk()),
                            batch->product.data() + j * batch->rows.chunks(),
                            static_cast<std::size_t>(batch->rows.chunks()) * 32);
        times_table(by_label, space_.rows(), label_space_.chunks(), coupling_.labels, P_, out);
    }
    void collect_sums(int which, Values& all) const {
        for (const auto& batch : batches_)
            std::copy(batch->sums[which].begin(), batch->sums[which].end(),
                      all.begin() + static_cast<std::ptrdiff_t>(first_of(*batch)));
    }

    void compute_gradient(Control& control) {
        for_batches(control, [&](Batch& batch, bool on_caller) {
            batch.rows.gradient(own(batch, tau_), batch.product, batch.sums[0], batch.sums[1], control, on_caller);
        });
        collect_sums(0, linear_);
        collect_sums(1, hinge_);
        collect(label_V_, V_);
    }
    void add_curvature(const Panel& p, Panel& q, Control& control) {
        hand_out(p);
        for_batches(control, [&](Batch& batch, bool on_caller) {
            PanelSpace<T>::clear(batch.product);
            batch.rows.curvature(batch.panel, batch.product, control, on_caller);
        });
        auto product = space_.panel();
        collect(scratch_, product);
        space_.add_scaled(product, {1.0}, q);
    }

    // rise_ and Q_ of the dual along V - centre, per label (narrow: in all).
    void measure_rise() {
        if (!wide_) {
            const double vv = space_.dots(V_, V_)[0], vc = space_.dots(V_, centre_)[0],
                         cc = space_.dots(centre_, centre_)[0];
            rise_ = {sum(linear_) - sum(centre_linear_) - (vc - cc)};
            Q_ = {vv - 2 * vc + cc};
            return;
        }
        times_table(centre_, space_.rows(), space_.chunks(), coupling_.rank, Pt_, scratch_);  // V(beta_k) R
        const auto vz = label_space_.dots(label_V_, scratch_), cz = label_space_.dots(label_centre_, scratch_);
        rise_.resize(labels_);
        for (std::size_t l = 0; l < labels_; ++l) rise_[l] = linear_[l] - centre_linear_[l] - (vz[l] - cz[l]);
        for (std::size_t e = 0; e < scratch_.size(); ++e) scratch_[e] = label_V_[e] - label_centre_[e];
        set_quadratic(scratch_);
    }
    // Q_lm = R_lm dV_l.dV_m
    void set_quadratic(const Panel& dV) {
        Q_.assign(labels_ * labels_, 0.0);
        ChunkVector<T> products(label_space_.chunks());
        for (std::size_t l = 0; l < labels_; ++l)
            for (Index j = 0; j < space_.rows(); j += 64) {
                products.clear();
                multiply_column(dV.data(), static_cast<Index>(l), j, std::min(space_.rows(), j + 64),
                                products.chunks());
                for (std::size_t m = 0; m < labels_; ++m)
                    Q_[l * labels_ + m] += R_[l * labels_ + m] * static_cast<double>(products[static_cast<Index>(m)]);
            }
    }
    MULTIMARGIN_SIMD void multiply_column(const Chunk<T>* dV, Index l, Index first, Index last, Chunk<T>* sums) const {
        const int width = label_space_.chunks();
        for (Index j = first; j < last; ++j) {
            const T own = reinterpret_cast<const T*>(dV + j * width)[l];
            for (int k = 0; k < width; ++k) sums[k] += own * dV[j * width + k];
        }
    }
    // theta per padded label
    Values best_theta(const std::vector<bool>& allowed) const {
        const Values theta = BoxMaximum(rise_, Q_, allowed).theta();
        Values all(label_space_.groups(), wide_ ? 0.0 : theta[0]);
        if (wide_) std::copy(theta.begin(), theta.end(), all.begin());
        return all;
    }
    double rise_along(const Values& theta) const {
        double total = 0.0;
        for (std::size_t l = 0; l < groups(); ++l) {
            total += rise_[l] * theta[l];
            for (std::size_t m = 0; m < groups(); ++m) total -= 0.5 * theta[l] * Q_[l * groups() + m] * theta[m];
        }
        return total;
    }

    void accept_centre(Control& control) {
        std::vector<bool> ready(groups());
        for (std::size_t l = 0; l < groups(); ++l) ready[l] = theta_[l] > 0.5;
        if (std::find(ready.begin(), ready.end(), true) == ready.end()) return;
        const bool all_ready = std::find(ready.begin(), ready.end(), false) == ready.end();
        move_centre(best_theta(ready));
        for (std::size_t l = 0; l < tau_.size(); ++l) {
            const std::size_t g = wide_ ? l : 0;
            if (g < groups() && ready[g])
                tau_[l] = next_tau(tau_[l], all_ready && Q_[g * groups() + g] < 0.25 * rise_[g], margins_[l]);
        }
        compute_gradient(control);
    }
    // beta_k += theta (beta - beta_k) and what depends on it.
    void move_centre(const Values& theta) {
        centre_dual_ += rise_along(theta);
        Values stay(theta.size());
        for (std::size_t l = 0; l < theta.size(); ++l) {
            stay[l] = -theta[l];
            centre_linear_[l] += theta[l] * (linear_[l] - centre_linear_[l]);
        }
        for (auto& batch : batches_) batch->rows.move_centre(own(*batch, theta));
        if (wide_) {
            label_space_.add_scaled(label_centre_, stay, label_centre_);
            label_space_.add_scaled(label_V_, theta, label_centre_);
            times_table(label_centre_, space_.rows(), label_space_.chunks(), coupling_.labels, P_, centre_);
        } else {
            space_.add_scaled(centre_, {stay[0]}, centre_);
            space_.add_scaled(V_, {theta[0]}, centre_);
        }
    }
    // Scales beta_k, label by label, to the largest dual value.
    void shrink_centre() {
        rise_.assign(centre_linear_.begin(), centre_linear_.begin() + static_cast<std::ptrdiff_t>(labels_));
        set_quadratic(label_centre_);
        const Values theta = best_theta(std::vector<bool>(labels_, true));
        Values change(theta.size());
        for (std::size_t l = 0; l < theta.size(); ++l) {
            centre_linear_[l] *= theta[l];
            change[l] = theta[l] - 1.0;
        }
        for (auto& batch : batches_) batch->rows.scale_centre(own(*batch, theta));
        label_space_.add_scaled(label_centre_, change, label_centre_);
        times_table(label_centre_, space_.rows(), label_space_.chunks(), coupling_.labels, P_, centre_);
    }
    void fit_to(const T* weights, Control& control) {
        auto Z = label_space_.panel();
        for (Index j = 0; j < space_.rows(); ++j)
            for (Index l = 0; l < coupling_.labels; ++l)
                reinterpret_cast<T*>(Z.data() + j * label_space_.chunks())[l] = weights[l * space_.rows() + j];
        split(Z);
        for_batches(control,
                    [&](Batch& batch, bool on_caller) { batch.rows.set_scores(batch.panel, control, on_caller); });
        compute_gradient(control);
        Values rho = prepare_curvature(control);
        const double least = 1e-3 * *std::max_element(rho.begin(), rho.end());
        for (auto& r : rho) r = std::max(r, least);
        preconditioner_.set(rho);
        auto weighted = label_space_.panel(), target = space_.panel();
        label_space_.add_scaled(Z, rho, weighted);
        times_table(weighted, space_.rows(), label_space_.chunks(), coupling_.labels, P_, target);
        preconditioner_.fit(target, U_);
    }
    Values prepare_curvature(Control& control) {
        for_batches(control, [&](Batch& batch, bool on_caller) {
            batch.sums[2] = batch.rows.prepare_curvature(own(batch, tau_), iteration_, control, on_caller);
        });
        Values rho(label_space_.groups());
        collect_sums(2, rho);
        return rho;
    }
    bool all_have_matrices() const {
        return std::all_of(batches_.begin(), batches_.end(), [](const auto& b) { return b->rows.has_matrices(); });
    }
    double line_search(const Panel& direction, Control& control) {
        const double ud = space_.dots(U_, direction)[0], dd = space_.dots(direction, direction)[0],
                     dv = space_.dots(direction, V_)[0];
        return search_line({ud - dv}, [&](const Values& a) {
            for_batches(control, [&](Batch& batch, bool on_caller) {
                batch.rows.along_line(Values(batch.rows.padded_labels(), a[0]), own(batch, tau_), batch.change,
                                      batch.sums[0], batch.sums[1], batch.sums[2], control, on_caller);
            });
            double totals[3] = {};
            for (const auto& batch : batches_)
                for (int q = 0; q < 3; ++q)
                    totals[q] += std::accumulate(batch->sums[q].begin(), batch->sums[q].end(), 0.0);
            return LineValues{
                {ud + a[0] * dd - totals[0]}, {dd + totals[1]}, {totals[2] + a[0] * ud + 0.5 * a[0] * a[0] * dd}};
        })[0];
    }

    const Coupling<T>& coupling_;
    int threads_;
    bool wide_;
    std::size_t labels_;
    ChunkTable<T> P_, Pt_;
    PanelSpace<T> space_, label_space_;
    Preconditioner<T> preconditioner_;
    std::vector<std::unique_ptr<Batch>> batches_;
    std::vector<double> R_, Q_;
    Values rise_;
    Panel U_, best_, centre_, V_;
    Panel label_centre_, label_V_, scratch_;  // columns are labels; only where wide
    int iteration_ = 0;
    double best_primal_ = std::numeric_limits<double>::infinity(), centre_dual_ = 0.0;
    Values margins_, tau_, theta_, centre_linear_, linear_, hinge_;
};

}  // namespace multimargin::m3l
