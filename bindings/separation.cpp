#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <optional>

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/numerics/simplex.hpp"
#include "core/separation/block_ascent.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::numerics;
using namespace multimargin::separation;

namespace {

template <class T>
using NumpyVector = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Dual variables, rows x atoms, as a CSR matrix; holds on to the arrays.
struct PythonDual {
    NumpyVector<std::int64_t> offsets;
    NumpyVector<std::int32_t> atoms;
    NumpyVector<double> values;

    DualVariables view_of() const {
        return {{offsets.data(), offsets.shape(0)}, {atoms.data(), atoms.shape(0)}, {values.data(), values.shape(0)}};
    }
};

PythonDual checked_dual(NumpyVector<std::int64_t> offsets, NumpyVector<std::int32_t> atoms,
                        NumpyVector<double> values) {
    const std::span starts(offsets.data(), offsets.shape(0));
    expect(!starts.empty() && starts.front() == 0 && starts.back() == static_cast<Index>(values.shape(0)) &&
               std::ranges::is_sorted(starts) && atoms.shape(0) == values.shape(0),
           "the offsets of the dual variables must rise from 0 to their number");
    return {std::move(offsets), std::move(atoms), std::move(values)};
}

template <class T>
NumpyVector<T> moved_vector(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return NumpyVector<T>(kept->data(), {kept->size()}, owner);
}

template <class Solver>
PythonDual dual_variables(const Solver& solver, Index rows) {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> atoms;
    std::vector<double> values;
    for (Index i = 0; i < rows; ++i) {
        for (const Entry& e : solver.entries(i))
            if (e.mean > 0) {
                atoms.push_back(e.atom);
                values.push_back(e.side * e.mean);
            }
        offsets.push_back(static_cast<std::int64_t>(values.size()));
    }
    return {moved_vector(std::move(offsets)), moved_vector(std::move(atoms)), moved_vector(std::move(values))};
}

// SetFeatures; holds on to the arrays.
struct PythonSetFeatures {
    PythonCells members;
    Vector<std::uint8_t> complement;
    Vector<double> scale;
    std::optional<Matrix<std::int32_t>> pair_rows;
    Index pairs;
    double c1, c2;

    SetFeatures features() const {
        const auto pair_table =
            pair_rows ? std::span(pair_rows->data(), pair_rows->size()) : std::span<const std::int32_t>{};
        return SetFeatures({view(members.offsets), view(members.labels), view(complement), view(scale), pair_table,
                            members.n_labels, pairs, c1, c2});
    }
};

PythonSetFeatures checked_features(const PythonCells& members, Vector<std::uint8_t> complement, Vector<double> scale,
                                   std::optional<Matrix<std::int32_t>> pair_rows, Index pairs, double c1, double c2) {
    const auto atoms = members.offsets.shape(0) - 1, labels = static_cast<std::size_t>(members.n_labels);
    expect(complement.shape(0) == atoms && scale.shape(0) == atoms, "the complements or scales do not fit the sets");
    expect(pair_rows ? pair_rows->shape(0) == labels && pair_rows->shape(1) == labels : c2 <= 0,
           "pairs of labels need a table of their numbers, labels x labels");
    if (pair_rows)
        for (auto row : std::span(pair_rows->data(), pair_rows->size()))
            expect(row >= -1 && row < pairs, "number of a pair of labels out of range");
    return {members, std::move(complement), std::move(scale), std::move(pair_rows), pairs, c1, c2};
}

// None if the atoms are the labels, else vectors of the atoms in parts, or as a table (atoms, width).
using AtomFeatures = std::variant<std::monostate, PythonSetFeatures, Matrix<double>>;

// What a fit returns.
struct SeparationFit {
    fit::FitResult result;
    PythonDual D;
};

template <RowMatrix X, class Features>
SeparationFit solve(const X& x, const Atoms& atoms, const Features& features, const SeparationRows& rows, double bias,
                    const std::optional<PythonDual>& start, const PythonLimits& limits) {
    PythonControl control = limits.control();
    SeparationSolver<X, Features> solver(x, atoms, features, rows, bias);
    fit::FitResult result;
    {
        nb::gil_scoped_release release;
        if (start) solver.start_from(start->view_of());
        result = solver.run(limits.core, control);
    }
    return {result, dual_variables(solver, x.rows())};
}

SeparationFit fit_separation(const Rows& rows, const PythonLabels& labels, const Matrix<double>& cost,
                             const PythonCells& sets, const AtomFeatures& features, double bias,
                             const std::optional<PythonDual>& start, const PythonLimits& limits) {
    const auto source = labels.view_of();
    expect(sets.n_labels == source.labels, "the label sets do not fit the labels");
    const Atoms atoms{source.labels, LabelSets(sets.list(), source.labels)};
    expect(static_cast<Index>(cost.shape(0)) == source.rows && cost.shape(1) == 2, "the costs do not fit the rows");
    const SeparationRows sides(source, cost.data());
    if (start) {
        expect(static_cast<Index>(start->offsets.shape(0)) == source.rows + 1,
               "the dual variables to start from do not fit the rows");
        for (auto atom : start->view_of().atoms)
            expect(atom >= 0 && atom < atoms.sets.size(), "atom of a dual variable out of range");
    }
    return std::visit(
        [&]<class X>(const X& x) -> SeparationFit {
            expect(x.rows() == source.rows, "the labels do not fit the rows");
            const auto count = static_cast<std::size_t>(atoms.sets.size());
            if (const auto* parts = std::get_if<PythonSetFeatures>(&features)) {
                expect(parts->scale.shape(0) == count && parts->members.n_labels == source.labels,
                       "the features do not fit the label sets");
                return solve(x, atoms, parts->features(), sides, bias, start, limits);
            }
            if (const auto* table = std::get_if<Matrix<double>>(&features)) {
                expect(table->shape(0) == count, "the features do not fit the label sets");
                const TableFeatures vectors({table->data(), table->size()}, static_cast<Index>(table->shape(1)));
                return solve(x, atoms, vectors, sides, bias, start, limits);
            }
            expect(atoms.sets.size() == source.labels, "label sets need features");
            return solve(x, atoms, LabelFeatures(source.labels), sides, bias, start, limits);
        },
        rows.matrix);
}

// Nearest point, row by row, of {signs o z: z >= 0, the sums of z over the positive and the negative signs at most cost}.
void project_signed(nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> values, Matrix<std::int8_t> signs,
                    Matrix<double> cost) {
    const auto n = values.shape(1);
    expect(signs.shape(0) == values.shape(0) && signs.shape(1) == n && cost.shape(0) == values.shape(0) &&
               cost.shape(1) == 2,
           "values, signs and costs have different shapes");
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < values.shape(0); ++i)
        project_signed_row({values.data() + i * n, n}, signs.data() + i * n, cost.data() + 2 * i);
}

}  // namespace

