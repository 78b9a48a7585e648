#pragma once
// Products of Gram rows with changes of dual variables, added to the scores of all rows. A Gram row that is read from
// memory serves every label that has moved it. Every sum has an order of its own, the same for any number of threads.

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/m3l/kernel_tables.hpp"

namespace multimargin::m3l {

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

}  // namespace multimargin::m3l
