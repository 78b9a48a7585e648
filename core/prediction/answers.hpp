#pragma once
// What is made of scores, in blocks of rows on several threads: all of them, the labels with positive ones, or the k
// best labels of each row. Only the first holds scores of all rows. Whether all of them were finite is told.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <ranges>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/prediction/source.hpp"

namespace multimargin::prediction {

template <class T>
struct FiniteScores {
    MULTIMARGIN_SIMD static bool all(const T* scores, Index count) {
        Chunk<T> odd{};
        Index k = 0;
        for (; k + lanes<T> <= count; k += lanes<T>) {
            Chunk<T> values;
            std::memcpy(&values, scores + k, sizeof values);
            odd += values - values;  // 0, or NaN for ever
        }
        T last = 0;
        for (; k < count; ++k) last += scores[k] - scores[k];
        for (int e = 0; e < lanes<T>; ++e) last += odd[e];
        return last == 0;
    }
};

// A block is some 20 ms of work, so that Ctrl-C is answered, and as many rows as reuse a panel of weights while it is
// in the cache, if their scores fit in a few megabytes.
template <class T>
Index rows_at_once(const ScoreSource<T>& source, int threads) {
    constexpr double work = 1 << 27, bytes = 1 << 23, most = 8192, tasks_per_thread = 4, least = 16;
    const double rows = static_cast<double>(source.rows()), labels = static_cast<double>(source.labels());
    const double size = std::min({work / std::max(source.work_per_row(), 1.0), bytes / (labels * sizeof(T)), most,
                                  rows / (tasks_per_thread * threads)});
    return static_cast<Index>(std::max(size, least)) / 4 * 4;
}

// use(first, last, leave) for every block of rows.
template <class T, class Use>
void for_row_blocks(const ScoreSource<T>& source, Index size, int threads, Control& control, Use&& use) {
    const int blocks = static_cast<int>((source.rows() + size - 1) / size);
    threads = threads_for_work(source.work_per_row() * static_cast<double>(source.rows()), threads);
    parallel_for(blocks, threads, control, [&](int block, bool on_caller) {
        const Leave leave{control, on_caller};
        const Index first = block * size;
        if (!leave()) use(first, std::min(source.rows(), first + size), leave);
    });
}

template <class T>
bool all_scores(const ScoreSource<T>& source, T* out, int threads, Control& control) {
    std::atomic<bool> finite{true};
    const Index size = rows_at_once(source, threads);
    for_row_blocks(source, size, threads, control, [&](Index first, Index last, const Leave& leave) {
        T* scores = out + first * source.labels();
        source.scores(first, last, scores, leave);
        if (!FiniteScores<T>::all(scores, (last - first) * source.labels())) finite = false;
    });
    return finite;
}

// Scores of one block after another, in memory that threads hand on to each other.
template <class T>
class ScoreBlocks {
  public:
    explicit ScoreBlocks(std::size_t size) : size_(size) {}
    Buffer<T> take() {
        std::lock_guard lock(mutex_);
        if (free_.empty()) return Buffer<T>(size_);
        Buffer<T> block = std::move(free_.back());
        free_.pop_back();
        return block;
    }
    void give_back(Buffer<T>&& block) {
        std::lock_guard lock(mutex_);
        free_.push_back(std::move(block));
    }

  private:
    std::size_t size_;
    std::mutex mutex_;
    std::vector<Buffer<T>> free_;
};

// use(i, scores of row i) for every row; returns whether all scores were finite.
template <class T, class Use>
bool for_each_row(const ScoreSource<T>& source, Index size, int threads, Control& control, Use&& use) {
    std::atomic<bool> finite{true};
    const Index labels = source.labels();
    ScoreBlocks<T> blocks(static_cast<std::size_t>(size * labels));
    for_row_blocks(source, size, threads, control, [&](Index first, Index last, const Leave& leave) {
        Buffer<T> scores = blocks.take();
        source.scores(first, last, scores.data(), leave);
        if (!FiniteScores<T>::all(scores.data(), (last - first) * labels))
            finite = false;
        else
            for (Index i = first; i < last; ++i) use(i, scores.data() + (i - first) * labels);
        blocks.give_back(std::move(scores));
    });
    return finite;
}

struct PositiveLabels {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> labels;
    bool finite;
};

template <class T>
PositiveLabels positive_labels(const ScoreSource<T>& source, int threads, Control& control) {
    const Index n = source.rows(), size = rows_at_once(source, threads);
    std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>((n + size - 1) / size));
    PositiveLabels answer{std::vector<std::int64_t>(static_cast<std::size_t>(n + 1), 0), {}, true};
    answer.finite = for_each_row(source, size, threads, control, [&](Index i, const T* scores) {
        auto& labels = found[static_cast<std::size_t>(i / size)];
        const std::size_t before = labels.size();
        for (Index l = 0; l < source.labels(); ++l)
            if (scores[l] > 0) labels.push_back(static_cast<std::int32_t>(l));
        answer.offsets[static_cast<std::size_t>(i + 1)] = static_cast<std::int64_t>(labels.size() - before);
    });
    std::partial_sum(answer.offsets.begin(), answer.offsets.end(), answer.offsets.begin());
    answer.labels.reserve(static_cast<std::size_t>(answer.offsets.back()));
    for (auto& labels : found) {
        answer.labels.insert(answer.labels.end(), labels.begin(), labels.end());
        std::vector<std::int32_t>().swap(labels);
    }
    return answer;
}

// labels, values: rows x k, the best label of a row first; of equal ones that with the smaller number.
template <class T>
bool top_labels(const ScoreSource<T>& source, Index k, std::int32_t* labels, T* values, int threads, Control& control) {
    const Index size = rows_at_once(source, threads), n_labels = source.labels();
    const auto all = std::views::iota(std::int32_t{0}, static_cast<std::int32_t>(n_labels));
    return for_each_row(source, size, threads, control, [&](Index i, const T* scores) {
        std::int32_t* best = labels + i * k;
        std::partial_sort_copy(all.begin(), all.end(), best, best + k,
                               [&](auto a, auto b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
        for (Index r = 0; r < k; ++r) values[i * k + r] = scores[best[r]];
    });
}

}  // namespace multimargin::prediction
