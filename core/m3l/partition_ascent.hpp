#pragma once
// Coordinate ascent on a part of the rows, from a state given from outside (rounds over parts: partition.hpp). The steps
// are those of linear_separable.hpp and linear_coupled.hpp; here stands what a part does besides: take a state and hand
// back how it changed, sum its dual variables in double, take a change back.
//
// A state is (cols + 1) x width numbers, the constant feature last. Row j is multiplied by factors[j] when it comes in,
// and its change when it goes out.

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/m3l/linear_coupled.hpp"
#include "core/m3l/linear_separable.hpp"

namespace multimargin::m3l {

// Sums over the rows of a part, one entry per label: sum of y m beta, sum of beta.
struct BetaSums {
    std::vector<double> linear, total;
};

// What a part asks of either kind of ascent.
template <class T>
class PartAscent {
  public:
    virtual ~PartAscent() = default;
    virtual Index width() const = 0;   // of the state
    virtual Index groups() const = 0;  // labels that have a step length of their own; 1 where R couples them
    virtual void open(const T* state, const std::vector<T>& factors, const ProximalShares<T>& shares) = 0;
    // sum c max(0, m - y z) by group, at the state as opened.
    virtual std::vector<double> hinges(Control& control) = 0;
    // Returns the local gaps, sum c max(t, 0) - b t over all cells, each before its own step.
    virtual double pass(std::span<const std::int32_t> order, Control& control) = 0;
    virtual void read_change(const T* state, const std::vector<T>& factors, T* change) const = 0;
    virtual BetaSums sums(Control& control) = 0;
    // beta: rows x labels. load() moves it into its box; settle() makes it before + theta (now - before).
    virtual void copy_beta(T* beta) const = 0;
    virtual void load(const T* beta) = 0;
    virtual void settle(const T* before, const double* theta) = 0;
    virtual void read_beta(Index i, Index first, Index count, double* out) const = 0;
};

// The dual variables of a row of a part: `chunks` chunks of labels from `first` on.
template <class T>
struct BetaRow {
    const LabelCells<T>& labels;
    Index i;
    int first, chunks;
    Chunk<T>* beta;

    Index first_label() const { return static_cast<Index>(first) * lanes<T>; }
    Index count() const { return std::min<Index>(Index{chunks} * lanes<T>, labels.labels() - first_label()); }

    MULTIMARGIN_INLINE void load(const T* row) {
        std::memcpy(static_cast<void*>(beta), row + first_label(), static_cast<std::size_t>(count()) * sizeof(T));
        for (int k = 0; k < chunks; ++k) beta[k] = labels.in_box(i, first + k, beta[k]);
    }
    // theta: for all chunks of the labels.
    MULTIMARGIN_INLINE void settle(const T* before, const Chunk<T>* theta) {
        for (int k = 0; k < chunks; ++k) {
            const Index from = (first + Index{k}) * lanes<T>, left = labels.labels() - from;
            Chunk<T> old{};
            std::memcpy(&old, before + from, static_cast<std::size_t>(std::min<Index>(lanes<T>, left)) * sizeof(T));
            if (!any(beta[k] != old)) continue;
            const Chunk<T> part = old + theta[first + k] * (beta[k] - old);
            beta[k] = labels.in_box(i, first + k, theta[first + k] == Chunk<T>{} + 1 ? beta[k] : part);
        }
    }
    // Adds to sums of all labels, padded to whole chunks.
    MULTIMARGIN_INLINE void add_to(double* __restrict linear, double* __restrict total) const {
        for (int k = 0; k < chunks; ++k) {
            if (!any(beta[k] != 0)) continue;
            const Chunk<T> target = labels.target(i, first + k, labels.is_positive(i, first + k));
            double *to = linear + (first + k) * lanes<T>, *plain = total + (first + k) * lanes<T>;
            for (int e = 0; e < lanes<T>; ++e) {
                to[e] += static_cast<double>(target[e]) * static_cast<double>(beta[k][e]);
                plain[e] += static_cast<double>(beta[k][e]);
            }
        }
    }
};

// A block of labels of SeparablePart.
template <RowMatrix X>
class PartBlock : public SeparableBlock<X> {
  public:
    using Base = SeparableBlock<X>;
    using T = typename X::value_type;

