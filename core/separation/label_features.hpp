#pragma once
// Vectors of label-set atoms, as block_ascent.hpp needs them: each atom has entries to add to the state (update) and
// entries to read from it (score), with kappa(s_j, s_k) / (a_j a_k) + 1 = score_j.update_k.
//
//   LabelFeatures   the labels themselves, vectors at right angles: R = I + 11'
//   TableFeatures   any label kernel: a table of vectors psi_j with psi_j.psi_k = kappa / (a_j a_k)
//   SetFeatures     kappa = c1 |s & s'| + c2 binom(|s & s'|, 2): linear and quadratic label kernels
//
// A quadratic kernel has one feature per label and per pair of labels, and the set of labels a row lacks holds nearly
// all pairs. SetFeatures stores such a set as the complement of a small set z, and keeps the weights of labels and
// pairs in parts,
//     single(l) = S_l + E,     pair(l, m) = P_lm + T - G_l - G_m,
// such that a set adds to S and P within z, and a complement to E, T, S_l and G_l (l in z), P within z. The sums of S,
// P, G over all labels, and of P over one label, are rows of the state too. Every atom then has O(|z|^2) entries.

#include <cstdint>
#include <span>
#include <type_traits>

#include "core/base/matrix.hpp"
#include "core/separation/label_sets.hpp"

namespace multimargin::separation {

class LabelFeatures {
  public:
    explicit LabelFeatures(Index labels) : labels_(labels) {}
    Index rows() const { return labels_ + 1; }
    Index entries() const { return 1; }  // of an atom, about, besides those all atoms share
    static constexpr bool unit = true;

    template <class Visit>
    MULTIMARGIN_INLINE void update(Index atom, Visit&& visit) const {
        visit(atom, 1.0);
        visit(labels_, 1.0);
    }
    template <class Visit>
    MULTIMARGIN_INLINE void score(Index atom, Visit&& visit) const {
        update(atom, visit);
    }

    // Nothing to sum up before the atoms of a block of rows are looked at.
    template <class V, int vectors>
    MULTIMARGIN_INLINE void combine(V*) const {}
    template <class Visit>
    MULTIMARGIN_INLINE void combined(Index atom, Visit&& visit) const {
        score(atom, visit);
    }

  private:
    Index labels_;
};

class TableFeatures {
  public:
    // vectors: atoms x width, row-major
    TableFeatures(std::span<const double> vectors, Index width) : vectors_(vectors), width_(width) {}
    Index rows() const { return width_ + 1; }
    Index entries() const { return width_; }
    static constexpr bool unit = false;

    template <class Visit>
    MULTIMARGIN_INLINE void update(Index atom, Visit&& visit) const {
        const double* v = vectors_.data() + atom * width_;
        for (Index f = 0; f < width_; ++f) visit(f, v[f]);
        visit(width_, 1.0);
    }
    template <class Visit>
    MULTIMARGIN_INLINE void score(Index atom, Visit&& visit) const {
        update(atom, visit);
    }

    // Nothing to sum up before the atoms of a block of rows are looked at.
    template <class V, int vectors>
    MULTIMARGIN_INLINE void combine(V*) const {}
    template <class Visit>
    MULTIMARGIN_INLINE void combined(Index atom, Visit&& visit) const {
        score(atom, visit);
    }

  private:
    std::span<const double> vectors_;
    Index width_;
};

class SetFeatures {
  public:
    // z of atom j: members[offsets[j]..offsets[j+1]); pair_rows: labels x labels, the number of a pair that lies in
    // some z, or empty if c2 = 0.
    struct Sets {
        std::span<const std::int64_t> offsets;
        std::span<const std::int32_t> members;
        std::span<const std::uint8_t> complement;
        std::span<const double> scale;  // 1 / a_j
        std::span<const std::int32_t> pair_rows;
        Index labels, pairs;
        double c1, c2;
    };

    explicit SetFeatures(const Sets& sets) : s_(sets) {
        const Index L = s_.labels;
        constant_ = L, sum_singles_ = L + 1, all_ = L + 2, first_pair_ = L + 3;
        sum_pairs_ = first_pair_ + s_.pairs, pair_sums_ = sum_pairs_ + 1, minus_ = pair_sums_ + L,
        sum_minus_ = minus_ + L;
        all_pairs_ = sum_minus_ + 1;
    }
    Index rows() const { return s_.c2 > 0 ? all_pairs_ + 1 : first_pair_; }
    Index entries() const { return s_.c2 > 0 ? 8 : 2; }
    static constexpr bool unit = false;

    template <class Visit>
    MULTIMARGIN_INLINE void update(Index atom, Visit&& visit) const {
        const auto z = members(atom);
        const double a = s_.scale[static_cast<std::size_t>(atom)], q = static_cast<double>(z.size());
        const bool complement = s_.complement[static_cast<std::size_t>(atom)];
        const double single = complement ? -a : a;
        visit(constant_, 1.0);
        for (const Index l : z) visit(l, single);
        visit(sum_singles_, q * single);
        if (complement) visit(all_, a);
        if (s_.c2 <= 0) return;
        for_pairs(z, [&](Index row) { visit(row, a); });
        if (z.size() > 1) {
            for (const Index l : z) visit(pair_sums_ + l, a * (q - 1));
            visit(sum_pairs_, a * q * (q - 1) / 2);
        }
        if (!complement) return;
        visit(all_pairs_, a);
        for (const Index l : z) visit(minus_ + l, a);
        visit(sum_minus_, a * q);
    }