void bind_separation(nb::module_& m) {
    nb::class_<PythonDual>(m, "DualVariables", "Dual variables of calibrated separation, rows x atoms, row by row.")
        .def(
            "__init__",
            [](PythonDual* self, NumpyVector<std::int64_t> offsets, NumpyVector<std::int32_t> atoms,
               NumpyVector<double> values) {
                new (self) PythonDual(checked_dual(std::move(offsets), std::move(atoms), std::move(values)));
            },
            nb::arg("offsets").noconvert(), nb::arg("atoms").noconvert(), nb::arg("values").noconvert())
        .def_ro("offsets", &PythonDual::offsets, nb::rv_policy::automatic)
        .def_ro("atoms", &PythonDual::atoms, nb::rv_policy::automatic)
        .def_ro("values", &PythonDual::values, nb::rv_policy::automatic);
    nb::class_<PythonSetFeatures>(m, "SetFeatures",
                                  "Vectors of label sets under c1 |s & s'| + c2 binom(|s & s'|, 2), in parts.")
        .def(
            "__init__",
            [](PythonSetFeatures* self, const PythonCells& members, Vector<std::uint8_t> complement,
               Vector<double> scale, std::optional<Matrix<std::int32_t>> pair_rows, Index n_pairs, double c1,
               double c2) {
                new (self) PythonSetFeatures(checked_features(members, std::move(complement), std::move(scale),
                                                              std::move(pair_rows), n_pairs, c1, c2));
            },
            nb::kw_only(), nb::arg("members"), nb::arg("complement").noconvert(), nb::arg("scale").noconvert(),
            nb::arg("pair_rows").noconvert().none(), nb::arg("n_pairs"), nb::arg("c1"), nb::arg("c2"))
        .def_ro("n_pairs", &PythonSetFeatures::pairs, "pairs of labels that lie in some set");
    nb::class_<SeparationFit>(m, "SeparationFit", "What a fit of calibrated separation leaves.")
        .def_ro("result", &SeparationFit::result)
        .def_ro("D", &SeparationFit::D, "dual variables");
    m.def("fit_separation", &fit_separation, nb::kw_only(), nb::arg("rows"), nb::arg("labels"),
          nb::arg("cost").noconvert(), nb::arg("sets"), nb::arg("features").noconvert().none(), nb::arg("bias"),
          nb::arg("start").none(), nb::arg("limits"));
    m.def("project_signed", &project_signed, nb::arg("values").noconvert(), nb::arg("signs").noconvert(),
          nb::arg("cost").noconvert());
}