    PartBlock(const X& x, const LabelCells<T>& labels, const std::vector<T>& squares, T bias, int first, int chunks)
        : Base(x, labels, squares, bias, first, chunks) {
        this->forget_centre();
    }

    void open(const T* state, const std::vector<T>& factors, const ProximalShares<T>& shares) {
        this->state_.set_shares(shares);
        const Index labels = this->labels_.labels();
        for (Index j = 0; j <= this->x_.cols(); ++j)
            open_row(this->state_.data() + j * this->chunks_, state + j * labels, factors[static_cast<std::size_t>(j)]);
    }
    void read_change(const T* state, const std::vector<T>& factors, T* change) const {
        const Index labels = this->labels_.labels();
        for (Index j = 0; j <= this->x_.cols(); ++j)
            change_row(this->state_.row(j), state + j * labels, factors[static_cast<std::size_t>(j)],
                       change + j * labels);
    }
    void add_hinges(std::vector<double>& totals, Control& control, bool on_caller) {
        ChunkVector<T> sums[3] = {ChunkVector<T>(this->chunks_), ChunkVector<T>(this->chunks_),
                                  ChunkVector<T>(this->chunks_)};
        constexpr Index rows = Base::batch;
        for (Index first = 0; first < this->x_.rows() && !control.leave(on_caller); first += rows) {
            this->evaluate_rows(first, std::min(this->x_.rows(), first + rows), std::numeric_limits<double>::infinity(),
                                sums);
            this->drain(sums[0], totals);
        }
    }
    MULTIMARGIN_SIMD void add_betas(double* linear, double* total) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).add_to(linear, total);
    }
    MULTIMARGIN_SIMD void load(const T* beta) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).load(beta + i * this->labels_.labels());
    }
    MULTIMARGIN_SIMD void settle(const T* before, const Chunk<T>* theta) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).settle(before + i * this->labels_.labels(), theta);
    }

  private:
    MULTIMARGIN_INLINE BetaRow<T> row(Index i) {
        return {this->labels_, i, this->first_, this->chunks_, this->beta_.data() + i * this->chunks_};
    }
    void open_row(Chunk<T>* to, const T* from, T factor) const {
        T* lane = reinterpret_cast<T*>(to);
        for (Index l = 0; l < this->own_labels(); ++l) lane[l] = from[this->first_label() + l] * factor;
    }
    void change_row(const Chunk<T>* now, const T* from, T factor, T* change) const {
        const T* lane = reinterpret_cast<const T*>(now);
        for (Index l = 0; l < this->own_labels(); ++l) {
            const Index at = this->first_label() + l;
            change[at] = (lane[l] - from[at] * factor) * factor;
        }
    }
};

// R = I: labels in blocks, on several threads.
template <RowMatrix X>
class SeparablePart final : public PartAscent<typename X::value_type> {
  public:
    using T = typename X::value_type;

    SeparablePart(const X& x, const LabelCells<T>& labels, const std::vector<T>& squares, T bias, int threads)
        : labels_(labels), threads_(threads) {
        const int chunks = labels.chunks(), count = block_count(x, chunks, threads);
        for (int b = 0, first = 0; b < count; ++b) {
            const int size = chunks / count + (b < chunks % count);
            blocks_.emplace_back(x, labels, squares, bias, first, size);
            first += size;
        }
    }

