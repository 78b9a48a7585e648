#pragma once
// Losses between the true labels T of a row and predicted labels y, as functions of s = |y and T| and f = |y \ T|.
//
//   F-score   h(s, f) = 1 - 2 s / (s + f + m),  m = |T|;  0 if both sets are empty
//   Hamming   h(s, f) = (m - s) + f, the number of wrong labels
//
// The F-score loss is convex in s, concave in f, and its cross difference is >= 0.

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

}  // namespace multimargin::labels
