#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/cliques/frank_wolfe.hpp"
#include "core/cliques/pair_scores.hpp"
#include "core/cliques/residuals.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::cliques;

namespace {

CliqueList clique_list(const Vector<std::int64_t>& starts, const Vector<std::int32_t>& members,
                       const Vector<double>& scale, std::size_t budget) {
    const auto from = view(starts);
    expect(from.size() == scale.shape(0) + 1 && from.front() == 0 &&
               from.back() == static_cast<std::int64_t>(members.shape(0)) && std::ranges::is_sorted(from),
           "starts of cliques must rise from 0 to the number of their subsets");
    expect(std::ranges::all_of(view(members), [](auto t) { return t >= 0; }), "a subset of a clique is not there");
    CliqueList cliques;
    cliques.starts.assign(from.begin(), from.end());
    cliques.members.assign(view(members).begin(), view(members).end());
    cliques.scale.assign(view(scale).begin(), view(scale).end());
    cliques.budget = budget;
    return cliques;
}

// Distributions over labellings: labelling j of row[j] has weight[j]; the true labelling of a row has the rest. Holds
// on to the arrays.
struct PythonAtoms {
    Vector<std::int64_t> row;
    Vector<double> weight;
    Matrix<Word> bits;
    std::vector<std::int64_t> rows, first;  // rows with labellings, and where those of each begin

