#pragma once
// Labels whose value in a maximiser of F(y) = sum_i u_i s_i + sum_(i,j) w_ij s_i s_j, s = 2 y - 1, can be told from the
// roof dual (Hammer, Hansen and Simeone 1984; Boros and Hammer 2002), and its bound of max F.
//
// Every label gets a second node that stands for its opposite. A positive w_ij ties i to j and opposite to opposite,
// a negative one i to the opposite of j; the doubled problem has attraction only, so a minimum cut solves it, and half
// its value bounds max F. A label whose two nodes end up on different sides of the smallest source side keeps its value
// in some maximiser, together with all others so found. Amounts are integers as in graph_cut.hpp: right up to rounding.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/inference/max_flow.hpp"

namespace multimargin::inference {

class RoofDuality {
  public:
    // pairs of numbers below `nodes`
    RoofDuality(std::size_t nodes, std::vector<std::pair<int, int>> pairs) : nodes_(nodes), pairs_(std::move(pairs)) {
        const int opposite = static_cast<int>(nodes);
        for (auto [i, j] : pairs_) {
            edges_.insert(edges_.end(), {{i, j}, {i + opposite, j + opposite}, {i, j + opposite}, {i + opposite, j}});
        }
    }

    struct Scratch {
        MaxFlow flow;
        std::vector<MaxFlow::Amount> capacity;
        std::vector<std::uint8_t> side;
    };
    Scratch scratch() const {
        Scratch s;
        s.flow.set_graph(static_cast<int>(2 * nodes_), edges_);
        s.capacity.resize(edges_.size());
        s.side.resize(2 * nodes_);
        return s;
    }

    // fixed[i]: +1 on, -1 off, 0 not told. Returns the bound.
    double solve(const double* u, const double* w, std::int8_t* fixed, Scratch& s) const {
        double reach = 1e-30;
        for (std::size_t i = 0; i < nodes_; ++i) reach = std::max(reach, std::fabs(u[i]));
        for (std::size_t e = 0; e < pairs_.size(); ++e) reach += std::fabs(w[e]);
        const double scale = std::ldexp(1.0, 56 - std::max(-900, std::ilogb(reach) + 1));
        const auto amount = [scale](double x) { return static_cast<MaxFlow::Amount>(std::llrint(x * scale)); };
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            const auto size = amount(std::fabs(w[e]));
            s.capacity[4 * e] = s.capacity[4 * e + 1] = w[e] > 0 ? size : 0;
            s.capacity[4 * e + 2] = s.capacity[4 * e + 3] = w[e] > 0 ? 0 : size;
        }
        s.flow.restart(s.capacity);
        for (std::size_t i = 0; i < nodes_; ++i) {
            s.flow.set_supply(static_cast<int>(i), amount(u[i]));
            s.flow.set_supply(static_cast<int>(i + nodes_), -amount(u[i]));
        }
        s.flow.solve();
        s.flow.smallest(s.side.data());
        // Half the doubled score of the cut; an undecided label has both its nodes on one side.
        double twice = 0.0, total = 0.0;
        const auto sign = [&](std::size_t node) { return s.side[node] ? 1 : -1; };
        for (std::size_t i = 0; i < nodes_; ++i) {
            fixed[i] = static_cast<std::int8_t>((sign(i) - sign(i + nodes_)) / 2);
            twice += u[i] * (sign(i) - sign(i + nodes_));
            total += std::fabs(u[i]);
        }
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            const auto i = static_cast<std::size_t>(pairs_[e].first), j = static_cast<std::size_t>(pairs_[e].second);
            const std::size_t like = w[e] > 0 ? j : j + nodes_, unlike = w[e] > 0 ? j + nodes_ : j;
            const int same = sign(i) * sign(like), other = sign(i + nodes_) * sign(unlike);
            twice += std::fabs(w[e]) * (same + other);
            total += std::fabs(w[e]);
        }
        const double rounding = static_cast<double>(nodes_ + 4 * pairs_.size()) / scale + 1e-14 * total;
        return 0.5 * twice + rounding;
    }

  private:
    std::size_t nodes_;
    std::vector<std::pair<int, int>> pairs_, edges_;
};

}  // namespace multimargin::inference
