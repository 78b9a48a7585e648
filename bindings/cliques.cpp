#include <nanobind/stl/string.h>

#include "bindings/arrays.hpp"
#include "bindings/labels.hpp"
#include "bindings/python_control.hpp"
#include "core/cliques/frank_wolfe.hpp"
#include "core/cliques/residuals.hpp"
#include "core/numerics/k_support.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::cliques;
using namespace multimargin::labels;
using namespace multimargin::numerics;

namespace {

// Label subsets as (starts, members).
LabelSubsets subset_list(std::size_t labels, const nb::tuple& lists) {
    const auto starts = exactly<Vector<std::int64_t>>(lists[0]);
    const auto members = exactly<Vector<std::int32_t>>(lists[1]);
    LabelSubsets subsets{labels, {}, {}};
    for (auto s : view(starts)) subsets.starts.push_back(static_cast<std::size_t>(s));
    for (auto k : view(members)) subsets.members.push_back(static_cast<std::uint32_t>(k));
    return subsets;
}

CliqueList clique_list(const nb::tuple& lists, std::size_t budget) {
    CliqueList cliques;
    for (auto s : view(exactly<Vector<std::int64_t>>(lists[0]))) cliques.starts.push_back(static_cast<std::size_t>(s));
    for (auto t : view(exactly<Vector<std::int32_t>>(lists[1])))
        cliques.members.push_back(static_cast<std::uint32_t>(t));
    for (auto s : view(exactly<Vector<double>>(lists[2]))) cliques.scale.push_back(s);
    cliques.budget = budget;
    return cliques;
}

template <class T>
nb::object array_of(const std::vector<T>& values) {
    return new_array<T>({values.size()}, [&](T* out) { std::copy(values.begin(), values.end(), out); });
}

nb::tuple k_support_norm(Vector<double> a, std::size_t budget) {
    std::vector<double> eta(a.shape(0));
    const double value = k_support(view(a), budget, eta.data());
    return nb::make_tuple(value, array_of(eta));
}

nb::dict fit_cliques(const Rows& rows, const LabelBits& truth, double bias, nb::tuple subsets, nb::tuple cliques,
                     std::size_t budget, Vector<double> eta, const CliqueInference& inference, nb::object start,
                     nb::object centre, double enough, int oracle_calls, bool pairwise, bool fixed_eta, double tol,
                     int max_iter, int threads, std::uint64_t seed, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            if (truth.rows() != x.rows()) throw std::invalid_argument("labels do not fit the rows");
            const CliqueProblem<X> problem{x, bias, truth, subset_list(truth.size(), subsets),
                                           clique_list(cliques, budget)};
            const CliqueParams params{tol, max_iter, oracle_calls, pairwise, fixed_eta, threads, seed};
            CliqueFrankWolfe<X> solver(problem, inference, params, view(eta));
            CliqueResult result;
            {
                const bool warm = !start.is_none();
                Vector<std::int64_t> row;
                Vector<double> weight;
                Matrix<std::uint64_t> bits;
                if (warm) {
                    row = exactly<Vector<std::int64_t>>(start[0]);
                    weight = exactly<Vector<double>>(start[1]);
                    bits = exactly<Matrix<std::uint64_t>>(start[2]);
                }
                const bool proximal = !centre.is_none();
                Matrix<double> origin;
                if (proximal) origin = exactly<Matrix<double>>(centre);
                if (proximal && (origin.shape(0) != problem.subsets.size() ||
                                 origin.shape(1) != static_cast<std::size_t>(x.cols() + 1)))
                    throw std::invalid_argument("centre must have one row per subset and one column per feature and 1");
                nb::gil_scoped_release release;
                if (warm) solver.start_from(view(row), view(weight), bits.data());
                result =
                    proximal ? solver.step_from({origin.data(), origin.size()}, enough, control) : solver.run(control);
            }
            const AtomArrays& atoms = solver.atoms();
            nb::dict out;
            out["primal"] = result.primal;
            out["dual"] = result.dual;
            out["passes"] = result.passes;
            out["status"] = result.status;
            out["oracle_calls"] = result.calls;
            out["eta"] = array_of(solver.eta());
            out["weights"] =
                new_array<double>({problem.subsets.size(), static_cast<std::size_t>(x.cols() + 1)},
                                  [&](double* w) { std::copy(solver.weights().begin(), solver.weights().end(), w); });
            out["atoms"] = nb::make_tuple(array_of(atoms.row), array_of(atoms.weight),
                                          new_array<Word>({atoms.row.size(), truth.words()}, [&](Word* w) {
                                              std::copy(atoms.bits.begin(), atoms.bits.end(), w);
                                          }));
            return out;
        },
        rows.matrix);
}

// out: as many rows as there are rows with atoms, a column per subset.
template <class T>
void residuals(const LabelBits& truth, nb::tuple subsets, Vector<std::int64_t> row, Vector<std::int64_t> first,
               Vector<double> weight, Matrix<std::uint64_t> bits, int threads,
               nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    const LabelSubsets list = subset_list(truth.size(), subsets);
    if (out.shape(0) != row.shape(0) || out.shape(1) != list.size()) throw std::invalid_argument("shapes differ");
    nb::gil_scoped_release release;
    clique_residuals(truth, list, AtomList{view(row), view(first), view(weight), bits.data()}, threads, control,
                     out.data());
}

}  // namespace

void bind_cliques(nb::module_& m) {
    nb::class_<LabelBits>(m, "LabelBits", "Truth and cost of every row, labels as bits.")
        .def(
            "__init__", [](LabelBits* self, const PythonLabels& labels) { new (self) LabelBits(labels.view_of()); },
            nb::arg("labels"));
    m.def("k_support", &k_support_norm, nb::arg("a").noconvert(), nb::arg("budget"));
    m.def("fit_cliques", &fit_cliques, nb::arg("rows"), nb::arg("labels"), nb::arg("bias"), nb::arg("subsets"),
          nb::arg("cliques"), nb::arg("budget"), nb::arg("eta").noconvert(), nb::arg("inference"),
          nb::arg("start").none(), nb::arg("centre").none(), nb::arg("enough"), nb::arg("oracle_calls"),
          nb::arg("pairwise"), nb::arg("fixed_eta"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("threads"),
          nb::arg("seed"), nb::arg("report").none(), nb::arg("time_limit"));
    const auto def_residuals = [&]<class T>(T) {
        m.def("clique_residuals", &residuals<T>, nb::arg("labels"), nb::arg("subsets"), nb::arg("row").noconvert(),
              nb::arg("first").noconvert(), nb::arg("weight").noconvert(), nb::arg("bits").noconvert(),
              nb::arg("threads"), nb::arg("out").noconvert());
    };
    def_residuals(float{});
    def_residuals(double{});
}
