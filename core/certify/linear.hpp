#pragma once
// Certifier of linear M3L (problem and notation: core/solvers/m3l_linear.hpp).
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
// Labels come in blocks of at most 16, a task each, with one look at every row per block; each label has sums of its
// own, so that the result depends neither on the blocks nor on the threads. Cost: one gather and one scatter of X for
// every label, rows and blocks without dual variables left out of the latter: about a pass of coordinate ascent.
// Memory: 16 bytes per feature and label of the blocks at work.

#include <algorithm>
#include <vector>

#include "core/labels.hpp"
#include "core/parallel.hpp"
#include "core/solvers/row_kernels.hpp"

namespace multimargin::certify {

// Truth and costs of all cells, in double; targets: y m (rows x labels), or null where every m is 1.
struct Cells {
    Index rows, labels;
    CellList positives, missing;
    CellCosts<double> costs;
    const double* targets;
};

struct LinearSums {
    double hinge = 0.0, linear = 0.0;
    double weights = 0.0, duals = 0.0;  // |Z|^2, |V|^2
};

// One block of labels.
template <RowMatrix X>
class LinearBlock {
  public:
    static constexpr int most_chunks = 4;
    static constexpr Index most_labels = most_chunks * lanes<double>;

    // weights: labels x (cols + 1), the last column the intercepts, which are the weights of the constant feature times
    // it.
    template <class W>
    LinearBlock(const X& x, const Cells& cells, double bias, const W* weights, Index first, Index count)
        : x_(x),
          cells_(cells),
          bias_(bias),
          first_(first),
          count_(count),
          chunks_(chunks_for(count, lanes<double>)),
          Z_(static_cast<std::size_t>((x.cols() + 1) * chunks_)),
          V_(Z_.size()),
          sums_(static_cast<std::size_t>(count)) {
        const Index columns = x.cols() + 1;
        for (Index l = 0; l < count; ++l)
            for (Index j = 0; j < columns; ++j)
                entry(Z_, j, l) = static_cast<double>(weights[(first + l) * columns + j]);
    }

    // beta(i, first, count, out): dual variables of row i.
    template <class Beta>
    void add_rows(const Beta& beta, Control& control, bool on_caller) {
        constexpr Index batch = 64;
        for (Index i = 0; i < x_.rows(); ++i) {
            if (i % batch == 0 && control.leave_unfinished(on_caller)) return;
            open(i);
            beta(i, first_, count_, beta_);
            visit(i);
        }
        for (Index j = 0; j <= x_.cols(); ++j)
            for (Index l = 0; l < count_; ++l) {
                const double z = j < x_.cols() || bias_ == 0 ? entry(Z_, j, l) : entry(Z_, j, l) / bias_;
                const double v = entry(V_, j, l);
                sums_[static_cast<std::size_t>(l)].weights += z * z;
                sums_[static_cast<std::size_t>(l)].duals += v * v;
            }
    }
    const LinearSums& of_label(Index l) const { return sums_[static_cast<std::size_t>(l)]; }

    // V: (cols + 1) x labels.
    void copy_duals(double* V) const {
        for (Index j = 0; j <= x_.cols(); ++j)
            for (Index l = 0; l < count_; ++l) V[j * cells_.labels + first_ + l] = entry(V_, j, l);
    }

  private:
    // Target y m and cost of every cell of the block in row i.
    void open(Index i) {
        const auto& costs = cells_.costs;
        const double row = costs.row[static_cast<std::size_t>(i)];
        for (Index l = 0; l < count_; ++l) {
            target_[l] = -1.0;
            cost_[l] = row * costs.negative[static_cast<std::size_t>(first_ + l)];
        }
        each(cells_.positives, i, [&](Index l) {
            target_[l] = 1.0;
            cost_[l] = row * costs.positive[static_cast<std::size_t>(first_ + l)];
        });
        for (Index l = 0; l < count_; ++l) sign_[l] = target_[l];
        if (costs.cells)
            for (Index l = 0; l < count_; ++l) cost_[l] *= costs.cells[i * cells_.labels + first_ + l];
        each(cells_.missing, i, [&](Index l) { cost_[l] = 0.0; });
        if (cells_.targets) std::copy_n(cells_.targets + i * cells_.labels + first_, count_, target_);
    }
    void visit(Index i) {
        Chunk<double> scores[most_chunks], steps[most_chunks]{};
        using Kernels = RowKernels<double, decltype(x_.row(i))>;
        Kernels::gather_all(x_.row(i), Z_.data(), chunks_, x_.cols(), 1.0, scores);
        bool moved = false;
        for (Index l = 0; l < count_; ++l) {
            auto& sums = sums_[static_cast<std::size_t>(l)];
            const double signed_cost = sign_[l] * cost_[l];
            const double beta = std::clamp(beta_[l], std::min(signed_cost, 0.0), std::max(signed_cost, 0.0));
            sums.hinge += cost_[l] * std::max(0.0, sign_[l] * (target_[l] - reinterpret_cast<double*>(scores)[l]));
            sums.linear += target_[l] * beta;
            reinterpret_cast<double*>(steps)[l] = beta;
            moved |= beta != 0;
        }
        if (moved) Kernels::scatter_all(x_.row(i), V_.data(), chunks_, x_.cols(), bias_, steps);
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
    const Cells& cells_;
    double bias_;
    Index first_, count_;
    int chunks_;
    Buffer<Chunk<double>> Z_, V_;
    std::vector<LinearSums> sums_;
    double target_[most_labels], sign_[most_labels], cost_[most_labels], beta_[most_labels];
};

// V: null, or (cols + 1) x labels to be filled.
template <RowMatrix X, class W, class Beta>
LinearSums linear_sums(const X& x, const Cells& cells, double bias, const W* weights, const Beta& beta, double* V,
                       int threads, Control& control) {
    const Index share = (cells.labels + threads - 1) / threads;  // no thread idle
    const Index whole = (share + lanes<double> - 1) / lanes<double> * lanes<double>;
    const Index width = std::min<Index>(LinearBlock<X>::most_labels, whole);
    const int blocks = static_cast<int>((cells.labels + width - 1) / width);
    std::vector<LinearSums> of_label(static_cast<std::size_t>(cells.labels));
    parallel_for(blocks, threads, control, [&](int b, bool on_caller) {
        const Index first = b * width, count = std::min(width, cells.labels - first);
        LinearBlock<X> block(x, cells, bias, weights, first, count);
        block.add_rows(beta, control, on_caller);
        for (Index l = 0; l < count; ++l) of_label[static_cast<std::size_t>(first + l)] = block.of_label(l);
        if (V) block.copy_duals(V);
    });
    LinearSums total;
    for (const auto& label : of_label) {
        total.hinge += label.hinge;
        total.linear += label.linear;
        total.weights += label.weights;
        total.duals += label.duals;
    }
    return total;
}

}  // namespace multimargin::certify
