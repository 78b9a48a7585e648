#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/boosting/adaboost_mh.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::boosting;

namespace {

// What a fit returns.
struct BoostingFit {
    fit::FitResult result;
    Array features, thresholds, below, above;
};

template <class Bins, class X>
BoostingFit boost(const X& x, const PythonCells& positives, double smoothing, Split split, const PythonLimits& limits) {
    expect(x.rows() + 1 == static_cast<Index>(positives.offsets.shape(0)), "the labels do not fit the rows");
    expect(x.rows() > 0 && x.cols() > 0 && positives.n_labels > 0, "there must be rows, features and labels");
    PythonControl control = limits.control();
    fit::FitResult result;
    typename AdaBoostMH<Bins>::Rounds rounds;
    {
        nb::gil_scoped_release release;
        const int threads = limits.core.threads;
        const Bins bins(x, split, threads, control);
        AdaBoostMH<Bins> engine(bins, positives.list(), positives.n_labels, smoothing, threads);
        result = fit::run(engine, limits.core, control);
        rounds = engine.take_rounds();
    }
    const auto count = static_cast<Index>(rounds.features.size());
    return {result, moved_array(std::move(rounds.features), {count}),
            moved_array(std::move(rounds.thresholds), {count}),
            moved_array(std::move(rounds.below), {count, positives.n_labels}),
            moved_array(std::move(rounds.above), {count, positives.n_labels})};
}

BoostingFit fit_boosting(const Rows& rows, const PythonCells& positives, double smoothing, bool presence,
                         const PythonLimits& limits) {
    const Split split = presence ? Split::presence : Split::threshold;
    return std::visit(
        [&]<class X>(const X& x) {
            if constexpr (requires { x.data(); })
                return boost<DenseBins>(x, positives, smoothing, split, limits);
            else
                return boost<SparseBins>(x, positives, smoothing, split, limits);
        },
        rows.matrix);
}

}  // namespace

void bind_boosting(nb::module_& m) {
    nb::class_<BoostingFit>(m, "BoostingFit", "The rounds of boosting.")
        .def_ro("result", &BoostingFit::result)
        .def_ro("features", &BoostingFit::features, nb::rv_policy::automatic, "of the splits, by round")
        .def_ro("thresholds", &BoostingFit::thresholds, nb::rv_policy::automatic)
        .def_ro("below", &BoostingFit::below, nb::rv_policy::automatic,
                "rounds x labels: values where the feature is at most the threshold")
        .def_ro("above", &BoostingFit::above, nb::rv_policy::automatic, "rounds x labels: values elsewhere");
    m.def("fit_boosting", &fit_boosting, nb::kw_only(), nb::arg("rows"), nb::arg("positives"), nb::arg("smoothing"),
          nb::arg("presence"), nb::arg("limits"));
}
