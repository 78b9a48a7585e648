#pragma once
// |q_k|^2 of all labels and |q_ab|^2 of pairs of labels (problem.hpp) at the cost of the labels that are rare.
//
// A row has signed labellings: the truth with the weight g that has moved away from it, the others with minus their own;
// the sum of g is 0. Of a labelling y let z be y or its complement, whichever has fewer labels. The character of a pair
// does not see the difference: chi_ab = 1 - 2 z_a - 2 z_b + 4 z_a z_b, so that
//
//   q_ab = 4 p_ab - r_a - r_b,      p_ab = sum g C_i z_a z_b x_i,      r_k = 2 sum g C_i z_k x_i,
//   q_k  = 2 sum g C_i y_k x_i = 2 sum (+-g) C_i z_k x_i + common,     common = 2 sum over complements of g C_i x_i,
//
// where most rows have a part in few of the p_ab: those with a and b both in some z. Every label has to be known in
// every row, or in none. Sums of a pair run over its rows in their order: nothing depends on the number of threads.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/cliques/residuals.hpp"

namespace multimargin::cliques {

struct PairSquares {
    std::vector<double> labels, pairs;
    double expected_loss = 0.0;
};

template <RowMatrix X>
class PairScorer {
  public:
    // Pairs (a, b) have a < b.
    PairScorer(const X& x, double bias, const LabelBits& labels, const AtomList& atoms,
               std::span<const std::pair<int, int>> pairs, int threads)
        : x_(x),
          bias_(bias),
          labels_(labels),
          atoms_(atoms),
          pairs_(pairs),
          threads_(threads),
          width_(static_cast<std::size_t>(x.cols()) + 1) {}

    PairSquares run(Control& control) {
        PairSquares found;
        list_labellings(found);
        sum_labels(found, control);
        sum_pairs(found, control);
        return found;
    }

  private:
    static constexpr std::size_t most_entries = std::size_t{1} << 23;  // listed at a time
    static constexpr std::size_t most_places = std::size_t{1} << 22;   // of pairs, likewise

    // What row `row` adds to the sum of a pair, or to the two of a label.
    struct Entry {
        Index row;
        double amount;
    };
    struct LabelEntry {
        Index row;
        double folded, own;
    };

    struct Labelling {
        std::size_t first, last;  // its z in members_
        double amount;            // g C_i
        bool complement;
    };

    void list_labellings(PairSquares& found) {
        starts_.assign(1, 0);
        for (std::size_t k = 0; k < atoms_.rows.size(); ++k) {
            const Index i = atoms_.rows[k];
            const double cost = labels_.cost(i);
            double moved = 0.0;
            for (auto j = atoms_.first[k]; j < atoms_.first[k + 1]; ++j) {
                const Word* y = atoms_.bits + j * labels_.words();
                moved += atoms_.weight[j];
                found.expected_loss += cost * atoms_.weight[j] * labels_.loss(i, y);
                add_labelling(i, y, -cost * atoms_.weight[j]);
            }
            add_labelling(i, labels_.truth(i), cost * moved);
            starts_.push_back(labellings_.size());
        }
    }

    void add_labelling(Index i, const Word* y, double amount) {
        const Word* known = labels_.known(i);
        int on = 0, all = 0;
        for (std::size_t w = 0; w < labels_.words(); ++w) {
            on += std::popcount(y[w] & known[w]);
            all += std::popcount(known[w]);
        }
        const bool complement = 2 * on > all;
        const std::size_t first = members_.size();
        for (std::size_t w = 0; w < labels_.words(); ++w)
            for (Word z = (complement ? ~y[w] : y[w]) & known[w]; z; z &= z - 1)
                members_.push_back(static_cast<std::int32_t>(64 * w) + std::countr_zero(z));
        labellings_.push_back({first, members_.size(), amount, complement});
    }
    std::span<const std::int32_t> members(const Labelling& y) const {
        return {members_.data() + y.first, y.last - y.first};
    }

    template <class Row>
    MULTIMARGIN_SIMD static void add_row(const Row& row, double amount, double* sum) {
        const Index n = row.size();
        for (Index k = 0; k < n; ++k)
            sum[row.column(k)] += amount * static_cast<double>(row.values[static_cast<std::size_t>(k)]);
    }
    void add(Index i, double amount, double* sum) const {
        add_row(x_.row(i), amount, sum);
        sum[width_ - 1] += amount * bias_;
    }
    MULTIMARGIN_SIMD static double square(const double* v, std::size_t n) {
        double sum[8] = {};
        std::size_t k = 0;
        for (; k + 8 <= n; k += 8)
            for (int e = 0; e < 8; ++e) sum[e] += v[k + e] * v[k + e];
        for (; k < n; ++k) sum[0] += v[k] * v[k];
        return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    }

