#pragma once
// What the kernel solvers share: tables with a row per label, the choice of the next rows, the small kernel matrix of
// those rows, products with Gram rows, and the sums behind the certificate. Every sum has an order of its own, the same
// for any number of threads.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/labels/cells.hpp"
#include "core/m3l/pair_ascent.hpp"
#include "core/numerics/gram.hpp"

namespace multimargin::m3l {

using namespace labels;
using namespace numerics;

// A row per label (or latent dimension), a column per data row, padded as Gram rows are.
template <class T>
class LabelMajorTable {
  public:
    LabelMajorTable() = default;
    LabelMajorTable(Index labels, Index rows)
        : labels_(labels), stride_(gram_stride(rows)), values_(static_cast<std::size_t>(labels * stride_)) {}
    Index labels() const { return labels_; }
    Index stride() const { return stride_; }
    int chunks() const { return static_cast<int>(stride_ / lanes<T>); }
    bool empty() const { return labels_ == 0; }
    MULTIMARGIN_INLINE T* row(Index l) { return values_.data() + l * stride_; }
    MULTIMARGIN_INLINE const T* row(Index l) const { return values_.data() + l * stride_; }
    MULTIMARGIN_INLINE Chunk<T>* chunk_row(Index l) { return reinterpret_cast<Chunk<T>*>(row(l)); }
    MULTIMARGIN_INLINE const Chunk<T>* chunk_row(Index l) const { return reinterpret_cast<const Chunk<T>*>(row(l)); }
    void assign(const LabelMajorTable& other) {
        std::memcpy(values_.data(), other.values_.data(), static_cast<std::size_t>(labels_ * stride_) * sizeof(T));
    }
    void clear() { std::memset(values_.data(), 0, static_cast<std::size_t>(labels_ * stride_) * sizeof(T)); }

  private:
    Index labels_ = 0, stride_ = 0;
    Buffer<T> values_;
};

// y_il c_il: sign and cost of a cell in one number. The signed dual variable of the cell lies between 0 and it.
template <class T>
LabelMajorTable<T> signed_costs(const LabelCells<T>& labels) {
    LabelMajorTable<T> table(labels.labels(), labels.rows());
    for (Index i = 0; i < labels.rows(); ++i)
        for (int k = 0; k < labels.chunks(); ++k) {
            const auto positive = labels.is_positive(i, k);
            const Chunk<T> cost = labels.cost(i, k, positive), value = positive ? cost : -cost;
            const Index first = static_cast<Index>(k) * lanes<T>;
            for (Index l = first; l < std::min<Index>(first + lanes<T>, labels.labels()); ++l)
                table.row(l)[i] = value[l - first];
        }
    return table;
}

// Targets y m of one label's cells: a number for either class, or one per cell.
template <class T>
struct LabelTargets {
    T positive, negative;
    const T* cells;         // null, or as many as there are rows, padded
    double typical_margin;  // the scale of the label's scores

    // cost: y c of the cell, or of a chunk of cells.
    MULTIMARGIN_INLINE T at(Index i, T cost) const { return cells ? cells[i] : cost > 0 ? positive : negative; }
    MULTIMARGIN_INLINE Chunk<T> chunk(int k, Chunk<T> cost) const {
        const Chunk<T> zero{};
        return cells ? reinterpret_cast<const Chunk<T>*>(cells)[k] : cost > 0 ? zero + positive : zero + negative;
    }
};

template <class T>
class TargetTable {
  public:
    explicit TargetTable(const LabelCells<T>& labels) {
        const CellMargins& margins = labels.source.margins;
        if (margins.cells) cells_ = LabelMajorTable<T>(labels.labels(), labels.rows());
        for (Index i = 0; i < labels.rows() && margins.cells; ++i)
            for (int k = 0; k < labels.chunks(); ++k) {
                const Chunk<T> target = labels.target(i, k, labels.is_positive(i, k));
                const Index first = static_cast<Index>(k) * lanes<T>;
                for (Index l = first; l < std::min<Index>(first + lanes<T>, labels.labels()); ++l)
                    cells_.row(l)[i] = target[l - first];
            }
        for (Index l = 0; l < labels.labels(); ++l)
            labels_.push_back({static_cast<T>(margins.positive[l]), -static_cast<T>(margins.negative[l]),
                               margins.cells ? cells_.row(l) : nullptr, labels.typical_margin(l)});
    }
    const LabelTargets<T>& of(Index l) const { return labels_[static_cast<std::size_t>(l)]; }

