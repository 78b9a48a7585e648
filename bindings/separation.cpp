#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/numerics/simplex.hpp"
#include "core/separation/block_ascent.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::numerics;
using namespace multimargin::separation;

namespace {

BitSets bit_sets(const Matrix<std::uint64_t>& bits) { return {bits.data(), static_cast<Index>(bits.shape(1))}; }

template <class Solver>
nb::tuple dual_variables(const Solver& solver, Index rows) {
    Index count = 0;
    for (Index i = 0; i < rows; ++i)
        for (const Entry& e : solver.entries(i)) count += e.weight > 0;
    const auto visit = [&](auto&& each) {
        Index k = 0;
        for (Index i = 0; i < rows; ++i)
            for (const Entry& e : solver.entries(i))
                if (e.weight > 0) each(k++, i, e);
    };
    const auto n = static_cast<std::size_t>(count);
    return nb::make_tuple(
        new_array<std::int64_t>({static_cast<std::size_t>(rows) + 1},
                                [&](std::int64_t* offsets) {
                                    std::fill(offsets, offsets + rows + 1, 0);
                                    visit([&](Index, Index i, const Entry&) { ++offsets[i + 1]; });
                                    for (Index i = 0; i < rows; ++i) offsets[i + 1] += offsets[i];
                                }),
        new_array<std::int32_t>(
            {n}, [&](std::int32_t* c) { visit([&](Index k, Index, const Entry& e) { c[k] = e.atom; }); }),
        new_array<double>(
            {n}, [&](double* v) { visit([&](Index k, Index, const Entry& e) { v[k] = e.side * e.weight; }); }));
}

struct Call {
    const Atoms& atoms;
    const SeparationRows& data;
    double bias;
    const nb::object& start;  // None or (offsets, atoms, values)
    const SeparationParams& params;
    PythonControl& control;
};

template <RowMatrix X, class Features>
nb::dict solve(const X& x, const Features& features, const Call& call) {
    SeparationSolver<X, Features> solver(x, call.atoms, features, call.data, call.bias);
    DualVariables first;
    if (!call.start.is_none())
        first = {view(exactly<Vector<std::int64_t>>(call.start[0])), view(exactly<Vector<std::int32_t>>(call.start[1])),
                 view(exactly<Vector<double>>(call.start[2]))};
    SeparationResult result;
    {
        nb::gil_scoped_release release;
        if (!first.offsets.empty()) solver.start_from(first);
        result = solver.run(call.params, call.control);
    }
    nb::dict out;
    out["primal"] = result.primal;
    out["dual"] = result.dual;
    out["passes"] = result.passes;
    out["status"] = result.status;
    out["D"] = dual_variables(solver, x.rows());
    return out;
}

// (offsets, members, complement, scale, pair_rows, pairs, c1, c2)
SetFeatures set_features(const nb::tuple& t, Index labels) {
    return SetFeatures({view(exactly<Vector<std::int64_t>>(t[0])), view(exactly<Vector<std::int32_t>>(t[1])),
                        view(exactly<Vector<std::uint8_t>>(t[2])), view(exactly<Vector<double>>(t[3])),
                        view(exactly<Vector<std::int32_t>>(t[4])), labels, nb::cast<Index>(t[5]),
                        nb::cast<double>(t[6]), nb::cast<double>(t[7])});
}

// features: None if the atoms are the labels, what set_features takes, or a table (atoms, width)
nb::dict fit_separation(const Rows& rows, Matrix<std::uint64_t> sets, Index n_labels, nb::object features,
                        Matrix<std::uint64_t> positive, Matrix<std::uint64_t> negative, Vector<double> cost,
                        double bias, nb::object start, double tol, int max_iter, int threads, std::uint64_t seed,
                        nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    const Atoms atoms{static_cast<Index>(sets.shape(0)), n_labels, bit_sets(sets)};
    const SeparationRows data{bit_sets(positive), bit_sets(negative), view(cost)};
    const SeparationParams params{tol, max_iter, threads, seed};
    const Call call{atoms, data, bias, start, params, control};
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            const auto n = static_cast<std::size_t>(x.rows());
            expect(positive.shape(0) == n && negative.shape(0) == n && cost.shape(0) == n &&
                       positive.shape(1) == sets.shape(1) && negative.shape(1) == sets.shape(1),
                   "the label sets and costs do not fit the rows");
            if (features.is_none()) return solve(x, LabelFeatures(n_labels), call);
            if (nb::isinstance<nb::tuple>(features))
                return solve(x, set_features(nb::cast<nb::tuple>(features), n_labels), call);
            const auto table = exactly<Matrix<double>>(features);
            return solve(x, TableFeatures({table.data(), table.size()}, static_cast<Index>(table.shape(1))), call);
        },
        rows.matrix);
}

// Nearest point, row by row, of {signs o z: z >= 0, the sum of z over either sign at most cost}.
void project_signed(nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu> values, Matrix<std::int8_t> signs,
                    Vector<double> cost) {
    const auto n = values.shape(1);
    expect(signs.shape(0) == values.shape(0) && signs.shape(1) == n && cost.shape(0) == values.shape(0),
           "values, signs and costs have different shapes");
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < values.shape(0); ++i)
        project_signed_row({values.data() + i * n, n}, signs.data() + i * n, cost.data()[i]);
}

}  // namespace

void bind_separation(nb::module_& m) {
    m.def("fit_separation", &fit_separation, nb::arg("rows"), nb::arg("sets").noconvert(), nb::arg("n_labels"),
          nb::arg("features").none(), nb::arg("positive").noconvert(), nb::arg("negative").noconvert(),
          nb::arg("cost").noconvert(), nb::arg("bias"), nb::arg("start").none(), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("threads"), nb::arg("seed"), nb::arg("report").none(), nb::arg("time_limit"));
    m.def("project_signed", &project_signed, nb::arg("values").noconvert(), nb::arg("signs").noconvert(),
          nb::arg("cost").noconvert());
}