    void sum_labels(PairSquares& found, Control& control) {
        const std::size_t n = labels_.size();
        std::vector<std::vector<LabelEntry>> entries(n);
        std::vector<double> common(width_, 0.0);
        for (std::size_t k = 0; k < atoms_.rows.size(); ++k) {
            const Index i = atoms_.rows[k];
            double flipped = 0.0;
            for (std::size_t j = starts_[k]; j < starts_[k + 1]; ++j) {
                const Labelling& y = labellings_[j];
                if (y.complement) flipped += y.amount;
                for (const auto label : members(y)) {
                    auto& list = entries[static_cast<std::size_t>(label)];
                    if (list.empty() || list.back().row != i) list.push_back({i, 0.0, 0.0});
                    list.back().folded += y.amount;
                    list.back().own += y.complement ? -y.amount : y.amount;
                }
            }
            if (flipped != 0) add(i, 2 * flipped, common.data());
        }
        found.labels.assign(n, 0.0);
        folded_.assign(n * width_, 0.0);
        parallel_for(threads_, threads_, control, [&](int t, bool on_caller) {
            std::vector<double> own(width_);
            for (auto k = static_cast<std::size_t>(t); k < n; k += static_cast<std::size_t>(threads_)) {
                if (atoms_.rows.empty() || !bit(labels_.known(atoms_.rows[0]), k)) continue;
                own = common;
                for (const LabelEntry& e : entries[k]) {
                    if (control.leave(on_caller)) return;
                    add(e.row, 2 * e.folded, folded_.data() + k * width_);
                    add(e.row, 2 * e.own, own.data());
                }
                found.labels[k] = square(own.data(), width_);
            }
        });
    }

    // Pairs are taken in blocks of their first label, as many as can be listed at a time.
    void sum_pairs(PairSquares& found, Control& control) {
        const std::size_t n = labels_.size();
        found.pairs.assign(pairs_.size(), 0.0);
        std::vector<std::size_t> listed(n, 0);
        for (const Labelling& y : labellings_)
            for (std::size_t k = y.first; k < y.last; ++k)
                listed[static_cast<std::size_t>(members_[k])] += y.last - k - 1;
        for (std::size_t first = 0; first < n;) {
            std::size_t last = first + 1, sum = listed[first];
            while (last < n && sum + listed[last] <= most_entries && (last + 1 - first) * n <= most_places)
                sum += listed[last++];
            sum_block(static_cast<int>(first), static_cast<int>(last), found, control);
            first = last;
        }
    }

    void sum_block(int first, int last, PairSquares& found, Control& control) {
        const int n = static_cast<int>(labels_.size());
        const auto place = [&](int a, int b) { return static_cast<std::size_t>((a - first) * n + b); };
        std::vector<std::int32_t> pair_at(static_cast<std::size_t>((last - first) * n), -1), chosen;
        for (std::size_t e = 0; e < pairs_.size(); ++e)
            if (const auto [a, b] = pairs_[e]; a >= first && a < last) {
                pair_at[place(a, b)] = static_cast<std::int32_t>(chosen.size());
                chosen.push_back(static_cast<std::int32_t>(e));
            }
        if (chosen.empty()) return;
        std::vector<double> amount(chosen.size(), 0.0);
        std::vector<std::uint8_t> seen(chosen.size(), 0);
        std::vector<std::int32_t> touched;
        // visit(row, place in `chosen`, amount) for what is not zero, row by row
        const auto each_entry = [&](auto&& visit) {
            for (std::size_t k = 0; k < atoms_.rows.size(); ++k) {
                touched.clear();
                for (std::size_t j = starts_[k]; j < starts_[k + 1]; ++j) {
                    const auto z = members(labellings_[j]);
                    for (auto a = std::lower_bound(z.begin(), z.end(), first); a != z.end() && *a < last; ++a)
                        for (auto b = a + 1; b != z.end(); ++b) {
                            const std::int32_t e = pair_at[place(*a, *b)];
                            if (e < 0) continue;
                            if (!seen[e]) touched.push_back(e);
                            seen[e] = 1;
                            amount[e] += labellings_[j].amount;
                        }
                }
                for (const auto e : touched) {
                    if (amount[e] != 0) visit(atoms_.rows[k], e, amount[e]);
                    amount[e] = 0.0;
                    seen[e] = 0;
                }
            }
        };
        std::vector<std::size_t> starts(chosen.size() + 1, 0);
        each_entry([&](Index, std::int32_t e, double) { ++starts[e + 1]; });
        for (std::size_t e = 0; e < chosen.size(); ++e) starts[e + 1] += starts[e];
        std::vector<Entry> entries(starts.back());
        std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
        each_entry([&](Index i, std::int32_t e, double of_row) { entries[next[e]++] = {i, of_row}; });
        parallel_for(threads_, threads_, control, [&](int t, bool on_caller) {
            std::vector<double> q(width_);
            for (auto e = static_cast<std::size_t>(t); e < chosen.size(); e += static_cast<std::size_t>(threads_)) {
                if (control.leave(on_caller)) return;
                const auto [a, b] = pairs_[chosen[e]];
                const double *of_a = folded_.data() + a * width_, *of_b = folded_.data() + b * width_;
                for (std::size_t k = 0; k < width_; ++k) q[k] = -(of_a[k] + of_b[k]);
                for (std::size_t k = starts[e]; k < starts[e + 1]; ++k)
                    add(entries[k].row, 4 * entries[k].amount, q.data());
                found.pairs[chosen[e]] = square(q.data(), width_);
            }
        });
    }

    const X& x_;
    double bias_;
    const LabelBits& labels_;
    const AtomList& atoms_;
    std::span<const std::pair<int, int>> pairs_;
    int threads_;
    std::size_t width_;
    std::vector<Labelling> labellings_;  // those of atoms_.rows[k]: [starts_[k], starts_[k + 1])
    std::vector<std::size_t> starts_;
    std::vector<std::int32_t> members_;
    std::vector<double> folded_;  // r, labels x width
};

}  // namespace multimargin::cliques
