#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "bindings/cuts.hpp"
#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/submodular/blocks.hpp"
#include "core/submodular/bundle.hpp"
#include "core/submodular/certifier.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::inference;
using namespace multimargin::labels;
using namespace multimargin::submodular;

namespace {

// The problem as Python states it; holds on to the arrays.
class SubmodularData {
  public:
    SubmodularData(nb::object rows, const PythonLabels& labels, const Matrix<std::int32_t>& pairs,
                   Vector<double> factor, double bias, bool hamming, bool paper, int node_limit)
        : rows_(std::move(rows)),
          labels_(static_cast<int>(labels.positives.n_labels)),
          cost_(labels.row),
          miss_(labels.positive),
          excess_(labels.negative),
          pairs_(pair_list(pairs, labels_)),
          factor_(std::move(factor)),
          bias_(bias),
          loss_(hamming ? LossKind::hamming : LossKind::f_score),
          oracle_(paper ? OracleKind::paper : OracleKind::exact),
          node_limit_(node_limit) {
        const Index n = std::visit([](const auto& x) { return x.rows(); }, nb::cast<const Rows&>(rows_).matrix);
        const auto source = labels.view_of();
        expect(source.rows == n && factor_.shape(0) == pairs_.size(), "labels or factors do not fit");
        truth_.resize(static_cast<std::size_t>(n * labels_), absent);
        for (Index i = 0; i < n; ++i) {
            std::uint8_t* row = truth_.data() + i * labels_;
            for (auto l : source.positives.row(i)) row[l] = present;
            for (auto l : source.missing_in(i)) row[l] = unknown;
            for (int l = 0; l < labels_; ++l)
                if (source.left_out[static_cast<std::size_t>(l)]) row[l] = unknown;
        }
    }

    int labels() const { return labels_; }
    std::size_t pairs() const { return pairs_.size(); }

    // use(problem), whatever the kind of rows
    template <class Use>
    auto with_problem(Use&& use) const {
        return std::visit(
            [&]<class X>(const X& x) {
                return use(SubmodularProblem<X>{x,
                                                bias_,
                                                labels_,
                                                pairs_,
                                                view(factor_),
                                                view(cost_),
                                                truth_,
                                                loss_,
                                                {view(miss_), view(excess_)},
                                                oracle_,
                                                node_limit_});
            },
            nb::cast<const Rows&>(rows_).matrix);
    }

  private:
    nb::object rows_;
    int labels_;
    Vector<double> cost_, miss_, excess_;
    Pairs pairs_;
    Vector<double> factor_;
    double bias_;
    LossKind loss_;
    OracleKind oracle_;
    int node_limit_;
    std::vector<std::uint8_t> truth_;
};

// Label sets of the rows and their weights, sorted by row; set k has labels [offsets[k], offsets[k + 1]).
struct Planes {
    Vector<std::int64_t> row;
    Vector<double> weight;
    Vector<std::int64_t> offsets;
    Vector<std::int32_t> labels;

    void check(Index rows, int n_labels) const {
        const auto of = view(row), starts = view(offsets);
        expect(weight.shape(0) == of.size() && starts.size() == of.size() + 1 && starts.front() == 0 &&
                   starts.back() == static_cast<Index>(labels.shape(0)) && std::ranges::is_sorted(starts) &&
                   std::ranges::is_sorted(of) && (of.empty() || (of.front() >= 0 && of.back() < rows)),
               "the planes do not fit the rows");
        for (auto l : view(labels)) expect(l >= 0 && l < n_labels, "label of a plane out of range");
    }
    // visit(weight, labels) for the planes of row n
    template <class Visit>
    void planes_of(Index n, Visit&& visit) const {
        const auto of = view(row);
        const auto [first, last] = std::equal_range(of.begin(), of.end(), n);
        for (auto k = static_cast<std::size_t>(first - of.begin()); k < static_cast<std::size_t>(last - of.begin());
             ++k)
            visit(weight(k), view(labels).subspan(static_cast<std::size_t>(offsets(k)),
                                                  static_cast<std::size_t>(offsets(k + 1) - offsets(k))));
    }
};

// Weights of the labels and features, constants of the labels, attraction of the pairs.
struct SubmodularArrays {
    Matrix<double> coef;
    Vector<double> intercept, attraction;

