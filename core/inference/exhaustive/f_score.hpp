#pragma once
// The slow truth: every labelling of at most 25 labels, in Gray code order. Tests compare with it; nothing else uses
// it.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

// Max of sum u_i y_i + sum w_e y_i y_j + loss(s, f) over y; truth: 0 absent, 1 present, 2 unknown (y is 0 there).
// `smallest` and `largest` receive the intersection and the union of all maximisers, up to `tie`.
template <class Loss>
double exhaustive(std::span<const double> u, std::span<const std::pair<int, int>> pairs, const double* w,
                  const std::uint8_t* truth, const Loss& loss, double tie, std::uint8_t* smallest,
                  std::uint8_t* largest) {
    std::vector<int> labels;
    for (std::size_t i = 0; i < u.size(); ++i)
        if (truth[i] != 2) labels.push_back(static_cast<int>(i));
    std::vector<std::uint8_t> y(u.size(), 0);
    int s = 0, f = 0;
    double score = 0.0, best = loss(0, 0);
    const auto all = [&](double value) {
        for (std::size_t i = 0; i < u.size(); ++i) {
            smallest[i] = value > best + tie ? y[i] : smallest[i] & y[i];
            largest[i] = value > best + tie ? y[i] : largest[i] | y[i];
        }
        if (value > best) best = value;
    };
    for (std::size_t i = 0; i < u.size(); ++i) smallest[i] = largest[i] = 0;
    for (std::uint64_t t = 1; t < std::uint64_t{1} << labels.size(); ++t) {
        const int i = labels[static_cast<std::size_t>(__builtin_ctzll(t))];
        const int sign = y[i] ? -1 : 1;
        score += sign * u[i];
        for (std::size_t e = 0; e < pairs.size(); ++e) {
            const auto [a, b] = pairs[e];
            if ((a == i && y[b]) || (b == i && y[a])) score += sign * w[e];
        }
        y[i] ^= 1;
        (truth[i] == 1 ? s : f) += sign;
        const double value = score + loss(s, f);
        if (value >= best - tie) all(value);
    }
    return best;
}

}  // namespace multimargin::inference
