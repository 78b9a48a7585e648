#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cmath>

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/m3l/linear_problem.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::m3l;

namespace {

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

// A prior as Python states it: R, or F with diag(d); holds on to the arrays. weigh(state), into_range(weights) and
// forms(weights, V) are its products (PriorProducts), made by NumPy.
struct PythonPrior {
    std::optional<Matrix<double>> R, factor, transposed, root;
    std::optional<Vector<double>> diagonal;
    nb::capsule dsyevd;
    nb::callable weigh, into_range, forms;
    LinearPrior core;

    Index labels() const { return static_cast<Index>(core.diagonal.size()); }

    template <class T>
    PriorProducts<T> products(Index columns) const {
        const Index n = labels();
        const auto copied = [n, columns](const nb::object& result, T* to) {
            const auto weights = matrix_of<T>(result, n, columns);
            std::copy_n(weights.data(), n * columns, to);
        };
        return {.weigh =
                    [=, this](const T* state, Index width, T* weights) {
                        nb::gil_scoped_acquire gil;
                        copied(weigh(borrowed_array(state, {columns, width})), weights);
                    },
                .into_range =
                    [=, this](T* weights) {
                        nb::gil_scoped_acquire gil;
                        copied(into_range(borrowed_array(weights, {n, columns})), weights);
                    },
                .forms = [=, this](const T* weights, const double* V) -> PriorForms {
                    nb::gil_scoped_acquire gil;
                    const nb::object found =
                        forms(borrowed_array(weights, {n, columns}), borrowed_array(V, {columns, n}));
                    return {nb::cast<double>(found[0]), nb::cast<double>(found[1])};
                }};
    }
};

void make_prior(PythonPrior* self, std::optional<Matrix<double>> R, std::optional<Matrix<double>> factor,
                std::optional<Vector<double>> diagonal, std::optional<Matrix<double>> root, Vector<double> own,
                bool mild, nb::capsule dsyevd, nb::callable weigh, nb::callable into_range, nb::callable forms,
                std::optional<Matrix<double>> transposed) {
    const auto n = own.shape(0);
    const auto fits = [](const auto& matrix, std::size_t rows, std::size_t cols) {
        return matrix->shape(0) == rows && matrix->shape(1) == cols;
    };
    expect(R ? fits(R, n, n)
             : factor && transposed && fits(factor, n, factor->shape(1)) && fits(transposed, factor->shape(1), n) &&
                   (!diagonal || diagonal->shape(0) == n),
           "the prior does not fit the labels");
    expect(!root || root->shape(0) == n, "the root of the prior does not fit the labels");
    auto* solver = reinterpret_cast<Dsyevd*>(dsyevd.data());
    LinearPrior core;
    if (R)
        core.arrays.R = R->data();
    else
        core.arrays = {nullptr, factor->data(), transposed->data(), diagonal ? diagonal->data() : nullptr,
                       static_cast<Index>(factor->shape(1))};
    core.diagonal.assign(own.data(), own.data() + n);
    core.mild = mild;
    if (root) {
        core.root = root->data();
        core.root_rank = static_cast<Index>(root->shape(1));
    }
    core.eigen = [solver](std::vector<double>& matrix, std::vector<double>& values) { eigen(solver, matrix, values); };
    new (self)
        PythonPrior{std::move(R),      std::move(factor), std::move(transposed), std::move(root),  std::move(diagonal),
                    std::move(dsyevd), std::move(weigh),  std::move(into_range), std::move(forms), std::move(core)};
}

// What a fit returns: weights (labels x (features + 1), the last column the intercepts) and, where they are kept, the
// signed dual variables (rows x labels).
struct LinearM3LFit {
    fit::FitResult result;
    Array weights;
    std::optional<Array> beta;
    bool newton;
};

// The problem as Python states it; holds on to everything in it.
// eigenbasis(single): (Q, Q', eigenvalues) of X'X, Q in single or double precision.
struct LinearM3LProblem {
    nb::object rows_owner, labels_owner;
    const Rows* rows;
    const PythonLabels* labels;
    PythonMargins margins;
    double bias;
    nb::object prior_owner;
    const PythonPrior* prior;
    nb::callable eigenbasis;

