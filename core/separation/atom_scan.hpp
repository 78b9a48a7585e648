#pragma once
// The best atoms of a block of rows, all atoms looked at: rows lie side by side in chunks, so that one operation serves
// a chunk of rows, and one bit of a word says whether a row has a label.
//
// An atom is a set s of labels, or, where it holds most of them, all but a set z. It lies within the set p of labels of
// a row if the row has every label of s, or, if z has every label the row lacks. Few rows qualify for the latter: of the
// labels a row lacks, the one in the fewest z must be among those of z.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/memory.hpp"
#include "core/numerics/row_products.hpp"
#include "core/separation/separation_rows.hpp"

namespace multimargin::separation {

using namespace numerics;

// The smaller of each atom and its complement.
class AtomMembers {
  public:
    explicit AtomMembers(const Atoms& atoms)
        : labels_(atoms.labels), left_out_(static_cast<std::size_t>(atoms.labels), 0) {
        for (Index j = 0; j < atoms.sets.size(); ++j) {
            Index size = 0;
            for (Index l = 0; l < labels_; ++l) size += atoms.sets.has(j, l);
            const bool complement = 2 * size > labels_;
            for (Index l = 0; l < labels_; ++l)
                if (atoms.sets.has(j, l) != complement) members_.push_back(static_cast<std::int32_t>(l));
            offsets_.push_back(static_cast<std::int64_t>(members_.size()));
            complement_.push_back(complement);
            if (!complement) continue;
            most_left_out_ = std::max(most_left_out_, labels_ - size);
            for (const auto* z = begin(j); z != end(j); ++z) ++left_out_[static_cast<std::size_t>(*z)];
        }
    }
    Index size() const { return static_cast<Index>(complement_.size()); }
    Index labels() const { return labels_; }
    // How many complements leave a label out, and how many labels one leaves out at most; -1 if there are none.
    Index left_out(Index label) const { return left_out_[static_cast<std::size_t>(label)]; }
    Index most_left_out() const { return most_left_out_; }
    MULTIMARGIN_INLINE const std::int32_t* begin(Index j) const { return members_.data() + offsets_[j]; }
    MULTIMARGIN_INLINE const std::int32_t* end(Index j) const { return members_.data() + offsets_[j + 1]; }
    MULTIMARGIN_INLINE bool is_complement(Index j) const { return complement_[j] != 0; }

  private:
    Index labels_, most_left_out_ = -1;
    std::vector<Index> left_out_;
    std::vector<std::int64_t> offsets_{0};
    std::vector<std::int32_t> members_;
    std::vector<std::uint8_t> complement_;
};

// The few best atoms of one side of a row, in falling order of gradient, above a level.
class Shortlist {
  public:
    static constexpr int capacity = 12;
    void clear(double level) { size_ = 0, level_ = level; }
    // Returns the gradient above which the next atom is of interest.
    MULTIMARGIN_INLINE double offer(std::int32_t atom, double g) {
        int at = size_ < capacity ? size_++ : capacity - 1;
        for (; at > 0 && items_[at - 1].g < g; --at) items_[at] = items_[at - 1];
        items_[at] = {atom, g};
        return size_ == capacity ? items_[capacity - 1].g : level_;
    }
    double best() const { return size_ ? items_[0].g : level_; }
    bool holds(std::int32_t atom) const {
        for (int e = 0; e < size_; ++e)
            if (items_[e].atom == atom) return true;
        return false;
    }
    template <class Visit>
    void each(Visit&& visit) const {
        for (int e = 0; e < size_; ++e) visit(items_[e].atom);
    }

  private:
    struct Item {
        std::int32_t atom;
        double g;
    };
    Item items_[capacity];
    int size_ = 0;
    double level_ = 0.0;
};

// Room for one block of rows, with scores in T.
template <class T>
class AtomScan {
  public:
    static constexpr int rows = rows_of_block<T>;
    static_assert(rows <= 32);  // bits of a word

    AtomScan(const AtomMembers& members, Index features)
        : members_(members),
          scores_(static_cast<std::size_t>(features * block_chunks)),
          has_{Words(static_cast<std::size_t>(members.labels())), Words(has_[0].size())},
          first_{Words(has_[0].size()), Words(has_[0].size())} {}

    // Scores of the features, features x rows.
    T* scores() { return reinterpret_cast<T*>(scores_.data()); }
    T score(Index feature, int r) const { return reinterpret_cast<const T*>(scores_.data())[feature * rows + r]; }

