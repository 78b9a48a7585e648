#pragma once
// What every fit takes and returns, in Python's words: Limits, Status, FitResult.
#include "bindings/python_control.hpp"
#include "core/fit/result.hpp"

namespace multimargin::bindings {

// fit::Limits, with a clock that starts at the call and somebody to report to.
struct PythonLimits {
    fit::Limits core;
    double time_limit;
    nanobind::object report;
    bool iterates;  // whether report wants to see where the solver stands, if that can show it

    PythonControl control() const { return {report, time_limit}; }
};

}  // namespace multimargin::bindings
