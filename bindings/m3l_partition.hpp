#pragma once
// What both kinds of parts of linear M3L share: their control, and their sums.

#include <atomic>

#include "bindings/labels.hpp"
#include "core/m3l/partition.hpp"

namespace multimargin::bindings {

inline void refuse_if(const std::atomic<bool>& stop) {
    if (!stop.load()) return;
    PyErr_SetString(PyExc_InterruptedError, "the part was told to stop");
    throw nb::python_error();
}

// Besides signals of the main thread, which worker threads never see, a flag.
class PartControl final : public Control {
  public:
    PartControl(double time_limit, const std::atomic<bool>& stop) : Control(time_limit), stop_(stop) {}

  protected:
    bool report(const Progress&) override { return false; }
    void check_interrupt() override {
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        refuse_if(stop_);
    }

  private:
    const std::atomic<bool>& stop_;
};

struct PythonSums {
    Array V, linear, hinge;
};

inline PythonSums to_python(m3l::PartSums&& found, Index columns, Index labels) {
    return {moved_array(std::move(found.V), {columns, labels}), moved_array(std::move(found.linear), {labels}),
            moved_array(std::move(found.hinge), {labels})};
}

}  // namespace multimargin::bindings
