#pragma once
// Label subsets T of a score F(y) = sum_T theta_T chi_T(y), chi_T(y) = prod_{k in T} (2 y_k - 1).
//
// The first subsets are the single labels {0}, {1}, ... in order, then any distinct larger ones.

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace multimargin::inference {

struct LabelSubsets {
    std::size_t labels = 0;
    std::vector<std::size_t> starts{0};
    std::vector<std::uint32_t> members;  // of subset t: sorted, from starts[t] to starts[t + 1]

    std::size_t size() const { return starts.size() - 1; }
    std::span<const std::uint32_t> operator[](std::size_t t) const {
        return {members.data() + starts[t], starts[t + 1] - starts[t]};
    }
};

[[noreturn]] inline void refuse_subset(std::size_t t, const std::string& what) {
    throw std::invalid_argument("label subset " + std::to_string(t) + " " + what);
}

// Throws std::invalid_argument with a sentence if a list of subsets, of any kind and in any order, names what is not
// there.
inline void check_members(const LabelSubsets& subsets) {
    const auto& starts = subsets.starts;
    if (starts.empty() || starts.front() != 0 || starts.back() != subsets.members.size() ||
        !std::is_sorted(starts.begin(), starts.end()))
        throw std::invalid_argument("starts of label subsets must rise from 0 to the number of members");
    for (std::size_t t = 0; t < subsets.size(); ++t)
        for (auto k : subsets[t])
            if (k >= subsets.labels)
                refuse_subset(t, "names label " + std::to_string(k) + ", but there are only " +
                                     std::to_string(subsets.labels) + " labels, counted from 0");
}

// The same if it is not as described above.
inline void check_label_subsets(const LabelSubsets& subsets) {
    check_members(subsets);
    if (subsets.labels == 0) throw std::invalid_argument("label subsets need at least one label; got none");
    if (subsets.size() < subsets.labels)
        throw std::invalid_argument("the first " + std::to_string(subsets.labels) +
                                    " label subsets must be the single labels; got only " +
                                    std::to_string(subsets.size()) + " subsets");
    std::set<std::vector<std::uint32_t>> seen;
    for (std::size_t t = 0; t < subsets.size(); ++t) {
        const auto subset = subsets[t];
        if (t < subsets.labels) {
            if (subset.size() != 1 || subset[0] != t)
                refuse_subset(t,
                              "must be the single label " + std::to_string(t) + ": single labels come first, in order");
            continue;
        }
        if (subset.size() < 2) refuse_subset(t, "must have two labels or more: the single labels are listed already");
        for (std::size_t j = 1; j < subset.size(); ++j)
            if (subset[j] <= subset[j - 1]) refuse_subset(t, "must list its labels once each, in rising order");
        if (!seen.emplace(subset.begin(), subset.end()).second)
            refuse_subset(t, "is listed twice; list each subset once");
    }
}

// chi_T of a labelling given as bits.
inline double parity(std::span<const std::uint32_t> subset, const std::uint64_t* labelling) {
    unsigned off = 0;
    for (auto k : subset) off ^= ~static_cast<unsigned>(labelling[k >> 6] >> (k & 63)) & 1u;
    return off ? -1.0 : 1.0;
}

// F(y) of a labelling given as bits.
inline double labelling_score(const LabelSubsets& subsets, const double* scores, const std::uint64_t* labelling) {
    double sum = 0.0;
    for (std::size_t t = 0; t < subsets.size(); ++t) sum += scores[t] * parity(subsets[t], labelling);
    return sum;
}

}  // namespace multimargin::inference
