#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bindings/m3l_certifier.hpp"
#include "bindings/python_control.hpp"
#include "core/m3l/linear_coupled.hpp"
#include "core/m3l/linear_separable.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::labels;
using namespace multimargin::m3l;

namespace {

struct Call {
    const M3LParams& params;
    PythonControl& control;
    const nb::object& start;
    const nb::object& certifier;  // None, or what Certifier takes
    const nb::object& positives;
    const nb::object& missing;
    bool keep_beta;
};

// weigh(): the weights to return, labels x (cols + 1), the last column the intercepts.
template <RowMatrix X, class Engine, class Weigh>
nb::dict run(Engine& engine, const X& x, Index labels, double bias, const Call& call, Weigh&& weigh) {
    using T = typename X::value_type;
    const T* start = call.start.is_none() ? nullptr : matrix_of<T>(call.start, x.rows(), labels).data();
    const bool warm = start && call.params.passes_before == 0;
    nb::object weights = nb::none();
    std::optional<Certifier<X>> certifier;
    if (!call.certifier.is_none())
        certifier.emplace(x, labels, call.positives, call.missing, nb::cast<nb::tuple>(call.certifier), bias,
                          call.params.threads);
    const Judge judge = [&]() -> Evaluation {
        nb::gil_scoped_acquire gil;
        weights = weigh();
        return certifier->template operator()<T>(
            weights, [&](Index i, Index first, Index count, double* out) { engine.read_beta(i, first, count, out); },
            call.control);
    };
    M3LResult result;
    {
        nb::gil_scoped_release release;
        if (start) engine.start_from(start, call.control);
        result = run_passes(engine, x.rows(), x.rows() * labels, warm, certifier ? judge : Judge(), call.params,
                            call.control);
    }
    engine.forget_centre();
    if (result.status == Status::hand_over) {
        weights = nb::none();
    } else if (!certifier) {
        weights = weigh();
    } else if (result.status != Status::converged) {
        result.certificate = judge();
        if (result.certificate.within(call.params.tol) && result.status != Status::stopped)
            result.status = Status::converged;
    }
    nb::dict out;
    out["primal"] = result.certificate.primal;
    out["dual"] = result.certificate.dual;
    out["passes"] = result.passes;
    out["status"] = name_of(result.status);
    out["weights"] = weights;
    const bool unfinished = result.status == Status::hand_over || result.status == Status::imprecise;
    out["beta"] = call.keep_beta || unfinished
                      ? new_array<T>({static_cast<std::size_t>(x.rows()), static_cast<std::size_t>(labels)},
                                     [&](T* beta) { engine.copy_beta(beta); })
                      : nb::none();
    return out;
}

template <RowMatrix X>
nb::dict solve_separable(const X& x, const LabelCells<typename X::value_type>& labels, double bias, const Call& call) {
    using T = typename X::value_type;
    SeparableEngine<X> engine(x, labels, static_cast<T>(bias), call.params.threads);
    return run(engine, x, labels.labels(), bias, call, [&] {
        const Index columns = x.cols() + 1;
        return new_array<T>({static_cast<std::size_t>(labels.labels()), static_cast<std::size_t>(columns)}, [&](T* w) {
            engine.copy_weights(w);
            for (Index l = 0; l < labels.labels(); ++l) w[l * columns + x.cols()] *= static_cast<T>(bias);
        });
    });
}

// width: of the state per feature; weigh(state): the weights, by Python.
template <RowMatrix X, class Prior>
nb::dict solve_coupled(const X& x, const LabelCells<typename X::value_type>& labels, const Prior& prior, Index width,
                       double bias, bool prior_margins, const nb::object& weigh, const Call& call) {
    using T = typename X::value_type;
    CoupledEngine<X, Prior> engine(x, labels, prior, static_cast<T>(bias), prior_margins, call.params.threads);
    return run(engine, x, labels.labels(), bias, call, [&] {
        return nb::object(weigh(new_array<T>({static_cast<std::size_t>(x.cols() + 1), static_cast<std::size_t>(width)},
                                             [&](T* state) { engine.copy_state(state, width); })));
    });
}

// prior: None, (R,), (F, F', d) or (F, F', None)
nb::dict fit_linear_m3l(const Rows& rows, Index n_labels, nb::object positives, nb::object missing, nb::tuple costs,
                        nb::object prior, nb::object weigh, double bias, bool prior_margins, nb::object start,
                        nb::object certifier, bool keep_beta, int passes, double patience, double tol, int max_iter,
                        int threads, std::uint64_t seed, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    const M3LParams params{tol, max_iter, threads, seed, passes, patience};
    const Call call{params, control, start, certifier, positives, missing, keep_beta};
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            using T = typename X::value_type;
            const auto labels = label_cells<T>(x.rows(), n_labels, positives, missing, costs);
            if (prior.is_none()) return solve_separable(x, labels, bias, call);
            if (nb::len(prior) == 1) {
                const DensePrior<T> R(matrix_of<T>(prior[0], n_labels, n_labels).data(), n_labels);
                return solve_coupled(x, labels, R, n_labels, bias, prior_margins, weigh, call);
            }
            const auto factor = exactly<Matrix<T>>(prior[0]), transposed = exactly<Matrix<T>>(prior[1]);
            const auto rank = static_cast<Index>(factor.shape(1));
            expect(static_cast<Index>(factor.shape(0)) == n_labels && transposed.shape(0) == factor.shape(1) &&
                       static_cast<Index>(transposed.shape(1)) == n_labels,
                   "the factors of the prior do not fit the labels");
            if (nb::object(prior[2]).is_none()) {
                const std::vector<T> zeros(static_cast<std::size_t>(n_labels));
                const PureFactorPrior<T> R(factor.data(), transposed.data(), zeros.data(), n_labels, rank);
                return solve_coupled(x, labels, R, rank, bias, prior_margins, weigh, call);
            }
            const auto diagonal = exactly<Vector<T>>(prior[2]);
            expect(static_cast<Index>(diagonal.shape(0)) == n_labels, "the diagonal does not fit the labels");
            const FactorPrior<T> R(factor.data(), transposed.data(), diagonal.data(), n_labels, rank);
            return solve_coupled(x, labels, R, n_labels, bias, prior_margins, weigh, call);
        },
        rows.matrix);
}

