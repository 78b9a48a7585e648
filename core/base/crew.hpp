#pragma once
// A Crew keeps its threads between loops, for work that is divided thousands of times: to start a thread takes as long as
// some tenths of a millisecond of work. crew.run(n, control, task) is parallel_for(n, crew.threads(), control, task)
// (parallel.hpp), which is the quicker of the two for a single loop: its threads need not be told to leave.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
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
            for (int t = 1; t < threads; ++t) workers_.emplace_back([this] { serve(); });
        } catch (...) {
            dismiss();
            throw;
        }
    }
    ~Crew() { dismiss(); }
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    template <class Task>
    void run(int n, Control& control, Task&& task) {
        if (workers_.empty() || n <= 1) {
            for (int k = 0; k < n; ++k) task(k, true);
            return;
        }
        std::atomic<int> next{0};
        const std::function<void(bool)> work = [&](bool on_caller) {
            try {
                for (int k = next++; k < n; k = next++) task(k, on_caller);
            } catch (...) {
                fail(next, n, control);
            }
        };
        {
            std::lock_guard lock(mutex_);
            work_ = &work;
            running_ = static_cast<int>(workers_.size());
            ++loop_;
        }
        begin_.notify_all();
        work(true);
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                if (end_.wait_for(lock, std::chrono::milliseconds(20), [&] { return running_ == 0; })) break;
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
    void dismiss() {
        {
            std::lock_guard lock(mutex_);
            leave_ = true;
        }
        begin_.notify_all();
        for (auto& worker : workers_) worker.join();
    }
    void serve() {
        std::unique_lock lock(mutex_);
        for (std::uint64_t seen = 0;;) {
            begin_.wait(lock, [&] { return leave_ || loop_ != seen; });
            if (leave_) return;
            seen = loop_;
            const auto* work = work_;
            lock.unlock();
            (*work)(false);
            lock.lock();
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
    const std::function<void(bool)>* work_ = nullptr;
    std::uint64_t loop_ = 0;  // loops begun
    int running_ = 0;         // workers that have not ended the last one
    bool leave_ = false;
    std::exception_ptr failure_;
};

}  // namespace multimargin::inline base
