#pragma once
// Certifier of linear M3L (problem and notation: linear.hpp).
//
// Computes, in double precision, from the data, the weights Z as they are returned and signed dual variables beta, and
// from nothing that a solver kept:
//
//   hinge  = sum_il c_il max(0, m_il - y_il z_l.x_i)         P = 1/2 tr(Z R^+ Z') + hinge
//   linear = sum_il m_il b_il,   V = sum_i x_i beta_i'       D = linear - 1/2 tr(V R V')
//
// beta is moved into its box first: D is a lower bound of the optimum whatever beta is. With R = I the quadratic forms
// are |Z|^2 and |V|^2, which are summed here; for another R the caller takes them from Z and V.
//
// Labels come in blocks of 8 to 32, a task each, with one look at every row per block; each label has sums of its
// own, so that the result depends neither on the blocks nor on the threads. Cost: one gather and one scatter of X for
// every label, rows and blocks without dual variables left out of the latter: about a pass of coordinate ascent.
// Memory: 16 bytes per feature and label of the blocks at work.

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/fit/result.hpp"
#include "core/labels/labels.hpp"
#include "core/numerics/panels.hpp"
#include "core/numerics/row_kernels.hpp"

namespace multimargin::m3l {

using namespace labels;
using namespace numerics;

struct LinearSums {
    double hinge = 0.0, linear = 0.0;
    double weights = 0.0, duals = 0.0;  // |Z|^2, |V|^2
};

// Works on one block of labels after the other; its memory serves them all.
template <RowMatrix X>
class LinearBlock {
  public:
    static constexpr int most_chunks = 8;
    static constexpr Index most_labels = most_chunks * lanes<double>;

    LinearBlock(const X& x, const MarginLabels& cells, double bias, Index width)
        : x_(x),
          cells_(cells),
          bias_(bias),
          Z_(static_cast<std::size_t>((x.cols() + 1) * chunks_for(width, lanes<double>))),
          V_(Z_.size()),
          betas_(static_cast<std::size_t>(batch * chunks_for(width, lanes<double>))) {}

    // weights: labels x (cols + 1), the last column the intercepts, which are the weights of the constant feature times
    // it.
    template <class W>
    void open_block(const W* weights, Index first, Index count) {
        first_ = first;
        count_ = count;
        chunks_ = chunks_for(count, lanes<double>);
        constexpr Index tile = 64;  // features for every label, so that each cache line is written once
        const Index columns = x_.cols() + 1;
        for (Index from = 0; from < columns; from += tile)
            for (Index l = 0; l < chunks_ * lanes<double>; ++l)
                for (Index j = from; j < std::min(columns, from + tile); ++j)
                    entry(Z_, j, l) = l < count ? static_cast<double>(weights[(first + l) * columns + j]) : 0.0;
        std::fill_n(V_.data(), columns * chunks_, Chunk<double>{});
        for (auto* sums : {negative_, negative_target_, hinge_, linear_, weights_, duals_})
            std::fill_n(sums, most_chunks, Chunk<double>{});
        for (Index l = 0; l < count; ++l) {
            reinterpret_cast<double*>(negative_)[l] = cells_.costs.negative[static_cast<std::size_t>(first + l)];
            reinterpret_cast<double*>(negative_target_)[l] =
                -cells_.margins.negative[static_cast<std::size_t>(first + l)];
        }
    }

    // beta(i, first, count, out): dual variables of row i. Those of a batch are read at once: they come from far, maybe
    // from what another thread has written last, and on their way do not wait for each other.
    template <class Beta>
    void add_rows(const Beta& beta, Control& control, bool on_caller) {
        for (Index first = 0; first < x_.rows(); first += batch) {
            if (control.leave_unfinished(on_caller)) return;
            const Index last = std::min(x_.rows(), first + batch);
            Chunk<double>* of_row = betas_.data();
            for (Index i = first; i < last; ++i, of_row += chunks_)
                beta(i, first_, count_, reinterpret_cast<double*>(of_row));
            of_row = betas_.data();
            for (Index i = first; i < last; ++i, of_row += chunks_) {
                open(i);
                visit(i, of_row);
            }
        }
        square_panels();
    }
    LinearSums of_label(Index l) const {
        const auto lane = [l](const Chunk<double>* sums) { return reinterpret_cast<const double*>(sums)[l]; };
        return {lane(hinge_), lane(linear_), lane(weights_), lane(duals_)};
    }

