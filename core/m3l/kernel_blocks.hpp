#pragma once
// Blocks of rows of the kernel solvers: which rows come next, their small kernel matrix, and room for one label's
// variables among them.

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/m3l/kernel_tables.hpp"
#include "core/m3l/pair_ascent.hpp"

namespace multimargin::m3l {

// Chooses the rows of a round. First every row once, in random order; then half of them by how much they violate
// optimality, and half at random: the random half holds the free partners without which the violators cannot move.
template <class T>
class RowPicker {
  public:
    RowPicker(Index rows, std::uint64_t seed) : rng_(seed), scores_(static_cast<std::size_t>(gram_stride(rows))) {
        order_.resize(static_cast<std::size_t>(rows));
        std::iota(order_.begin(), order_.end(), 0);
        rng_.shuffle(std::span(order_));
    }
    bool all_seen() const { return seen_ >= order_.size(); }
    void skip_first_pass() { seen_ = order_.size(); }
    // How much each row violates optimality; the solver fills it in at every evaluation.
    Buffer<T>& scores() { return scores_; }
    Rng& rng() { return rng_; }

    std::span<const std::int32_t> next(Index most) {
        const auto n = order_.size(), size = std::min(n, static_cast<std::size_t>(most));
        if (!all_seen()) {
            const auto count = std::min(size, n - seen_);
            rows_.assign(order_.begin() + static_cast<std::ptrdiff_t>(seen_),
                         order_.begin() + static_cast<std::ptrdiff_t>(seen_ + count));
            seen_ += count;
        } else {
            choose(n, size);
        }
        std::sort(rows_.begin(), rows_.end());
        return rows_;
    }

  private:
    void choose(std::size_t n, std::size_t size) {
        const auto top = size < n ? size / 2 : size;
        const auto worse = [&](auto a, auto b) { return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b; };
        if (top < n)
            std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(top), order_.end(), worse);
        for (auto k = top; k < size; ++k) {
            auto j = k + rng_.below(n - k);
            if (scores_[order_[j]] <= 0) j = k + rng_.below(n - k);
            std::swap(order_[k], order_[j]);
        }
        rows_.assign(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(size));
    }

    Rng rng_;
    std::size_t seen_ = 0;
    std::vector<std::int32_t> order_, rows_;
    Buffer<T> scores_;
};

// K[S, S] + bias for the rows S of a round; row a has chunks() chunks (padded for pair_ascent.hpp), zero beyond |S|.
template <class T>
class SquareBlock {
  public:
    explicit SquareBlock(Index size) : values_(static_cast<std::size_t>(size * padded(size))) {}

    void gather(const GramRows<T>& gram, std::span<const std::int32_t> rows, T bias, int threads, Control& control) {
        rows_ = rows;
        chunks_ = static_cast<int>(padded(static_cast<Index>(rows.size())) / lanes<T>);
        constexpr int rows_per_task = 64;
        const int tasks = (static_cast<int>(rows.size()) + rows_per_task - 1) / rows_per_task;
        parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
            if (control.leave_unfinished(on_caller)) return;
            const auto first = static_cast<std::size_t>(task) * rows_per_task;
            for (auto a = first; a < std::min(rows.size(), first + rows_per_task); ++a)
                gather_row(gram.row(rows[a]), gram.row(rows[std::min(a + 1, rows.size() - 1)]), bias,
                           row(static_cast<Index>(a)));
        });
    }
    Index size() const { return static_cast<Index>(rows_.size()); }
    int chunks() const { return chunks_; }
    std::span<const std::int32_t> rows() const { return rows_; }
    T* row(Index a) { return values_.data() + a * chunks_ * lanes<T>; }
    const T* row(Index a) const { return values_.data() + a * chunks_ * lanes<T>; }

    static constexpr Index padded(Index size) { return (size + pair_lanes<T> - 1) / pair_lanes<T> * pair_lanes<T>; }

  private:
    // `next`: the row that is asked for after this one.
    void gather_row(const T* from, const T* next, T bias, T* to) const {
        const auto n = rows_.size(), width = static_cast<std::size_t>(chunks_) * lanes<T>;
        for (std::size_t c = 0; c < n; ++c) {
            __builtin_prefetch(next + rows_[c], 0, 2);
            to[c] = from[rows_[c]] + bias;
        }
        for (std::size_t c = n; c < width; ++c) to[c] = 0;
    }

    std::span<const std::int32_t> rows_;
    int chunks_ = 0;
    Buffer<T> values_;
};

// Room for one label's subproblem inside a round.
template <class T>
struct PairWorkspace {
    explicit PairWorkspace(Index size)
        : kernel(static_cast<std::size_t>(size * SquareBlock<T>::padded(size))),
          diagonal(static_cast<int>(SquareBlock<T>::padded(size) / lanes<T>)),
          gradient(diagonal.size()),
          start(diagonal.size()),
          beta(diagonal.size()),
          low(diagonal.size()),
          high(diagonal.size()) {}

    // The subproblem of k variables; `whole` is the kernel to use instead of the workspace's own.
    PairProblem<T> problem(Index k, const T* whole) {
        const Index width = SquareBlock<T>::padded(k);
        for (Index c = k; c < width; ++c) {
            diagonal[c] = 1;
            gradient[c] = beta[c] = low[c] = high[c] = 0;
        }
        return {width, whole ? whole : kernel.data(), &diagonal[0], &gradient[0], &beta[0], &low[0], &high[0]};
    }

    Buffer<T> kernel;
    ChunkVector<T> diagonal, gradient, start, beta, low, high;
    std::vector<std::int32_t> active;
};

}  // namespace multimargin::m3l
