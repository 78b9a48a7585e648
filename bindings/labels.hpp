#pragma once
// What the M3L solvers take and return, translated.
#include <algorithm>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/base/control.hpp"
#include "core/labels/cells.hpp"

namespace multimargin::bindings {

using namespace labels;

// Cells as (offsets, labels), row by row; None: no cells.
inline CellList cell_list(const nb::object& pair, Index rows, Index n_labels) {
    if (pair.is_none()) return {};
    const auto offsets = exactly<Vector<std::int64_t>>(pair[0]);
    const auto labels = exactly<Vector<std::int32_t>>(pair[1]);
    const auto starts = view(offsets);
    expect(static_cast<Index>(starts.size()) == rows + 1 && starts.front() == 0 &&
               starts.back() <= static_cast<Index>(labels.shape(0)) && std::is_sorted(starts.begin(), starts.end()),
           "the cells do not fit the rows");
    for (auto l : view(labels)) expect(l >= 0 && l < n_labels, "label of a cell out of range");
    return {starts, view(labels)};
}

// (row, positive, negative, cells or None)
template <class T>
CellCosts<T> cell_costs(const nb::tuple& costs, Index rows, Index labels) {
    const auto row = exactly<Vector<T>>(costs[0]), positive = exactly<Vector<T>>(costs[1]),
               negative = exactly<Vector<T>>(costs[2]);
    expect(static_cast<Index>(row.shape(0)) == rows && static_cast<Index>(positive.shape(0)) == labels &&
               static_cast<Index>(negative.shape(0)) == labels,
           "the costs do not fit the rows and labels");
    const T* cells = costs[3].is_none() ? nullptr : matrix_of<T>(costs[3], rows, labels).data();
    return {view(row), view(positive), view(negative), cells};
}

// Everything about the labels, held by Python for the duration of the call.
template <class T>
LabelCells<T> label_cells(Index rows, Index labels, const nb::object& positives, const nb::object& missing,
                          const nb::tuple& costs) {
    return LabelCells<T>(rows, labels, cell_list(positives, rows, labels), cell_list(missing, rows, labels),
                         cell_costs<T>(costs, rows, labels));
}

}  // namespace multimargin::bindings
