#pragma once
// A line from score to log-odds, p = 1 / (1 + exp(-(a s + b))), by Newton's method:
//
//   minimise over (a, b)  sum_i w_i [log(1 + exp(z_i)) - t_i z_i] + (a - a0)^2 / (2 va) + (b - b0)^2 / (2 vb),
//   z_i = a s_i + b,  t_i = target of a positive or of a negative cell.
//
// The objective is convex. A step is halved until the slope along it is smaller than at its start, which the exact
// minimiser along the step satisfies; so only first and second derivatives are needed, one exp per cell and step.
// With `fixed_slope` a stays where it starts.

#include "core/decisions/columns.hpp"

namespace multimargin::decisions {

struct Line {
    double slope, offset;
};

struct LineProblem {
    double positive_target, negative_target;
    Line centre, precision;  // of the prior on the line; precision 0: no prior
    bool fixed_slope;
};

struct LineFit {
    Line line, variance;  // of the Laplace approximation
};

class LineFitter {
  public:
    LineFitter(std::span<const Cell> positive, std::span<const Cell> negative, const LineProblem& problem)
        : positive_(positive), negative_(negative), problem_(problem) {}

    LineFit fit(Line line) const {
        auto here = derivatives(line);
        bool last = false;
        for (int step = 0; step < most_steps && !last; ++step) {
            const auto d = newton(here);
            const double slope = here.slope(d);  // below 0
            if (!(slope < -tiny)) break;
            last = slope > -small * (1.0 + here.weight);
            double length = 1.0;
            for (int halving = 0;; ++halving) {
                const Line there{line.slope + length * d.slope, line.offset + length * d.offset};
                const auto next = derivatives(there);
                if (std::abs(next.slope(d)) <= 0.9 * std::abs(slope) || halving == most_halvings) {
                    line = there;
                    here = next;
                    break;
                }
                length /= 2.0;
            }
        }
        const double determinant = here.determinant();
        return {line, {here.bb / determinant, here.aa / determinant}};
    }

  private:
    static constexpr int most_steps = 60, most_halvings = 40;
    static constexpr double small = 1e-11, tiny = 1e-26;

    struct Derivatives {
        double a = 0.0, b = 0.0, aa = 0.0, ab = 0.0, bb = 0.0, weight = 0.0;
        double slope(Line d) const { return a * d.slope + b * d.offset; }
        double determinant() const { return std::max(aa * bb - ab * ab, std::numeric_limits<double>::min()); }
    };

    Line newton(const Derivatives& at) const {
        if (problem_.fixed_slope) return {0.0, -at.b / std::max(at.bb, 1e-300)};
        // Separated or constant scores leave the curvature near 0 in some direction: a little is added.
        const double aa = at.aa * (1.0 + 1e-12) + 1e-300, bb = at.bb * (1.0 + 1e-12) + 1e-300;
        const double determinant = aa * bb - at.ab * at.ab;
        if (!(determinant > 1e-14 * aa * bb)) return {-at.a / (2.0 * aa), -at.b / (2.0 * bb)};
        return {-(bb * at.a - at.ab * at.b) / determinant, -(aa * at.b - at.ab * at.a) / determinant};
    }

    void add(std::span<const Cell> cells, double target, Line line, Derivatives& sum) const {
        double a = 0.0, b = 0.0, aa = 0.0, ab = 0.0, bb = 0.0, weight = 0.0;
        for (const auto& cell : cells) {
            const double z = line.slope * cell.score + line.offset;
            const double e = std::exp(-std::abs(z)), share = 1.0 / (1.0 + e);
            const double p = z >= 0.0 ? share : e * share;
            const double g = cell.weight * (p - target), h = cell.weight * e * share * share;
            a += g * cell.score;
            b += g;
            aa += h * cell.score * cell.score;
            ab += h * cell.score;
            bb += h;
            weight += cell.weight;
        }
        sum.a += a;
        sum.b += b;
        sum.aa += aa;
        sum.ab += ab;
        sum.bb += bb;
        sum.weight += weight;
    }

    Derivatives derivatives(Line line) const {
        Derivatives sum;
        add(positive_, problem_.positive_target, line, sum);
        add(negative_, problem_.negative_target, line, sum);
        sum.a += problem_.precision.slope * (line.slope - problem_.centre.slope);
        sum.b += problem_.precision.offset * (line.offset - problem_.centre.offset);
        sum.aa += problem_.precision.slope;
        sum.bb += problem_.precision.offset;
        return sum;
    }

    std::span<const Cell> positive_, negative_;
    LineProblem problem_;
};

}  // namespace multimargin::decisions
