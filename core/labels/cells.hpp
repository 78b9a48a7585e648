#pragma once
// The labels as the M3L solvers see them: a sign, a cost and a target y m for every cell (row i, label l), read a chunk
// at a time, in the precision of the solver. Signs take a bit a cell, costs and margins m nothing unless the user gives
// them cell by cell.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/simd.hpp"
#include "core/labels/labels.hpp"

namespace multimargin::labels {

template <class T>
class LabelCells {
  public:
    // factors: null, or numbers that multiply the costs of the labels.
    explicit LabelCells(const MarginLabels& source, const T* factors = nullptr)
        : source(source),
          rows_(source.rows),
          labels_(source.labels),
          chunks_(chunks_for(source.labels, lanes<T>)),
          row_cost_(source.costs.row.begin(), source.costs.row.end()),
          positive_(static_cast<std::size_t>(rows_) * chunks_),
          known_(source.all_known() ? 0 : static_cast<std::size_t>(rows_) * chunks_),
          positive_cost_(static_cast<std::size_t>(chunks_)),
          negative_cost_(static_cast<std::size_t>(chunks_)),
          positive_target_(static_cast<std::size_t>(chunks_)),
          negative_target_(static_cast<std::size_t>(chunks_)),
          cell_weights_(rounded(source.costs.cells)),
          cell_margins_(rounded(source.margins.cells)),
          typical_margins_(typical_margins(source)) {
        set_bits(source.positives, positive_, true);
        if (known_.size()) {
            std::memset(known_.data(), 0xff, known_.size());
            set_bits(source.missing, known_, false);
        }
        double largest = 0.0;
        for (Index l = 0; l < labels_; ++l) {
            const T factor = factors ? factors[l] : T(1);
            T& positive = reinterpret_cast<T*>(positive_cost_.data())[l];
            T& negative = reinterpret_cast<T*>(negative_cost_.data())[l];
            positive = static_cast<T>(source.costs.positive[l]) * factor;
            negative = static_cast<T>(source.costs.negative[l]) * factor;
            largest += static_cast<double>(std::max(positive, negative));
            reinterpret_cast<T*>(positive_target_.data())[l] = static_cast<T>(source.margins.positive[l]);
            reinterpret_cast<T*>(negative_target_.data())[l] = -static_cast<T>(source.margins.negative[l]);
        }
        double rows = 0.0;
        for (T c : row_cost_) rows += static_cast<double>(c);
        mean_cost_ = rows * largest / static_cast<double>(labels_);
    }

    Index rows() const { return rows_; }
    Index labels() const { return labels_; }
    int chunks() const { return chunks_; }

    MULTIMARGIN_INLINE ChunkMask<T> is_positive(Index i, int k) const {
        return expand_flags<T>(positive_[static_cast<std::size_t>(i) * chunks_ + k]);
    }
    MULTIMARGIN_INLINE Chunk<T> cost(Index i, int k, ChunkMask<T> is_positive) const {
        Chunk<T> c = (is_positive ? positive_cost_[k] : negative_cost_[k]) * row_cost_[i];
        if (source.costs.cells) c *= read(source.costs.cells, cell_weights_, i, k);
        if (known_.size()) {
            const auto known = expand_flags<T>(known_[static_cast<std::size_t>(i) * chunks_ + k]);
            c = known ? c : Chunk<T>{};
        }
        return c;
    }

    // y m: the slope of the dual along a signed variable is target - score.
    MULTIMARGIN_INLINE Chunk<T> target(Index i, int k, ChunkMask<T> is_positive) const {
        Chunk<T> t = is_positive ? positive_target_[k] : negative_target_[k];
        if (source.margins.cells) t *= read(source.margins.cells, cell_margins_, i, k);
        return t;
    }

