#pragma once
// Scores of a kernel model, sum_s k(x, z_s) coef[s, l] + b_l over the support rows z_s, in the precision T of the model.
//
// For a block of rows, kernel values with a tile of support rows are computed and used up while they are in the cache.
// Inner products are those of weight_panels.hpp with the support rows as labels; between sparse rows they go by the
// columns of the support rows. Every value is a sum in an order of its own, so that bits depend on the row alone.

#include <cmath>
#include <optional>
#include <vector>

#include "core/numerics/gram.hpp"
#include "core/prediction/exponential.hpp"
#include "core/prediction/source.hpp"
#include "core/prediction/weight_panels.hpp"

namespace multimargin::prediction {

enum class KernelKind { linear, rbf, poly, sigmoid, laplacian, chi2, additive_chi2 };

template <std::floating_point T>
struct KernelModel {
    KernelKind kind;
    double gamma, degree, coef0;
    std::optional<DenseRows<T>> support;  // of n_support x features numbers, or
    std::optional<CsrRows<T>> columns;    // their columns: features x n_support, with ascending numbers
    StridedRows<T> coef;                  // labels x n_support
    const T* intercept;

    bool sums_over_features() const { return kind >= KernelKind::laplacian; }
};

template <class T>
struct KernelFinish {
    // values = exp(min(0, 2 gamma dot + row + of_support)), from inner products; `row` and `of_support` are -gamma
    // times the squared lengths
    MULTIMARGIN_SIMD static void rbf(T* values, Index count, T twice_gamma, T row, const T* of_support) {
        for_chunks(values, count, [&](Chunk<T> dots, Index k) __attribute__((always_inline)) {
            const Index some = std::min<Index>(lanes<T>, count - k);
            Chunk<T> lengths{};
            if (some == lanes<T>)
                std::memcpy(&lengths, of_support + k, sizeof lengths);
            else
                std::memcpy(&lengths, of_support + k, static_cast<std::size_t>(some) * sizeof(T));
            return exp_not_positive<T>(lane_min(twice_gamma * dots + (row + lengths), Chunk<T>{}));
        });
    }
    // values = exp(-gamma sums)
    MULTIMARGIN_SIMD static void decay(T* values, Index count, T gamma) {
        for_chunks(values, count, [&](Chunk<T> sums, Index) __attribute__((always_inline)) {
            return exp_not_positive<T>(-gamma * sums);
        });
    }
    MULTIMARGIN_SIMD static void power(T* values, Index count, T gamma, T coef0, int degree) {
        for_chunks(values, count, [&](Chunk<T> dots, Index) __attribute__((always_inline)) {
            Chunk<T> base = gamma * dots + coef0, product = Chunk<T>{} + T(1);
            for (int left = degree; left > 0; left >>= 1) {
                if (left & 1) product *= base;
                base *= base;
            }
            return product;
        });
    }

  private:
    template <class Function>
    MULTIMARGIN_INLINE static void for_chunks(T* values, Index count, Function&& function) {
        Index k = 0;
        for (; k + lanes<T> <= count; k += lanes<T>) {
            Chunk<T> chunk;
            std::memcpy(&chunk, values + k, sizeof chunk);
            chunk = function(chunk, k);
            std::memcpy(values + k, &chunk, sizeof chunk);
        }
        if (k == count) return;
        Chunk<T> chunk{};
        std::memcpy(&chunk, values + k, static_cast<std::size_t>(count - k) * sizeof(T));
        chunk = function(chunk, k);
        std::memcpy(values + k, &chunk, static_cast<std::size_t>(count - k) * sizeof(T));
    }
};

template <std::floating_point T, class X>
class KernelScores final : public ScoreSource<T> {
  public:
    KernelScores(const KernelModel<T>& model, const X& x, int threads, Control& control)
        : model_(model),
          x_(x),
          support_(model.coef.cols()),
          coef_(model.coef, nullptr, dense_panel_chunks, threads, control),
          lengths_(static_cast<std::size_t>(support_), T(0)) {
        if (model.columns)
            measure_columns();
        else if (!model.sums_over_features())
            prepare_support(threads, control);
    }
    Index rows() const override { return x_.rows(); }
    Index labels() const override { return model_.coef.rows(); }
    double work_per_row() const override {
        const double features = static_cast<double>(x_.cols()), support = static_cast<double>(support_);
        double products = features * support;
        if (model_.columns) {  // as if entries fell on columns at random
            const double x = static_cast<double>(entries_of(x_)) / static_cast<double>(x_.rows());
            products = x * static_cast<double>(entries_of(*model_.columns)) / std::max(features, 1.0);
        }
        return (model_.sums_over_features() ? 4.0 : 1.0) * products + support * static_cast<double>(labels() + 8);
    }

