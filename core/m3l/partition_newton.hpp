#pragma once
// One part of dense rows of a linear M3L problem with R = I that is trained in Newton rounds: the rows' side of the
// method of newton.hpp, where the D x D systems of the labels are formed, summed over the parts and solved by the
// driver, for a step of conjugate gradients would be a round of its own.
//
// The part owns its rows and their signed dual variables, the centre beta_k; notation as in newton_rows.hpp. An iteration
// asks three things of every part, all of them sums over its rows:
//
//   value(U, tau)       at the scores X U: V = X' beta(z), sum y m beta(z), sum c max(0, m - y z). The driver takes
//                       theta of the dual line search from the centre to beta(z), and settle(theta) moves the centre
//   system(U, tau)      at the centre as moved: V, and H_l = sum c x_i x_i' over the free cells of the labels asked for;
//                       the driver solves (I + H_l / tau_l) d_l = V_l - U_l
//   search(U, d, tau)   the change of the smoothed loss sum h at U + a d, for some lengths a
//
// Cost of an iteration: two gathers and two scatters of X, n_free D^2 / 2 for H, and one look at the cells per length.
// Memory besides X: beta, scores and, in a search, their change, 4 n L bytes each (single precision).
//
// Labels come in batches of two chunks, a task each; sums over rows are in the order of the rows, so that results do not
// depend on the threads.

#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/m3l/linear_certifier.hpp"
#include "core/m3l/newton_rows.hpp"
#include "core/m3l/partition.hpp"

namespace multimargin::m3l {

// By label; V: (cols + 1) x labels.
struct NewtonValue {
    std::vector<double> V, linear, hinge;
};

template <class T>
class NewtonPartition {
  public:
    using X = DenseRows<T>;

    NewtonPartition(const X& x, const MarginLabels& cells, double bias, int threads)
        : x_(x), source_(cells), bias_(bias), threads_(threads), cells_(cells) {
        constexpr int together = 2;
        for (int first = 0; first < cells_.chunks(); first += together)
            batches_.push_back(std::make_unique<Batch>(x_, cells_, static_cast<T>(bias), first,
                                                       std::min(together, cells_.chunks() - first)));
    }

    Index rows() const { return x_.rows(); }
    Index columns() const { return x_.cols() + 1; }
    Index labels() const { return source_.labels; }
    Index packed() const { return columns() * (columns() + 1) / 2; }

    // U: columns x labels; tau: by label, above 0. The step to beta(z) waits for settle().
    NewtonValue value(const double* U, const double* tau, Control& control) {
        NewtonValue found = gradient(U, tau, control);
        pending_ = true;
        return found;
    }
    // Moves the centre by theta (by label) of the way to beta(z) of the last value(); null: leaves it.
    void settle(const double* theta) {
        if (pending_ && theta)
            for (auto& batch : batches_) batch->rows.move_centre(batch->own(theta));
        pending_ = false;
    }
    // H of the labels marked, upper triangles row by row, one after the other; the rest as in value().
    NewtonValue system(const double* U, const double* tau, const bool* marked, T* H, Control& control) {
        pending_ = false;
        NewtonValue found = gradient(U, tau, control);
        std::vector<Index> place(static_cast<std::size_t>(labels()));
        for (Index l = 0, at = 0; l < labels(); ++l) place[static_cast<std::size_t>(l)] = marked[l] ? at++ : -1;
        for_batches(control, [&](Batch& batch, bool on_caller) {
            std::vector<double> sums(static_cast<std::size_t>(packed()));
            for (Index l = 0; l < batch.rows.own_labels(); ++l) {
                const Index at = place[static_cast<std::size_t>(batch.rows.first_label() + l)];
                if (at < 0) continue;
                std::fill(sums.begin(), sums.end(), 0.0);
                batch.rows.add_free_squares(l, sums.data(), control, on_caller);
                std::copy(sums.begin(), sums.end(), H + at * packed());
            }
        });
        return found;
    }
    // lengths: `count` numbers for all labels; out: count x labels.
    void search(const double* U, const double* direction, const double* tau, const double* lengths, Index count,
                double* out, Control& control) {
        pending_ = false;
        go_to(U, control);
        for_batches(control, [&](Batch& batch, bool on_caller) {
            batch.rows.set_tau(batch.padded(tau));
            const auto change = batch.rows.scores_of(batch.panel(direction, columns(), labels()), control, on_caller);
            const Values widths = batch.padded(tau);
            Values slope, curvature, loss;
            for (Index k = 0; k < count; ++k) {
                batch.rows.along_line(Values(widths.size(), lengths[k]), widths, change, slope, curvature, loss,
                                      control, on_caller);
                std::copy_n(loss.begin(), batch.rows.own_labels(), out + k * labels() + batch.rows.first_label());
            }
        });
    }

