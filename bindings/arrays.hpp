#pragma once
// Arrays crossing the border between NumPy and the core, without copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

#include "core/matrix.hpp"

namespace multimargin {

namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Vector<T>& array) {
    return {array.data(), array.shape(0)};
}

// A data matrix of any layout and precision. The arrays it was made from must outlive it; Python holds them.
struct Rows {
    std::variant<DenseRows<float>, DenseRows<double>, CsrRows<float>, CsrRows<double>> matrix;
    nb::object owner;
};

// Hands memory filled by `fill` to NumPy.
template <class T, class Fill>
nb::object new_array(std::initializer_list<std::size_t> shape, Fill&& fill) {
    std::size_t size = 1;
    for (auto n : shape) size *= n;
    auto data = std::make_unique<T[]>(size);
    fill(data.get());
    nb::capsule owner(data.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data.release(), shape, owner));
}

}  // namespace multimargin
