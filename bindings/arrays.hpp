#pragma once
// Arrays crossing the border between NumPy and the core, without copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <variant>
#include <vector>

#include "core/base/matrix.hpp"

namespace multimargin::bindings {

namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The array behind a Python object, as it is. Another type, layout or number of dimensions is an error, never a copy:
// callers keep pointers into the array, and a copy would be gone before they are used.
template <class Array>
Array exactly(nb::handle object) {
    Array array;
    if (!nb::try_cast<Array>(object, array, false))
        throw nb::type_error("an array of another type, layout or number of dimensions than the core takes");
    return array;
}

inline void expect(bool holds, const char* otherwise) {
    if (!holds) throw std::invalid_argument(otherwise);
}

// The same for a matrix of a known shape.
template <class T>
Matrix<T> matrix_of(nb::handle object, Index rows, Index cols) {
    auto matrix = exactly<Matrix<T>>(object);
    expect(static_cast<Index>(matrix.shape(0)) == rows && static_cast<Index>(matrix.shape(1)) == cols,
           "a matrix of another shape than the core expects");
    return matrix;
}

template <class T>
std::span<const T> view(const Vector<T>& array) {
    return {array.data(), array.shape(0)};
}

// A data matrix of any layout and precision. The arrays it was made from must outlive it; Python holds them.
struct Rows {
    std::variant<DenseRows<float>, DenseRows<double>, CsrRows<float>, CsrRows<double>> matrix;
    nb::object owner;
};

// A NumPy array of any type, as results hold it.
using Array = nb::ndarray<nb::numpy>;

// Gives the numbers of a vector, or a Buffer, to NumPy, without a copy.
template <class Values>
Array moved_array(Values values, std::initializer_list<Index> shape) {
    using T = std::remove_reference_t<decltype(values[0])>;
    auto* kept = new Values(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
    const std::vector<std::size_t> sizes(shape.begin(), shape.end());
    return Array(kept->data(), sizes.size(), sizes.data(), owner, nullptr, nb::dtype<T>());
}

// Numbers that live here, for the duration of a call into Python.
template <class T>
nb::object borrowed_array(const T* values, std::initializer_list<Index> shape) {
    const std::vector<std::size_t> sizes(shape.begin(), shape.end());
    return nb::cast(nb::ndarray<nb::numpy, const T>(values, sizes.size(), sizes.data()), nb::rv_policy::reference);
}

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

}  // namespace multimargin::bindings
