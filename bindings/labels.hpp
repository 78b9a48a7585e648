#pragma once
// The training labels as Python hands them over, checked once.
#include <optional>

#include "bindings/arrays.hpp"
#include "core/labels/labels.hpp"

namespace multimargin::bindings {

using labels::CellList;

// Cells (offsets, labels) of a 0/1 matrix, row by row; holds on to the arrays.
struct PythonCells {
    Vector<std::int64_t> offsets;
    Vector<std::int32_t> labels;
    Index n_labels;

    CellList list() const { return {view(offsets), view(labels)}; }
};

// Holds on to the arrays.
struct PythonLabels {
    PythonCells positives;
    std::optional<PythonCells> missing;
    Vector<std::uint8_t> left_out;
    Vector<double> row, positive, negative;
    std::optional<Matrix<double>> cells;

    labels::Labels view_of() const {
        return {static_cast<Index>(row.shape(0)),
                positives.n_labels,
                positives.list(),
                missing ? missing->list() : CellList{},
                view(left_out),
                {view(row), view(positive), view(negative), cells ? cells->data() : nullptr}};
    }
};

// The margins of the cells; holds on to the arrays.
struct PythonMargins {
    Vector<double> positive, negative;
    std::optional<Matrix<double>> cells;

    // The labels with these margins.
    labels::MarginLabels of(const labels::Labels& source) const {
        const auto n = static_cast<std::size_t>(source.labels);
        expect(positive.shape(0) == n && negative.shape(0) == n &&
                   (!cells || (static_cast<Index>(cells->shape(0)) == source.rows && cells->shape(1) == n)),
               "the margins do not fit the labels");
        return {source, {view(positive), view(negative), cells ? cells->data() : nullptr}};
    }
};

}  // namespace multimargin::bindings
