#pragma once
// Which labels depend on each other, and in which order to eliminate them.
//
// Two labels are neighbours if a subset holds both. Min-fill (the label whose elimination joins the fewest pairs of
// strangers; then fewest neighbours, then the smallest number) orders each connected component. Where every label left
// has more than `limit` neighbours, the one with the most is taken out of the graph into a cutset: with the labels of
// the cutset held fixed, elimination never sees more than `limit` neighbours.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/oracles/label_subsets.hpp"

namespace multimargin {

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
    int width = 0;  // most neighbours of a label at its elimination
};

inline EliminationOrder min_fill(LabelGraph graph, std::span<const std::uint32_t> component, std::size_t limit) {
    EliminationOrder result;
    std::vector<std::uint32_t> left(component.begin(), component.end());
    std::vector<std::size_t> fill(graph.labels()), degree(graph.labels());
    const auto measure = [&](std::uint32_t a) {
        degree[a] = graph.degree(a);
        fill[a] = degree[a] <= limit ? graph.fill(a) : 0;
    };
    for (auto a : left) measure(a);
    while (!left.empty()) {
        const auto better = [&](std::uint32_t a, std::uint32_t b) {
            const bool wide_a = degree[a] > limit, wide_b = degree[b] > limit;
            if (wide_a != wide_b) return wide_b;
            if (wide_a) return degree[a] > degree[b];
            return fill[a] != fill[b] ? fill[a] < fill[b] : degree[a] < degree[b];
        };
        const auto place = std::min_element(left.begin(), left.end(), better);
        const std::uint32_t a = *place;
        left.erase(place);
        const auto near = graph.neighbours(a);
        if (degree[a] > limit) {
            result.cutset.push_back(a);
            graph.remove(a);
        } else {
            result.order.push_back(a);
            result.width = std::max(result.width, static_cast<int>(near.size()));
            graph.eliminate(a);
        }
        std::vector<std::uint8_t> touched(graph.labels(), 0);
        for (auto b : near) {
            touched[b] = 1;
            for (auto c : graph.neighbours(b)) touched[c] = 1;
        }
        for (auto b : left)
            if (touched[b]) measure(b);
    }
    return result;
}

// Width of the order that always eliminates a label with the fewest neighbours: fast, and no less than the treewidth.
inline int min_degree_width(LabelGraph graph, std::span<const std::uint32_t> component) {
    std::vector<std::uint32_t> left(component.begin(), component.end());
    std::size_t width = 0;
    while (left.size() > width + 1) {
        const auto place = std::min_element(left.begin(), left.end(),
                                            [&](auto a, auto b) { return graph.degree(a) < graph.degree(b); });
        width = std::max(width, graph.degree(*place));
        graph.eliminate(*place);
        left.erase(place);
    }
    return static_cast<int>(width);
}

}  // namespace multimargin