    // V: (cols + 1) x labels.
    void copy_duals(double* V) const {
        for (Index j = 0; j <= x_.cols(); ++j)
            for (Index l = 0; l < count_; ++l) V[j * cells_.labels + first_ + l] = entry(V_, j, l);
    }

  private:
    static constexpr Index batch = 32;  // rows between two looks at the outside world

    // Sign, target y m and cost of every cell of the block in row i.
    void open(Index i) {
        const auto& costs = cells_.costs;
        const auto& margins = cells_.margins;
        const double row = costs.row[static_cast<std::size_t>(i)];
        for (int k = 0; k < chunks_; ++k) {
            sign_[k] = Chunk<double>{} - 1.0;
            cost_[k] = row * negative_[k];
            target_[k] = negative_target_[k];
        }
        double *sign = reinterpret_cast<double*>(sign_), *cost = reinterpret_cast<double*>(cost_),
               *target = reinterpret_cast<double*>(target_);
        each(cells_.positives, i, [&](Index l) {
            sign[l] = 1.0;
            cost[l] = row * costs.positive[static_cast<std::size_t>(first_ + l)];
            target[l] = margins.positive[static_cast<std::size_t>(first_ + l)];
        });
        if (costs.cells)
            for (Index l = 0; l < count_; ++l) cost[l] *= costs.cells[i * cells_.labels + first_ + l];
        if (margins.cells)
            for (Index l = 0; l < count_; ++l) target[l] *= margins.cells[i * cells_.labels + first_ + l];
        each(cells_.missing, i, [&](Index l) { cost[l] = 0.0; });
    }
    MULTIMARGIN_SIMD void visit(Index i, const Chunk<double>* beta) {
        const auto row = x_.row(i);
        in_register_groups(chunks_, [&]<int M>(int) __attribute__((always_inline)) {
            if constexpr (M <= most_chunks) visit_chunks<M>(row, beta);
        });
    }
    template <int M, class Row>
    MULTIMARGIN_INLINE void visit_chunks(const Row& row, const Chunk<double>* beta) {
        const Chunk<double> zero{};
        Chunk<double> scores[M], steps[M], moved{};
        gather_chunks<M, true, double>(row, Z_.data(), M, x_.cols(), 1.0, nullptr, scores);
        for (int k = 0; k < M; ++k) {
            const Chunk<double> bound = sign_[k] * cost_[k];
            steps[k] = lane_min(lane_max(bound, zero), lane_max(lane_min(bound, zero), beta[k]));
            hinge_[k] += cost_[k] * lane_max(zero, sign_[k] * (target_[k] - scores[k]));
            linear_[k] += target_[k] * steps[k];
            moved = steps[k] != 0 ? steps[k] : moved;
        }
        if (any(moved != 0)) scatter_chunks<M, true, double>(row, V_.data(), M, x_.cols(), bias_, nullptr, steps);
    }
    MULTIMARGIN_SIMD void square_panels() {
        const double share = bias_ == 0 ? 1.0 : 1 / bias_;
        for (Index j = 0; j <= x_.cols(); ++j)
            for (int k = 0; k < chunks_; ++k) {
                const Chunk<double> z = Z_[j * chunks_ + k] * (j < x_.cols() ? 1.0 : share), v = V_[j * chunks_ + k];
                weights_[k] += z * z;
                duals_[k] += v * v;
            }
    }
    template <class Task>
    void each(const CellList& cells, Index i, Task&& task) const {
        if (cells.labels.empty()) return;
        for (auto l : cells.row(i))
            if (l >= first_ && l < first_ + count_) task(l - first_);
    }
    double& entry(Buffer<Chunk<double>>& panel, Index j, Index l) {
        return reinterpret_cast<double*>(panel.data() + j * chunks_)[l];
    }
    double entry(const Buffer<Chunk<double>>& panel, Index j, Index l) const {
        return reinterpret_cast<const double*>(panel.data() + j * chunks_)[l];
    }

