#pragma once
// parallel_for(n, threads, control, task): task(k, on_caller) for k = 0..n-1, on at most `threads` threads, the calling
// one among them. The first exception is rethrown here after every thread has left. While the calling thread waits
// for the others it keeps looking at `control`, so Ctrl-C and the time limit work at any moment.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/control.hpp"

namespace multimargin::inline base {

template <class Task>
void parallel_for(int n, int threads, Control& control, Task&& task) {
    threads = std::clamp(threads, 1, std::max(n, 1));
    if (threads == 1) {
        for (int k = 0; k < n; ++k) task(k, true);
        return;
    }
    std::atomic<int> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    std::condition_variable one_left;
    int running = threads - 1;

    auto work = [&](bool on_caller) {
        try {
            for (int k = next++; k < n; k = next++) task(k, on_caller);
        } catch (...) {
            std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            next = n;
            control.abandon();
        }
    };
    {
        std::vector<std::jthread> workers;
        workers.reserve(static_cast<std::size_t>(threads - 1));
        for (int t = 1; t < threads; ++t) {
            workers.emplace_back([&] {
                work(false);
                std::lock_guard lock(mutex);
                --running;
                one_left.notify_one();
            });
        }
        work(true);
        for (;;) {
            {
                std::unique_lock lock(mutex);
                if (one_left.wait_for(lock, std::chrono::milliseconds(20), [&] { return running == 0; })) break;
            }
            try {
                control.wait_a_little();
            } catch (...) {
                std::lock_guard lock(mutex);
                if (!failure) failure = std::current_exception();
                next = n;
                control.abandon();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace multimargin::inline base
