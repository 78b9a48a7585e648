#include "core/separation/rank_svm.hpp"

#include "bindings/labels.hpp"
#include "bindings/python_control.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::labels;
using namespace multimargin::separation;

namespace {

LabelLists label_lists(const PythonCells& cells) { return {view(cells.offsets), view(cells.labels)}; }

nb::dict fit_rank_svm(const Rows& rows, const PythonCells& positive, const PythonCells& negative, Vector<double> cost,
                      double bias, double tol, int max_iter, std::uint64_t seed, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            const Index n_labels = positive.n_labels;
            const auto n = static_cast<std::size_t>(x.rows());
            expect(cost.shape(0) == n && positive.offsets.shape(0) == n + 1 && negative.offsets.shape(0) == n + 1 &&
                       negative.n_labels == n_labels,
                   "the labels or costs do not fit the rows");
            RankSolver<X> solver(x, n_labels, label_lists(positive), label_lists(negative), view(cost), bias);
            RankResult result;
            {
                nb::gil_scoped_release release;
                result = solver.run(tol, max_iter, seed, control);
            }
            nb::dict out;
            out["primal"] = result.primal;
            out["dual"] = result.dual;
            out["passes"] = result.passes;
            out["status"] = result.status;
            out["weights"] =
                new_array<double>({static_cast<std::size_t>(n_labels), static_cast<std::size_t>(x.cols() + 1)},
                                  [&](double* w) { solver.copy_weights(w); });
            // of the pairs of all rows, negative labels running fastest
            out["alpha"] =
                new_array<double>({solver.alpha().size()}, [&](double* a) { std::ranges::copy(solver.alpha(), a); });
            return out;
        },
        rows.matrix);
}

}  // namespace

void bind_rank_svm(nb::module_& m) {
    m.def("fit_rank_svm", &fit_rank_svm, nb::arg("rows"), nb::arg("positive"), nb::arg("negative"),
          nb::arg("cost").noconvert(), nb::arg("bias"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("seed"),
          nb::arg("report").none(), nb::arg("time_limit"));
}