    PartSums sum(const double* weights, Control& control) const {
        PartSums found{std::vector<double>(static_cast<std::size_t>(columns() * labels())), {}, {}};
        const auto beta = [this](Index i, Index first, Index count, double* out) {
            for (const auto& batch : batches_) batch->rows.read_beta(i, first, count, out);
        };
        for (const auto& label : label_sums(x_, source_, bias_, weights, beta, found.V.data(), threads_, control)) {
            found.linear.push_back(label.linear);
            found.hinge.push_back(label.hinge);
        }
        return found;
    }
    void copy_beta(T* beta) const {
        for (const auto& batch : batches_) batch->rows.copy_beta(beta);
    }
    void load_beta(const T* beta, Control& control) {
        pending_ = false;
        for_batches(control, [&](Batch& batch, bool on_caller) {
            auto centre = batch.space.panel();
            Values linear(batch.rows.padded_labels());
            batch.rows.start_from(beta, centre, linear, control, on_caller);
        });
    }

  private:
    struct Batch {
        NewtonRows<X> rows;
        PanelSpace<T> space;

        Batch(const X& x, const LabelCells<T>& labels, T bias, int first, int chunks)
            : rows(x, labels, bias, first, chunks, nullptr, true), space(x.cols() + 1, chunks, false) {}

        Values own(const double* values) const {
            Values some(rows.padded_labels());
            std::copy_n(values + rows.first_label(), rows.own_labels(), some.begin());
            return some;
        }
        Values padded(const double* tau) const {
            Values some(rows.padded_labels(), 1.0);
            std::copy_n(tau + rows.first_label(), rows.own_labels(), some.begin());
            return some;
        }
        Buffer<Chunk<T>> panel(const double* from, Index columns, Index labels) const {
            auto to = space.panel();
            for (Index j = 0; j < columns; ++j) {
                T* row = reinterpret_cast<T*>(to.data() + j * space.chunks());
                for (Index l = 0; l < rows.own_labels(); ++l)
                    row[l] = static_cast<T>(from[j * labels + rows.first_label() + l]);
            }
            return to;
        }
    };

    // Sets the scores; they are there already where the last call was at the same point.
    void go_to(const double* U, Control& control) {
        const auto n = static_cast<std::size_t>(columns() * labels());
        if (point_.size() == n && std::equal(U, U + n, point_.begin())) return;
        point_.clear();
        for_batches(control, [&](Batch& batch, bool on_caller) {
            batch.rows.set_scores(batch.panel(U, columns(), labels()), control, on_caller);
        });
        point_.assign(U, U + n);
    }
    NewtonValue gradient(const double* U, const double* tau, Control& control) {
        const auto n = static_cast<std::size_t>(labels());
        NewtonValue found{std::vector<double>(static_cast<std::size_t>(columns()) * n), std::vector<double>(n),
                          std::vector<double>(n)};
        go_to(U, control);
        for_batches(control, [&](Batch& batch, bool on_caller) {
            const Index first = batch.rows.first_label(), own = batch.rows.own_labels();
            auto V = batch.space.panel();
            Values linear, hinge;
            batch.rows.gradient(batch.padded(tau), V, linear, hinge, control, on_caller);
            for (Index j = 0; j < columns(); ++j)
                std::copy_n(reinterpret_cast<const T*>(V.data() + j * batch.space.chunks()), own,
                            found.V.data() + j * labels() + first);
            std::copy_n(linear.begin(), own, found.linear.data() + first);
            std::copy_n(hinge.begin(), own, found.hinge.data() + first);
        });
        return found;
    }
    template <class Task>
    void for_batches(Control& control, Task&& task) {
        parallel_for(static_cast<int>(batches_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(*batches_[static_cast<std::size_t>(b)], on_caller); });
    }

    const X x_;
    MarginLabels source_;
    double bias_;
    int threads_;
    LabelCells<T> cells_;
    std::vector<std::unique_ptr<Batch>> batches_;
    std::vector<double> point_;  // U of the scores
    bool pending_ = false;
};

}  // namespace multimargin::m3l
