#pragma once
// What rankings of labels share: rows with the labels they have and those they are known to lack, and the weights of
// all labels, which a visit to a row reads and writes.

#include <cstring>
#include <numeric>
#include <vector>

#include "core/base/memory.hpp"
#include "core/labels/bits.hpp"
#include "core/numerics/row_products.hpp"

namespace multimargin::separation {

using namespace numerics;

// Labels of each row, in rising order.
class LabelLists {
  public:
    std::span<const std::int32_t> operator[](Index i) const {
        const auto begin = offsets_[static_cast<std::size_t>(i)], end = offsets_[static_cast<std::size_t>(i) + 1];
        return std::span(labels_).subspan(begin, end - begin);
    }
    void add(Index label) { labels_.push_back(static_cast<std::int32_t>(label)); }
    void end_row() { offsets_.push_back(labels_.size()); }

  private:
    std::vector<std::size_t> offsets_{0};
    std::vector<std::int32_t> labels_;
};

// x_i has a last, constant feature `bias`.
template <RowMatrix X>
class RankedRows {
  public:
    RankedRows(const X& x, const labels::Labels& source, double bias)
        : x_(x),
          labels_(source.labels),
          cost_(source.costs.row),
          bias_(bias),
          state_(static_cast<std::size_t>(labels_ * (x.cols() + 1))),
          scores_(static_cast<std::size_t>(labels_)),
          all_(static_cast<std::size_t>(labels_)) {
        std::iota(all_.begin(), all_.end(), 0);
        const labels::LabelBits bits(source);
        for (Index i = 0; i < x.rows(); ++i) {
            for (std::size_t k = 0; k < bits.size(); ++k)
                if (labels::bit(bits.known(i), k))
                    (labels::bit(bits.truth(i), k) ? positive_ : negative_).add(static_cast<Index>(k));
            positive_.end_row();
            negative_.end_row();
            norms_.push_back(base::squared_norm(x.row(i)) + bias * bias);
        }
    }

    Index size() const { return x_.rows(); }
    Index labels() const { return labels_; }
    // Without labels that are left out.
    std::span<const std::int32_t> positive(Index i) const { return positive_[i]; }
    std::span<const std::int32_t> negative(Index i) const { return negative_[i]; }
    bool has_pairs(Index i) const { return !positive_[i].empty() && !negative_[i].empty(); }
    double cost(Index i) const { return cost_[static_cast<std::size_t>(i)]; }
    double norm(Index i) const { return norms_[static_cast<std::size_t>(i)]; }  // |x_i|^2
    // Multiply-adds of a visit, about.
    Index work(Index i) const { return 2 * labels_ * x_.row(i).size(); }

    // Scores of all labels, until the next call.
    std::span<const double> scores(Index i) {
        const auto row = x_.row(i);
        Kernels::all_scores(&row, 1, state_.data(), labels_, x_.cols(), bias_, scores_.data());
        return scores_;
    }
    // Adds multiples of x_i to the weights of listed labels, or of all.
    void add(Index i, std::span<const std::int32_t> listed, const double* amounts) {
        Kernels::add(x_.row(i), state_.data(), labels_, x_.cols(), bias_, listed.data(),
                     static_cast<int>(listed.size()), amounts);
    }
    void add(Index i, const double* amounts) { add(i, all_, amounts); }

    void clear() { std::memset(state_.data(), 0, state_.size() * sizeof(double)); }
    double squared_norm() const {
        double sum = 0.0;
        for (std::size_t j = 0; j < state_.size(); ++j) sum += state_[j] * state_[j];
        return sum;
    }
    // labels x (cols + 1); the order in which the state is kept depends on the kind of rows.
    void copy_weights(double* out) const {
        const Index cols = x_.cols();
        for (Index k = 0; k < labels_; ++k)
            for (Index j = 0; j <= cols; ++j)
                out[k * (cols + 1) + j] =
                    state_[static_cast<std::size_t>(Kernels::dense ? k * (cols + 1) + j : j * labels_ + k)];
    }

  private:
    using Kernels = SeparationKernels<decltype(std::declval<const X&>().row(0))>;

    const X& x_;
    Index labels_;
    LabelLists positive_, negative_;
    std::span<const double> cost_;
    double bias_;
    Buffer<double> state_;
    std::vector<double> scores_, norms_;
    std::vector<std::int32_t> all_;
};

}  // namespace multimargin::separation