    template <class X>
    SubmodularModel model(const SubmodularProblem<X>& problem) const {
        expect(static_cast<int>(coef.shape(0)) == problem.labels &&
                   static_cast<Index>(coef.shape(1)) == problem.x.cols() &&
                   static_cast<int>(intercept.shape(0)) == problem.labels &&
                   attraction.shape(0) == problem.pairs.size(),
               "the model does not fit the data");
        const auto list = [](const auto& array) {
            return std::vector<double>(array.data(), array.data() + array.size());
        };
        return {list(coef), list(intercept), list(attraction)};
    }
};

// The planes in use, for a later start and for the certifier.
template <class Solver>
Planes planes_of(const Solver& solver, Index rows) {
    std::vector<double> weight;
    std::vector<std::int64_t> row, offsets{0};
    std::vector<std::int32_t> labels;
    for (Index n = 0; n < rows; ++n)
        solver.planes_of(n, [&](double of_plane, std::span<const std::int32_t> its_labels) {
            row.push_back(n);
            weight.push_back(of_plane);
            labels.insert(labels.end(), its_labels.begin(), its_labels.end());
            offsets.push_back(static_cast<std::int64_t>(labels.size()));
        });
    const auto array = []<class T>(std::vector<T> values) {
        const auto size = static_cast<Index>(values.size());
        return Vector<T>(moved_array(std::move(values), {size}));
    };
    return {array(std::move(row)), array(std::move(weight)), array(std::move(offsets)), array(std::move(labels))};
}

struct SubmodularFit {
    fit::FitResult result;
    Array coef, intercept, attraction;
    std::optional<Planes> planes;
};

nb::object shown(SubmodularModel model, Index labels, Index cols) {
    const auto pairs = static_cast<Index>(model.attraction.size());
    return nb::make_tuple(moved_array(std::move(model.coef), {labels, cols}),
                          moved_array(std::move(model.intercept), {labels}),
                          moved_array(std::move(model.attraction), {pairs}));
}

template <class Solver>
void let_watch(const PythonLimits& limits, const Solver& solver, Index labels, Index cols, PythonControl& control) {
    if (limits.iterates) control.show([&solver, labels, cols] { return shown(solver.iterate(), labels, cols); });
}

template <class Run, class Solver>
SubmodularFit solve(Run&& run, Solver& solver, Index labels, Index cols) {
    fit::FitResult result;
    SubmodularModel model;
    {
        nb::gil_scoped_release release;
        result = run();
        model = solver.model();
    }
    const auto pairs = static_cast<Index>(model.attraction.size());
    return {result, moved_array(std::move(model.coef), {labels, cols}),
            moved_array(std::move(model.intercept), {labels}), moved_array(std::move(model.attraction), {pairs}),
            std::nullopt};
}

// certify: false where nobody reads the bounds of a run that was cut short.
SubmodularFit fit_submodular(const SubmodularData& data, std::optional<Planes> planes,
                             std::optional<SubmodularArrays> model, bool keep_planes, bool certify,
                             const PythonLimits& limits) {
    PythonControl control = limits.control();
    return data.with_problem([&]<class X>(const SubmodularProblem<X>& problem) {
        SubmodularBlocks<X> solver(problem, limits.core);
        if (planes && model) {
            planes->check(problem.rows(), problem.labels);
            solver.start_from(*planes, model->model(problem), control);
        }
        let_watch(limits, solver, problem.labels, problem.x.cols(), control);
        SubmodularFit found =
            solve([&] { return solver.run(certify, control); }, solver, problem.labels, problem.x.cols());
        if (keep_planes) found.planes = planes_of(solver, problem.rows());
        return found;
    });
}

SubmodularFit fit_submodular_bundle(const SubmodularData& data, double stride, const PythonLimits& limits) {
    PythonControl control = limits.control();
    return data.with_problem([&]<class X>(const SubmodularProblem<X>& problem) {
        SubmodularBundle<X> solver(problem, limits.core, stride);
        let_watch(limits, solver, problem.labels, problem.x.cols(), control);
        return solve([&] { return solver.run(control); }, solver, problem.labels, problem.x.cols());
    });
}

// Bounds (upper, lower or None) and the share of oracle calls proved exact.
std::tuple<double, std::optional<double>, double> certify_submodular(const SubmodularData& data,
                                                                     const SubmodularArrays& arrays,
                                                                     std::optional<Planes> planes, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    return data.with_problem([&]<class X>(const SubmodularProblem<X>& problem) {
        const SubmodularModel model = arrays.model(problem);
        if (planes) planes->check(problem.rows(), problem.labels);
        nb::gil_scoped_release release;
        SubmodularCertifier<X> certifier(problem, threads);
        const SubmodularPrimal primal = certifier.primal(model, true, control, [](Index, const RowFinding&) {});
        std::optional<double> dual;
        if (planes) dual = certifier.dual([&](Index n, auto&& visit) { planes->planes_of(n, visit); }, control);
        return std::tuple{primal.value, dual, primal.calls.exact()};
    });
}

template <class T>
nb::ndarray<nb::numpy, const T> numpy(const Vector<T>& array) {
    return nb::ndarray<nb::numpy, const T>(array);
}

}  // namespace

