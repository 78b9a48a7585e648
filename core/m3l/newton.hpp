#pragma once
// Dual proximal point + semismooth Newton-CG for linear M3L (problem and notation: linear.hpp).
//
// Coordinate ascent needs many passes when features are few and correlated or C is large; this method needs few,
// each about as dear as a pass. With R = P P' (columns of P are scaled eigenvectors) and Z = U P', around a feasible
// signed dual point beta_k it minimises the smoothed primal
//
//   phi(U) = 1/2 |U|^2 + sum_il h_il(z_il),   -h_il'(z) = beta_il(z) = clip(beta_k + (target_il - z) c_il / tau_l, box)
//
// by Newton steps  (I + X' W_F X) d = V P - U  with V = X' beta(z), W_F = c / tau on the cells F strictly inside their
// box, solved by preconditioned conjugate gradients (newton_panels.hpp, newton_preconditioner.hpp), and a safeguarded
// line search on the convex phi. The centre moves, beta_k += theta (beta - beta_k), by the exact dual line search
// wherever theta > 1/2, and tau is halved down to 0.1 there: because the centre moves, tau need not go to zero and the
// systems stay well conditioned. Only when the proximal term, not curvature, holds the dual back does tau go on
// falling.
//
// Certificate at every iteration, for free: P at Z (the best Z so far is kept and returned), D at the point of the dual
// line search, which is never below D(beta_k).
//
// Here: R = I. Labels are independent and come in batches of two chunks, one task each; tau, theta and step lengths
// are the label's own. newton_coupled.hpp: other R.
//
// Cost of an iteration: 2 + 2 (number of CG steps) (share of rows with a free cell) products of X with a panel. When
// free cells abound, CG uses every 2nd, 4th or 8th of their rows with that weight: the direction is only a direction.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/m3l/linear.hpp"
#include "core/m3l/newton_rows.hpp"

namespace multimargin::m3l {

inline constexpr Accuracy rough{.steps = 20, .residual = 0.1}, fine{.steps = 100, .residual = 0.02};
inline constexpr double first_tau = 0.5, usual_tau = 0.1, least_tau = 1e-8;

// tau after the centre has moved; flat: the rise was held back by the proximal term, not by curvature. These are shares
// of the label's margin.
inline double next_tau(double tau, bool flat, double margin) {
    return flat ? std::max(least_tau * margin, 0.25 * tau) : std::max(std::min(tau, usual_tau * margin), 0.5 * tau);
}

// Newton iterations in the frame of fit/run.hpp. An Engine offers
//   Bounds assess(control)          P and D at the present point
//   void advance(tol, control)      one Newton iteration
//   void finish()                   moves the centre to the point whose dual value was reported
// In single precision, a gap that no longer falls is taken for the work of rounding: the status is imprecise.
template <class Engine>
class NewtonIterations {
  public:
    explicit NewtonIterations(Engine& engine) : engine_(engine) {}

    void pass(const fit::Moment& now, Control& control) {
        if (started_) engine_.advance(now.limits.tol, control);
        started_ = true;
    }
    static bool pays(const fit::Moment&) { return true; }
    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        const fit::Bounds found = engine_.assess(control);
        if (found.gap() < 0.95 * least_) {
            least_ = found.gap();
            least_pass_ = now.pass;
        }
        return found;
    }
    static bool converged(const fit::Moment& now) { return now.bounds.gap() <= now.tolerated(); }
    Status gives_up(const fit::Moment& now) const {
        constexpr bool single = std::is_same_v<typename Engine::T, float>;
        constexpr int most_idle = 30;
        return single && now.pass - least_pass_ > most_idle ? Status::imprecise : Status::converged;
    }

  private:
    Engine& engine_;
    bool started_ = false;
    double least_ = std::numeric_limits<double>::infinity();
    int least_pass_ = 0;
};

// Labels that do not interact, in lock-step.
template <RowMatrix X>
class NewtonBatch {
  public:
    using T = typename X::value_type;
    using Panel = Buffer<Chunk<T>>;

