#include "bindings/arrays.hpp"
#include "core/m3l/kernel_products.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;

namespace {

using Block = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Coefficients by label, checked once. Views of arrays that its owner holds.
struct Coefficients {
    m3l::SparseCoefficients parts;
    Index rows;
    nb::object owner;
};

Coefficients coefficients(Vector<std::int64_t> starts, Vector<std::int32_t> rows, Vector<double> values, Index n_rows) {
    const m3l::SparseCoefficients parts{view(starts), view(rows), view(values)};
    bool fits = starts.shape(0) > 0 && rows.shape(0) == values.shape(0) && parts.starts.front() == 0 &&
                parts.starts.back() == static_cast<Index>(rows.shape(0)) &&
                std::is_sorted(parts.starts.begin(), parts.starts.end());
    for (auto row : parts.rows) fits = fits && row >= 0 && row < n_rows;
    for (Index l = 0; fits && l < parts.labels(); ++l) {
        const auto at = static_cast<std::size_t>(l);
        fits = std::is_sorted(parts.rows.begin() + parts.starts[at], parts.rows.begin() + parts.starts[at + 1]);
    }
    expect(fits, "inconsistent coefficients of a kernel machine");
    return {parts, n_rows, nb::make_tuple(starts, rows, values)};
}

m3l::ValueBlock columns_of(const Block& values, Index from, Index to) {
    const auto width = static_cast<Index>(values.shape(1));
    expect(0 <= from && from <= to && to <= width, "columns outside a block of kernel values");
    return {values.data(), static_cast<Index>(values.shape(0)), width, from, to};
}

void add_to_rows(const Coefficients& own, const Block& values, Index from, Index to, Index first, Scores out) {
    const auto block = columns_of(values, from, to);
    expect(0 <= first && first + to - from <= own.rows && static_cast<Index>(out.shape(0)) == own.parts.labels() &&
               static_cast<Index>(out.shape(1)) == block.rows,
           "kernel products of inconsistent shapes");
    nb::gil_scoped_release release;
    m3l::add_to_rows(block, own.parts, first, out.data());
}

void add_to_columns(const Coefficients& own, const Block& values, Index from, Index to, Index first, Scores out,
                    Index at) {
    const auto block = columns_of(values, from, to);
    const auto width = static_cast<Index>(out.shape(1));
    expect(0 <= first && first + block.rows <= own.rows && static_cast<Index>(out.shape(0)) == own.parts.labels() &&
               0 <= at && at + to - from <= width,
           "kernel products of inconsistent shapes");
    nb::gil_scoped_release release;
    m3l::add_to_columns(block, own.parts, first, out.data() + at, width);
}

}  // namespace

void bind_kernel_certifier(nb::module_& m) {
    nb::class_<Coefficients>(m, "KernelCoefficients")
        .def("add_to_rows", &add_to_rows, nb::arg("values").noconvert(), nb::arg("start"), nb::arg("stop"),
             nb::arg("first"), nb::arg("out").noconvert())
        .def("add_to_columns", &add_to_columns, nb::arg("values").noconvert(), nb::arg("start"), nb::arg("stop"),
             nb::arg("first"), nb::arg("out").noconvert(), nb::arg("at"));
    m.def("kernel_coefficients", &coefficients, nb::arg("starts").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("values").noconvert(), nb::arg("n_rows"));
}
