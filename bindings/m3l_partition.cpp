#include "bindings/m3l_partition.hpp"

#include <nanobind/stl/optional.h>

#include <memory>

namespace multimargin::m3l {

extern template class Partition<DenseRows<float>>;
extern template class Partition<CsrRows<float>>;
extern template class Partition<DenseRows<double>>;
extern template class Partition<CsrRows<double>>;

}  // namespace multimargin::m3l

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::m3l;

namespace {

template <RowMatrix X>
using Part = std::unique_ptr<Partition<X>>;

struct PythonVisit {
    Array change, own, linear, change_linear;
    std::optional<Array> hinge;
    double local_gap;
    bool complete;
};

// Holds on to everything it is made from.
struct M3LPartition {
    nb::object rows_owner, labels_owner;
    PythonMargins margins;
    std::optional<Matrix<double>> R, factor, transposed;
    std::optional<Vector<double>> diagonal;
    std::variant<Part<DenseRows<float>>, Part<DenseRows<double>>, Part<CsrRows<float>>, Part<CsrRows<double>>> part;
    std::atomic<bool> stop{false};

    M3LPartition(nb::object rows, nb::object labels, const PythonMargins& given, double bias,
                 std::optional<Matrix<double>> R_, std::optional<Matrix<double>> factor_,
                 std::optional<Matrix<double>> transposed_, std::optional<Vector<double>> diagonal_, int threads)
        : rows_owner(std::move(rows)),
          labels_owner(std::move(labels)),
          margins(given),
          R(std::move(R_)),
          factor(std::move(factor_)),
          transposed(std::move(transposed_)),
          diagonal(std::move(diagonal_)) {
        const auto cells = nb::cast<const PythonLabels&>(labels_owner).view_of();
        const auto n = static_cast<std::size_t>(cells.labels);
        const auto fits = [](const auto& matrix, std::size_t first, std::size_t second) {
            return matrix->shape(0) == first && matrix->shape(1) == second;
        };
        expect(threads > 0, "a part needs a thread");
        expect((!R || fits(R, n, n)) &&
                   (!factor || (transposed && fits(factor, n, factor->shape(1)) &&
                                fits(transposed, factor->shape(1), n) && (!diagonal || diagonal->shape(0) == n))),
               "the prior does not fit the labels");
        PriorArrays arrays;
        if (R)
            arrays.R = R->data();
        else if (factor)
            arrays = {nullptr, factor->data(), transposed->data(), diagonal ? diagonal->data() : nullptr,
                      static_cast<Index>(factor->shape(1))};
        const PriorArrays* prior = R || factor ? &arrays : nullptr;
        std::visit(
            [&]<class X>(const X& x) {
                expect(x.rows() == cells.rows, "the labels do not fit the rows");
                const auto with_margins = margins.of(cells);
                nb::gil_scoped_release release;
                part = std::make_unique<Partition<X>>(x, with_margins, bias, prior, threads);
            },
            nb::cast<const Rows&>(rows_owner).matrix);
    }

    template <class Use>
    auto with(Use&& use) {
        return std::visit([&](auto& p) { return use(*p); }, part);
    }
};

PythonVisit visit(M3LPartition& self, nb::object state, Vector<double> scale, int passes, std::uint64_t seed,
                  bool evaluate, bool revocable, double time_limit) {
    refuse_if(self.stop);
    PartControl control(time_limit, self.stop);
    return self.with([&]<class X>(Partition<X>& part) {
        using T = typename X::value_type;
        const Index columns = part.columns(), width = part.width();
        const auto start = matrix_of<T>(state, columns, width);
        expect(static_cast<Index>(scale.shape(0)) == columns, "a scale for every feature is needed");
        for (double s : view(scale)) expect(s > 0 && std::isfinite(s), "scales must be above 0 and finite");
        PartVisit<T> found;
        {
            nb::gil_scoped_release release;
            found = part.visit(start.data(), scale.data(), passes, seed, evaluate, revocable, control);
        }
        const Index groups = part.groups();
        PythonVisit out{moved_array(std::move(found.change), {columns, width}),
                        moved_array(std::move(found.own), {columns}),
                        moved_array(std::move(found.linear), {groups}),
                        moved_array(std::move(found.change_linear), {groups}),
                        std::nullopt,
                        found.local_gap,
                        found.complete};
        if (evaluate) out.hinge = moved_array(std::move(found.hinge), {groups});
        return out;
    });
}

void settle(M3LPartition& self, std::optional<Vector<double>> theta) {
    self.with([&](auto& part) {
        expect(!theta || static_cast<Index>(theta->shape(0)) == part.groups(), "a step for every group is needed");
        if (theta)
            for (double t : view(*theta)) expect(t >= 0 && t <= 1, "steps must lie between 0 and 1");
        nb::gil_scoped_release release;
        part.settle(theta ? theta->data() : nullptr);
    });
}

PythonSums sum(M3LPartition& self, Matrix<double> weights, double time_limit) {
    refuse_if(self.stop);
    PartControl control(time_limit, self.stop);
    return self.with([&](auto& part) {
        const Index labels = part.labels(), columns = part.columns();
        expect(static_cast<Index>(weights.shape(0)) == labels && static_cast<Index>(weights.shape(1)) == columns,
               "the weights do not fit the part");
        PartSums found;
        {
            nb::gil_scoped_release release;
            found = part.sum(weights.data(), control);
        }
        return to_python(std::move(found), columns, labels);
    });
}

Array beta(M3LPartition& self) {
    return self.with([&]<class X>(Partition<X>& part) {
        std::vector<typename X::value_type> values(static_cast<std::size_t>(part.rows() * part.labels()));
        part.copy_beta(values.data());
        return moved_array(std::move(values), {part.rows(), part.labels()});
    });
}

void set_beta(M3LPartition& self, nb::object values) {
    self.with([&]<class X>(Partition<X>& part) {
        part.load_beta(matrix_of<typename X::value_type>(values, part.rows(), part.labels()).data());
    });
}

}  // namespace

