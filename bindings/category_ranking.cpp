#include "core/separation/category_ranking.hpp"

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/separation/category_perceptron.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::separation;

namespace {

// What a fit returns.
struct CategoryRankingFit {
    fit::FitResult result;
    Array weights, dual;
};

// solve(x, labels, weights) -> result and dual variables, outside Python
template <class Solve>
CategoryRankingFit rank(const Rows& rows, const PythonLabels& labels, Solve&& solve) {
    const auto source = labels.view_of();
    return std::visit(
        [&](const auto& x) -> CategoryRankingFit {
            expect(x.rows() == source.rows, "the labels do not fit the rows");
            const Index columns = x.cols() + 1;
            std::vector<double> weights(static_cast<std::size_t>(source.labels * columns)), dual;
            fit::FitResult result;
            {
                nb::gil_scoped_release release;
                result = solve(x, source, weights, dual);
            }
            const Index rows_of_dual = dual.empty() ? 0 : source.rows;
            return {result, moved_array(std::move(weights), {source.labels, columns}),
                    moved_array(std::move(dual), {rows_of_dual, source.labels})};
        },
        rows.matrix);
}

CategoryRankingFit fit_category_ranking(const Rows& rows, const PythonLabels& labels, double bias,
                                        const PythonLimits& limits) {
    PythonControl control = limits.control();
    return rank(rows, labels, [&]<class X>(const X& x, const auto& source, auto& weights, auto& dual) {
        CategorySolver<X> solver(x, source, bias);
        const fit::FitResult result = solver.run(limits.core, control);
        solver.copy_weights(weights.data());
        dual = solver.take_dual();
        return result;
    });
}

CategoryRankingFit fit_category_perceptron(const Rows& rows, const PythonLabels& labels, double bias, bool worst,
                                           const PythonLimits& limits) {
    PythonControl control = limits.control();
    const auto update = worst ? PerceptronUpdate::worst : PerceptronUpdate::uniform;
    return rank(rows, labels, [&]<class X>(const X& x, const auto& source, auto& weights, auto&) {
        CategoryPerceptron<X> perceptron(x, source, bias, update, limits.core.seed);
        const fit::FitResult result = fit::run(perceptron, limits.core, control, {}, false);
        perceptron.copy_mean(weights);
        return result;
    });
}

}  // namespace

void bind_category_ranking(nb::module_& m) {
    nb::class_<CategoryRankingFit>(m, "CategoryRankingFit", "What a ranking of labels leaves.")
        .def_ro("result", &CategoryRankingFit::result)
        .def_ro("weights", &CategoryRankingFit::weights, nb::rv_policy::automatic,
                "labels x (features + 1); the last column belongs to the constant feature")
        .def_ro("dual", &CategoryRankingFit::dual, nb::rv_policy::automatic,
                "rows x labels: how often the weights of a label contain a row; none of a perceptron");
    m.def("fit_category_ranking", &fit_category_ranking, nb::kw_only(), nb::arg("rows"), nb::arg("labels"),
          nb::arg("bias"), nb::arg("limits"));
    m.def("fit_category_perceptron", &fit_category_perceptron, nb::kw_only(), nb::arg("rows"), nb::arg("labels"),
          nb::arg("bias"), nb::arg("worst"), nb::arg("limits"));
}