  private:
    LabelMajorTable<T> cells_;
    std::vector<LabelTargets<T>> labels_;
};

// beta of another run (rows x labels), moved into the box.
template <class T>
void read_beta(const T* start, const LabelMajorTable<T>& costs, Index rows, LabelMajorTable<T>& beta) {
    for (Index l = 0; l < costs.labels(); ++l)
        for (Index i = 0; i < rows; ++i) {
            const T cost = costs.row(l)[i];
            beta.row(l)[i] = std::clamp(start[i * costs.labels() + l], std::min(cost, T(0)), std::max(cost, T(0)));
        }
}
template <class T>
void write_beta(const LabelMajorTable<T>& beta, Index rows, T* out) {
    for (Index i = 0; i < rows; ++i)
        for (Index l = 0; l < beta.labels(); ++l) out[i * beta.labels() + l] = beta.row(l)[i];
}

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

// The change of a variable of the row at position `at` of a round.
template <class T>
struct Move {
    std::int32_t at;
    T by;
};
template <class T>
using MoveLists = std::vector<std::vector<Move<T>>>;

// out[l][c] += sum over l's moves of by * rows[at][c], for the columns first <= c < last. The moves of l are begin[l]
// to end[l], those of all labels are of the rows `moved`. The terms of a strip are summed in registers before they are
// added: a small sum loses no digits.
template <class T>
struct MoveProducts {
    using Rows = std::span<const T* const>;

    static void add(Rows rows, Rows moved, const Move<T>* const* begin, const Move<T>* const* end,
                    LabelMajorTable<T>& out, Index first, Index last) {
        (has_wide() ? add_wide : add_chunks)(rows, moved, begin, end, out, first, last);
    }

  private:
    template <class V>
    MULTIMARGIN_INLINE static void add_in(Rows rows, Rows moved, const Move<T>* const* begin, const Move<T>* const* end,
                                          LabelMajorTable<T>& out, Index first, Index last) {
        constexpr Index line = 64 / sizeof(T), strip = 4 * line;
        constexpr int width = strip * sizeof(T) / sizeof(V);
        for (Index c = first; c < last; c += strip) {
            if (c + strip < last)
                for (const T* row : moved)
                    for (Index e = 0; e < strip; e += line) __builtin_prefetch(row + c + strip + e, 0, 2);
            for (Index l = 0; l < out.labels(); ++l) {
                if (begin[l] == end[l]) continue;
                V sum[width] = {};
                for (const Move<T>* m = begin[l]; m != end[l]; ++m) {
                    const V* row = reinterpret_cast<const V*>(rows[m->at] + c);
                    for (int e = 0; e < width; ++e) sum[e] += m->by * row[e];
                }
                V* to = reinterpret_cast<V*>(out.row(l) + c);
                for (int e = 0; e < width; ++e) to[e] += sum[e];
            }
        }
    }
    MULTIMARGIN_SIMD __attribute__((noinline)) static void add_chunks(Rows rows, Rows moved,
                                                                      const Move<T>* const* begin,
                                                                      const Move<T>* const* end,
                                                                      LabelMajorTable<T>& out, Index first,
                                                                      Index last) {
        add_in<Chunk<T>>(rows, moved, begin, end, out, first, last);
    }
    MULTIMARGIN_WIDE __attribute__((noinline)) static void add_wide(Rows rows, Rows moved, const Move<T>* const* begin,
                                                                    const Move<T>* const* end, LabelMajorTable<T>& out,
                                                                    Index first, Index last) {
        add_in<Wide<T>>(rows, moved, begin, end, out, first, last);
    }
};

// out[k][c] += sum_a coefficients[k][a] * rows[a][c] for the columns first <= c < last: every row moves every k, so
// that a chunk of a row, once loaded, serves three of them.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void add_dense_products(std::span<const T* const> rows,
                                                                   const T* coefficients, Index stride,
                                                                   LabelMajorTable<T>& out, Index first, Index last) {
    constexpr int width = 4, together = 3;
    constexpr Index strip = width * lanes<T>;
    const auto n = static_cast<Index>(rows.size());
    for (Index c = first; c < last; c += strip) {
        if (c + strip < last)
            for (const T* row : rows)
                for (int line = 0; line < width; line += 2) __builtin_prefetch(row + c + strip + line * lanes<T>, 0, 2);
        Index k = 0;
        for (; k + together <= out.labels(); k += together) {
            const T *d0 = coefficients + k * stride, *d1 = d0 + stride, *d2 = d1 + stride;
            Chunk<T> s0[width] = {}, s1[width] = {}, s2[width] = {};
            for (Index a = 0; a < n; ++a) {
                const Chunk<T>* row = reinterpret_cast<const Chunk<T>*>(rows[a] + c);
                for (int e = 0; e < width; ++e) {
                    s0[e] += d0[a] * row[e];
                    s1[e] += d1[a] * row[e];
                    s2[e] += d2[a] * row[e];
                }
            }
            Chunk<T>* to0 = reinterpret_cast<Chunk<T>*>(out.row(k) + c);
            Chunk<T>* to1 = reinterpret_cast<Chunk<T>*>(out.row(k + 1) + c);
            Chunk<T>* to2 = reinterpret_cast<Chunk<T>*>(out.row(k + 2) + c);
            for (int e = 0; e < width; ++e) {
                to0[e] += s0[e];
                to1[e] += s1[e];
                to2[e] += s2[e];
            }
        }
        for (; k < out.labels(); ++k) {
            const T* d = coefficients + k * stride;
            Chunk<T> sum[width] = {};
            for (Index a = 0; a < n; ++a) {
                const Chunk<T>* row = reinterpret_cast<const Chunk<T>*>(rows[a] + c);
                for (int e = 0; e < width; ++e) sum[e] += d[a] * row[e];
            }
            Chunk<T>* to = reinterpret_cast<Chunk<T>*>(out.row(k) + c);
            for (int e = 0; e < width; ++e) to[e] += sum[e];
        }
    }
}

