#include <nanobind/stl/optional.h>

#include <memory>

#include "bindings/m3l_partition.hpp"
#include "core/m3l/partition_newton.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::m3l;

namespace {

struct PythonValue {
    Array V, linear, hinge;
    std::optional<Array> H;
};

// Holds on to everything it is made from.
struct M3LNewtonPartition {
    nb::object rows_owner, labels_owner;
    PythonMargins margins;
    std::variant<std::unique_ptr<NewtonPartition<float>>, std::unique_ptr<NewtonPartition<double>>> part;
    std::atomic<bool> stop{false};

    M3LNewtonPartition(nb::object rows, nb::object labels, const PythonMargins& given, double bias, int threads)
        : rows_owner(std::move(rows)), labels_owner(std::move(labels)), margins(given) {
        const auto cells = nb::cast<const PythonLabels&>(labels_owner).view_of();
        expect(threads > 0, "a part needs a thread");
        std::visit(
            [&]<class X>(const X& x) {
                expect(is_dense<X>, "Newton rounds need dense rows");
                expect(x.rows() == cells.rows, "the labels do not fit the rows");
                if constexpr (is_dense<X>) {
                    const auto with_margins = margins.of(cells);
                    nb::gil_scoped_release release;
                    part = std::make_unique<NewtonPartition<typename X::value_type>>(x, with_margins, bias, threads);
                }
            },
            nb::cast<const Rows&>(rows_owner).matrix);
    }

    // use(part, control), without the GIL, unless the part was told to stop.
    template <class Use>
    auto with(Use&& use) {
        refuse_if(stop);
        PartControl control(std::numeric_limits<double>::infinity(), stop);
        return std::visit([&](auto& p) { return use(*p, control); }, part);
    }
};

template <class Part>
void check_point(const Part& part, const Matrix<double>& U, const Vector<double>& tau) {
    expect(static_cast<Index>(U.shape(0)) == part.columns() && static_cast<Index>(U.shape(1)) == part.labels(),
           "the point does not fit the part");
    expect(static_cast<Index>(tau.shape(0)) == part.labels(), "a tau for every label is needed");
    for (double t : view(tau)) expect(t > 0 && std::isfinite(t), "tau must be above 0 and finite");
}

PythonValue to_python(NewtonValue&& found, Index columns, Index labels) {
    return {moved_array(std::move(found.V), {columns, labels}), moved_array(std::move(found.linear), {labels}),
            moved_array(std::move(found.hinge), {labels}), std::nullopt};
}

PythonValue value(M3LNewtonPartition& self, Matrix<double> U, Vector<double> tau) {
    return self.with([&](auto& part, Control& control) {
        check_point(part, U, tau);
        NewtonValue found;
        {
            nb::gil_scoped_release release;
            found = part.value(U.data(), tau.data(), control);
        }
        return to_python(std::move(found), part.columns(), part.labels());
    });
}

PythonValue newton_system(M3LNewtonPartition& self, Matrix<double> U, Vector<double> tau, Vector<bool> marked) {
    return self.with([&]<class T>(NewtonPartition<T>& part, Control& control) {
        check_point(part, U, tau);
        expect(static_cast<Index>(marked.shape(0)) == part.labels(), "a mark for every label is needed");
        Index count = 0;
        for (bool mark : view(marked)) count += mark;
        std::vector<T> H(static_cast<std::size_t>(count * part.packed()));
        NewtonValue found;
        {
            nb::gil_scoped_release release;
            found = part.system(U.data(), tau.data(), marked.data(), H.data(), control);
        }
        auto out = to_python(std::move(found), part.columns(), part.labels());
        out.H = moved_array(std::move(H), {count, part.packed()});
        return out;
    });
}

Array search(M3LNewtonPartition& self, Matrix<double> U, Matrix<double> direction, Vector<double> tau,
             Vector<double> lengths) {
    return self.with([&](auto& part, Control& control) {
        check_point(part, U, tau);
        check_point(part, direction, tau);
        const auto count = static_cast<Index>(lengths.shape(0));
        std::vector<double> out(static_cast<std::size_t>(count * part.labels()));
        {
            nb::gil_scoped_release release;
            part.search(U.data(), direction.data(), tau.data(), lengths.data(), count, out.data(), control);
        }
        return moved_array(std::move(out), {count, part.labels()});
    });
}

void settle(M3LNewtonPartition& self, std::optional<Vector<double>> theta) {
    self.with([&](auto& part, Control&) {
        expect(!theta || static_cast<Index>(theta->shape(0)) == part.labels(), "a step for every label is needed");
        if (theta)
            for (double t : view(*theta)) expect(t >= 0 && t <= 1, "steps must lie between 0 and 1");
        nb::gil_scoped_release release;
        part.settle(theta ? theta->data() : nullptr);
    });
}

PythonSums sum(M3LNewtonPartition& self, Matrix<double> weights) {
    return self.with([&](auto& part, Control& control) {
        const Index labels = part.labels(), columns = part.columns();
        expect(static_cast<Index>(weights.shape(0)) == labels && static_cast<Index>(weights.shape(1)) == columns,
               "the weights do not fit the part");
        PartSums found;
        {
            nb::gil_scoped_release release;
            found = part.sum(weights.data(), control);
        }
        return bindings::to_python(std::move(found), columns, labels);
    });
}

Array beta(M3LNewtonPartition& self) {
    return std::visit(
        []<class T>(std::unique_ptr<NewtonPartition<T>>& part) {
            std::vector<T> values(static_cast<std::size_t>(part->rows() * part->labels()));
            part->copy_beta(values.data());
            return moved_array(std::move(values), {part->rows(), part->labels()});
        },
        self.part);
}

void set_beta(M3LNewtonPartition& self, nb::object values) {
    self.with([&]<class T>(NewtonPartition<T>& part, Control& control) {
        const auto given = matrix_of<T>(values, part.rows(), part.labels());
        nb::gil_scoped_release release;
        part.load_beta(given.data(), control);
    });
}

}  // namespace

