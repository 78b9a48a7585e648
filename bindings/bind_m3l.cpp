#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bindings/m3l_arguments.hpp"
#include "bindings/python_control.hpp"
#include "core/solvers/m3l_coupled.hpp"
#include "core/solvers/m3l_separable.hpp"

namespace nb = nanobind;
using namespace multimargin;

namespace {

struct Call {
    const M3LParams& params;
    PythonControl& control;
    const nb::object& start;
    bool keep_beta;
};

template <class T, class Engine>
nb::dict run(Engine& engine, Index rows, Index labels, const Call& call,
             nb::object (*weights)(const Engine&, Index, Index), Index cols, Index width) {
    const T* start = call.start.is_none() ? nullptr : matrix_of<T>(call.start, rows, labels).data();
    M3LResult result;
    {
        nb::gil_scoped_release release;
        if (start) engine.start_from(start, call.control);
        result =
            run_passes(engine, rows, rows * labels, start && call.params.passes_before == 0, call.params, call.control);
    }
    engine.forget_centre();
    nb::dict out;
    out["primal"] = result.certificate.primal;
    out["dual"] = result.certificate.dual;
    out["passes"] = result.passes;
    out["status"] = name_of(result.status);
    out["weights"] = weights(engine, cols, width);
    out["beta"] = call.keep_beta || result.status == Status::hand_over
                      ? new_array<T>({static_cast<std::size_t>(rows), static_cast<std::size_t>(labels)},
                                     [&](T* beta) { engine.copy_beta(beta); })
                      : nb::none();
    return out;
}

template <RowMatrix X>
nb::dict solve_separable(const X& x, const LabelCells<typename X::value_type>& labels, double bias, const Call& call) {
    using T = typename X::value_type;
    using Engine = SeparableEngine<X>;
    Engine engine(x, labels, static_cast<T>(bias), call.params.threads);
    return run<T, Engine>(
        engine, x.rows(), labels.labels(), call,
        [](const Engine& e, Index cols, Index width) {
            return new_array<T>({static_cast<std::size_t>(width), static_cast<std::size_t>(cols + 1)},
                                [&](T* w) { e.copy_weights(w); });
        },
        x.cols(), labels.labels());
}

template <RowMatrix X, class Prior>
nb::dict solve_coupled(const X& x, const LabelCells<typename X::value_type>& labels, const Prior& prior, Index width,
                       double bias, bool prior_margins, const Call& call) {
    using T = typename X::value_type;
    using Engine = CoupledEngine<X, Prior>;
    Engine engine(x, labels, prior, static_cast<T>(bias), prior_margins, call.params.threads);
    return run<T, Engine>(
        engine, x.rows(), labels.labels(), call,
        [](const Engine& e, Index cols, Index width) {
            return new_array<T>({static_cast<std::size_t>(cols + 1), static_cast<std::size_t>(width)},
                                [&](T* w) { e.copy_state(w, width); });
        },
        x.cols(), width);
}

// prior: None, (R,), (F, F', d) or (F, F', None)
nb::dict fit_linear_m3l(const Rows& rows, Index n_labels, nb::object positives, nb::object missing, nb::tuple costs,
                        nb::object prior, double bias, bool prior_margins, nb::object start, bool keep_beta, int passes,
                        double patience, double tol, int max_iter, int threads, std::uint64_t seed, nb::object report,
                        double time_limit) {
    PythonControl control(std::move(report), time_limit);
    const M3LParams params{tol, max_iter, threads, seed, passes, patience};
    const Call call{params, control, start, keep_beta};
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            using T = typename X::value_type;
            const auto labels = label_cells<T>(x.rows(), n_labels, positives, missing, costs);
            if (prior.is_none()) return solve_separable(x, labels, bias, call);
            if (nb::len(prior) == 1) {
                const DensePrior<T> R(matrix_of<T>(prior[0], n_labels, n_labels).data(), n_labels);
                return solve_coupled(x, labels, R, n_labels, bias, prior_margins, call);
            }
            const auto factor = exactly<Matrix<T>>(prior[0]), transposed = exactly<Matrix<T>>(prior[1]);
            const auto rank = static_cast<Index>(factor.shape(1));
            expect(static_cast<Index>(factor.shape(0)) == n_labels && transposed.shape(0) == factor.shape(1) &&
                       static_cast<Index>(transposed.shape(1)) == n_labels,
                   "the factors of the prior do not fit the labels");
            if (nb::object(prior[2]).is_none()) {
                const std::vector<T> zeros(static_cast<std::size_t>(n_labels));
                const PureFactorPrior<T> R(factor.data(), transposed.data(), zeros.data(), n_labels, rank);
                return solve_coupled(x, labels, R, rank, bias, prior_margins, call);
            }
            const auto diagonal = exactly<Vector<T>>(prior[2]);
            expect(static_cast<Index>(diagonal.shape(0)) == n_labels, "the diagonal does not fit the labels");
            const FactorPrior<T> R(factor.data(), transposed.data(), diagonal.data(), n_labels, rank);
            return solve_coupled(x, labels, R, n_labels, bias, prior_margins, call);
        },
        rows.matrix);
}

}  // namespace

void bind_m3l(nb::module_& m) {
    m.def("fit_linear_m3l", &fit_linear_m3l, nb::arg("rows"), nb::arg("n_labels"), nb::arg("positives"),
          nb::arg("missing").none(), nb::arg("costs"), nb::arg("prior").none(), nb::arg("bias"),
          nb::arg("prior_margins"), nb::arg("start").none(), nb::arg("keep_beta"), nb::arg("passes"),
          nb::arg("patience"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("threads"), nb::arg("seed"),
          nb::arg("report").none(), nb::arg("time_limit"));
}
