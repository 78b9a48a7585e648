#pragma once
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/memory.hpp"
#include "core/numerics/row_kernels.hpp"

namespace multimargin::numerics {

// Weights of all labels (or label subsets): a row of chunks for every feature, so that a visit reads the scores of all
// labels at once. The last feature is the constant `bias`.
template <RowMatrix X>
class LabelWeights {
  public:
    using Kernels = RowKernels<double, decltype(std::declval<const X&>().row(0))>;

    LabelWeights(const X& x, double bias, int labels)
        : x_(x),
          bias_(bias),
          labels_(labels),
          chunks_(chunks_for(labels, lanes<double>)),
          state_(static_cast<std::size_t>(x.cols() + 1) * chunks_),
          steps_(chunks_) {}

    int chunks() const { return chunks_; }
    // scores: chunks() chunks
    void scores(Index n, Chunk<double>* scores) const {
        Kernels::gather_all(x_.row(n), state_.data(), chunks_, x_.cols(), bias_, scores);
    }
    // Adds x_n step' for the chunks listed in `at`.
    void add(Index n, const int* at, int count, const Chunk<double>* steps) {
        Kernels::scatter(x_.row(n), state_.data(), chunks_, x_.cols(), bias_, at, count, steps);
    }
    // Adds factor x_n change', touching only the chunks of `change` that are not zero.
    void add_nonzero(Index n, const ChunkVector<double>& change, double factor) {
        at_.clear();
        for (int k = 0; k < chunks_; ++k) {
            if (!any(change.chunks()[k] != 0)) continue;
            steps_.chunks()[at_.size()] = factor * change.chunks()[k];
            at_.push_back(k);
        }
        if (!at_.empty()) add(n, at_.data(), static_cast<int>(at_.size()), steps_.chunks());
    }
    double squared_norm() const {
        double sum = 0.0;
        const double* v = values();
        for (std::size_t k = 0; k < size(); ++k) sum += v[k] * v[k];
        return sum;
    }
    // |weights of l|^2 for l < count
    std::vector<double> squared_norms(std::size_t count) const {
        std::vector<double> sums(static_cast<std::size_t>(chunks_) * lanes<double>, 0.0);
        const double* v = values();
        for (std::size_t k = 0; k < size(); k += sums.size())
            for (std::size_t l = 0; l < sums.size(); ++l) sums[l] += v[k + l] * v[k + l];
        sums.resize(count);
        return sums;
    }
    void clear() { std::memset(static_cast<void*>(state_.data()), 0, state_.size() * sizeof(Chunk<double>)); }
    std::size_t size() const { return state_.size() * lanes<double>; }
    double* values() { return reinterpret_cast<double*>(state_.data()); }
    const double* values() const { return reinterpret_cast<const double*>(state_.data()); }

    // labels x (cols + 1), the last column for the constant feature
    void copy(double* weights) const {
        const Index width = static_cast<Index>(chunks_) * lanes<double>;
        for (Index j = 0; j <= x_.cols(); ++j)
            for (int l = 0; l < labels_; ++l) weights[l * (x_.cols() + 1) + j] = values()[j * width + l];
    }

  private:
    const X& x_;
    double bias_;
    int labels_, chunks_;
    Buffer<Chunk<double>> state_;
    ChunkVector<double> steps_;
    std::vector<int> at_;
};

}  // namespace multimargin::numerics
