#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/prediction/answers.hpp"
#include "core/prediction/kernel_scores.hpp"
#include "core/prediction/linear_scores.hpp"
#include "core/prediction/sparse_scores.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::prediction;

namespace {

template <class T>
using AnyLayout = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Rows to be scored, dense in any layout or CSR; holds on to the arrays.
struct ScoredRows {
    std::variant<StridedRows<float>, StridedRows<double>, CsrRows<float>, CsrRows<double>> matrix;
    nb::object owner;
};

// A linear or a kernel model of either precision; holds on to the arrays.
struct Scorer {
    std::variant<LinearModel<float>, LinearModel<double>, SparseLinearModel<float>, SparseLinearModel<double>,
                 KernelModel<float>, KernelModel<double>>
        model;
    Index labels, features;
    nb::object owner;
};

template <class T>
StridedRows<T> strided(const AnyLayout<T>& array) {
    return {array.data(), static_cast<Index>(array.shape(0)), static_cast<Index>(array.shape(1)), array.stride(0),
            array.stride(1)};
}

template <class T>
ScoredRows dense(AnyLayout<T> x) {
    return {strided(x), nb::cast(x)};
}

ScoredRows sparse(const Rows& x, nb::object owner) {
    return std::visit(
        [&]<class X>(const X& matrix) -> ScoredRows {
            if constexpr (requires { matrix.data(); })
                throw std::invalid_argument("dense rows are given as an array");
            else
                return {matrix, std::move(owner)};
        },
        x.matrix);
}

template <class T>
Scorer linear_scorer(AnyLayout<T> weights, Vector<T> intercept) {
    expect(weights.shape(0) == intercept.shape(0) && weights.shape(0) > 0, "the intercepts do not fit the weights");
    return {LinearModel<T>{strided(weights), intercept.data()}, static_cast<Index>(weights.shape(0)),
            static_cast<Index>(weights.shape(1)), nb::make_tuple(weights, intercept)};
}

// offsets, labels, weights: feature by feature the labels that have a weight there, and those weights.
template <class T>
Scorer sparse_linear_scorer(Vector<std::int64_t> offsets, Vector<std::int32_t> labels, Vector<T> weights,
                            Vector<T> intercept) {
    const SparseLinearModel<T> model{view(offsets), view(labels), view(weights), view(intercept)};
    const auto last = static_cast<std::int32_t>(intercept.shape(0)) - 1;
    expect(offsets.shape(0) > 1 && last >= 0 && std::ranges::is_sorted(model.offsets) && model.offsets.front() == 0 &&
               model.offsets.back() == static_cast<Index>(model.label.size()) &&
               model.label.size() == model.weight.size() &&
               std::ranges::all_of(model.label, [last](std::int32_t l) { return 0 <= l && l <= last; }),
           "the weights do not fit the labels and features");
    return {model, model.labels(), model.features(), nb::make_tuple(offsets, labels, weights, intercept)};
}

// support: the support rows; or columns: their columns, of sparse rows.
template <class T>
Scorer kernel_scorer(AnyLayout<T> coef, Vector<T> intercept, std::optional<Matrix<T>> support,
                     std::optional<const Rows*> columns, KernelKind kind, double gamma, double degree, double coef0) {
    expect(coef.shape(1) == intercept.shape(0) && coef.shape(1) > 0, "the intercepts do not fit the coefficients");
    expect(support.has_value() != columns.has_value(), "give support rows or their columns");
    const auto n = static_cast<Index>(coef.shape(0)), labels = static_cast<Index>(coef.shape(1));
    KernelModel<T> model{
        kind, gamma, degree, coef0, {}, {}, {coef.data(), labels, n, coef.stride(1), coef.stride(0)}, intercept.data()};
    Index features = 0;
    nb::object rows;
    if (support) {
        expect(static_cast<Index>(support->shape(0)) == n, "the coefficients do not fit the support rows");
        features = static_cast<Index>(support->shape(1));
        model.support.emplace(support->data(), n, features);
        rows = nb::cast(*support);
    } else {
        const auto* matrix = std::get_if<CsrRows<T>>(&(*columns)->matrix);
        expect(matrix && matrix->cols() == n, "the coefficients do not fit the columns of the support rows");
        expect(!model.sums_over_features(), "this kernel takes dense support rows");
        features = matrix->rows();
        model.columns.emplace(*matrix);
        rows = (*columns)->owner;
    }
    return {model, labels, features, nb::make_tuple(coef, intercept, rows)};
}

template <class T, class X>
auto source_of(const LinearModel<T>& model, const X& x, int threads, Control& control) {
    return LinearScores<T, X>(model, x, threads, control);
}
template <class T, class X>
auto source_of(const KernelModel<T>& model, const X& x, int threads, Control& control) {
    return KernelScores<T, X>(model, x, threads, control);
}
template <class T, class X>
auto source_of(const SparseLinearModel<T>& model, const X& x, int, Control&) {
    return SparseLinearScores<T, X>(model, x);
}
template <class T>
T precision_of(const LinearModel<T>&);
template <class T>
T precision_of(const SparseLinearModel<T>&);
template <class T>
T precision_of(const KernelModel<T>&);

// Calls use(source, control) without the GIL, if the scores are of the type T.
template <class T, class Use>
auto with_source(const Scorer& scorer, const ScoredRows& rows, int threads, Use&& use) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    nb::gil_scoped_release release;
    return std::visit(
        [&](const auto& model, const auto& x) -> decltype(use(std::declval<const ScoreSource<T>&>(), control)) {
            if constexpr (std::is_same_v<decltype(precision_of(model)), T>) {
                expect(x.cols() == scorer.features && x.rows() > 0, "the rows do not fit the model");
                return use(source_of(model, x, threads, control), control);
            } else {
                throw std::invalid_argument("the scores are of another type than those of the model");
            }
        },
        scorer.model, rows.matrix);
}

