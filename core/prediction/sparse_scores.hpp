#pragma once
// Scores of a linear model most of whose weights are 0, x . w_l + b_l for all labels l, in the precision T of the model.
//
// The weights lie feature by feature, each with the labels that have one there, and a row adds up the lists of its
// entries. Cost of a row: the weights stored for its entries, and a number per label. A sum begins with the intercept and
// takes the features in the order in which the row lists them, as with dense weights (weight_panels.hpp), to the same bits.

#include <algorithm>
#include <span>

#include "core/prediction/rows.hpp"
#include "core/prediction/source.hpp"

namespace multimargin::prediction {

template <std::floating_point T>
struct SparseLinearModel {
    std::span<const std::int64_t> offsets;  // features + 1
    std::span<const std::int32_t> label;    // of each weight
    std::span<const T> weight;
    std::span<const T> intercept;

    Index features() const { return static_cast<Index>(offsets.size()) - 1; }
    Index labels() const { return static_cast<Index>(intercept.size()); }
    Index weights_of(Index j) const { return offsets[j + 1] - offsets[j]; }
};

template <class T>
struct WeightLists {
    MULTIMARGIN_INLINE static void add(const SparseLinearModel<T>& model, Index feature, T value, T* out) {
        for (std::int64_t k = model.offsets[feature]; k < model.offsets[feature + 1]; ++k)
            out[model.label[k]] += value * model.weight[k];
    }
    template <class S>
    MULTIMARGIN_SIMD static void scores(const SparseLinearModel<T>& model, const CsrRows<S>& x, Index i, T* out) {
        const auto row = x.row(i);
        for (Index k = 0; k < row.size(); ++k) add(model, row.column(k), static_cast<T>(row.values[k]), out);
    }
    template <class S>
    MULTIMARGIN_SIMD static void scores(const SparseLinearModel<T>& model, const StridedRows<S>& x, Index i, T* out) {
        for (Index j = 0; j < x.cols(); ++j)
            if (const T value = static_cast<T>(x.at(i, j)); value != 0) add(model, j, value, out);
    }
};

template <std::floating_point T, class X>
class SparseLinearScores final : public ScoreSource<T> {
  public:
    SparseLinearScores(const SparseLinearModel<T>& model, const X& x)
        : model_(model), x_(x), work_per_row_(static_cast<double>(model.labels()) + weights_per_row()) {}
    Index rows() const override { return x_.rows(); }
    Index labels() const override { return model_.labels(); }
    double work_per_row() const override { return work_per_row_; }

    void scores(Index first, Index last, T* out, const Leave& leave) const override {
        for (Index i = first; i < last && !leave(); ++i, out += labels()) {
            std::copy(model_.intercept.begin(), model_.intercept.end(), out);
            WeightLists<T>::scores(model_, x_, i, out);
        }
    }

  private:
    double weights_per_row() const {
        if constexpr (requires { x_.row(0).columns; }) {
            Index total = 0;
            for (Index i = 0; i < x_.rows(); ++i)
                for (const std::int32_t j : x_.row(i).columns) total += model_.weights_of(j);
            return static_cast<double>(total) / static_cast<double>(x_.rows());
        } else {
            return static_cast<double>(model_.weight.size());
        }
    }

    SparseLinearModel<T> model_;
    const X& x_;
    double work_per_row_;
};

}  // namespace multimargin::prediction
