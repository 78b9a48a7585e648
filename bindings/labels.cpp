#include "bindings/labels.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;

namespace {

PythonCells checked_cells(Vector<std::int64_t> offsets, Vector<std::int32_t> labels, Index n_labels) {
    const auto starts = view(offsets);
    expect(!starts.empty() && starts.front() == 0 && starts.back() <= static_cast<Index>(labels.shape(0)) &&
               std::ranges::is_sorted(starts),
           "the offsets of the cells must rise from 0 to their number");
    for (auto l : view(labels)) expect(l >= 0 && l < n_labels, "label of a cell out of range");
    return {std::move(offsets), std::move(labels), n_labels};
}

PythonLabels checked_labels(const PythonCells& positives, std::optional<PythonCells> missing,
                            Vector<std::uint8_t> left_out, Vector<double> row, Vector<double> positive,
                            Vector<double> negative, std::optional<Matrix<double>> cells) {
    const auto n = row.shape(0), labels = static_cast<std::size_t>(positives.n_labels);
    const auto fits = [&](const PythonCells& c) {
        return c.offsets.shape(0) == n + 1 && c.n_labels == positives.n_labels;
    };
    expect(fits(positives) && (!missing || fits(*missing)) && left_out.shape(0) == labels &&
               positive.shape(0) == labels && negative.shape(0) == labels &&
               (!cells || (cells->shape(0) == n && cells->shape(1) == labels)),
           "the cells and costs do not fit the rows and labels");
    return {positives,           std::move(missing),  std::move(left_out), std::move(row),
            std::move(positive), std::move(negative), std::move(cells)};
}

}  // namespace

void bind_labels(nb::module_& m) {
    nb::class_<PythonCells>(m, "Cells", "Cells of a sparse 0/1 matrix, row by row.")
        .def(
            "__init__",
            [](PythonCells* self, Vector<std::int64_t> offsets, Vector<std::int32_t> labels, Index n_labels) {
                new (self) PythonCells(checked_cells(std::move(offsets), std::move(labels), n_labels));
            },
            nb::arg("offsets").noconvert(), nb::arg("labels").noconvert(), nb::arg("n_labels"));
    nb::class_<PythonLabels>(m, "Labels", "The training labels and what their cells cost.")
        .def(
            "__init__",
            [](PythonLabels* self, const PythonCells& positives, std::optional<PythonCells> missing,
               Vector<std::uint8_t> left_out, Vector<double> row, Vector<double> positive, Vector<double> negative,
               std::optional<Matrix<double>> cells) {
                new (self)
                    PythonLabels(checked_labels(positives, std::move(missing), std::move(left_out), std::move(row),
                                                std::move(positive), std::move(negative), std::move(cells)));
            },
            nb::kw_only(), nb::arg("positives"), nb::arg("missing").none(), nb::arg("left_out").noconvert(),
            nb::arg("row").noconvert(), nb::arg("positive").noconvert(), nb::arg("negative").noconvert(),
            nb::arg("cells").noconvert().none());
    nb::class_<PythonMargins>(m, "Margins", "The margins that a loss asks of the cells.")
        .def(
            "__init__",
            [](PythonMargins* self, Vector<double> positive, Vector<double> negative,
               std::optional<Matrix<double>> cells) {
                new (self) PythonMargins{std::move(positive), std::move(negative), std::move(cells)};
            },
            nb::kw_only(), nb::arg("positive").noconvert(), nb::arg("negative").noconvert(),
            nb::arg("cells").noconvert().none());
}