    void scores(Index first, Index last, T* out, const Leave& leave) const override {
        const Index width = coef_.chunks();
        // As many rows as leave the kernel values in the cache, four at least.
        const Index tile = model_.columns ? support_ : std::min(support_, tile_rows);
        const Index fitting = (Index{1} << 18) / std::max<Index>(tile * Index{sizeof(T)}, 1) / numerics::quad;
        const Index most_rows = std::clamp<Index>(fitting * numerics::quad, numerics::quad, 64);
        Buffer<Chunk<T>> sums(static_cast<std::size_t>(most_rows * width));
        Workspace work(*this, most_rows, tile);
        std::vector<T> start(static_cast<std::size_t>(width * lanes<T>), T(0));
        std::copy_n(model_.intercept, labels(), start.data());
        for (Index block = first; block < last; block += most_rows, out += most_rows * labels()) {
            const Index count = std::min(most_rows, last - block);
            const int padded = static_cast<int>((count + numerics::quad - 1) / numerics::quad * numerics::quad);
            for (int r = 0; r < padded; ++r)
                std::memcpy(static_cast<void*>(sums.data() + r * width), start.data(), start.size() * sizeof(T));
            work.read(*this, block, count, padded);
            int panel = 0;
            for (Index from = 0; from < support_;) {
                if (leave()) return;
                const Index to = values(work, block, count, padded, from, panel);
                const T* rows[64];
                for (int r = 0; r < padded; ++r) rows[r] = work.value_row(std::min<Index>(r, count - 1));
                coef_.add_products(rows, padded, from, to, 0, coef_.panels(), width, sums.data());
                from = to;
            }
            for (Index r = 0; r < count; ++r)
                std::memcpy(out + r * labels(), sums.data() + r * width,
                            static_cast<std::size_t>(labels()) * sizeof(T));
        }
    }

  private:
    static constexpr Index tile_rows = 384;  // whole panels, in single and in double

    struct Workspace {
        Workspace(const KernelScores& of, Index rows, Index tile)
            : value_stride(chunks_for(tile, lanes<T>) + dense_panel_chunks),
              values(static_cast<std::size_t>(rows * value_stride)),
              lengths(static_cast<std::size_t>(rows)) {
            if (!of.model_.columns) written.resize(static_cast<std::size_t>(rows * of.x_.cols()));
        }
        void read(const KernelScores& of, Index block, Index count, int padded) {
            const Index cols = of.x_.cols();
            if (of.model_.columns) return;
            write_rows(of.x_, block, count, written.data());
            for (Index r = 0; r < count; ++r) {
                T* row = written.data() + r * cols;
                for (std::size_t j = 0; j < of.centre_.size(); ++j) row[j] -= of.centre_[j];
                if (of.model_.kind == KernelKind::rbf) lengths[static_cast<std::size_t>(r)] = of.length({row, cols});
            }
            for (int r = 0; r < padded; ++r) x[r] = written.data() + std::min<Index>(r, count - 1) * cols;
        }
        T* value_row(Index r) { return reinterpret_cast<T*>(values.data() + r * value_stride); }

        Index value_stride;
        Buffer<Chunk<T>> values;
        std::vector<T> written, lengths;
        const T* x[64];
    };
    struct Row {
        const T* values;
        Index size;
    };
    T length(Row row) const {
        double sum = 0.0;
        for (Index j = 0; j < row.size; ++j) sum += double{row.values[j]} * double{row.values[j]};
        return static_cast<T>(-model_.gamma * sum);
    }

    // Rows are centred, which keeps the digits of their distances.
    void prepare_support(int threads, Control& control) {
        const auto& z = *model_.support;
        const Index cols = z.cols();
        const T* rows = z.data();
        if (model_.kind == KernelKind::rbf && support_ > 0) {
            std::vector<double> mean(static_cast<std::size_t>(cols), 0.0);
            for (Index s = 0; s < support_; ++s)
                for (Index j = 0; j < cols; ++j) mean[static_cast<std::size_t>(j)] += double{rows[s * cols + j]};
            for (double sum : mean) centre_.push_back(static_cast<T>(sum / static_cast<double>(support_)));
            std::vector<T> row(static_cast<std::size_t>(cols));
            for (Index s = 0; s < support_; ++s) {
                for (Index j = 0; j < cols; ++j)
                    row[static_cast<std::size_t>(j)] = rows[s * cols + j] - centre_[static_cast<std::size_t>(j)];
                lengths_[static_cast<std::size_t>(s)] = length({row.data(), cols});
            }
        }
        support_panels_.emplace_back(StridedRows<T>(rows, support_, cols, cols, 1), nullptr, dense_panel_chunks,
                                     threads, control, centre_.empty() ? nullptr : centre_.data());
    }
    void measure_columns() {
        if (model_.kind != KernelKind::rbf) return;
        std::vector<double> squares(static_cast<std::size_t>(support_), 0.0);
        for (Index j = 0; j < model_.columns->rows(); ++j) {
            const auto column = model_.columns->row(j);
            for (Index e = 0; e < column.size(); ++e) {
                const double value = column.values[static_cast<std::size_t>(e)];
                squares[static_cast<std::size_t>(column.column(e))] += value * value;
            }
        }
        for (std::size_t s = 0; s < squares.size(); ++s) lengths_[s] = static_cast<T>(-model_.gamma * squares[s]);
    }

