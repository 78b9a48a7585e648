#pragma once
// The training labels, in the one form in which they reach the core. Solvers make of it what suits them, once per fit:
// bits and costs a chunk at a time (cells.hpp), words of 64 labels (bits.hpp), a byte a cell.
//
//   cost    c_il = row[i] * (positive[l] or negative[l], by the sign) * cells[i, l],   0 where the label is unknown
//   margin  m_il = (positive[l] or negative[l], by the sign) * cells[i, l],            for losses that ask for one

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/base/matrix.hpp"

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

struct CellCosts {
    std::span<const double> row;       // rows
    std::span<const double> positive;  // labels
    std::span<const double> negative;  // labels
    const double* cells;               // rows x labels, or null
};

struct CellMargins {
    std::span<const double> positive;  // labels
    std::span<const double> negative;  // labels
    const double* cells;               // rows x labels, or null
};

// A view: Python, or whoever else trains, holds the arrays.
struct Labels {
    Index rows, labels;
    CellList positives, missing;             // missing.offsets is empty where every label is known
    std::span<const std::uint8_t> left_out;  // labels that take no part in training
    CellCosts costs;

    bool all_known() const { return missing.labels.empty(); }
    std::span<const std::int32_t> missing_in(Index i) const {
        return all_known() ? std::span<const std::int32_t>{} : missing.row(i);
    }
};

struct MarginLabels : Labels {
    CellMargins margins;
};

}  // namespace multimargin::labels
