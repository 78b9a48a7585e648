#pragma once
// The squared k-support norm of non-negative numbers a, with budget r >= 1:
//
//   |a|_r^2 = min { sum_c a_c^2 / eta_c : 0 <= eta_c <= 1, sum_c eta_c <= r }
//   conjugate: the sum of the r largest z_c^2
//
// r = 1 gives (sum a)^2, r >= the number of entries gives sum a^2. The minimiser takes one sort: the j largest entries
// get eta = 1, the others share what is left of the budget in proportion to their size, for the smallest j with
// a_j (r - j) <= a_j + a_{j+1} + ...

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace multimargin::numerics {

inline double k_support(std::span<const double> a, std::size_t r, double* eta) {
    const std::size_t q = a.size();
    double value = 0.0;
    if (r >= q) {
        for (std::size_t c = 0; c < q; ++c) {
            value += a[c] * a[c];
            eta[c] = 1.0;
        }
        return value;
    }
    std::vector<std::size_t> order(q);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t c, std::size_t d) { return a[c] > a[d]; });
    double tail = std::accumulate(a.begin(), a.end(), 0.0);
    std::size_t j = 0;
    for (; j + 1 < r && a[order[j]] * static_cast<double>(r - j) > tail; ++j) {
        const double largest = a[order[j]];
        eta[order[j]] = 1.0;
        value += largest * largest;
        tail -= largest;
    }
    const double left = static_cast<double>(r - j);
    tail = 0.0;  // afresh: differences of nearly equal sums are not small sums
    for (std::size_t k = q; k > j; --k) tail += a[order[k - 1]];
    for (std::size_t k = j; k < q; ++k) eta[order[k]] = tail > 0 ? std::min(1.0, a[order[k]] * left / tail) : 0.0;
    return value + tail * tail / left;
}

// Sum of the r largest entries.
inline double sum_of_largest(std::vector<double> z, std::size_t r) {
    if (r < z.size()) {
        std::nth_element(z.begin(), z.begin() + static_cast<std::ptrdiff_t>(r), z.end(), std::greater<>());
        z.resize(r);
    }
    return std::accumulate(z.begin(), z.end(), 0.0);
}

}  // namespace multimargin::numerics
