#pragma once
// Control seen from Python: report() calls the recorder, check_interrupt() lets Python's signal handlers run.
#include <nanobind/nanobind.h>

#include <functional>

#include "core/base/control.hpp"

namespace multimargin::bindings {

class PythonControl final : public Control {
  public:
    // report: callable (pass, time, primal or None, dual or None) -> bool, or None.
    PythonControl(nanobind::object report, double time_limit) : Control(time_limit), report_(std::move(report)) {}

    // What report is given as a fifth argument: where the solver stands.
    void show(std::function<nanobind::object()> iterate) { iterate_ = std::move(iterate); }

  protected:
    bool report(const Progress& p) override;
    void check_interrupt() override;

  private:
    nanobind::object report_;
    std::function<nanobind::object()> iterate_;
};

}  // namespace multimargin::bindings
