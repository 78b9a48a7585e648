#include "bindings/python_control.hpp"

namespace nb = nanobind;

namespace multimargin::bindings {

bool PythonControl::report(const Progress& p) {
    nb::gil_scoped_acquire gil;
    if (report_.is_none()) return false;
    nb::object primal = p.evaluated ? nb::object(nb::float_(p.primal)) : nb::none();
    nb::object dual = p.evaluated ? nb::object(nb::float_(p.dual)) : nb::none();
    nb::object stop =
        iterate_ ? report_(p.pass, p.time, primal, dual, iterate_()) : report_(p.pass, p.time, primal, dual);
    return nb::cast<bool>(nb::bool_(stop));
}

void PythonControl::check_interrupt() {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace multimargin::bindings