    // Kernel values of the block with support rows from `from` on; returns where they end.
    Index values(Workspace& work, Index block, Index count, int padded, Index from, int& panel) const {
        Index to = support_;
        if (model_.columns) {
            for (Index r = 0; r < count; ++r) by_columns(block + r, work, r);
        } else if (model_.sums_over_features()) {
            to = std::min(support_, from + tile_rows);
            for (Index r = 0; r < count; ++r) feature_sums(work.x[r], from, to, work.value_row(r));
        } else {
            to = by_panels(work, padded, panel);
        }
        for (Index r = 0; r < count; ++r)
            finish(work.value_row(r), from, to, work.lengths[static_cast<std::size_t>(r)]);
        return to;
    }
    void by_columns(Index i, Workspace& work, Index r) const {
        T* out = work.value_row(r);
        std::fill_n(out, support_, T(0));
        double square = 0.0;
        const auto add = [&](Index j, T value) {
            square += double{value} * double{value};
            const auto column = model_.columns->row(j);
            for (Index e = 0; e < column.size(); ++e)
                out[column.column(e)] += value * column.values[static_cast<std::size_t>(e)];
        };
        if constexpr (requires { x_.row(i).columns; }) {
            const auto row = x_.row(i);
            for (Index k = 0; k < row.size(); ++k)
                add(row.column(k), static_cast<T>(row.values[static_cast<std::size_t>(k)]));
        } else {
            for (Index j = 0; j < x_.cols(); ++j)
                if (const T value = static_cast<T>(x_.at(i, j)); value != 0) add(j, value);
        }
        work.lengths[static_cast<std::size_t>(r)] = static_cast<T>(-model_.gamma * square);
    }
    Index by_panels(Workspace& work, int padded, int& panel) const {
        constexpr Index slab = 256;
        const auto& z = support_panels_.front();
        const int begin = panel;
        while (panel < z.panels() && (z.end_chunk(panel + 1) - z.first_chunk(begin)) * lanes<T> <= tile_rows) ++panel;
        const int end = panel;
        for (int r = 0; r < padded; ++r)
            std::memset(static_cast<void*>(work.value_row(r)), 0, static_cast<std::size_t>(work.value_stride) * 32);
        const T* x[64];
        std::copy_n(work.x, padded, x);
        for (Index first = 0; first < x_.cols(); first += slab) {
            const Index last = std::min(first + slab, x_.cols());
            z.add_products(x, padded, first, last, begin, end, work.value_stride, work.values.data());
            for (int r = 0; r < padded; ++r) x[r] += last - first;
        }
        return std::min<Index>(support_, Index{z.end_chunk(end)} * lanes<T>);
    }
    void feature_sums(const T* row, Index from, Index to, T* out) const {
        const Index cols = x_.cols();
        const T* z = model_.support->data() + from * cols;
        if (model_.kind == KernelKind::laplacian)
            numerics::feature_sums<numerics::FeatureSum::manhattan>(row, 1, z, to - from, cols, out);
        else if (model_.kind == KernelKind::chi2)
            numerics::feature_sums<numerics::FeatureSum::chi2>(row, 1, z, to - from, cols, out);
        else
            numerics::feature_sums<numerics::FeatureSum::additive_chi2>(row, 1, z, to - from, cols, out);
    }
    void finish(T* values, Index from, Index to, T row_length) const {
        const Index count = to - from;
        const T gamma = static_cast<T>(model_.gamma), coef0 = static_cast<T>(model_.coef0);
        switch (model_.kind) {
            case KernelKind::rbf:
                return KernelFinish<T>::rbf(values, count, 2 * gamma, row_length, lengths_.data() + from);
            case KernelKind::laplacian:
            case KernelKind::chi2:
                return KernelFinish<T>::decay(values, count, gamma);
            case KernelKind::poly:
                if (model_.degree == std::floor(model_.degree) && model_.degree <= 64)
                    return KernelFinish<T>::power(values, count, gamma, coef0, static_cast<int>(model_.degree));
                for (Index k = 0; k < count; ++k)
                    values[k] = std::pow(gamma * values[k] + coef0, static_cast<T>(model_.degree));
                return;
            case KernelKind::sigmoid:
                for (Index k = 0; k < count; ++k) values[k] = std::tanh(gamma * values[k] + coef0);
                return;
            case KernelKind::linear:
            case KernelKind::additive_chi2:
                return;
        }
    }

    KernelModel<T> model_;
    const X& x_;
    Index support_;
    WeightPanels<T> coef_;
    std::vector<T> lengths_, centre_;
    std::vector<WeightPanels<T>> support_panels_;
};

}  // namespace multimargin::prediction
