#include "core/separation/rank_svm.hpp"

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::separation;

namespace {

// What a fit returns.
struct RankSVMFit {
    fit::FitResult result;
    Array weights, alpha;
};

RankSVMFit fit_rank_svm(const Rows& rows, const PythonLabels& labels, double bias, const PythonLimits& limits) {
    PythonControl control = limits.control();
    const auto source = labels.view_of();
    return std::visit(
        [&]<class X>(const X& x) -> RankSVMFit {
            expect(x.rows() == source.rows, "the labels do not fit the rows");
            const Index columns = x.cols() + 1;
            std::vector<double> weights(static_cast<std::size_t>(source.labels * columns));
            fit::FitResult result;
            RankSolver<X> solver(x, source, bias);
            {
                nb::gil_scoped_release release;
                result = solver.run(limits.core, control);
                solver.copy_weights(weights.data());
            }
            auto alpha = solver.take_alpha();
            const auto pairs = static_cast<Index>(alpha.size());
            return {result, moved_array(std::move(weights), {source.labels, columns}),
                    moved_array(std::move(alpha), {pairs})};
        },
        rows.matrix);
}

}  // namespace

void bind_rank_svm(nb::module_& m) {
    nb::class_<RankSVMFit>(m, "RankSVMFit", "What a ranking SVM leaves.")
        .def_ro("result", &RankSVMFit::result)
        .def_ro("weights", &RankSVMFit::weights, nb::rv_policy::automatic,
                "labels x (features + 1); the last column belongs to the constant feature")
        .def_ro("alpha", &RankSVMFit::alpha, nb::rv_policy::automatic,
                "dual variables of the pairs of all rows, negative labels running fastest");
    m.def("fit_rank_svm", &fit_rank_svm, nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("bias"),
          nb::arg("limits"));
}