void bind_m3l_partition_newton(nb::module_& m) {
    nb::class_<PythonValue>(m, "M3LNewtonValue", "Sums over the rows of a part at a point.")
        .def_ro("V", &PythonValue::V, nb::rv_policy::automatic, "X' beta(z), (features + 1) x labels")
        .def_ro("linear", &PythonValue::linear, nb::rv_policy::automatic, "sum of y m beta(z) by label")
        .def_ro("hinge", &PythonValue::hinge, nb::rv_policy::automatic, "losses by label")
        .def_ro("H", &PythonValue::H, nb::rv_policy::automatic,
                "sum of c x x' over free cells, of the labels marked: upper triangles; None unless asked");
    nb::class_<M3LNewtonPartition>(m, "M3LNewtonPartition",
                                   "A part of the dense rows of a linear M3L problem, trained in Newton rounds.")
        .def(nb::init<nb::object, nb::object, const PythonMargins&, double, int>(), nb::kw_only(), nb::arg("rows"),
             nb::arg("labels"), nb::arg("margins"), nb::arg("bias"), nb::arg("threads") = 1)
        .def("value", &value, nb::arg("U").noconvert(), nb::arg("tau").noconvert(),
             "Sums at U; the step to beta(z) waits for settle.")
        .def("system", &newton_system, nb::arg("U").noconvert(), nb::arg("tau").noconvert(),
             nb::arg("marked").noconvert())
        .def("search", &search, nb::arg("U").noconvert(), nb::arg("direction").noconvert(), nb::arg("tau").noconvert(),
             nb::arg("lengths").noconvert(), "Changes of the smoothed losses, lengths x labels.")
        .def("settle", &settle, nb::arg("theta").noconvert().none())
        .def("sum", &sum, nb::arg("weights").noconvert())
        .def_prop_rw("beta", &beta, &set_beta, nb::rv_policy::automatic, "signed dual variables, rows x labels")
        .def(
            "stop", [](M3LNewtonPartition& p) { p.stop.store(true); },
            "Ends the call at work in another thread, and every later one, with InterruptedError.");
}
