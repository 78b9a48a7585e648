#pragma once
// Which labels depend on each other, and in which order to eliminate them.
//
// Two labels are neighbours if a subset holds both; eliminating a label joins its neighbours. Each connected component
// is ordered by min-fill (next is the label whose elimination joins the fewest pairs of strangers) or by min-degree,
// whichever leads to smaller tables. Where every label left has more than `limit` neighbours, the one with the most is
// taken out of the graph into a cutset: with the labels of the cutset held fixed, elimination never sees more than
// `limit` neighbours.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/rng.hpp"
#include "core/inference/cliques/label_subsets.hpp"

namespace multimargin::inference {

class LabelGraph {
  public:
    explicit LabelGraph(const LabelSubsets& subsets)
        : labels_(subsets.labels), words_((labels_ + 63) / 64), bits_(labels_ * words_, 0) {
        for (std::size_t t = labels_; t < subsets.size(); ++t)
            for (auto a : subsets[t])
                for (auto b : subsets[t])
                    if (a != b) set(a, b);
    }

    std::size_t labels() const { return labels_; }
    std::size_t words() const { return words_; }
    const std::uint64_t* row(std::size_t a) const { return bits_.data() + a * words_; }
    void set(std::size_t a, std::size_t b) { bits_[a * words_ + b / 64] |= std::uint64_t{1} << b % 64; }

    std::vector<std::uint32_t> neighbours(std::size_t a) const {
        std::vector<std::uint32_t> list;
        for (std::size_t w = 0; w < words_; ++w)
            for (std::uint64_t left = row(a)[w]; left; left &= left - 1)
                list.push_back(static_cast<std::uint32_t>(w * 64 + std::countr_zero(left)));
        return list;
    }
    std::size_t degree(std::size_t a) const {
        std::size_t sum = 0;
        for (std::size_t w = 0; w < words_; ++w) sum += std::popcount(row(a)[w]);
        return sum;
    }

    // Takes a label out of the graph.
    void remove(std::size_t a) {
        for (auto b : neighbours(a)) bits_[b * words_ + a / 64] &= ~(std::uint64_t{1} << a % 64);
        std::fill_n(bits_.begin() + static_cast<std::ptrdiff_t>(a * words_), words_, 0);
    }

    // The same, after joining its neighbours.
    void eliminate(std::size_t a) {
        const auto list = neighbours(a);
        for (auto b : list)
            for (auto c : list)
                if (b != c) set(b, c);
        remove(a);
    }

    // Pairs of neighbours of a that are strangers.
    std::size_t fill(std::size_t a) const {
        std::size_t missing = 0, count = 0;
        for (auto b : neighbours(a)) {
            ++count;
            for (std::size_t w = 0; w < words_; ++w) missing += std::popcount(row(a)[w] & ~row(b)[w]);
        }
        return (missing - count) / 2;  // b itself was counted as a stranger of b
    }

    // Connected components of the labels for which `inside` is true, each in rising order.
    template <class Inside>
    std::vector<std::vector<std::uint32_t>> components(Inside&& inside) const {
        std::vector<std::vector<std::uint32_t>> all;
        std::vector<std::uint8_t> seen(labels_, 0);
        for (std::uint32_t a = 0; a < labels_; ++a) {
            if (seen[a] || !inside(a)) continue;
            std::vector<std::uint32_t> list{a};
            seen[a] = 1;
            for (std::size_t k = 0; k < list.size(); ++k)
                for (auto b : neighbours(list[k]))
                    if (!seen[b] && inside(b)) {
                        seen[b] = 1;
                        list.push_back(b);
                    }
            std::sort(list.begin(), list.end());
            all.push_back(std::move(list));
        }
        return all;
    }

  private:
    std::size_t labels_, words_;
    std::vector<std::uint64_t> bits_;
};

struct EliminationOrder {
    std::vector<std::uint32_t> order, cutset;
    int width = 0;      // most neighbours of a label at its elimination
    double cost = 0.0;  // sum of 2^neighbours
};

// One label after the other: the smallest fill, or else the fewest neighbours; equal ones by the smallest `rank`.
inline EliminationOrder greedy_order(LabelGraph graph, std::span<const std::uint32_t> component, std::size_t limit,
                                     bool by_fill, std::span<const std::uint32_t> rank) {
    EliminationOrder result;
    std::vector<std::uint32_t> left(component.begin(), component.end());
    std::vector<std::size_t> fill(graph.labels(), 0), degree(graph.labels(), 0);
    const auto measure = [&](std::uint32_t a) {
        degree[a] = graph.degree(a);
        if (by_fill && degree[a] <= limit) fill[a] = graph.fill(a);
    };
    for (auto a : left) measure(a);
    std::vector<std::uint8_t> touched(graph.labels(), 0);
    while (!left.empty()) {
        const auto better = [&](std::uint32_t a, std::uint32_t b) {
            const bool wide_a = degree[a] > limit, wide_b = degree[b] > limit;
            if (wide_a != wide_b) return wide_b;
            if (wide_a && degree[a] != degree[b]) return degree[a] > degree[b];
            if (!wide_a && fill[a] != fill[b]) return fill[a] < fill[b];
            return degree[a] != degree[b] ? degree[a] < degree[b] : rank[a] < rank[b];
        };
        const auto place = std::min_element(left.begin(), left.end(), better);
        const std::uint32_t a = *place;
        *place = left.back();
        left.pop_back();
        const auto near = graph.neighbours(a);
        if (degree[a] > limit) {
            result.cutset.push_back(a);
            graph.remove(a);
        } else {
            result.order.push_back(a);
            result.width = std::max(result.width, static_cast<int>(near.size()));
            result.cost += std::ldexp(1.0, static_cast<int>(near.size()));
            graph.eliminate(a);
        }
        std::fill(touched.begin(), touched.end(), std::uint8_t{0});
        for (auto b : near) {
            touched[b] = 1;
            if (by_fill)
                for (auto c : graph.neighbours(b)) touched[c] = 1;
        }
        for (auto b : left)
            if (touched[b]) measure(b);
    }
    return result;
}

// The best of min-degree, min-fill and, in components that are not too large, min-fill with ties broken at random.
inline EliminationOrder elimination_order(const LabelGraph& graph, std::span<const std::uint32_t> component,
                                          std::size_t limit) {
    constexpr std::size_t large = 128;
    constexpr int trials = 8;
    std::vector<std::uint32_t> rank(graph.labels());
    std::iota(rank.begin(), rank.end(), 0u);
    auto best = greedy_order(graph, component, limit, true, rank);
    if (best.width <= 1 && best.cutset.empty()) return best;
    const auto compare = [&](bool by_fill) {
        auto other = greedy_order(graph, component, limit, by_fill, rank);
        if (std::pair(other.cutset.size(), other.cost) < std::pair(best.cutset.size(), best.cost))
            best = std::move(other);
    };
    compare(false);
    Rng rng(0);
    for (int k = 0; k < trials && component.size() <= large; ++k) {
        rng.shuffle(std::span(rank));
        compare(true);
    }
    return best;
}

// Width of the min-degree order without a limit: fast, and no less than the treewidth.
inline int min_degree_width(const LabelGraph& graph, std::span<const std::uint32_t> component) {
    std::vector<std::uint32_t> rank(graph.labels());
    std::iota(rank.begin(), rank.end(), 0u);
    return greedy_order(graph, component, graph.labels(), false, rank).width;
}

}  // namespace multimargin::inference