inline constexpr Index product_columns = 512;  // of a task
inline constexpr Index product_rows = 256;     // a strip of so many rows stays in the second-level cache for all labels

// The same for all columns; coefficients: a row per k, `stride` apart, a column per position.
template <class T>
void add_all_dense_products(const GramRows<T>& gram, std::span<const std::int32_t> positions, const T* coefficients,
                            Index stride, LabelMajorTable<T>& out, int threads, Control& control) {
    std::vector<const T*> rows;
    for (auto i : positions) rows.push_back(gram.row(i));
    const int tasks = static_cast<int>((out.stride() + product_columns - 1) / product_columns);
    parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
        const Index first = task * product_columns, last = std::min(out.stride(), first + product_columns);
        for (std::size_t at = 0; at < rows.size() && !control.leave_unfinished(on_caller); at += product_rows) {
            const auto part =
                std::span<const T* const>(rows).subspan(at, std::min<std::size_t>(product_rows, rows.size() - at));
            add_dense_products<T>(part, coefficients + at, stride, out, first, last);
        }
    });
}

// Sparse moves, for all columns. moves[l] is sorted by position; positions count along `positions`.
template <class T>
void add_all_products(const GramRows<T>& gram, std::span<const std::int32_t> positions, const MoveLists<T>& moves,
                      LabelMajorTable<T>& out, int threads, Control& control) {
    const auto labels = static_cast<std::size_t>(out.labels());
    const auto blocks = (positions.size() + product_rows - 1) / product_rows;
    std::vector<const T*> rows, moved;
    std::vector<std::uint8_t> moves_some(positions.size());
    for (const auto& of_label : moves)
        for (const auto& m : of_label) moves_some[static_cast<std::size_t>(m.at)] = 1;
    std::vector<std::size_t> moved_until{0};  // by block
    for (std::size_t a = 0; a < positions.size(); ++a) {
        rows.push_back(gram.row(positions[a]));
        if (moves_some[a]) moved.push_back(rows[a]);
        if ((a + 1) % product_rows == 0 || a + 1 == positions.size()) moved_until.push_back(moved.size());
    }
    std::vector<const Move<T>*> cuts((blocks + 1) * labels);
    for (std::size_t l = 0; l < labels; ++l) {
        const Move<T>*m = moves[l].data(), *last = m + moves[l].size();
        for (std::size_t b = 0; b <= blocks; ++b) {
            while (m != last && m->at < static_cast<Index>(b) * product_rows) ++m;
            cuts[b * labels + l] = m;
        }
    }
    const int tasks = static_cast<int>((out.stride() + product_columns - 1) / product_columns);
    parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
        const Index first = task * product_columns, last = std::min(out.stride(), first + product_columns);
        for (std::size_t b = 0; b < blocks && !control.leave_unfinished(on_caller); ++b)
            MoveProducts<T>::add(
                rows, std::span<const T* const>(moved).subspan(moved_until[b], moved_until[b + 1] - moved_until[b]),
                &cuts[b * labels], &cuts[(b + 1) * labels], out, first, last);
    });
}

