#include <algorithm>

#include "bindings/arrays.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;

template <class T>
static void bind_rows(nb::module_& m) {
    m.def(
        "dense_rows",
        [](Matrix<T> x) {
            return Rows{DenseRows<T>(x.data(), static_cast<Index>(x.shape(0)), static_cast<Index>(x.shape(1))),
                        nb::cast(x)};
        },
        nb::arg("x").noconvert());
    m.def(
        "csr_rows",
        [](Vector<T> values, Vector<std::int32_t> columns, Vector<std::int64_t> offsets, Index cols) {
            const auto rows = static_cast<Index>(offsets.shape(0)) - 1;
            expect(rows >= 0 && values.shape(0) == columns.shape(0), "inconsistent CSR arrays");
            const auto starts = view(offsets);
            expect(starts.front() == 0 && starts.back() <= static_cast<Index>(values.shape(0)) &&
                       std::is_sorted(starts.begin(), starts.end()),
                   "CSR offsets must rise from 0 to the number of entries");
            for (auto j : view(columns)) expect(j >= 0 && j < cols, "CSR column index out of range");
            return Rows{CsrRows<T>(values.data(), columns.data(), offsets.data(), rows, cols),
                        nb::make_tuple(values, columns, offsets)};
        },
        nb::arg("values").noconvert(), nb::arg("columns").noconvert(), nb::arg("offsets").noconvert(), nb::arg("cols"));
}

void bind_matrix(nb::module_& m) {
    nb::class_<Rows>(m, "Rows");
    bind_rows<float>(m);
    bind_rows<double>(m);
}