// (P, D) of weights, labels x (cols + 1), and signed dual variables in double; None: all 0.
nb::tuple certify_linear_m3l(const Rows& rows, Index n_labels, nb::object positives, nb::object missing,
                             nb::tuple certifier, double bias, nb::object weights, nb::object beta, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    return std::visit(
        [&]<class X>(const X& x) {
            const double* values = beta.is_none() ? nullptr : matrix_of<double>(beta, x.rows(), n_labels).data();
            const auto read = [&](Index i, Index first, Index count, double* out) {
                if (values)
                    std::copy_n(values + i * n_labels + first, count, out);
                else
                    std::fill_n(out, count, 0.0);
            };
            const Certifier<X> judge(x, n_labels, positives, missing, certifier, bias, threads);
            const Evaluation value = judge.template operator()<double>(weights, read, control);
            return nb::make_tuple(value.primal, value.dual);
        },
        rows.matrix);
}

}  // namespace

void bind_m3l(nb::module_& m) {
    m.def("certify_linear_m3l", &certify_linear_m3l, nb::arg("rows"), nb::arg("n_labels"), nb::arg("positives"),
          nb::arg("missing").none(), nb::arg("certifier"), nb::arg("bias"), nb::arg("weights"), nb::arg("beta").none(),
          nb::arg("threads"));
    m.def("fit_linear_m3l", &fit_linear_m3l, nb::arg("rows"), nb::arg("n_labels"), nb::arg("positives"),
          nb::arg("missing").none(), nb::arg("costs"), nb::arg("prior").none(), nb::arg("weigh").none(),
          nb::arg("bias"), nb::arg("prior_margins"), nb::arg("start").none(), nb::arg("certifier").none(),
          nb::arg("keep_beta"), nb::arg("passes"), nb::arg("patience"), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("threads"), nb::arg("seed"), nb::arg("report").none(), nb::arg("time_limit"));
}