    Index width() const override { return labels_.labels(); }
    Index groups() const override { return labels_.labels(); }
    void open(const T* state, const std::vector<T>& factors, const ProximalShares<T>& shares) override {
        for (auto& block : blocks_) block.open(state, factors, shares);
    }
    std::vector<double> hinges(Control& control) override {
        std::vector<double> totals(static_cast<std::size_t>(labels_.labels()));
        for_blocks(control, [&](auto& block, bool on_caller) { block.add_hinges(totals, control, on_caller); });
        return totals;
    }
    double pass(std::span<const std::int32_t> order, Control& control) override {
        std::vector<double> gaps(blocks_.size());
        parallel_for(static_cast<int>(blocks_.size()), threads_, control, [&](int b, bool on_caller) {
            const auto at = static_cast<std::size_t>(b);
            gaps[at] = blocks_[at].pass(order, false, control, on_caller);
        });
        return std::accumulate(gaps.begin(), gaps.end(), 0.0);
    }
    void read_change(const T* state, const std::vector<T>& factors, T* change) const override {
        for (const auto& block : blocks_) block.read_change(state, factors, change);
    }
    BetaSums sums(Control& control) override {
        const auto padded = static_cast<std::size_t>(labels_.chunks()) * lanes<T>;
        BetaSums found{std::vector<double>(padded), std::vector<double>(padded)};
        for_blocks(control, [&](auto& block, bool) { block.add_betas(found.linear.data(), found.total.data()); });
        return found;
    }
    void copy_beta(T* beta) const override {
        for (const auto& block : blocks_) block.copy_beta(beta);
    }
    void load(const T* beta) override {
        for (auto& block : blocks_) block.load(beta);
    }
    void settle(const T* before, const double* theta) override {
        ChunkVector<T> chunks(labels_.chunks());
        for (Index l = 0; l < labels_.labels(); ++l) chunks[l] = static_cast<T>(theta[l]);
        for (auto& block : blocks_) block.settle(before, chunks.chunks());
    }
    void read_beta(Index i, Index first, Index count, double* out) const override {
        for (const auto& block : blocks_) block.read_beta(i, first, count, out);
    }

  private:
    template <class Task>
    void for_blocks(Control& control, Task&& task) {
        parallel_for(static_cast<int>(blocks_.size()), threads_, control,
                     [&](int b, bool on_caller) { task(blocks_[static_cast<std::size_t>(b)], on_caller); });
    }

    const LabelCells<T>& labels_;
    int threads_;
    std::vector<PartBlock<X>> blocks_;
};

// The engine of CoupledPart.
template <RowMatrix X, class Prior>
class PartEngine : public CoupledEngine<X, Prior> {
  public:
    using Base = CoupledEngine<X, Prior>;
    using T = typename X::value_type;

    PartEngine(const X& x, const LabelCells<T>& labels, const Prior& prior, T bias, Index width, int threads)
        : Base(x, labels, prior, bias, threads), labels_wide_(width) {
        this->forget_centre();
    }