    template <class Visit>
    MULTIMARGIN_INLINE void score(Index atom, Visit&& visit) const {
        const auto z = members(atom);
        const double a = s_.scale[static_cast<std::size_t>(atom)], q = static_cast<double>(z.size());
        const double rest = static_cast<double>(s_.labels) - q, c1 = s_.c1 * a, c2 = s_.c2 * a;
        const bool complement = s_.complement[static_cast<std::size_t>(atom)];
        visit(constant_, 1.0);
        for (const Index l : z) visit(l, complement ? -c1 : c1);
        if (complement) visit(sum_singles_, c1);
        visit(all_, c1 * (complement ? rest : q));
        if (s_.c2 <= 0) return;
        for_pairs(z, [&](Index row) { visit(row, c2); });
        if (complement) {
            visit(sum_pairs_, c2);
            for (const Index l : z) visit(pair_sums_ + l, -c2);
            visit(all_pairs_, c2 * rest * (rest - 1) / 2);
            visit(sum_minus_, -c2 * (rest - 1));
            for (const Index l : z) visit(minus_ + l, c2 * (rest - 1));
        } else if (z.size() > 1) {
            visit(all_pairs_, c2 * q * (q - 1) / 2);
            for (const Index l : z) visit(minus_ + l, -c2 * (q - 1));
        }
    }

    // Where all atoms of a block of rows are looked at, scores of the state are first summed up, once, to
    //     single(l) = c1 (S_l + E),   pair(l, m) = c2 (P_lm + T - G_l - G_m),
    //     without(l), all             such that a complement has all + sum_z without(l) + sum_z pair(l, m).
    // An atom then has half as many entries. scores: rows() x vectors, in place.
    template <class V, int vectors>
    MULTIMARGIN_INLINE void combine(V* scores) const {
        using T = std::remove_cvref_t<decltype(scores[0][0])>;
        const auto c1 = static_cast<T>(s_.c1), c2 = static_cast<T>(s_.c2), L = static_cast<T>(s_.labels);
        const auto at = [=](Index row) __attribute__((always_inline)) { return scores + row * vectors; };
        for (int c = 0; c < vectors; ++c) {
            const V E = at(all_)[c];
            for (Index l = 0; l < s_.labels; ++l) at(l)[c] = c1 * (at(l)[c] + E);
            at(sum_singles_)[c] = c1 * (at(sum_singles_)[c] + L * E);
        }
        if (s_.c2 <= 0) return;
        for (Index l = 0; l < s_.labels; ++l)
            for (Index m = 0; m < l; ++m) {
                const std::int32_t pair = s_.pair_rows[static_cast<std::size_t>(l * s_.labels + m)];
                if (pair < 0) continue;
                for (int c = 0; c < vectors; ++c)
                    at(first_pair_ + pair)[c] =
                        c2 * (at(first_pair_ + pair)[c] + at(all_pairs_)[c] - at(minus_ + l)[c] - at(minus_ + m)[c]);
            }
        for (int c = 0; c < vectors; ++c) {
            const V pairs = at(all_pairs_)[c], minus = at(sum_minus_)[c];
            for (Index l = 0; l < s_.labels; ++l)
                at(pair_sums_ + l)[c] =
                    c2 * ((L - 2) * at(minus_ + l)[c] - at(pair_sums_ + l)[c] + minus - (L - 1) * pairs) - at(l)[c];
            at(sum_singles_)[c] += c2 * (at(sum_pairs_)[c] + (L - 1) * (L / 2 * pairs - minus));
        }
    }
    template <class Visit>
    MULTIMARGIN_INLINE void combined(Index atom, Visit&& visit) const {
        const auto z = members(atom);
        const double a = s_.scale[static_cast<std::size_t>(atom)];
        const bool complement = s_.complement[static_cast<std::size_t>(atom)], pairs = s_.c2 > 0;
        visit(constant_, 1.0);
        if (complement) visit(sum_singles_, a);
        const Index first = complement && pairs ? pair_sums_ : 0;
        for (const Index l : z) visit(first + l, complement && !pairs ? -a : a);
        if (pairs) for_pairs(z, [&](Index row) __attribute__((always_inline)) { visit(row, a); });
    }

    // R between some atoms, n x n, from the numbers of labels they share.
    MULTIMARGIN_SIMD void gram(const LabelSets& sets, const std::int32_t* atoms, Index n, double* R) const {
        const double* scale = s_.scale.data();
        for (Index p = 0; p < n; ++p)
            for (Index q = 0; q <= p; ++q) {
                const double shared = static_cast<double>(sets.shared(atoms[p], atoms[q]));
                const double kappa = shared * (s_.c1 + 0.5 * s_.c2 * (shared - 1));
                R[p * n + q] = R[q * n + p] = 1.0 + kappa * scale[atoms[p]] * scale[atoms[q]];
            }
    }

  private:
    std::span<const std::int32_t> members(Index atom) const {
        const auto begin = s_.offsets[static_cast<std::size_t>(atom)],
                   end = s_.offsets[static_cast<std::size_t>(atom + 1)];
        return s_.members.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    }
    template <class Visit>
    MULTIMARGIN_INLINE void for_pairs(std::span<const std::int32_t> z, Visit&& visit) const {
        for (std::size_t p = 1; p < z.size(); ++p) {
            const std::int32_t* row = s_.pair_rows.data() + z[p] * s_.labels;
            for (std::size_t q = 0; q < p; ++q) visit(first_pair_ + row[z[q]]);
        }
    }

    Sets s_;
    Index constant_, sum_singles_, all_, first_pair_, sum_pairs_, pair_sums_, minus_, sum_minus_, all_pairs_;
};

}  // namespace multimargin::separation
