#include <limits>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/numerics/gram.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::numerics;

namespace {

template <class T>
using Square = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Zeroed, aligned memory for a Gram matrix of n rows; its columns beyond n are padding.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> gram_matrix(Index n) {
    const Index stride = gram_stride(n);
    auto* memory = new Buffer<T>(static_cast<std::size_t>(n * stride));
    nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
    return {memory->data(), {static_cast<std::size_t>(n), static_cast<std::size_t>(stride)}, owner};
}

template <class T>
void mirror_gram(Square<T> matrix, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    nb::gil_scoped_release release;
    mirror(matrix.data(), static_cast<Index>(matrix.shape(0)), static_cast<Index>(matrix.shape(1)), threads, control);
}

template <class T>
void products(const Rows& x, const Rows& columns, Index first, Index last, Index from, Square<T> out) {
    const auto& rows = std::get<CsrRows<T>>(x.matrix);
    const auto& transposed = std::get<CsrRows<T>>(columns.matrix);
    const bool fits = 0 <= first && first <= last && last <= rows.rows() && rows.cols() == transposed.rows() &&
                      0 <= from && from <= transposed.cols() && static_cast<Index>(out.shape(0)) == last - first &&
                      static_cast<Index>(out.shape(1)) == transposed.cols() - from;
    if (!fits) throw std::invalid_argument("sparse products of inconsistent shapes");
    nb::gil_scoped_release release;
    sparse_products(rows, transposed, first, last, from, out.data());
}

template <FeatureSum kind, class T>
void sums(Matrix<T> a, Matrix<T> b, Square<T> out) {
    if (a.shape(1) != b.shape(1) || out.shape(0) != a.shape(0) || out.shape(1) != b.shape(0))
        throw std::invalid_argument("feature sums of inconsistent shapes");
    nb::gil_scoped_release release;
    feature_sums<kind>(a.data(), static_cast<Index>(a.shape(0)), b.data(), static_cast<Index>(b.shape(0)),
                       static_cast<Index>(a.shape(1)), out.data());
}

template <class T>
void bind(nb::module_& m, const char* suffix) {
    m.def((std::string("gram_matrix_") + suffix).c_str(), &gram_matrix<T>, nb::arg("n"));
    m.def("mirror_gram", &mirror_gram<T>, nb::arg("matrix").noconvert(), nb::arg("threads"));
    m.def("sparse_products", &products<T>, nb::arg("x"), nb::arg("columns"), nb::arg("first"), nb::arg("last"),
          nb::arg("start"), nb::arg("out").noconvert());
    const auto of = [&]<FeatureSum kind>(const char* name) {
        m.def(name, &sums<kind, T>, nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("out").noconvert());
    };
    of.template operator()<FeatureSum::manhattan>("manhattan");
    of.template operator()<FeatureSum::chi2>("chi2");
    of.template operator()<FeatureSum::additive_chi2>("additive_chi2");
}

}  // namespace

void bind_gram(nb::module_& m) {
    m.def("gram_stride", &gram_stride, nb::arg("rows"));
    bind<float>(m, "float32");
    bind<double>(m, "float64");
}