    NewtonBatch(const X& x, const LabelCells<T>& labels, T bias, int first, int chunks, const Eigenbasis<T>* basis)
        : rows_(x, labels, bias, first, chunks, nullptr, false),
          space_(x.cols() + 1, chunks, false),
          preconditioner_(space_, basis, nullptr),
          real_(space_.groups()),
          flat_(space_.groups()),
          U_(space_.panel()),
          best_(space_.panel()),
          centre_(space_.panel()),
          V_(space_.panel()),
          margins_(rows_.typical_margins()),
          tau_(margins_),
          best_primal_(space_.groups(), std::numeric_limits<double>::infinity()),
          centre_dual_(space_.groups()),
          centre_linear_(space_.groups()),
          theta_(space_.groups()),
          step_dual_(space_.groups()) {
        for (Index l = 0; l < rows_.own_labels(); ++l) real_[static_cast<std::size_t>(l)] = true;
        for (double& tau : tau_) tau *= first_tau;
    }

    // weights: null, U = V(beta), or labels x (cols + 1) to start U at.
    void start_from(const T* beta, const T* weights, Control& control, bool on_caller) {
        rows_.start_from(beta, centre_, centre_linear_, control, on_caller);
        space_.copy(centre_, U_);
        for (Index j = 0; j < space_.rows() && weights; ++j)
            for (Index l = 0; l < rows_.own_labels(); ++l)
                reinterpret_cast<T*>(U_.data() + j * space_.chunks())[l] =
                    weights[(rows_.first_label() + l) * space_.rows() + j];
        rows_.set_scores(U_, control, on_caller);
        const auto squares = space_.dots(centre_, centre_);
        for (std::size_t g = 0; g < space_.groups(); ++g) centre_dual_[g] = centre_linear_[g] - 0.5 * squares[g];
    }

    // P and D at the present point; remembers the best weights.
    void assess(Control& control, bool on_caller) {
        rows_.gradient(tau_, V_, linear_, hinge_, control, on_caller);
        const auto uu = space_.dots(U_, U_), vv = space_.dots(V_, V_), vc = space_.dots(V_, centre_),
                   cc = space_.dots(centre_, centre_);
        std::vector<bool> improved(space_.groups());
        for (std::size_t g = 0; g < space_.groups(); ++g) {
            const double primal = hinge_[g] + 0.5 * uu[g];
            improved[g] = primal < best_primal_[g];
            best_primal_[g] = std::min(best_primal_[g], primal);
            const double rise = (linear_[g] - centre_linear_[g]) - (vc[g] - cc[g]);
            const double curvature = vv[g] - 2 * vc[g] + cc[g];
            theta_[g] = rise <= 0 ? 0.0 : curvature > rise ? rise / curvature : 1.0;
            step_dual_[g] = centre_dual_[g] + theta_[g] * rise - 0.5 * theta_[g] * theta_[g] * curvature;
            flat_[g] = curvature < 0.25 * rise;
        }
        space_.keep_where(improved, U_, best_);
    }
    fit::Bounds value() const {
        fit::Bounds sum{0.0, 0.0};
        for (std::size_t g = 0; g < space_.groups(); ++g) {
            if (!real_[g]) continue;
            sum.primal += best_primal_[g];
            sum.dual += std::max(step_dual_[g], centre_dual_[g]);
        }
        return sum;
    }

    // One Newton iteration, after assess().
    void advance(Control& control, bool on_caller) {
        if (iteration_ > 0) accept_centre(control, on_caller);
        const Values rho = rows_.prepare_curvature(tau_, iteration_++, control, on_caller);
        preconditioner_.set(rho);
        auto direction = space_.panel(), r = space_.panel();
        for (std::size_t e = 0; e < r.size(); ++e) r[e] = V_[e] - U_[e];
        conjugate_gradients(
            space_, real_, r, direction, [&](const Panel& p, Panel& q) { rows_.curvature(p, q, control, on_caller); },
            [&](const Panel& from, Panel& to) { preconditioner_.solve(from, to); }, rough, control, on_caller);
        const Panel change = rows_.scores_of(direction, control, on_caller);
        const auto lengths = line_search(direction, change, control, on_caller);
        rows_.move_scores(lengths, change);
        space_.add_scaled(direction, lengths, U_);
    }
    void finish() { move_centre(theta_); }

    // weights: labels x (cols + 1), the last column for the constant feature.
    void copy_weights(T* weights) const {
        for (Index j = 0; j < space_.rows(); ++j) {
            const T* u = reinterpret_cast<const T*>(best_.data() + j * space_.chunks());
            for (Index l = 0; l < rows_.own_labels(); ++l)
                weights[(rows_.first_label() + l) * space_.rows() + j] = u[l];
        }
    }
    void copy_beta(T* beta) const { rows_.copy_beta(beta); }