template <class T>
bool scores(const Scorer& scorer, const ScoredRows& rows, Out<T> out, int threads) {
    return with_source<T>(scorer, rows, threads, [&](const ScoreSource<T>& source, Control& control) {
        expect(static_cast<Index>(out.shape(0)) == source.rows() && static_cast<Index>(out.shape(1)) == source.labels(),
               "the scores do not fit the rows and labels");
        return all_scores(source, out.data(), threads, control);
    });
}

template <class T>
bool top(const Scorer& scorer, const ScoredRows& rows, Out<std::int32_t> labels, Out<T> values, int threads) {
    const auto k = static_cast<Index>(labels.shape(1));
    expect(values.shape(0) == labels.shape(0) && values.shape(1) == labels.shape(1) && 1 <= k && k <= scorer.labels,
           "the best labels do not fit their scores");
    return with_source<T>(scorer, rows, threads, [&](const ScoreSource<T>& source, Control& control) {
        expect(static_cast<Index>(labels.shape(0)) == source.rows(), "the best labels do not fit the rows");
        return top_labels(source, k, labels.data(), values.data(), threads, control);
    });
}

std::tuple<Array, Array, bool> positives(const Scorer& scorer, const ScoredRows& rows, int threads) {
    PositiveLabels found = std::visit(
        [&](const auto& model) {
            using T = decltype(precision_of(model));
            return with_source<T>(scorer, rows, threads, [&](const ScoreSource<T>& source, Control& control) {
                return positive_labels(source, threads, control);
            });
        },
        scorer.model);
    const auto rows_and_one = static_cast<Index>(found.offsets.size()), count = static_cast<Index>(found.labels.size());
    return {moved_array(std::move(found.offsets), {rows_and_one}), moved_array(std::move(found.labels), {count}),
            found.finite};
}

template <class T>
void bind(nb::module_& m, nb::class_<Scorer>& scorer) {
    m.def("scored_rows", &dense<T>, nb::arg("x").noconvert());
    m.def("linear_scorer", &linear_scorer<T>, nb::arg("weights").noconvert(), nb::arg("intercept").noconvert());
    m.def("sparse_linear_scorer", &sparse_linear_scorer<T>, nb::arg("offsets").noconvert(),
          nb::arg("labels").noconvert(), nb::arg("weights").noconvert(), nb::arg("intercept").noconvert());
    m.def("kernel_scorer", &kernel_scorer<T>, nb::arg("coef").noconvert(), nb::arg("intercept").noconvert(),
          nb::arg("support").noconvert().none(), nb::arg("columns").none(), nb::arg("kind"), nb::arg("gamma"),
          nb::arg("degree"), nb::arg("coef0"));
    scorer
        .def("scores", &scores<T>, nb::arg("rows"), nb::arg("out").noconvert(), nb::arg("threads"),
             "Fill out; return whether all scores are finite.")
        .def("top", &top<T>, nb::arg("rows"), nb::arg("labels").noconvert(), nb::arg("values").noconvert(),
             nb::arg("threads"), "Fill labels and values, rows x k; return whether all scores are finite.");
}

}  // namespace

void bind_prediction(nb::module_& m) {
    nb::enum_<KernelKind>(m, "KernelKind", "Kernels with native values.")
        .value("linear", KernelKind::linear)
        .value("rbf", KernelKind::rbf)
        .value("poly", KernelKind::poly)
        .value("sigmoid", KernelKind::sigmoid)
        .value("laplacian", KernelKind::laplacian)
        .value("chi2", KernelKind::chi2)
        .value("additive_chi2", KernelKind::additive_chi2);
    nb::class_<ScoredRows>(m, "ScoredRows", "Rows to be scored, dense in any layout or CSR.");
    nb::class_<Scorer> scorer(m, "Scorer", "A model that has scores.");
    scorer.def_prop_ro(
        "dtype",
        [](const Scorer& of) {
            return std::visit(
                [](const auto& model) { return sizeof(precision_of(model)) == sizeof(float) ? "float32" : "float64"; },
                of.model);
        },
        "Precision of the scores.");
    bind<float>(m, scorer);
    bind<double>(m, scorer);
    m.def(
        "scored_rows", [](nb::typed<nb::object, Rows> x) { return sparse(nb::cast<const Rows&>(x), x); }, nb::arg("x"));
    scorer.def("positives", &positives, nb::arg("rows"), nb::arg("threads"),
               "Offsets and labels with positive scores, and whether all scores are finite.");
}
