#pragma once
// What every model that has scores shares: it computes those of a block of rows, on any thread.

#include "core/base/control.hpp"
#include "core/base/matrix.hpp"

namespace multimargin::prediction {

// Whether somebody wants out. Throws on the calling thread after Ctrl-C.
struct Leave {
    Control& control;
    bool on_caller;

    bool operator()() const {
        if (on_caller) control.wait_a_little();
        return control.stopped();
    }
};

template <std::floating_point T>
class ScoreSource {
  public:
    virtual ~ScoreSource() = default;
    virtual Index rows() const = 0;
    virtual Index labels() const = 0;
    // Multiply-adds of a row, on average.
    virtual double work_per_row() const = 0;
    // out: (last - first) x labels. A score's bits do not depend on which other rows are asked for.
    virtual void scores(Index first, Index last, T* out, const Leave& leave) const = 0;
};

}  // namespace multimargin::prediction
