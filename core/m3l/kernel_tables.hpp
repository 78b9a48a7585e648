#pragma once
// Tables of the kernel solvers with a row per label: dual variables, scores, signed costs, targets.

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/labels/cells.hpp"
#include "core/numerics/gram.hpp"

namespace multimargin::m3l {

using namespace labels;
using namespace numerics;

// A row per label (or latent dimension), a column per data row, padded as Gram rows are.
template <class T>
class LabelMajorTable {
  public:
    LabelMajorTable() = default;
    LabelMajorTable(Index labels, Index rows)
        : labels_(labels), stride_(gram_stride(rows)), values_(static_cast<std::size_t>(labels * stride_)) {}
    Index labels() const { return labels_; }
    Index stride() const { return stride_; }
    int chunks() const { return static_cast<int>(stride_ / lanes<T>); }
    bool empty() const { return labels_ == 0; }
    MULTIMARGIN_INLINE T* row(Index l) { return values_.data() + l * stride_; }
    MULTIMARGIN_INLINE const T* row(Index l) const { return values_.data() + l * stride_; }
    MULTIMARGIN_INLINE Chunk<T>* chunk_row(Index l) { return reinterpret_cast<Chunk<T>*>(row(l)); }
    MULTIMARGIN_INLINE const Chunk<T>* chunk_row(Index l) const { return reinterpret_cast<const Chunk<T>*>(row(l)); }
    void assign(const LabelMajorTable& other) {
        std::memcpy(values_.data(), other.values_.data(), static_cast<std::size_t>(labels_ * stride_) * sizeof(T));
    }
    void clear() { std::memset(values_.data(), 0, static_cast<std::size_t>(labels_ * stride_) * sizeof(T)); }

  private:
    Index labels_ = 0, stride_ = 0;
    Buffer<T> values_;
};

// y_il c_il: sign and cost of a cell in one number. The signed dual variable of the cell lies between 0 and it.
template <class T>
LabelMajorTable<T> signed_costs(const LabelCells<T>& labels) {
    LabelMajorTable<T> table(labels.labels(), labels.rows());
    for (Index i = 0; i < labels.rows(); ++i)
        for (int k = 0; k < labels.chunks(); ++k) {
            const auto positive = labels.is_positive(i, k);
            const Chunk<T> cost = labels.cost(i, k, positive), value = positive ? cost : -cost;
            const Index first = static_cast<Index>(k) * lanes<T>;
            for (Index l = first; l < std::min<Index>(first + lanes<T>, labels.labels()); ++l)
                table.row(l)[i] = value[l - first];
        }
    return table;
}

// Targets y m of one label's cells: a number for either class, or one per cell.
template <class T>
struct LabelTargets {
    T positive, negative;
    const T* cells;         // null, or as many as there are rows, padded
    double typical_margin;  // the scale of the label's scores

    // cost: y c of the cell, or of a chunk of cells.
    MULTIMARGIN_INLINE T at(Index i, T cost) const { return cells ? cells[i] : cost > 0 ? positive : negative; }
    MULTIMARGIN_INLINE Chunk<T> chunk(int k, Chunk<T> cost) const {
        const Chunk<T> zero{};
        return cells ? reinterpret_cast<const Chunk<T>*>(cells)[k] : cost > 0 ? zero + positive : zero + negative;
    }
};

template <class T>
class TargetTable {
  public:
    explicit TargetTable(const LabelCells<T>& labels) {
        const CellMargins& margins = labels.source.margins;
        if (margins.cells) cells_ = LabelMajorTable<T>(labels.labels(), labels.rows());
        for (Index i = 0; i < labels.rows() && margins.cells; ++i)
            for (int k = 0; k < labels.chunks(); ++k) {
                const Chunk<T> target = labels.target(i, k, labels.is_positive(i, k));
                const Index first = static_cast<Index>(k) * lanes<T>;
                for (Index l = first; l < std::min<Index>(first + lanes<T>, labels.labels()); ++l)
                    cells_.row(l)[i] = target[l - first];
            }
        for (Index l = 0; l < labels.labels(); ++l)
            labels_.push_back({static_cast<T>(margins.positive[l]), -static_cast<T>(margins.negative[l]),
                               margins.cells ? cells_.row(l) : nullptr, labels.typical_margin(l)});
    }
    const LabelTargets<T>& of(Index l) const { return labels_[static_cast<std::size_t>(l)]; }

  private:
    LabelMajorTable<T> cells_;
    std::vector<LabelTargets<T>> labels_;
};

// beta of another run (rows x labels), moved into the box.
template <class T>
void read_beta(const T* start, const LabelMajorTable<T>& costs, Index rows, LabelMajorTable<T>& beta) {
    for (Index l = 0; l < costs.labels(); ++l)
        for (Index i = 0; i < rows; ++i) {
            const T cost = costs.row(l)[i];
            beta.row(l)[i] = std::clamp(start[i * costs.labels() + l], std::min(cost, T(0)), std::max(cost, T(0)));
        }
}
template <class T>
void write_beta(const LabelMajorTable<T>& beta, Index rows, T* out) {
    for (Index i = 0; i < rows; ++i)
        for (Index l = 0; l < beta.labels(); ++l) out[i * beta.labels() + l] = beta.row(l)[i];
}

}  // namespace multimargin::m3l
