#include "bindings/fit.hpp"

#include <limits>

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using fit::FitResult;

void bind_fit(nb::module_& m) {
    nb::enum_<Status>(m, "Status", "How a solver ended.")
        .value("converged", Status::converged)
        .value("max_iter", Status::max_iter)
        .value("time_limit", Status::time_limit)
        .value("stopped", Status::stopped, "by the callback")
        .value("hand_over", Status::hand_over, "another solver would finish sooner")
        .value("imprecise", Status::imprecise, "rounding keeps the gap above the tolerance");
    nb::class_<PythonLimits>(m, "Limits", "When a solver stops, and whom it tells.")
        .def(
            "__init__",
            [](PythonLimits* self, double tol, int max_iter, int threads, std::uint64_t seed, double time_limit,
               nb::object report, int passes, bool iterates) {
                new (self)
                    PythonLimits{{tol, max_iter, threads, seed, passes}, time_limit, std::move(report), iterates};
            },
            nb::kw_only(), nb::arg("tol"), nb::arg("max_iter"), nb::arg("threads"), nb::arg("seed") = 0,
            nb::arg("time_limit") = std::numeric_limits<double>::infinity(), nb::arg("report") = nb::none(),
            nb::arg("passes") = 0, nb::arg("iterates") = false,
            nb::sig("def __init__(self, *, tol: float, max_iter: int, threads: int, seed: int = 0, time_limit: float = "
                    "float('inf'), report: collections.abc.Callable[[int, float, float | None, float | None], bool] | "
                    "None = None, passes: int = 0, iterates: bool = False) -> None"))
        .def_prop_ro("tol", [](const PythonLimits& l) { return l.core.tol; })
        .def_prop_ro("max_iter", [](const PythonLimits& l) { return l.core.max_iter; })
        .def_prop_ro("threads", [](const PythonLimits& l) { return l.core.threads; })
        .def_prop_ro("seed", [](const PythonLimits& l) { return l.core.seed; })
        .def_prop_ro("passes", [](const PythonLimits& l) { return l.core.passes_before; })
        .def_ro("time_limit", &PythonLimits::time_limit)
        .def_prop_ro(
            "report", [](const PythonLimits& l) { return l.report; },
            nb::sig("def report(self, /) -> collections.abc.Callable[[int, float, float | None, float | None], bool] | "
                    "None"));
    nb::class_<FitResult>(m, "FitResult", "How a fit ended, and the bounds of the optimum it found.")
        .def_prop_ro("primal", [](const FitResult& r) { return r.bounds.primal; })
        .def_prop_ro("dual", [](const FitResult& r) { return r.bounds.dual; })
        .def_ro("passes", &FitResult::passes)
        .def_ro("status", &FitResult::status)
        .def_ro("oracle_exact", &FitResult::oracle_exact);
}
