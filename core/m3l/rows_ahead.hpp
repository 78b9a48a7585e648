#pragma once
// Asking for memory ahead of its use. Coordinate ascent visits rows at random and does little with each, so without this
// it mostly waits: for where a sparse row begins, for its entries, its dual variables and its labels. Asking for the
// state of a row's features gained nothing (3 % on RCV1; a loss of a quarter where the state has many labels, which the
// processor fetches by itself), except under a dense prior: see linear_coupled.hpp.

#include <span>
#include <vector>

#include "core/base/matrix.hpp"
#include "core/base/simd.hpp"
#include "core/labels/cells.hpp"

namespace multimargin::m3l {

using namespace labels;

template <RowMatrix X>
class RowsAhead {
  public:
    using T = typename X::value_type;

    RowsAhead(const X& x, const LabelCells<T>& labels, const std::vector<T>& squares)
        : x_(x), labels_(labels), squares_(squares) {}

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
        __builtin_prefetch(squares_.data() + i);
        prefetch_bytes(beta + i * width, Index{width} * 32);
    }

  private:
    static constexpr std::size_t place = 16, entries = 4;  // visits ahead

    const X& x_;
    const LabelCells<T>& labels_;
    const std::vector<T>& squares_;
};

}  // namespace multimargin::m3l
