#pragma once
// How the outside world talks to a running solver: progress, time limit, a callback that may stop it, Ctrl-C.
//
// A solver calls tick() once per pass from the thread that called it, and leave() every few rows from any thread. On
// the calling thread leave() costs a counter increment, and now and then a look at the clock and at the outside world;
// that keeps the answer to Ctrl-C below 0.2 s however long a pass is. Other threads only read a flag.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>

namespace multimargin::inline base {

struct Progress {
    int pass = 0;
    double time = 0.0;       // seconds since the solver started
    bool evaluated = false;  // whether primal and dual were computed at this pass
    double primal = std::numeric_limits<double>::quiet_NaN();
    double dual = std::numeric_limits<double>::quiet_NaN();
};

// hand_over: another solver would finish sooner. imprecise: rounding keeps the gap above the tolerance.
enum class Status { converged, max_iter, time_limit, stopped, hand_over, imprecise };

class Crew;

class Control {
  public:
    explicit Control(double time_limit) : time_limit_(time_limit), start_(Clock::now()), last_look_(start_) {}
    virtual ~Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;

    double elapsed() const { return seconds_since(start_); }
    bool stopped() const { return stop_.load(std::memory_order_relaxed); }
    Status reason() const { return reason_; }

    // Reports a finished pass. True: the solver must stop cleanly and return what it has.
    bool tick(const Progress& progress) {
        if (report(progress)) stop(Status::stopped);
        look();
        return stopped();
    }

    // Inside a pass, by any thread. True: leave the pass, stop cleanly. Throws if the outside world was interrupted.
    bool leave(bool on_caller) {
        if (on_caller && ++polls_ % polls_per_clock_read == 0) wait_a_little();
        return stopped();
    }

    // The same on the calling thread where rows cost very different amounts: `work` is what was done since the last
    // call, in multiply-adds.
    bool leave_after(std::int64_t work) {
        work_ += work;
        if (work_ >= work_per_clock_read) {
            work_ = 0;
            wait_a_little();
        }
        return stopped();
    }

    // As leave(), for work that must be finished even when asked to stop, such as the last certificate.
    bool leave_unfinished(bool on_caller) {
        leave(on_caller);
        return abandoned_.load(std::memory_order_relaxed);
    }

    // For a calling thread that has nothing to do but wait for the others.
    void wait_a_little() {
        if (seconds_since(last_look_) > seconds_between_looks) look();
    }

    // Tells all threads to leave, whatever they do: somebody is about to throw.
    void abandon() {
        abandoned_.store(true, std::memory_order_relaxed);
        stop_.store(true, std::memory_order_relaxed);
    }

    // The threads that wait for its loops (parallel.hpp).
    std::shared_ptr<Crew>& crew() { return crew_; }

  protected:
    // True asks the solver to stop. May throw.
    virtual bool report(const Progress& progress) = 0;
    // Throws when the user wants out (Ctrl-C).
    virtual void check_interrupt() = 0;

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr unsigned polls_per_clock_read = 16;
    static constexpr std::int64_t work_per_clock_read = 1 << 17;  // some 0.1 ms
    static constexpr double seconds_between_looks = 0.05;

    static double seconds_since(Clock::time_point then) {
        return std::chrono::duration<double>(Clock::now() - then).count();
    }

    void look() {
        last_look_ = Clock::now();
        check_interrupt();
        if (elapsed() > time_limit_) stop(Status::time_limit);
    }

    void stop(Status why) {
        if (!stopped()) reason_ = why;
        stop_.store(true, std::memory_order_relaxed);
    }

    double time_limit_;
    Clock::time_point start_;
    Clock::time_point last_look_;
    unsigned polls_ = 0;
    std::int64_t work_ = 0;
    Status reason_ = Status::stopped;
    std::atomic<bool> stop_{false}, abandoned_{false};
    std::shared_ptr<Crew> crew_;
};

}  // namespace multimargin::inline base
