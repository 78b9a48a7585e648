#pragma once
// parallel_for(n, threads, control, task): task(k, on_caller) for k = 0..n-1, on at most `threads` threads, the calling
// one among them. The first exception is rethrown here after every thread has left. While the calling thread waits
// for the others it keeps looking at `control`, so Ctrl-C and the time limit work at any moment.
//
// The threads wait with `control` from loop to loop, until it is gone: to start one takes as long as some tenths of a
// millisecond of work, and one that is started right after another has ended may find itself behind the calling thread
// on the same processor, with nothing left to do when its turn comes. A loop within a loop stays on its thread.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/control.hpp"

namespace multimargin::inline base {

class Crew {
  public:
    explicit Crew(int threads) {
        try {
            for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { serve(t); });
        } catch (...) {
            dismiss();
            throw;
        }
    }
    ~Crew() { dismiss(); }
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }
    bool is_busy() {
        std::lock_guard lock(mutex_);
        return work_ != nullptr;
    }

    template <class Task>
    void run(int n, int threads, Control& control, Task&& task) {
        std::atomic<int> next{0};
        const std::function<void(bool)> work = [&](bool on_caller) {
            try {
                for (int k = next++; k < n; k = next++) task(k, on_caller);
            } catch (...) {
                fail(next, n, control);
            }
        };
        if (!begin(work, threads)) {
            for (int k = 0; k < n; ++k) task(k, false);
            return;
        }
        work(true);
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                if (end_.wait_for(lock, std::chrono::milliseconds(20), [&] { return running_ == 0; })) {
                    work_ = nullptr;
                    break;
                }
            }
            try {
                control.wait_a_little();
            } catch (...) {
                fail(next, n, control);
            }
        }
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    // False: there is a loop already.
    bool begin(const std::function<void(bool)>& work, int threads) {
        {
            std::lock_guard lock(mutex_);
            if (work_) return false;
            work_ = &work;
            wanted_ = threads;
            running_ = static_cast<int>(workers_.size());
            ++loop_;
        }
        begin_.notify_all();
        return true;
    }
    void dismiss() {
        {
            std::lock_guard lock(mutex_);
            leave_ = true;
        }
        begin_.notify_all();
        for (auto& worker : workers_) worker.join();
    }
    void serve(int number) {
        std::unique_lock lock(mutex_);
        for (std::uint64_t seen = 0;;) {
            begin_.wait(lock, [&] { return leave_ || loop_ != seen; });
            if (leave_) return;
            seen = loop_;
            if (number < wanted_) {
                const auto* work = work_;
                lock.unlock();
                (*work)(false);
                lock.lock();
            }
            if (--running_ == 0) end_.notify_one();
        }
    }
    void fail(std::atomic<int>& next, int n, Control& control) {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next = n;
        control.abandon();
    }

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable begin_, end_;
    const std::function<void(bool)>* work_ = nullptr;  // of the loop that runs
    int wanted_ = 0;                                   // threads in it, at most
    std::uint64_t loop_ = 0;                           // loops begun
    int running_ = 0;                                  // workers that have not ended the last one
    bool leave_ = false;
    std::exception_ptr failure_;
};

// Threads with enough to do in so many multiply-adds: to start one takes as long as some millions.
inline int threads_for_work(double work, int threads) {
    constexpr double least_work = 4e6;
    return static_cast<int>(std::clamp(work / least_work, 1.0, std::max(1.0, static_cast<double>(threads))));
}

template <class Task>
void parallel_for(int n, int threads, Control& control, Task&& task) {
    threads = std::clamp(threads, 1, std::max(n, 1));
    if (threads == 1) {
        for (int k = 0; k < n; ++k) task(k, true);
        return;
    }
    auto& crew = control.crew();
    if (!crew || (crew->threads() < threads && !crew->is_busy())) crew = std::make_shared<Crew>(threads);
    crew->run(n, threads, control, task);
}

}  // namespace multimargin::inline base
