#pragma once
// The best atoms of a block of rows, all atoms looked at: rows lie side by side in chunks, so that one operation serves
// a chunk of rows.
//
// An atom is a set s of labels, or, where it holds most of them, all but a set z. It lies within the set p of labels of
// a row if |s & p| = |s|, or, |z \ p| being all that p lacks, if |z & p| = |z| + |p| - labels.

#include <array>
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
    explicit AtomMembers(const Atoms& atoms) : labels_(atoms.labels) {
        for (Index j = 0; j < atoms.sets.size(); ++j) {
            Index size = 0;
            for (Index l = 0; l < labels_; ++l) size += atoms.sets.has(j, l);
            const bool complement = 2 * size > labels_;
            for (Index l = 0; l < labels_; ++l)
                if (atoms.sets.has(j, l) != complement) members_.push_back(static_cast<std::int32_t>(l));
            offsets_.push_back(static_cast<std::int64_t>(members_.size()));
            complement_.push_back(complement);
        }
    }
    Index size() const { return static_cast<Index>(complement_.size()); }
    Index labels() const { return labels_; }
    MULTIMARGIN_INLINE const std::int32_t* begin(Index j) const { return members_.data() + offsets_[j]; }
    MULTIMARGIN_INLINE const std::int32_t* end(Index j) const { return members_.data() + offsets_[j + 1]; }
    MULTIMARGIN_INLINE bool is_complement(Index j) const { return complement_[j] != 0; }

  private:
    Index labels_;
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

    AtomScan(const AtomMembers& members, Index features)
        : members_(members),
          scores_(static_cast<std::size_t>(features * block_chunks)),
          has_{Table(static_cast<std::size_t>(members.labels() * block_chunks)),
               Table(static_cast<std::size_t>(members.labels() * block_chunks))} {}

    // Scores of the features, features x rows.
    T* scores() { return reinterpret_cast<T*>(scores_.data()); }
    T score(Index feature, int r) const { return reinterpret_cast<const T*>(scores_.data())[feature * rows + r]; }

    void set_rows(const SeparationRows& source, Index first, int count) {
        for (const int b : {0, 1}) {
            const LabelSets& sets = b ? source.negative : source.positive;
            T* has = reinterpret_cast<T*>(has_[b].data());
            T* total = reinterpret_cast<T*>(total_[b]);
            std::fill_n(total, rows, T(0));
            for (Index l = 0; l < members_.labels(); ++l)
                for (int r = 0; r < rows; ++r) {
                    const bool is = r < count && sets.has(first + r, l);
                    has[l * rows + r] = is ? T(1) : T(0);
                    total[r] += is ? T(1) : T(0);
                }
        }
    }

    // A side of a row: only atoms with a gradient above `level` >= 0 are of interest.
    void set_level(int r, int b, double level) {
        list(r, b).clear(level);
        reinterpret_cast<T*>(least_[b])[r] = static_cast<T>(level);
    }
    Shortlist& list(int r, int b) { return lists_[static_cast<std::size_t>(2 * r + b)]; }

    template <class Features>
    void look(const Features& features) {
        look_at_all(features);
    }

  private:
    using Table = Buffer<Chunk<T>>;

    template <class Features>
    MULTIMARGIN_SIMD void look_at_all(const Features& features) {
        const Chunk<T>* scores = scores_.data();
        const Index atoms = members_.size();
        for (Index j = 0; j < atoms; ++j) {
            ChunkMask<T> within[2][block_chunks];
            bool anywhere = false;
            for (int b = 0; b < 2; ++b) {
                Chunk<T> common[block_chunks] = {};
                const std::int32_t *member = members_.begin(j), *end = members_.end(j);
                const T size = static_cast<T>(end - member);
                for (; member != end; ++member)
                    for (int c = 0; c < block_chunks; ++c) common[c] += has_[b][*member * block_chunks + c];
                ChunkMask<T> some{};
                for (int c = 0; c < block_chunks; ++c) {
                    const Chunk<T> all = members_.is_complement(j)
                                             ? size - static_cast<T>(members_.labels()) + total_[b][c]
                                             : Chunk<T>{} + size;
                    within[b][c] = common[c] == all;
                    some |= within[b][c];
                }
                anywhere |= any(some);
            }
            if (!anywhere) continue;
            Chunk<T> U[block_chunks] = {};
            features.score(j, [&](Index f, double value) __attribute__((always_inline)) {
                const T factor = static_cast<T>(value);
                for (int c = 0; c < block_chunks; ++c) U[c] += factor * scores[f * block_chunks + c];
            });
            for (int c = 0; c < block_chunks; ++c) {
                offer(j, 0, c, within[0][c], T(1) - U[c]);
                offer(j, 1, c, within[1][c], T(1) + U[c]);
            }
        }
    }

    MULTIMARGIN_INLINE void offer(Index atom, int b, int c, ChunkMask<T> within, Chunk<T> g) {
        const ChunkMask<T> better = within & (g > least_[b][c]);
        if (!any(better)) return;
        for (int e = 0; e < lanes<T>; ++e)
            if (better[e])
                least_[b][c][e] = static_cast<T>(
                    list(c * lanes<T> + e, b).offer(static_cast<std::int32_t>(atom), static_cast<double>(g[e])));
    }

    const AtomMembers& members_;
    Table scores_, has_[2];
    Chunk<T> total_[2][block_chunks], least_[2][block_chunks];
    std::array<Shortlist, 2 * rows> lists_;
};

}  // namespace multimargin::separation
