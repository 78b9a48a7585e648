#include <nanobind/nanobind.h>

#include <stdexcept>
#include <thread>

#include "bindings/python_control.hpp"
#include "core/base/parallel.hpp"

namespace nb = nanobind;

namespace multimargin::bindings {

bool PythonControl::report(const Progress& p) {
    nb::gil_scoped_acquire gil;
    if (report_.is_none()) return false;
    nb::object primal = p.evaluated ? nb::object(nb::float_(p.primal)) : nb::none();
    nb::object dual = p.evaluated ? nb::object(nb::float_(p.dual)) : nb::none();
    return nb::cast<bool>(nb::bool_(report_(p.pass, p.time, primal, dual)));
}

void PythonControl::check_interrupt() {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace multimargin::bindings

// Spins for `seconds` on `threads` threads as a solver would, so that interruption, time limits, callbacks and
// exceptions crossing threads can be tested without a solver. A negative `fail_at` never fails.
static int rehearse(double seconds, int threads, int fail_at, nb::object report, double time_limit) {
    using namespace multimargin::bindings;
    using namespace multimargin;
    PythonControl control(std::move(report), time_limit);
    nb::gil_scoped_release release;
    int pass = 0;
    while (control.elapsed() < seconds) {
        parallel_for(2 * threads, threads, control, [&](int k, bool on_caller) {
            if (k == fail_at) throw std::invalid_argument("task " + std::to_string(k) + " failed as asked");
            const double until = control.elapsed() + seconds / 4;
            while (control.elapsed() < until)
                if (control.leave(on_caller)) return;
        });
        if (control.tick({.pass = ++pass, .time = control.elapsed()})) break;
    }
    return pass;
}

void bind_control(nb::module_& m) {
    m.def("rehearse", &rehearse, nb::arg("seconds"), nb::arg("threads"), nb::arg("fail_at"), nb::arg("report").none(),
          nb::arg("time_limit"));
}