// out = K beta, row block by row block, only for the rows with some beta.
template <class T>
void multiply(GramRows<T>& gram, const LabelMajorTable<T>& beta, Index block, LabelMajorTable<T>& out, int threads,
              Control& control) {
    out.clear();
    std::vector<std::int32_t> used;
    for (Index i = 0; i < gram.rows(); ++i)
        for (Index l = 0; l < beta.labels(); ++l)
            if (beta.row(l)[i] != 0) {
                used.push_back(static_cast<std::int32_t>(i));
                break;
            }
    MoveLists<T> moves(static_cast<std::size_t>(beta.labels()));
    for (std::size_t first = 0; first < used.size(); first += static_cast<std::size_t>(block)) {
        const auto rows =
            std::span<const std::int32_t>(used).subspan(first, std::min<std::size_t>(block, used.size() - first));
        gram.request(rows);
        for (Index l = 0; l < beta.labels(); ++l) {
            moves[l].clear();
            for (std::size_t a = 0; a < rows.size(); ++a)
                if (const T by = beta.row(l)[rows[a]]; by != 0) moves[l].push_back({static_cast<std::int32_t>(a), by});
        }
        add_all_products(gram, rows, moves, out, threads, control);
    }
}

// One label's cells: scores without shift, signed costs a, targets y m.
template <class T>
struct LabelCellsRow {
    const Chunk<T>* scores;
    const Chunk<T>* costs;
    LabelTargets<T> targets;

    MULTIMARGIN_INLINE Chunk<T> target(int k) const { return targets.chunk(k, costs[k]); }
};

template <class T>
MULTIMARGIN_INLINE double drained(Chunk<T>& sum) {
    double total = 0.0;
    for (int e = 0; e < lanes<T>; ++e) total += static_cast<double>(sum[e]);
    sum = Chunk<T>{};
    return total;
}

struct HingeAt {
    double value, slope;  // of sum c max(0, m - y (score + shift)) as a function of the shift
};

// a (y m - z) is c (m - y z): the hinge loss before its clipping.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) HingeAt hinge_at(const LabelCellsRow<T>& cells, T shift, int chunks) {
    constexpr int batch = 128;
    const Chunk<T> zero{};
    HingeAt out{0.0, 0.0};
    for (int first = 0; first < chunks; first += batch) {
        Chunk<T> value = zero, slope = zero;
        for (int k = first; k < std::min(chunks, first + batch); ++k) {
            const Chunk<T> a = cells.costs[k], loss = a * (cells.target(k) - cells.scores[k] - shift);
            value += lane_max(loss, zero);
            slope -= loss > 0 ? a : zero;
        }
        out.value += drained<T>(value);
        out.slope += drained<T>(slope);
    }
    return out;
}

struct Shift {
    double at, value;
};

