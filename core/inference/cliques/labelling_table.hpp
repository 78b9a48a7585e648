#pragma once
// The truth, slowly: F(y) = sum_T theta_T chi_T(y) for every labelling of one component, by one Walsh-Hadamard
// transform.

#include <cstdint>
#include <span>
#include <vector>

#include "core/inference/cliques/label_subsets.hpp"
#include "core/inference/cliques/walsh.hpp"

namespace multimargin::inference {

class LabellingTable {
  public:
    // Of the labels of one connected component.
    LabellingTable(const LabelSubsets& subsets, std::span<const std::uint32_t> component)
        : component_(component.begin(), component.end()) {
        std::vector<int> bit(subsets.labels, -1);
        for (std::size_t j = 0; j < component.size(); ++j) bit[component[j]] = static_cast<int>(j);
        for (std::size_t t = 0; t < subsets.size(); ++t) {
            if (bit[subsets[t][0]] < 0) continue;
            std::uint32_t mask = 0;
            for (auto a : subsets[t]) mask |= std::uint32_t{1} << bit[a];
            loads_.push_back({static_cast<std::uint32_t>(t), mask});
        }
    }

    int labels() const { return static_cast<int>(component_.size()); }
    std::size_t entries() const { return std::size_t{1} << component_.size(); }

    // All of these overwrite `table`, which has entries() numbers.
    double maximize(const double* scores, std::uint64_t* assignment, double* table) const {
        fill(scores, table);
        const std::size_t best = last_of(table, entries());
        for (std::size_t j = 0; j < component_.size(); ++j)
            if (!(best >> j & 1)) assignment[component_[j] >> 6] |= std::uint64_t{1} << (component_[j] & 63);
        return table[best];
    }

    void max_marginals(const double* scores, double* difference, double* table) const {
        fill(scores, table);
        differences(table, labels(), component_.data(), difference);
    }

  private:
    struct Load {
        std::uint32_t score, mask;
    };

    void fill(const double* scores, double* table) const {
        std::memset(table, 0, entries() * sizeof(double));
        for (const Load& load : loads_) table[load.mask] = scores[load.score];
        transform(table, labels());
    }
    MULTIMARGIN_SIMD static void transform(double* table, int bits) { walsh_transform(table, bits); }
    MULTIMARGIN_SIMD static std::size_t last_of(const double* table, std::size_t n) { return last_largest(table, n); }
    MULTIMARGIN_SIMD static void differences(double* table, int bits, const std::uint32_t* label, double* difference) {
        bit_differences(table, bits, table, [&](int j, double d) { difference[label[j]] = d; });
    }

    std::vector<std::uint32_t> component_;
    std::vector<Load> loads_;
};

}  // namespace multimargin::inference