    const X& x_;
    const MarginLabels& cells_;
    double bias_;
    Index first_ = 0, count_ = 0;
    int chunks_ = 0;
    Buffer<Chunk<double>> Z_, V_;
    Buffer<Chunk<double>> betas_;                                             // of a batch of rows
    Chunk<double> negative_[most_chunks]{}, negative_target_[most_chunks]{};  // costs and targets of absent labels
    Chunk<double> sign_[most_chunks]{}, target_[most_chunks]{}, cost_[most_chunks]{};  // of a row
    Chunk<double> hinge_[most_chunks]{}, linear_[most_chunks]{}, weights_[most_chunks]{}, duals_[most_chunks]{};
};

// The sums of every label. V: null, or (cols + 1) x labels to be filled.
template <RowMatrix X, class W, class Beta>
std::vector<LinearSums> label_sums(const X& x, const MarginLabels& cells, double bias, const W* weights,
                                   const Beta& beta, double* V, int threads, Control& control) {
    constexpr Index panel_bytes = Index{1} << 22;  // what is visited at random should stay near the processor
    const Index near = panel_bytes / ((x.cols() + 1) * Index{sizeof(Chunk<double>)});
    const int most = static_cast<int>(std::clamp<Index>(near, 2, LinearBlock<X>::most_chunks));
    const int chunks = chunks_for(cells.labels, lanes<double>), enough = (chunks + most - 1) / most;
    threads = threads_for_chunks<X>(chunks, threads_for_work(work_of_product(x, cells.labels), threads));
    const int blocks = std::min(chunks, (enough + threads - 1) / threads * threads);  // no thread waits for another
    const auto begin = [&](int b) { return (b * (chunks / blocks) + std::min(b, chunks % blocks)) * lanes<double>; };
    std::vector<LinearSums> of_label(static_cast<std::size_t>(cells.labels));
    std::atomic<int> next{0};
    parallel_for(std::min(threads, blocks), threads, control, [&](int, bool on_caller) {
        LinearBlock<X> block(x, cells, bias, begin(1));
        for (int b = next++; b < blocks; b = next++) {
            const Index first = begin(b), count = std::min<Index>(begin(b + 1), cells.labels) - first;
            block.open_block(weights, first, count);
            block.add_rows(beta, control, on_caller);
            for (Index l = 0; l < count; ++l) of_label[static_cast<std::size_t>(first + l)] = block.of_label(l);
            if (V) block.copy_duals(V);
        }
    });
    return of_label;
}

template <RowMatrix X, class W, class Beta>
LinearSums linear_sums(const X& x, const MarginLabels& cells, double bias, const W* weights, const Beta& beta,
                       double* V, int threads, Control& control) {
    LinearSums total;
    for (const auto& label : label_sums(x, cells, bias, weights, beta, V, threads, control)) {
        total.hinge += label.hinge;
        total.linear += label.linear;
        total.weights += label.weights;
        total.duals += label.duals;
    }
    return total;
}

// What a prior R makes of the weights and of V: tr(Z R^+ Z'), tr(V R V').
struct PriorForms {
    double weights, duals;
};

// Bounds of these weights and dual variables; forms(V): for a prior, else empty.
template <RowMatrix X, class W, class Beta>
fit::Bounds linear_bounds(const X& x, const MarginLabels& cells, double bias, const W* weights, const Beta& beta,
                          const std::function<PriorForms(const double* V)>& forms, int threads, Control& control) {
    std::vector<double> V(forms ? static_cast<std::size_t>((x.cols() + 1) * cells.labels) : 0);
    const LinearSums sums = linear_sums(x, cells, bias, weights, beta, forms ? V.data() : nullptr, threads, control);
    const PriorForms squares = forms ? forms(V.data()) : PriorForms{sums.weights, sums.duals};
    return {.primal = 0.5 * squares.weights + sums.hinge, .dual = sums.linear - 0.5 * squares.duals};
}

}  // namespace multimargin::m3l
