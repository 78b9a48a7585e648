#pragma once
// Rows of label scores with the pairs that attract, as the functions on graph cuts take them.
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"

namespace multimargin::bindings {

using Pairs = std::vector<std::pair<int, int>>;
template <class T>
using OutVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline Pairs pair_list(const Matrix<std::int32_t>& pairs, Index labels) {
    expect(pairs.shape(1) == 2, "pairs must have two columns");
    Pairs list;
    for (std::size_t e = 0; e < pairs.shape(0); ++e) {
        const int a = pairs(e, 0), b = pairs(e, 1);
        expect(a >= 0 && b >= 0 && a < labels && b < labels && a != b, "pair out of range");
        list.emplace_back(a, b);
    }
    return list;
}

// A batch of rows with the pairs they share, checked.
struct CutBatch {
    Matrix<double> u;
    Pairs pairs;
    const double* w;
    CutBatch(const Matrix<double>& u, const Matrix<std::int32_t>& pairs, const Vector<double>& w)
        : u(u), pairs(pair_list(pairs, static_cast<Index>(u.shape(1)))), w(w.data()) {
        expect(w.shape(0) == pairs.shape(0), "one weight per pair");
        for (auto v : view(w)) expect(v >= 0, "pair weights must not be negative");
    }
    std::size_t rows() const { return u.shape(0); }
    int labels() const { return static_cast<int>(u.shape(1)); }
    const double* row(std::size_t n) const { return u.data() + n * u.shape(1); }
    template <class A>
    auto* row(const A& array, std::size_t n) const {
        return array.data() + n * u.shape(1);
    }
    template <class A>
    void check(const A& array) const {
        expect(array.shape(0) == u.shape(0) && array.shape(1) == u.shape(1), "shapes differ");
    }
};

// A vector for Python.
template <class T>
Array array_of(std::vector<T> values) {
    const auto size = static_cast<Index>(values.size());
    return moved_array(std::move(values), {size});
}

}  // namespace multimargin::bindings