    void set_rows(const SeparationRows& source, Index first, int count) {
        for (const int b : {0, 1}) {
            const LabelSets& sets = b ? source.negative : source.positive;
            std::ranges::fill(has_[b], 0);
            std::ranges::fill(first_[b], 0);
            has_all_[b] = 0;
            for (int r = 0; r < count; ++r) {
                const std::uint32_t bit = std::uint32_t{1} << r;
                Index lacked = 0, rarest = -1;
                for (Index l = 0; l < members_.labels(); ++l) {
                    if (sets.has(first + r, l)) {
                        has_[b][static_cast<std::size_t>(l)] |= bit;
                    } else {
                        ++lacked;
                        if (rarest < 0 || members_.left_out(l) < members_.left_out(rarest)) rarest = l;
                    }
                }
                lacked_[b][r] = static_cast<int>(lacked);
                if (rarest < 0)
                    has_all_[b] |= bit;
                else if (lacked <= members_.most_left_out())
                    first_[b][static_cast<std::size_t>(rarest)] |= bit;
            }
        }
    }

    // A side of a row: only atoms with a gradient above `level` >= 0 are of interest.
    void set_level(int r, int b, double level) {
        list(r, b).clear(level);
        reinterpret_cast<T*>(least_[b])[r] = static_cast<T>(level);
    }
    Shortlist& list(int r, int b) { return lists_[static_cast<std::size_t>(2 * r + b)]; }

    // Uses the scores up.
    template <class Features>
    void look(const Features& features) {
        look_at_all(features);
    }

  private:
    using Words = std::vector<std::uint32_t>;

    template <class Features>
    MULTIMARGIN_SIMD void look_at_all(const Features& features) {
        Chunk<T>* scores = scores_.data();
        features.template combine<Chunk<T>, block_chunks>(scores);
        const Index atoms = members_.size();
        for (Index j = 0; j < atoms; ++j) {
            const std::uint32_t within[2] = {rows_with(j, 0), rows_with(j, 1)}, anywhere = within[0] | within[1];
            if (!anywhere) continue;
            Chunk<T> U[block_chunks] = {};
            features.combined(j, [&](Index f, double value) __attribute__((always_inline)) {
                const T factor = static_cast<T>(value);
                for (int c = 0; c < block_chunks; ++c) U[c] += factor * scores[f * block_chunks + c];
            });
            for (int c = 0; c < block_chunks; ++c) {
                offer(j, 0, c, within[0], T(1) - U[c]);
                offer(j, 1, c, within[1], T(1) + U[c]);
            }
        }
    }

    // The rows of which an atom lies within a side.
    MULTIMARGIN_INLINE std::uint32_t rows_with(Index j, int b) const {
        const std::int32_t *begin = members_.begin(j), *end = members_.end(j);
        const std::uint32_t* has = has_[b].data();
        if (!members_.is_complement(j)) {
            std::uint32_t found = ~std::uint32_t{0};
            for (const auto* m = begin; m != end; ++m) found &= has[*m];
            return found;
        }
        std::uint32_t found = has_all_[b], maybe = 0;
        for (const auto* m = begin; m != end; ++m) maybe |= first_[b][static_cast<std::size_t>(*m)];
        for (; maybe; maybe &= maybe - 1) {
            const int r = std::countr_zero(maybe);
            int lacked = 0;
            for (const auto* m = begin; m != end; ++m) lacked += ~has[*m] >> r & 1;
            if (lacked == lacked_[b][r]) found |= std::uint32_t{1} << r;
        }
        return found;
    }

    MULTIMARGIN_INLINE void offer(Index atom, int b, int c, std::uint32_t within, Chunk<T> g) {
        const auto flags = static_cast<std::uint8_t>(within >> (c * lanes<T>)&((1u << lanes<T>)-1));
        if (!flags) return;
        const ChunkMask<T> better = expand_flags<T>(flags) & (g > least_[b][c]);
        if (!any(better)) return;
        for (int e = 0; e < lanes<T>; ++e)
            if (better[e])
                least_[b][c][e] = static_cast<T>(
                    list(c * lanes<T> + e, b).offer(static_cast<std::int32_t>(atom), static_cast<double>(g[e])));
    }

    const AtomMembers& members_;
    Buffer<Chunk<T>> scores_;
    Words has_[2], first_[2];     // by label: rows that have it; rows of which it is the rarest they lack
    std::uint32_t has_all_[2]{};  // rows that lack nothing
    int lacked_[2][rows];
    Chunk<T> least_[2][block_chunks];
    std::array<Shortlist, 2 * rows> lists_;
};

}  // namespace multimargin::separation
