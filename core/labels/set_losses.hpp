#pragma once
// Losses between the true labels T of a row and predicted labels y, as functions of s = |y and T| and f = |y \ T|.
//
//   F-score   h(s, f) = 1 - 2 s / (s + f + m),  m = |T|;  0 if both sets are empty
//   Hamming   h(s, f) = (m - s) + f, the number of wrong labels
//
// Wrong labels with weights are no function of s and f: MistakeWeights.
//
// The F-score loss is convex in s, concave in f, and its cross difference is >= 0.

#include <algorithm>
#include <cstddef>
#include <span>

namespace multimargin::labels {

struct FScoreLoss {
    int m;
    double operator()(int s, int f) const {
        const int total = s + f + m;
        return total == 0 ? 0.0 : 1.0 - 2.0 * s / total;
    }
};

// The same with reciprocals at hand: inverse[k] = 1 / k up to k = 2 * labels; inverse[0] = 0.
struct TabulatedFScoreLoss {
    int m;
    const double* inverse;
    double operator()(int s, int f) const {
        const int total = s + f + m;
        return total == 0 ? 0.0 : 1.0 - 2.0 * s * inverse[total];
    }
};

struct HammingLoss {
    int m;
    double operator()(int s, int f) const { return static_cast<double>(m - s + f); }
};

// What it costs to miss a label, and to predict one that is absent.
struct MistakeWeights {
    std::span<const double> miss, excess;  // labels

    // Cost of the worst labelling, at most.
    double largest() const {
        double sum = 0.0;
        for (std::size_t l = 0; l < miss.size(); ++l) sum += std::max(miss[l], excess[l]);
        return sum;
    }
};

}  // namespace multimargin::labels
