#pragma once
// Projection on solid simplices {z >= 0, sum z <= cost}.

#include <algorithm>
#include <cstdint>
#include <span>

namespace multimargin::numerics {

// The level theta >= 0 at which the sum of (v - theta)_+ is `cost`, 0 if the sum is below it at theta = 0. Newton steps
// on a convex decreasing function from the left: monotone, finitely many. each(add) calls add(v) for every value.
template <class Each>
double simplex_level(double cost, Each&& each) {
    double theta = 0.0;
    for (int step = 0; step < 1000; ++step) {
        double sum = 0.0, count = 0.0;
        each([&](double v) {
            if (v > theta) sum += v - theta, count += 1.0;
        });
        const double excess = sum - cost;
        if (count == 0.0 || excess <= 1e-15 * cost) break;
        theta += excess / count;
    }
    return theta;
}

// In place: the nearest point of {signs o z}, z >= 0, with the sum of z over the positive signs at most cost[0] and over
// the negative ones cost[1]; 0 where sign is 0.
inline void project_signed_row(std::span<double> values, const std::int8_t* signs, const double* cost) {
    for (const int side : {1, -1}) {
        const double theta = simplex_level(cost[side < 0], [&](auto&& add) {
            for (std::size_t j = 0; j < values.size(); ++j)
                if (signs[j] == side) add(side * values[j]);
        });
        for (std::size_t j = 0; j < values.size(); ++j)
            if (signs[j] == side) values[j] = side * std::max(0.0, side * values[j] - theta);
    }
    for (std::size_t j = 0; j < values.size(); ++j)
        if (signs[j] == 0) values[j] = 0.0;
}

}  // namespace multimargin::numerics
