#include <cmath>

#include "bindings/m3l_certifier.hpp"
#include "bindings/python_control.hpp"
#include "core/m3l/newton_coupled.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::labels;
using namespace multimargin::m3l;

namespace {

std::vector<double> numbers(const nb::object& array) {
    const auto values = exactly<Vector<double>>(array);
    return {values.data(), values.data() + values.shape(0)};
}

// LAPACK's symmetric eigensolver, from the pointer SciPy exports.
using Dsyevd = void(char*, char*, int*, double*, int*, double*, double*, int*, int*, int*, int*);

void eigen(Dsyevd* dsyevd, std::vector<double>& matrix, std::vector<double>& values) {
    int n = static_cast<int>(std::lround(std::sqrt(static_cast<double>(matrix.size())))), info = 0;
    int work_size = 1 + 6 * n + 2 * n * n, integer_size = 3 + 5 * n;
    char vectors = 'V', triangle = 'U';
    std::vector<double> work(static_cast<std::size_t>(work_size));
    std::vector<int> integers(static_cast<std::size_t>(integer_size));
    values.resize(static_cast<std::size_t>(n));
    dsyevd(&vectors, &triangle, &n, matrix.data(), &n, values.data(), work.data(), &work_size, integers.data(),
           &integer_size, &info);
    if (info != 0) throw std::runtime_error("the eigenvalues of the preconditioner did not converge");
}

template <class T>
Coupling<T> coupling_of(const nb::object& factor) {
    const auto capsule = nb::object(factor[2]);
    auto* dsyevd = reinterpret_cast<Dsyevd*>(PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
    if (!dsyevd) throw nb::python_error();
    const auto P = exactly<Matrix<T>>(factor[0]), Pt = exactly<Matrix<T>>(factor[1]);
    expect(P.shape(0) == Pt.shape(1) && P.shape(1) == Pt.shape(0), "the factors of the prior do not fit each other");
    return Coupling<T>{
        std::vector<T>(P.data(), P.data() + P.size()), std::vector<T>(Pt.data(), Pt.data() + Pt.size()),
        static_cast<Index>(P.shape(0)), static_cast<Index>(P.shape(1)),
        [dsyevd](std::vector<double>& matrix, std::vector<double>& values) { eigen(dsyevd, matrix, values); }};
}

template <class T>
Eigenbasis<T> basis_of(const nb::tuple& basis, Index features) {
    const auto Q = exactly<Matrix<T>>(nb::object(basis[0])), Qt = exactly<Matrix<T>>(nb::object(basis[1]));
    expect(static_cast<Index>(Q.shape(0)) == features && Q.shape(1) == Q.shape(0) && Qt.shape(0) == Q.shape(0) &&
               Qt.shape(1) == Q.shape(0),
           "the basis does not fit the features");
    return Eigenbasis<T>{Q.data(), Qt.data(), numbers(nb::object(basis[2]))};
}

struct Call {
    const M3LParams& params;
    PythonControl& control;
    const nb::object& certifier;  // None, or what Certifier takes
    const nb::object& positives;
    const nb::object& missing;
    const nb::object& weigh;  // None, or a function that moves weights into the range of R
    double bias;
};

// nearby: null, or weights to start from, labels x (cols + 1), the last column for the constant feature.
template <RowMatrix X, class Engine>
nb::dict run(Engine& engine, const X& x, Index labels, const typename X::value_type* beta,
             const typename X::value_type* nearby, const Call& call) {
    using T = typename X::value_type;
    const auto n = static_cast<std::size_t>(x.rows()), L = static_cast<std::size_t>(labels),
               columns = static_cast<std::size_t>(x.cols() + 1);
    nb::object weights, duals;
    const auto start = [&](const T* from) {
        nb::gil_scoped_release release;
        engine.start_from(from, nearby, call.control);
    };
    const auto solve = [&](const M3LParams& params) {
        nb::gil_scoped_release release;
        return run_newton(engine, params, call.control);
    };
    const auto propose = [&] {
        weights = new_array<T>({L, columns}, [&](T* w) {
            engine.copy_weights(w);
            for (std::size_t l = 0; l < L; ++l) w[l * columns + columns - 1] *= static_cast<T>(call.bias);
        });
        if (!call.weigh.is_none()) weights = call.weigh(weights);
        duals = new_array<T>({n, L}, [&](T* b) { engine.copy_beta(b); });
    };
    start(beta);
    M3LResult result;
    if (call.certifier.is_none()) {
        result = solve(call.params);
        propose();
    } else {
        const Certifier<X> certifier(x, labels, call.positives, call.missing, nb::cast<nb::tuple>(call.certifier),
                                     call.bias, call.params.threads);
        result = run_certified(
            call.params, solve, propose,
            [&] {
                const T* values = exactly<Matrix<T>>(duals).data();
                const auto read = [&](Index i, Index first, Index count, double* out) {
                    std::copy_n(values + i * labels + first, count, out);
                };
                return certifier.template operator()<T>(weights, read, call.control);
            },
            [&] { start(exactly<Matrix<T>>(duals).data()); });
    }
    nb::dict out;
    out["primal"] = result.certificate.primal;
    out["dual"] = result.certificate.dual;
    out["passes"] = result.passes;
    out["status"] = name_of(result.status);
    out["weights"] = weights;
    out["beta"] = duals;
    return out;
}

// factor: None or (P, P', LAPACK's dsyevd); basis: (Q, Q', eigenvalues of X'X); start: signed beta; weights: None, or
// the weights of a solution nearby, labels x (features + 1); with them, a factor is applied to panels, not row by row.
nb::dict refine_linear_m3l(const Rows& rows, Index n_labels, nb::object positives, nb::object missing, nb::tuple costs,
                           nb::object factor, nb::tuple basis, double bias, nb::object start, nb::object weights,
                           nb::object certifier, nb::object weigh, int passes, double tol, int max_iter, int threads,
                           nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    const M3LParams params{tol, max_iter, threads, 0, passes, 0.0};
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            using T = typename X::value_type;
            const auto labels = label_cells<T>(x.rows(), n_labels, positives, missing, costs);
            const auto eigenbasis = basis_of<T>(basis, x.cols() + 1);
            const T* beta = matrix_of<T>(start, x.rows(), n_labels).data();
            const T* nearby = weights.is_none() ? nullptr : matrix_of<T>(weights, n_labels, x.cols() + 1).data();
            const Call call{params, control, certifier, positives, missing, weigh, bias};
            if (factor.is_none()) {
                NewtonEngine<X> engine(x, labels, static_cast<T>(bias), &eigenbasis, threads);
                return run(engine, x, n_labels, beta, nearby, call);
            }
            const auto coupling = coupling_of<T>(factor);
            CoupledNewton<X> engine(x, labels, static_cast<T>(bias), coupling, eigenbasis, nearby != nullptr, threads);
            return run(engine, x, n_labels, beta, nearby, call);
        },
        rows.matrix);
}

}  // namespace

void bind_m3l_newton(nb::module_& m) {
    m.def("refine_linear_m3l", &refine_linear_m3l, nb::arg("rows"), nb::arg("n_labels"), nb::arg("positives"),
          nb::arg("missing").none(), nb::arg("costs"), nb::arg("factor").none(), nb::arg("basis"), nb::arg("bias"),
          nb::arg("start"), nb::arg("weights").none(), nb::arg("certifier").none(), nb::arg("weigh").none(),
          nb::arg("passes"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("threads"), nb::arg("report").none(),
          nb::arg("time_limit"));
}