    AtomList list() const { return {rows, first, view(weight), bits.data()}; }
    // Whether every labelling belongs to a row of these labels.
    bool fits(const LabelBits& labels) const {
        return bits.shape(1) == labels.words() && (rows.empty() || (rows.front() >= 0 && rows.back() < labels.rows()));
    }
};

PythonAtoms checked_atoms(Vector<std::int64_t> row, Vector<double> weight, Matrix<Word> bits) {
    expect(row.shape(0) == weight.shape(0) && row.shape(0) == bits.shape(0) && std::ranges::is_sorted(view(row)),
           "atoms need a row, a weight and a labelling each, in the order of the rows");
    std::vector<std::int64_t> rows, first;
    for (std::size_t j = 0; j < row.shape(0); ++j)
        if (rows.empty() || row(j) != rows.back()) {
            rows.push_back(row(j));
            first.push_back(static_cast<std::int64_t>(j));
        }
    first.push_back(static_cast<std::int64_t>(row.shape(0)));
    return {std::move(row), std::move(weight), std::move(bits), std::move(rows), std::move(first)};
}

// An array that somebody holds, for reading.
template <class T, class... Shape>
auto shown(const nb::ndarray<const T, Shape...>& array) {
    return nb::ndarray<nb::numpy, const T, Shape...>(array);
}

template <class View, class T>
View kept(std::vector<T>&& values, std::initializer_list<Index> shape) {
    return exactly<View>(nb::cast(moved_array(std::move(values), shape)));
}

PythonAtoms atoms_of(AtomArrays&& atoms, std::size_t words) {
    const auto n = static_cast<Index>(atoms.row.size());
    return checked_atoms(kept<Vector<std::int64_t>>(std::move(atoms.row), {n}),
                         kept<Vector<double>>(std::move(atoms.weight), {n}),
                         kept<Matrix<Word>>(std::move(atoms.bits), {n, static_cast<Index>(words)}));
}

// Where a proximal step begins, subsets x (features + 1), and the gap at which it ends.
struct PythonStep {
    Matrix<double> centre;
    double enough;
};

// Columns that the same cliques see, as a matrix of their own. Holds on to the arrays.
struct PythonGroup {
    nb::object rows;
    Vector<std::int64_t> columns;
    bool nodes;
    Vector<std::uint8_t> cliques;
};

// The groups, or all features in one that everybody sees.
template <class X>
std::vector<FeatureGroup<X>> feature_groups(const X& x, double bias, const std::vector<PythonGroup>& groups,
                                            std::size_t cliques) {
    std::vector<FeatureGroup<X>> found;
    if (groups.empty()) {
        std::vector<Index> columns(static_cast<std::size_t>(x.cols() + 1));
        std::iota(columns.begin(), columns.end(), 0);
        found.push_back({x, bias, std::move(columns), true, std::vector<std::uint8_t>(cliques, 1)});
    }
    for (const auto& group : groups) {
        const auto* own = std::get_if<X>(&nb::cast<const Rows&>(group.rows).matrix);
        expect(own && own->rows() == x.rows(), "the features of a group are of another kind than the rows");
        const auto columns = view(group.columns);
        const auto seen = view(group.cliques);
        expect(static_cast<Index>(columns.size()) == own->cols() &&
                   std::ranges::all_of(columns, [&](auto j) { return j >= 0 && j <= x.cols(); }) &&
                   seen.size() == cliques,
               "the columns or the cliques of a group do not fit");
        std::vector<Index> places(columns.begin(), columns.end());
        places.push_back(-1);  // the constant feature is a column like others
        found.push_back({*own, 0.0, std::move(places), group.nodes, {seen.begin(), seen.end()}});
    }
    return found;
}

struct CliqueFit {
    fit::FitResult result;
    Array weights, eta;
    PythonAtoms atoms;
};

CliqueFit fit_cliques(Visits visits, const Rows& rows, const LabelBits& labels, double bias,
                      const CliqueInference& inference, const CliqueList& cliques, const Vector<double>& eta,
                      const std::vector<PythonGroup>& groups, const std::optional<PythonAtoms>& start,
                      const std::optional<PythonStep>& step, const PythonLimits& limits) {
    PythonControl control = limits.control();
    return std::visit(
        [&]<class X>(const X& x) -> CliqueFit {
            const LabelSubsets& subsets = inference.subsets();
            const Index columns = x.cols() + 1;
            expect(labels.rows() == x.rows() && labels.size() == subsets.labels, "labels do not fit the rows");
            expect(eta.shape(0) == cliques.size() &&
                       std::ranges::all_of(cliques.members, [&](auto t) { return t < subsets.size(); }),
                   "the cliques do not fit the label subsets or the shares");
            expect(!start || start->fits(labels), "the atoms do not fit the labels");
            expect(!step || (step->centre.shape(0) == subsets.size() &&
                             static_cast<Index>(step->centre.shape(1)) == columns),
                   "centre must have one row per subset and one column per feature and 1");
            const auto features = feature_groups(x, bias, groups, cliques.size());
            const CliqueProblem<X> problem{x.rows(), columns, features, labels, subsets, cliques};
            CliqueFrankWolfe<X> solver(problem, inference, view(eta), visits, limits.core);
            fit::FitResult result;
            {
                nb::gil_scoped_release release;
                if (start) solver.start_from(view(start->row), view(start->weight), start->bits.data());
                if (step) {
                    fit::Limits quiet = limits.core;
                    quiet.telling = fit::Telling::passes;
                    ProximalStep<X> engine(solver, {step->centre.data(), step->centre.size()}, step->enough);
                    result = fit::run(engine, quiet, control);
                } else {
                    result = fit::run(solver, limits.core, control);
                }
            }
            return {result, moved_array(solver.take_weights(), {static_cast<Index>(subsets.size()), columns}),
                    moved_array(solver.take_eta(), {static_cast<Index>(cliques.size())}),
                    atoms_of(solver.take_atoms(), labels.words())};
        },
        rows.matrix);
}

// out: as many rows as there are rows with atoms, a column per subset.
template <class T>
void residuals(const LabelBits& labels, const LabelSubsets& subsets, const PythonAtoms& atoms, int threads,
               nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    expect(subsets.labels == labels.size() && atoms.fits(labels), "the subsets or atoms do not fit the labels");
    expect(out.shape(0) == atoms.rows.size() && out.shape(1) == subsets.size(),
           "out must have a row for every row with atoms and a column per subset");
    nb::gil_scoped_release release;
    clique_residuals(labels, subsets, atoms.list(), threads, control, out.data());
}

struct PythonPairSquares {
    Array labels, pairs;
    double expected_loss;
};

PythonPairSquares pair_squares(const Rows& rows, const LabelBits& labels, double bias, const PythonAtoms& atoms,
                               const Matrix<std::int32_t>& pairs, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    const auto n = static_cast<std::int32_t>(labels.size());
    std::vector<std::pair<int, int>> ends;
    expect(pairs.shape(1) == 2, "pairs need two labels each");
    for (std::size_t e = 0; e < pairs.shape(0); ++e) {
        ends.emplace_back(pairs(e, 0), pairs(e, 1));
        expect(0 <= ends.back().first && ends.back().first < ends.back().second && ends.back().second < n,
               "a pair must name two labels, the smaller one first");
    }
    return std::visit(
        [&]<class X>(const X& x) -> PythonPairSquares {
            expect(labels.rows() == x.rows() && atoms.fits(labels), "the labels or atoms do not fit the rows");
            PairSquares found;
            {
                nb::gil_scoped_release release;
                found = PairScorer<X>(x, bias, labels, atoms.list(), ends, std::max(threads, 1)).run(control);
            }
            return {moved_array(std::move(found.labels), {n}),
                    moved_array(std::move(found.pairs), {static_cast<Index>(ends.size())}), found.expected_loss};
        },
        rows.matrix);
}

std::pair<double, Array> k_support_norm(const Vector<double>& a, std::size_t budget) {
    std::vector<double> eta(a.shape(0));
    const double value = numerics::k_support(view(a), budget, eta.data());
    return {value, moved_array(std::move(eta), {static_cast<Index>(a.shape(0))})};
}

template <Visits visits>
void def_fit(nb::module_& m, const char* name) {
    m.def(
        name,
        [](const Rows& rows, const LabelBits& labels, double bias, const CliqueInference& inference,
           const CliqueList& cliques, Vector<double> eta, const std::vector<PythonGroup>& groups,
           std::optional<PythonAtoms> start, std::optional<PythonStep> step, const PythonLimits& limits) {
            return fit_cliques(visits, rows, labels, bias, inference, cliques, eta, groups, start, step, limits);
        },
        nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("bias"), nb::arg("inference"), nb::arg("cliques"),
        nb::arg("eta").noconvert(), nb::arg("groups"), nb::arg("start").none(), nb::arg("step").none(),
        nb::arg("limits"));
}

template <class T>
void def_residuals(nb::module_& m) {
    m.def("clique_residuals", &residuals<T>, nb::kw_only(), nb::arg("labels"), nb::arg("subsets"), nb::arg("atoms"),
          nb::arg("threads"), nb::arg("out").noconvert());
}

}  // namespace