    void open(const T* state, const std::vector<T>& factors, const std::vector<T>& squares,
              const ProximalShares<T>& shares) {
        this->squares_ = squares;
        this->state_.set_shares(shares);
        for (Index j = 0; j <= this->x_.cols(); ++j) {
            T* row = reinterpret_cast<T*>(this->state_.data() + j * this->width_);
            for (Index l = 0; l < labels_wide_; ++l)
                row[l] = state[j * labels_wide_ + l] * factors[static_cast<std::size_t>(j)];
        }
    }
    void read_change(const T* state, const std::vector<T>& factors, T* change) const {
        for (Index j = 0; j <= this->x_.cols(); ++j) {
            const T* row = reinterpret_cast<const T*>(this->state_.row(j));
            const T factor = factors[static_cast<std::size_t>(j)];
            for (Index l = 0; l < labels_wide_; ++l) {
                const Index at = j * labels_wide_ + l;
                change[at] = (row[l] - state[at] * factor) * factor;
            }
        }
    }
    double hinge(Control& control) {
        constexpr Index range = 1024;
        const int ranges = static_cast<int>((this->x_.rows() + range - 1) / range);
        std::vector<typename Base::Sums> sums(static_cast<std::size_t>(ranges));
        parallel_for(ranges, this->threads_, control, [&](int k, bool on_caller) {
            typename Base::Workspace w(*this);
            const Index end = std::min(this->x_.rows(), range * (k + 1));
            constexpr Index batch = Base::batch;
            for (Index first = range * k; first < end && !control.leave(on_caller); first += batch)
                this->evaluate_rows(first, std::min(end, first + batch), std::numeric_limits<double>::infinity(), w,
                                    sums[static_cast<std::size_t>(k)]);
        });
        double total = 0.0;
        for (const auto& s : sums) total += s.hinge;
        return total;
    }
    double pass_without_centre(std::span<const std::int32_t> order, Control& control) {
        typename Base::Workspace w(*this);
        return this->sweep(order, false, w, control);
    }
    MULTIMARGIN_SIMD void add_betas(double* linear, double* total) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).add_to(linear, total);
    }
    MULTIMARGIN_SIMD void load(const T* beta) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).load(beta + i * this->labels_.labels());
    }
    MULTIMARGIN_SIMD void settle(const T* before, const Chunk<T>* theta) {
        for (Index i = 0; i < this->x_.rows(); ++i) row(i).settle(before + i * this->labels_.labels(), theta);
    }

  private:
    MULTIMARGIN_INLINE BetaRow<T> row(Index i) {
        const int chunks = this->labels_.chunks();
        return {this->labels_, i, 0, chunks, this->beta_.data() + i * chunks};
    }
    Index labels_wide_;  // numbers of a row of the state, as it comes and goes
};

// Other R: passes on one thread, evaluation on several.
template <RowMatrix X, class Prior>
class CoupledPart final : public PartAscent<typename X::value_type> {
  public:
    using T = typename X::value_type;

    CoupledPart(const X& x, const LabelCells<T>& labels, const std::vector<T>& squares, Prior prior, T bias,
                Index width, int threads)
        : labels_(labels),
          squares_(squares),
          width_(width),
          prior_(std::move(prior)),
          engine_(x, labels, prior_, bias, width, threads) {}

    Index width() const override { return width_; }
    Index groups() const override { return 1; }
    void open(const T* state, const std::vector<T>& factors, const ProximalShares<T>& shares) override {
        engine_.open(state, factors, squares_, shares);
    }
    std::vector<double> hinges(Control& control) override { return {engine_.hinge(control)}; }
    double pass(std::span<const std::int32_t> order, Control& control) override {
        return engine_.pass_without_centre(order, control);
    }
    void read_change(const T* state, const std::vector<T>& factors, T* change) const override {
        engine_.read_change(state, factors, change);
    }
    BetaSums sums(Control&) override {
        const auto padded = static_cast<std::size_t>(labels_.chunks()) * lanes<T>;
        BetaSums found{std::vector<double>(padded), std::vector<double>(padded)};
        engine_.add_betas(found.linear.data(), found.total.data());
        return found;
    }
    void copy_beta(T* beta) const override { engine_.copy_beta(beta); }
    void load(const T* beta) override { engine_.load(beta); }
    void settle(const T* before, const double* theta) override {
        ChunkVector<T> chunks(labels_.chunks());
        for (Index l = 0; l < labels_.labels(); ++l) chunks[l] = static_cast<T>(*theta);
        engine_.settle(before, chunks.chunks());
    }
    void read_beta(Index i, Index first, Index count, double* out) const override {
        engine_.read_beta(i, first, count, out);
    }

  private:
    const LabelCells<T>& labels_;
    const std::vector<T>& squares_;
    Index width_;
    Prior prior_;
    PartEngine<X, Prior> engine_;
};

}  // namespace multimargin::m3l