// Minimises  w^2 / (2 bias) + hinge(w)  over the shift w: bracketing from `near`, then bisection. `also` is tried too.
template <class T>
Shift best_shift(const LabelCellsRow<T>& cells, double bias, double near, double also, int chunks) {
    Shift best{also, 0.5 * also * also / bias + hinge_at<T>(cells, static_cast<T>(also), chunks).value};
    const auto slope_at = [&](double w) {
        w = static_cast<double>(static_cast<T>(w));
        const auto hinge = hinge_at<T>(cells, static_cast<T>(w), chunks);
        const double value = 0.5 * w * w / bias + hinge.value;
        if (value < best.value) best = {w, value};
        return w / bias + hinge.slope;
    };
    constexpr int most_steps = 60;
    const double margin = cells.targets.typical_margin;
    double low = near, high = near, step = 0.02 * margin;
    if (slope_at(near) > 0) {
        for (int k = 0; k < most_steps && slope_at(low -= step) > 0; ++k, step *= 3) high = low;
    } else {
        for (int k = 0; k < most_steps && slope_at(high += step) < 0; ++k, step *= 3) low = high;
    }
    const double enough = std::is_same_v<T, float> ? 2e-5 * margin : 1e-10 * (margin + std::abs(near));
    for (int k = 0; k < most_steps && high - low > enough; ++k) {
        const double middle = 0.5 * (low + high);
        (slope_at(middle) > 0 ? high : low) = middle;
    }
    return best;
}

struct CellSums {
    double cross = 0.0;   // sum beta z
    double linear = 0.0;  // sum m b
    double hinge = 0.0;   // sum c max(0, m - y (z + shift))
    double worst = 0.0;   // largest violation
};

// Sums over the chunks first <= k < last of one label; adds the squared violations at `shift` to the rows' scores.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void scan_cells(const LabelCellsRow<T>& cells, const Chunk<T>* beta, T shift,
                                                           T hinge_shift, int first, int last, Chunk<T>* row_scores,
                                                           CellSums& sums) {
    const Chunk<T> zero{};
    constexpr int batch = 128;
    Chunk<T> worst = zero;
    for (int from = first; from < last; from += batch) {
        Chunk<T> cross = zero, linear = zero, hinge = zero;
        for (int k = from; k < std::min(last, from + batch); ++k) {
            const Chunk<T> a = cells.costs[k], z = cells.scores[k], b = beta[k], target = cells.target(k);
            cross += b * z;
            linear += b * target;
            hinge += lane_max(a * (target - z - hinge_shift), zero);
            const Chunk<T> v = violation<Chunk<T>>(target - z - shift, b, lane_min(a, zero), lane_max(a, zero));
            worst = lane_max(worst, v);
            row_scores[k] += v * v;
        }
        sums.cross += drained<T>(cross);
        sums.linear += drained<T>(linear);
        sums.hinge += drained<T>(hinge);
    }
    for (int e = 0; e < lanes<T>; ++e) sums.worst = std::max(sums.worst, static_cast<double>(worst[e]));
}

// Sums of many labels over all rows; the labels for which of(l) has no scores are left out.
template <class T, class CellsOf>
std::vector<CellSums> scan_labels(Index labels, CellsOf&& of, const LabelMajorTable<T>& beta,
                                  std::span<const double> shifts, bool hinge_at_shift, Buffer<T>& row_scores,
                                  int threads, Control& control) {
    constexpr int chunks_per_task = 2048 / lanes<T>;
    const int tasks = (beta.chunks() + chunks_per_task - 1) / chunks_per_task;
    std::vector<CellSums> parts(static_cast<std::size_t>(tasks) * labels);
    std::memset(row_scores.data(), 0, row_scores.size() * sizeof(T));
    parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
        const int first = task * chunks_per_task, last = std::min(beta.chunks(), first + chunks_per_task);
        auto* scores = reinterpret_cast<Chunk<T>*>(row_scores.data());
        for (Index l = 0; l < labels && !control.leave_unfinished(on_caller); ++l) {
            const LabelCellsRow<T> cells = of(l);
            const T shift = static_cast<T>(shifts[l]);
            if (cells.scores)
                scan_cells<T>(cells, beta.chunk_row(l), shift, hinge_at_shift ? shift : T(0), first, last, scores,
                              parts[static_cast<std::size_t>(task) * labels + l]);
        }
    });
    std::vector<CellSums> sums(static_cast<std::size_t>(labels));
    for (std::size_t k = 0; k < parts.size(); ++k) {
        CellSums& total = sums[k % labels];
        total.cross += parts[k].cross;
        total.linear += parts[k].linear;
        total.hinge += parts[k].hinge;
        total.worst = std::max(total.worst, parts[k].worst);
    }
    return sums;
}

}  // namespace multimargin::m3l
