#pragma once
// What the M3L solvers take and return, translated.
#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/control.hpp"
#include "core/labels.hpp"

namespace multimargin {

inline CellList cell_list(const nb::object& pair, Index rows) {
    if (pair.is_none()) return {};
    const auto offsets = nb::cast<Vector<std::int64_t>>(pair[0]);
    const auto labels = nb::cast<Vector<std::int32_t>>(pair[1]);
    if (static_cast<Index>(offsets.shape(0)) != rows + 1)
        throw std::invalid_argument("cell list does not fit the rows");
    return {view(offsets), view(labels)};
}

// Everything about the labels, held by Python for the duration of the call.
template <class T>
LabelCells<T> label_cells(Index rows, Index labels, const nb::object& positives, const nb::object& missing,
                          const nb::tuple& costs) {
    const auto row = nb::cast<Vector<T>>(costs[0]), positive = nb::cast<Vector<T>>(costs[1]),
               negative = nb::cast<Vector<T>>(costs[2]);
    const T* cells = costs[3].is_none() ? nullptr : nb::cast<Matrix<T>>(costs[3]).data();
    return LabelCells<T>(rows, labels, cell_list(positives, rows), cell_list(missing, rows),
                         CellCosts<T>{view(row), view(positive), view(negative), cells});
}

}  // namespace multimargin