  private:
    void accept_centre(Control& control, bool on_caller) {
        Values accepted(space_.groups());
        bool any_accepted = false;
        for (std::size_t g = 0; g < space_.groups(); ++g) {
            if (theta_[g] <= 0.5) continue;
            accepted[g] = theta_[g];
            any_accepted = true;
        }
        if (!any_accepted) return;
        move_centre(accepted);
        for (std::size_t g = 0; g < space_.groups(); ++g)
            if (accepted[g] > 0) tau_[g] = next_tau(tau_[g], flat_[g], margins_[g]);
        rows_.gradient(tau_, V_, linear_, hinge_, control, on_caller);
    }
    // beta_k += theta (beta - beta_k) and what depends on it.
    void move_centre(const Values& theta) {
        const auto vc = space_.dots(V_, centre_), cc = space_.dots(centre_, centre_), vv = space_.dots(V_, V_);
        Values stay(theta.size());
        for (std::size_t g = 0; g < space_.groups(); ++g) {
            const double t = theta[g], rise = (linear_[g] - centre_linear_[g]) - (vc[g] - cc[g]);
            centre_dual_[g] += t * rise - 0.5 * t * t * (vv[g] - 2 * vc[g] + cc[g]);
            centre_linear_[g] += t * (linear_[g] - centre_linear_[g]);
            stay[g] = -t;
        }
        rows_.move_centre(theta);
        space_.add_scaled(centre_, stay, centre_);
        space_.add_scaled(V_, theta, centre_);
    }
    Values line_search(const Panel& direction, const Panel& change, Control& control, bool on_caller) {
        const auto ud = space_.dots(U_, direction), dd = space_.dots(direction, direction),
                   dv = space_.dots(direction, V_);
        Values start(space_.groups());
        for (std::size_t g = 0; g < space_.groups(); ++g) start[g] = real_[g] ? ud[g] - dv[g] : 0.0;
        return search_line(start, [&](const Values& a) {
            LineValues at;
            rows_.along_line(a, tau_, change, at.slope, at.curvature, at.change, control, on_caller);
            for (std::size_t g = 0; g < space_.groups(); ++g) {
                at.slope[g] = ud[g] + a[g] * dd[g] - at.slope[g];
                at.curvature[g] += dd[g];
                at.change[g] += a[g] * ud[g] + 0.5 * a[g] * a[g] * dd[g];
            }
            return at;
        });
    }

    NewtonRows<X> rows_;
    PanelSpace<T> space_;
    Preconditioner<T> preconditioner_;
    std::vector<bool> real_, flat_;
    Panel U_, best_, centre_, V_;
    int iteration_ = 0;
    Values margins_, tau_, best_primal_, centre_dual_, centre_linear_, theta_, step_dual_, linear_, hinge_;
};

// All labels: batches in parallel, one Newton iteration of every batch a pass.
template <RowMatrix X>
class NewtonEngine {
  public:
    using T = typename X::value_type;

    NewtonEngine(const X& x, const LabelCells<T>& labels, T bias, const Eigenbasis<T>* basis, int threads)
        : threads_(threads) {
        for (int first = 0; first < labels.chunks(); first += 2)
            batches_.push_back(
                std::make_unique<NewtonBatch<X>>(x, labels, bias, first, std::min(2, labels.chunks() - first), basis));
    }

    void start_from(const T* beta, const T* weights, Control& control) {
        for_batches(control, [&](auto& batch, bool on_caller) { batch.start_from(beta, weights, control, on_caller); });
    }
    fit::Bounds assess(Control& control) {
        for_batches(control, [&](auto& batch, bool on_caller) { batch.assess(control, on_caller); });
        fit::Bounds total{0.0, 0.0};
        for (const auto& batch : batches_) {
            total.primal += batch->value().primal;
            total.dual += batch->value().dual;
        }
        return total;
    }
    void advance(double tol, Control& control) {
        constexpr double rest_share = 0.3;  // a batch well below the tolerance waits for the others
        for_batches(control, [&](auto& batch, bool on_caller) {
            const auto value = batch.value();
            if (value.gap() > rest_share * tol * value.primal) batch.advance(control, on_caller);
        });
    }
    void finish() {
        for (auto& batch : batches_) batch->finish();
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

}  // namespace multimargin::m3l