void bind_m3l_partition(nb::module_& m) {
    nb::class_<PythonVisit>(m, "M3LVisit", "What a visit to a part has found.")
        .def_ro("change", &PythonVisit::change, nb::rv_policy::automatic, "U = X' (change of beta), in state columns")
        .def_ro("own", &PythonVisit::own, nb::rv_policy::automatic, "|U_j|^2 of every feature")
        .def_ro("hinge", &PythonVisit::hinge, nb::rv_policy::automatic, "losses at the state given; None unless asked")
        .def_ro("linear", &PythonVisit::linear, nb::rv_policy::automatic, "sum of y m beta before the visit")
        .def_ro("change_linear", &PythonVisit::change_linear, nb::rv_policy::automatic, "by which it grew")
        .def_ro("local_gap", &PythonVisit::local_gap,
                "sum of c max(t, 0) - b t over all cells, each before its own step in the first pass")
        .def_ro("complete", &PythonVisit::complete, "False where the time limit came first");
    nb::class_<PythonSums>(m, "M3LSums", "Sums over the rows of a part, in double precision.")
        .def_ro("V", &PythonSums::V, nb::rv_policy::automatic, "X' beta, (features + 1) x labels")
        .def_ro("linear", &PythonSums::linear, nb::rv_policy::automatic, "sum of y m beta by label")
        .def_ro("hinge", &PythonSums::hinge, nb::rv_policy::automatic, "losses by label at the weights given");
    nb::class_<M3LPartition>(m, "M3LPartition", "A part of the rows of a linear M3L problem, trained in rounds.")
        .def(nb::init<nb::object, nb::object, const PythonMargins&, double, std::optional<Matrix<double>>,
                      std::optional<Matrix<double>>, std::optional<Matrix<double>>, std::optional<Vector<double>>,
                      int>(),
             nb::kw_only(), nb::arg("rows"), nb::arg("labels"), nb::arg("margins"), nb::arg("bias"),
             nb::arg("R").noconvert().none() = nb::none(), nb::arg("factor").noconvert().none() = nb::none(),
             nb::arg("transposed").noconvert().none() = nb::none(), nb::arg("diagonal").noconvert().none() = nb::none(),
             nb::arg("threads") = 1)
        .def_prop_ro(
            "width", [](M3LPartition& p) { return p.with([](auto& part) { return part.width(); }); },
            "columns of the state: labels, or the rank of a prior without diagonal")
        .def_prop_ro(
            "squares",
            [](M3LPartition& p) {
                return p.with([](auto& part) { return moved_array(part.squares(), {part.columns()}); });
            },
            nb::rv_policy::automatic, "sum of the squares of every feature, the constant one last")
        .def("visit", &visit, nb::arg("state"), nb::arg("scale").noconvert(), nb::kw_only(), nb::arg("passes"),
             nb::arg("seed"), nb::arg("evaluate") = true, nb::arg("revocable") = true,
             nb::arg("time_limit") = std::numeric_limits<double>::infinity())
        .def("settle", &settle, nb::arg("theta").noconvert().none())
        .def("sum", &sum, nb::arg("weights").noconvert(), nb::kw_only(),
             nb::arg("time_limit") = std::numeric_limits<double>::infinity())
        .def_prop_rw("beta", &beta, &set_beta, nb::rv_policy::automatic, "signed dual variables, rows x labels")
        .def(
            "stop", [](M3LPartition& p) { p.stop.store(true); },
            "Ends the call at work in another thread, and every later one, with InterruptedError.");
}