    template <RowMatrix X>
    LinearProblem<X> core(const X& x) const {
        using T = typename X::value_type;
        const auto cells = labels->view_of();
        expect(x.rows() == cells.rows, "the labels do not fit the rows");
        expect(!prior || prior->labels() == cells.labels, "the prior does not fit the labels");
        return {x,
                margins.of(cells),
                bias,
                prior ? &prior->core : nullptr,
                prior ? prior->products<T>(x.cols() + 1) : PriorProducts<T>{},
                [this, columns = x.cols() + 1] {
                    nb::gil_scoped_acquire gil;
                    const nb::object found = eigenbasis(std::is_same_v<T, float>);
                    const auto Q = matrix_of<T>(found[0], columns, columns),
                               Qt = matrix_of<T>(found[1], columns, columns);
                    const auto values = exactly<Vector<double>>(found[2]);
                    return OwnedBasis<T>{{Q.data(), Q.data() + Q.size()},
                                         {Qt.data(), Qt.data() + Qt.size()},
                                         {values.data(), values.data() + values.size()}};
                }};
    }
};

template <RowMatrix X>
LinearM3LFit fit_rows(const LinearM3LProblem& problem, const X& x, const PythonLimits& limits, nb::handle beta,
                      nb::handle weights, bool after_newton, bool keep_beta, std::optional<double> patience) {
    using T = typename X::value_type;
    PythonControl control = limits.control();
    const LinearProblem<X> core = problem.core(x);
    const Index labels = core.cells.labels, columns = x.cols() + 1;
    LinearStart<T> start{.after_newton = after_newton};
    if (!beta.is_none()) start.beta = matrix_of<T>(beta, x.rows(), labels).data();
    if (!weights.is_none()) start.weights = matrix_of<T>(weights, labels, columns).data();
    LinearSolution<T> found;
    {
        nb::gil_scoped_release release;
        found = solve_linear(core, limits.core, patience, start, keep_beta, control);
    }
    LinearM3LFit out{found.result, moved_array(std::move(found.weights), {labels, columns}), std::nullopt,
                     found.newton};
    if (!found.beta.empty()) out.beta = moved_array(std::move(found.beta), {x.rows(), labels});
    return out;
}

// single: whether to work in single precision; float32 rows always are. beta and weights are of that precision.
LinearM3LFit fit_linear_m3l(const LinearM3LProblem& problem, const PythonLimits& limits, nb::object beta,
                            nb::object weights, bool after_newton, bool keep_beta, std::optional<double> patience,
                            bool single) {
    return std::visit(
        [&]<class X>(const X& x) -> LinearM3LFit {
            const auto fit = [&](const auto& rows) {
                return fit_rows(problem, rows, limits, beta, weights, after_newton, keep_beta, patience);
            };
            if constexpr (std::is_same_v<typename X::value_type, double>) {
                if (single) return fit(ReadAs<X, float>(x));
            } else {
                expect(single, "float32 rows are solved in single precision");
            }
            return fit(x);
        },
        problem.rows->matrix);
}

// (P, D) of weights (labels x (features + 1), the last column the intercepts) and signed dual variables; None: all 0.
std::pair<double, double> certify_linear_m3l(const LinearM3LProblem& problem, Matrix<double> weights,
                                             std::optional<Matrix<double>> beta, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    return std::visit(
        [&]<class X>(const X& x) {
            const LinearProblem<X> core = problem.core(x);
            const Index labels = core.cells.labels, columns = x.cols() + 1;
            const auto fits = [](const Matrix<double>& array, Index rows, Index cols) {
                return static_cast<Index>(array.shape(0)) == rows && static_cast<Index>(array.shape(1)) == cols;
            };
            expect(fits(weights, labels, columns) && (!beta || fits(*beta, x.rows(), labels)),
                   "the weights or dual variables do not fit the data");
            const auto read = [&](Index i, Index first, Index count, double* out) {
                if (beta)
                    std::copy_n(beta->data() + i * labels + first, count, out);
                else
                    std::fill_n(out, count, 0.0);
            };
            std::function<PriorForms(const double*)> forms;
            if (problem.prior)
                forms = [products = problem.prior->products<double>(columns), &weights](const double* V) {
                    return products.forms(weights.data(), V);
                };
            nb::gil_scoped_release release;
            const fit::Bounds found =
                linear_bounds(x, core.cells, core.bias, weights.data(), read, forms, threads, control);
            return std::pair{found.primal, found.dual};
        },
        problem.rows->matrix);
}

}  // namespace