    // The scale of a label's scores: the mean of its margins over both classes and the cells above 0; 1 if all are 0.
    double typical_margin(Index l) const { return l < labels_ ? typical_margins_[static_cast<std::size_t>(l)] : 1.0; }
    double mean_margin() const {
        return std::accumulate(typical_margins_.begin(), typical_margins_.end(), 0.0) / static_cast<double>(labels_);
    }

    // What a label costs in all rows together, about: on average over the labels, without regard to single cells.
    double mean_cost() const { return mean_cost_; }

    // Signed dual variables of a chunk, moved into their box: between 0 and y c.
    MULTIMARGIN_INLINE Chunk<T> in_box(Index i, int k, Chunk<T> beta) const {
        const auto positive = is_positive(i, k);
        const Chunk<T> c = cost(i, k, positive), zero{};
        return lane_min(positive ? c : zero, lane_max(positive ? zero : -c, beta));
    }
    MULTIMARGIN_INLINE void prefetch(Index i) const {
        __builtin_prefetch(positive_.data() + i * chunks_);
        __builtin_prefetch(row_cost_.data() + i);
    }

    const MarginLabels source;

  private:
    // A chunk of numbers given cell by cell.
    MULTIMARGIN_INLINE Chunk<T> read(const double* cells, const Buffer<T>& rounded, Index i, int k) const {
        const Index first = static_cast<Index>(k) * lanes<T>;
        const Index width = first + lanes<T> <= labels_ ? lanes<T> : labels_ - first;
        const T* values;
        if constexpr (std::is_same_v<T, double>)
            values = cells;
        else
            values = rounded.data();
        Chunk<T> chunk{};
        std::memcpy(&chunk, values + i * labels_ + first, static_cast<std::size_t>(width) * sizeof(T));
        return chunk;
    }
    Buffer<T> rounded(const double* cells) const {
        if (!cells || std::is_same_v<T, double>) return {};
        Buffer<T> values(static_cast<std::size_t>(rows_ * labels_));
        std::copy_n(cells, values.size(), values.data());
        return values;
    }
    static std::vector<double> typical_margins(const MarginLabels& source) {
        const auto& margins = source.margins;
        std::vector<double> typical(static_cast<std::size_t>(source.labels), 1.0);
        if (margins.cells) {
            std::vector<double> above(typical.size(), 0.0);
            std::fill(typical.begin(), typical.end(), 0.0);
            for (Index i = 0; i < source.rows; ++i)
                for (std::size_t l = 0; l < typical.size(); ++l) {
                    const double m = margins.cells[static_cast<std::size_t>(i) * typical.size() + l];
                    typical[l] += std::max(m, 0.0);
                    above[l] += m > 0;
                }
            for (std::size_t l = 0; l < typical.size(); ++l) typical[l] /= std::max(above[l], 1.0);
        }
        for (std::size_t l = 0; l < typical.size(); ++l) {
            typical[l] *= 0.5 * (margins.positive[l] + margins.negative[l]);
            if (!(typical[l] > 0)) typical[l] = 1.0;
        }
        return typical;
    }
    void set_bits(const CellList& cells, Buffer<std::uint8_t>& flags, bool value) {
        if (cells.labels.empty()) return;
        for (Index i = 0; i < rows_; ++i)
            for (std::int32_t l : cells.row(i)) {
                auto& byte = flags[static_cast<std::size_t>(i) * chunks_ + l / lanes<T>];
                const auto bit = static_cast<std::uint8_t>(1u << (l % lanes<T>));
                byte = static_cast<std::uint8_t>(value ? byte | bit : byte & ~bit);
            }
    }

    Index rows_, labels_;
    int chunks_;
    std::vector<T> row_cost_;
    Buffer<std::uint8_t> positive_, known_;
    Buffer<Chunk<T>> positive_cost_, negative_cost_;
    Buffer<Chunk<T>> positive_target_, negative_target_;
    Buffer<T> cell_weights_, cell_margins_;  // in another precision than double
    std::vector<double> typical_margins_;
    double mean_cost_;
};

}  // namespace multimargin::labels
