#pragma once
// Asking for memory ahead of its use. Coordinate ascent visits sparse rows at random and does little with each, so
// without this it mostly waits: for where a row begins, for its entries, its dual variables and its labels, and, where
// the state outgrows the processor's own cache, for the state of its features. (Dense rows gained nothing.)

#include <span>
#include <vector>

#include "core/labels.hpp"
#include "core/matrix.hpp"
#include "core/simd.hpp"

namespace multimargin {

template <RowMatrix X>
class RowsAhead {
  public:
    using T = typename X::value_type;

    RowsAhead(const X& x, const LabelCells<T>& labels, const std::vector<T>& norms, Index state_bytes)
        : x_(x), labels_(labels), norms_(norms), far_state_(state_bytes > own_cache) {}

    // Before the visit to order[q]. active: one word a row, 0 for a row that is passed over; beta: `width` chunks a
    // row.
    template <class Word>
    MULTIMARGIN_INLINE void prefetch(std::span<const std::int32_t> order, std::size_t q, const Word* active,
                                     const Chunk<T>* beta, int width) const {
        if (q + place < order.size()) {
            __builtin_prefetch(active + order[q + place]);
            x_.prefetch_place(order[q + place]);
        }
        if (q + entries >= order.size() || !active[order[q + entries]]) return;
        const Index i = order[q + entries];
        x_.prefetch(i);
        labels_.prefetch(i);
        __builtin_prefetch(norms_.data() + i);
        prefetch_bytes(beta + i * width, Index{width} * 32);
    }

    // The `count` chunks `at` of the state of row i's features, where that is far away.
    MULTIMARGIN_INLINE void prefetch_state(Index i, const Chunk<T>* state, int stride, const int* at, int count) const {
        const auto row = x_.row(i);
        for (Index k = 0; k < row.size(); ++k) {
            const Chunk<T>* v = state + row.column(k) * stride;
            for (int m = 0; m < count; ++m) __builtin_prefetch(v + at[m], 0, 2);
        }
    }
    bool far_state() const { return far_state_; }

  private:
    static constexpr std::size_t place = 16, entries = 4;  // visits ahead
    static constexpr Index own_cache = Index{1} << 22;  // a state of 1.2 MB lost by it, one of 5 MB gained

    const X& x_;
    const LabelCells<T>& labels_;
    const std::vector<T>& norms_;
    bool far_state_;
};

}  // namespace multimargin