void bind_submodular(nb::module_& m) {
    nb::class_<SubmodularData>(m, "SubmodularData")
        .def(nb::init<nb::object, const PythonLabels&, const Matrix<std::int32_t>&, Vector<double>, double, bool, bool,
                      int>(),
             nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("pairs").noconvert(),
             nb::arg("factor").noconvert(), nb::arg("bias"), nb::arg("hamming"), nb::arg("paper"),
             nb::arg("node_limit"));
    nb::class_<Planes>(m, "Planes", "Label sets of the rows and their weights: the dual variables of a submodular fit.")
        .def(nb::init<Vector<std::int64_t>, Vector<double>, Vector<std::int64_t>, Vector<std::int32_t>>(),
             nb::arg("row").noconvert(), nb::arg("weight").noconvert(), nb::arg("offsets").noconvert(),
             nb::arg("labels").noconvert())
        .def_prop_ro(
            "row", [](const Planes& p) { return numpy(p.row); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "weight", [](const Planes& p) { return numpy(p.weight); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "offsets", [](const Planes& p) { return numpy(p.offsets); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "labels", [](const Planes& p) { return numpy(p.labels); }, nb::rv_policy::automatic)
        .def("__reduce__", [](nb::handle self) {
            return nb::make_tuple(self.type(), nb::make_tuple(self.attr("row"), self.attr("weight"),
                                                              self.attr("offsets"), self.attr("labels")));
        });
    nb::class_<SubmodularArrays>(m, "SubmodularArrays", "The arrays of a submodular model.")
        .def(nb::init<Matrix<double>, Vector<double>, Vector<double>>(), nb::arg("coef").noconvert(),
             nb::arg("intercept").noconvert(), nb::arg("attraction").noconvert());
    nb::class_<SubmodularFit>(m, "SubmodularFit", "What a submodular fit leaves.")
        .def_ro("result", &SubmodularFit::result)
        .def_ro("coef", &SubmodularFit::coef, nb::rv_policy::automatic)
        .def_ro("intercept", &SubmodularFit::intercept, nb::rv_policy::automatic)
        .def_ro("attraction", &SubmodularFit::attraction, nb::rv_policy::automatic)
        .def_ro("planes", &SubmodularFit::planes, nb::rv_policy::copy);
    m.def("fit_submodular", &fit_submodular, nb::arg("data"), nb::arg("planes").none(), nb::arg("model").none(),
          nb::arg("keep_planes"), nb::arg("certify"), nb::arg("limits"));
    m.def("fit_submodular_bundle", &fit_submodular_bundle, nb::arg("data"), nb::arg("stride"), nb::arg("limits"));
    m.def("certify_submodular", &certify_submodular, nb::arg("data"), nb::arg("model"), nb::arg("planes").none(),
          nb::arg("threads"));
}