void bind_m3l_linear(nb::module_& m) {
    nb::class_<PythonPrior>(m, "LinearPrior", "A prior R on label correlations: R, or factor @ factor.T + diagonal.")
        .def("__init__", &make_prior, nb::kw_only(), nb::arg("R").noconvert().none(),
             nb::arg("factor").noconvert().none(), nb::arg("diagonal").noconvert().none(),
             nb::arg("root").noconvert().none(), nb::arg("own").noconvert(), nb::arg("mild"), nb::arg("dsyevd"),
             nb::arg("weigh"), nb::arg("into_range"), nb::arg("forms"), nb::arg("transposed").noconvert().none());
    nb::class_<LinearM3LProblem>(m, "LinearM3LProblem", "A linear M3L problem.")
        .def(
            "__init__",
            [](LinearM3LProblem* self, nb::object rows, nb::object labels, const PythonMargins& margins, double bias,
               nb::object prior, nb::callable eigenbasis) {
                const Rows* matrix = &nb::cast<const Rows&>(rows);
                const PythonLabels* cells = &nb::cast<const PythonLabels&>(labels);
                const PythonPrior* R = prior.is_none() ? nullptr : &nb::cast<const PythonPrior&>(prior);
                new (self) LinearM3LProblem{
                    std::move(rows),      std::move(labels), matrix, cells, margins, bias, std::move(prior), R,
                    std::move(eigenbasis)};
            },
            nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("margins"), nb::arg("bias"),
            nb::arg("prior").none(), nb::arg("eigenbasis"),
            nb::sig("def __init__(self, *, rows: Rows, labels: Labels, margins: Margins, bias: float, "
                    "prior: LinearPrior | None, eigenbasis: "
                    "collections.abc.Callable[[bool], tuple[numpy.typing.NDArray[typing.Any], "
                    "numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[numpy.float64]]]) -> None"));
    nb::class_<LinearM3LFit>(m, "LinearM3LFit", "What a linear M3L fit leaves.")
        .def_ro("result", &LinearM3LFit::result)
        .def_ro("weights", &LinearM3LFit::weights, nb::rv_policy::automatic,
                "labels x (features + 1); the last column holds the intercepts")
        .def_ro("beta", &LinearM3LFit::beta, nb::rv_policy::automatic, "signed dual variables, where they are kept")
        .def_ro("newton", &LinearM3LFit::newton, "whether a Newton finish was made");
    m.def("fit_linear_m3l", &fit_linear_m3l, nb::arg("problem"), nb::arg("limits"), nb::arg("beta").none(),
          nb::arg("weights").none(), nb::arg("after_newton"), nb::arg("keep_beta"), nb::arg("patience").none(),
          nb::arg("single"));
    m.def("newton_may_serve", &newton_may_serve, nb::arg("rows"), nb::arg("features"));
    m.def("certify_linear_m3l", &certify_linear_m3l, nb::arg("problem"), nb::arg("weights").noconvert(),
          nb::arg("beta").noconvert().none(), nb::arg("threads"));
}