void bind_cliques(nb::module_& m) {
    nb::class_<LabelBits>(m, "LabelBits", "Truth and cost of every row, labels as bits.")
        .def(
            "__init__", [](LabelBits* self, const PythonLabels& labels) { new (self) LabelBits(labels.view_of()); },
            nb::arg("labels"));
    nb::class_<CliqueList>(m, "Cliques", "The cliques of a model: the positions of their subsets, and r of the norm.")
        .def(
            "__init__",
            [](CliqueList* self, const Vector<std::int64_t>& starts, const Vector<std::int32_t>& members,
               const Vector<double>& scale,
               std::size_t budget) { new (self) CliqueList(clique_list(starts, members, scale, budget)); },
            nb::arg("starts").noconvert(), nb::arg("members").noconvert(), nb::arg("scale").noconvert(),
            nb::arg("budget"));
    nb::class_<PythonAtoms>(m, "Atoms",
                            "Distributions over labellings: each belongs to a row and has a weight; the true labelling "
                            "of a row has the rest.")
        .def(
            "__init__",
            [](PythonAtoms* self, Vector<std::int64_t> row, Vector<double> weight, Matrix<Word> bits) {
                new (self) PythonAtoms(checked_atoms(std::move(row), std::move(weight), std::move(bits)));
            },
            nb::arg("row").noconvert(), nb::arg("weight").noconvert(), nb::arg("bits").noconvert())
        .def_prop_ro(
            "row", [](const PythonAtoms& atoms) { return shown(atoms.row); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "weight", [](const PythonAtoms& atoms) { return shown(atoms.weight); }, nb::rv_policy::automatic)
        .def_prop_ro(
            "bits", [](const PythonAtoms& atoms) { return shown(atoms.bits); }, nb::rv_policy::automatic,
            "bit k % 64 of word k / 64 is label k")
        .def_prop_ro(
            "rows",
            [](const PythonAtoms& atoms) {
                auto rows = atoms.rows;
                return moved_array(std::move(rows), {static_cast<Index>(atoms.rows.size())});
            },
            nb::rv_policy::automatic, "rows with atoms, each once")
        .def("__reduce__", [](nb::handle_t<PythonAtoms> self) {
            return nb::make_tuple(self.type(),
                                  nb::make_tuple(self.attr("row"), self.attr("weight"), self.attr("bits")));
        });
    nb::class_<PythonStep>(m, "ProximalStep", "Where a proximal step begins, and the gap at which it ends.")
        .def(
            "__init__",
            [](PythonStep* self, Matrix<double> centre, double enough) {
                new (self) PythonStep{std::move(centre), enough};
            },
            nb::arg("centre").noconvert(), nb::arg("enough"));
    nb::class_<PythonGroup>(m, "FeatureGroup", "Columns that the same cliques see, as a matrix of their own.")
        .def(
            "__init__",
            [](PythonGroup* self, nb::object rows, Vector<std::int64_t> columns, bool nodes,
               Vector<std::uint8_t> cliques) {
                new (self) PythonGroup{std::move(rows), std::move(columns), nodes, std::move(cliques)};
            },
            nb::kw_only(), nb::arg("rows"), nb::arg("columns").noconvert(), nb::arg("nodes"),
            nb::arg("cliques").noconvert(),
            nb::sig("def __init__(self, *, rows: Rows, columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), "
                    "order='C', device='cpu', writable=False)], nodes: bool, cliques: Annotated[NDArray[numpy.uint8], "
                    "dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None"));
    nb::class_<CliqueFit>(m, "CliqueFit", "What the solver of a clique model leaves.")
        .def_ro("result", &CliqueFit::result)
        .def_ro("weights", &CliqueFit::weights, nb::rv_policy::automatic, "subsets x (features + 1)")
        .def_ro("eta", &CliqueFit::eta, nb::rv_policy::automatic, "shares of the cliques")
        .def_ro("atoms", &CliqueFit::atoms, "dual variables");
    def_fit<Visits::pairwise>(m, "fit_cliques");
    nb::class_<PythonPairSquares>(m, "PairSquares", "Squared dual weights of single labels and of pairs.")
        .def_ro("labels", &PythonPairSquares::labels, nb::rv_policy::automatic, "of each label; 0 of those left out")
        .def_ro("pairs", &PythonPairSquares::pairs, nb::rv_policy::automatic, "of each pair")
        .def_ro("expected_loss", &PythonPairSquares::expected_loss);
    m.def("pair_squares", &pair_squares, nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("bias"),
          nb::arg("atoms"), nb::arg("pairs").noconvert(), nb::arg("threads"));
    m.def("k_support", &k_support_norm, nb::arg("a").noconvert(), nb::arg("budget"));
    def_residuals<float>(m);
    def_residuals<double>(m);
}

void bind_testing_cliques(nb::module_& m) { def_fit<Visits::plain>(m, "fit_cliques_plainly"); }
