#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "core/splits/stratify.hpp"

namespace nb = nanobind;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T> span_of(const Vector<T>& v) {
    return {v.data(), v.shape(0)};
}

void stratify(Vector<const std::int64_t> offsets, Vector<const std::int32_t> columns, std::int32_t labels,
              Vector<const std::int64_t> sizes, Vector<const std::int64_t> shares, std::uint64_t seed, bool shuffle,
              Vector<std::int32_t> fold_of_row) {
    nb::gil_scoped_release release;
    multimargin::Rng rng(seed);
    multimargin::splits::Stratifier stratifier(span_of(offsets), span_of(columns), labels, span_of(sizes),
                                               span_of(shares), shuffle ? &rng : nullptr);
    stratifier.deal(span_of(fold_of_row));
}

}  // namespace

void bind_stratify(nb::module_& m) {
    m.def("stratify", &stratify, nb::arg("offsets").noconvert(), nb::arg("columns").noconvert(), nb::arg("labels"),
          nb::arg("sizes").noconvert(), nb::arg("shares").noconvert(), nb::arg("seed"), nb::arg("shuffle"),
          nb::arg("fold_of_row").noconvert());
}
