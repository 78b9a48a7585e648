#pragma once
// The labels as a solver sees them: a sign and a cost for every cell (row i, label l), read a chunk at a time.
//
//   cost  c_il = row[i] * (positive[l] or negative[l], by the sign) * cells[i, l],   0 where the label is unknown
//
// Signs take a bit a cell, costs nothing unless the user weighs cells one by one.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/simd.hpp"

namespace multimargin::labels {

// Cells of a sparse 0/1 matrix, row by row.
struct CellList {
    std::span<const std::int64_t> offsets;  // rows + 1
    std::span<const std::int32_t> labels;

    std::span<const std::int32_t> row(Index i) const {
        return labels.subspan(static_cast<std::size_t>(offsets[i]),
                              static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
    }
};

template <class T>
struct CellCosts {
    std::span<const T> row;       // rows
    std::span<const T> positive;  // labels
    std::span<const T> negative;  // labels
    const T* cells;               // rows x labels, or null
};

template <class T>
class LabelCells {
  public:
    LabelCells(Index rows, Index labels, CellList positives, CellList missing, CellCosts<T> costs)
        : positives(positives),
          missing(missing),
          costs(costs),
          rows_(rows),
          labels_(labels),
          chunks_(chunks_for(labels, lanes<T>)),
          positive_(static_cast<std::size_t>(rows) * chunks_),
          known_(missing.labels.empty() ? 0 : static_cast<std::size_t>(rows) * chunks_),
          positive_cost_(static_cast<std::size_t>(chunks_)),
          negative_cost_(static_cast<std::size_t>(chunks_)) {
        set_bits(positives, positive_, true);
        if (known_.size()) {
            std::memset(known_.data(), 0xff, known_.size());
            set_bits(missing, known_, false);
        }
        for (Index l = 0; l < labels; ++l) {
            positive_cost_[l / lanes<T>][l % lanes<T>] = costs.positive[l];
            negative_cost_[l / lanes<T>][l % lanes<T>] = costs.negative[l];
        }
    }

    Index rows() const { return rows_; }
    Index labels() const { return labels_; }
    int chunks() const { return chunks_; }

    MULTIMARGIN_INLINE ChunkMask<T> is_positive(Index i, int k) const {
        return expand_flags<T>(positive_[static_cast<std::size_t>(i) * chunks_ + k]);
    }
    MULTIMARGIN_INLINE Chunk<T> cost(Index i, int k, ChunkMask<T> is_positive) const {
        Chunk<T> c = (is_positive ? positive_cost_[k] : negative_cost_[k]) * costs.row[i];
        if (costs.cells) c *= cell_weights(i, k);
        if (known_.size()) {
            const auto known = expand_flags<T>(known_[static_cast<std::size_t>(i) * chunks_ + k]);
            c = known ? c : Chunk<T>{};
        }
        return c;
    }

    // What a label costs in all rows together, about: on average over the labels, without regard to single cells.
    double mean_cost() const {
        double rows = 0.0, factors = 0.0;
        for (T c : costs.row) rows += static_cast<double>(c);
        for (Index l = 0; l < labels_; ++l)
            factors += static_cast<double>(std::max(costs.positive[l], costs.negative[l]));
        return rows * factors / static_cast<double>(labels_);
    }

    // Signed dual variables of a chunk, moved into their box: between 0 and y c.
    MULTIMARGIN_INLINE Chunk<T> in_box(Index i, int k, Chunk<T> beta) const {
        const auto positive = is_positive(i, k);
        const Chunk<T> c = cost(i, k, positive), zero{};
        return lane_min(positive ? c : zero, lane_max(positive ? zero : -c, beta));
    }
    MULTIMARGIN_INLINE void prefetch(Index i) const {
        __builtin_prefetch(positive_.data() + i * chunks_);
        __builtin_prefetch(costs.row.data() + i);
    }

    const CellList positives, missing;
    const CellCosts<T> costs;

  private:
    MULTIMARGIN_INLINE Chunk<T> cell_weights(Index i, int k) const {
        const Index first = static_cast<Index>(k) * lanes<T>;
        const Index width = first + lanes<T> <= labels_ ? lanes<T> : labels_ - first;
        Chunk<T> w{};
        std::memcpy(&w, costs.cells + i * labels_ + first, static_cast<std::size_t>(width) * sizeof(T));
        return w;
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
    Buffer<std::uint8_t> positive_, known_;
    Buffer<Chunk<T>> positive_cost_, negative_cost_;
};

}  // namespace multimargin::labels
