#pragma once
// Sets of labels as bits, and whether one lies within another.

#include <bit>
#include <vector>

#include "core/labels/bits.hpp"

namespace multimargin::separation {

class LabelSets {
  public:
    LabelSets(Index count, Index labels)
        : count_(count), words_((labels + 63) / 64), bits_(static_cast<std::size_t>(count * words_), 0) {}
    LabelSets(const labels::CellList& members, Index labels)
        : LabelSets(static_cast<Index>(members.offsets.size()) - 1, labels) {
        for (Index i = 0; i < count_; ++i)
            for (auto l : members.row(i)) (*this)[i][l / 64] |= labels::Word{1} << (l % 64);
    }

    Index size() const { return count_; }
    labels::Word* operator[](Index i) { return bits_.data() + i * words_; }
    const labels::Word* operator[](Index i) const { return bits_.data() + i * words_; }
    bool has(Index i, Index label) const { return labels::bit((*this)[i], static_cast<std::size_t>(label)); }
    // Whether set i contains all of `other`.
    bool contains(Index i, const labels::Word* other) const {
        const labels::Word* own = (*this)[i];
        for (Index w = 0; w < words_; ++w)
            if (other[w] & ~own[w]) return false;
        return true;
    }

    // How many labels two of the sets have in common.
    MULTIMARGIN_INLINE Index shared(Index i, Index j) const {
        const labels::Word *one = bits_.data() + i * words_, *other = bits_.data() + j * words_;
        Index count = 0;
        for (Index w = 0; w < words_; ++w) count += std::popcount(one[w] & other[w]);
        return count;
    }

  private:
    Index count_, words_;
    std::vector<labels::Word> bits_;
};

}  // namespace multimargin::separation
