#pragma once
// Maximiser of a score with pairwise attraction,
//
//   S(y) = sum_i u_i y_i + sum_e w_e y_i y_j,   e = (i, j), w >= 0,   y in {0, 1}^V,
//
// as a minimum cut: w y_i y_j = w/2 (y_i + y_j) - w/2 |y_i - y_j|. All amounts are doubled, so the supply of node i is
// 2 u_i + sum of its w, and the capacity of a pair its w. Amounts are integers, the reals times a power of two chosen
// for the numbers at hand: ties are exact, termination is certain, and the cut's value is right to `rounding`.
//
// Labels without a positive pair are isolated: y_i follows from u_i alone. Only the others are nodes of the graph.
//
// Most nodes need no flow: one that gains with the nodes known to be on is on, one that loses even with all nodes not
// known to be off is off, and both propagate. Where attraction is weak nothing is left. The flow over the nodes left
// starts from the last one if they are the same.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/inference/max_flow.hpp"

namespace multimargin::inference {

enum class Ties { smallest, largest };

class GraphCut {
  public:
    using Amount = MaxFlow::Amount;
    enum : std::uint8_t { free_node = 0, fixed_on = 1, fixed_off = 2 };

    GraphCut(int labels, std::span<const std::pair<int, int>> pairs)
        : labels_(labels), pairs_(pairs.begin(), pairs.end()), weights_(pairs.size(), 0.0), positive_(pairs.size(), 0) {
        rebuild();
    }

    int labels() const { return labels_; }
    int nodes() const { return static_cast<int>(label_of_.size()); }
    std::span<const int> isolated() const { return isolated_; }
    int label_of(int node) const { return label_of_[node]; }
    double degree(int node) const { return degree_[node]; }

    struct Neighbour {
        int node;
        double weight;
    };
    std::span<const Neighbour> neighbours(int node) const {
        return {arcs_.data() + first_[node], static_cast<std::size_t>(first_[node + 1] - first_[node])};
    }

    void set_weights(const double* w) {
        bool same = true;
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            weights_[e] = w[e];
            same &= (w[e] > 0) == (positive_[e] != 0);
        }
        if (!same) rebuild();
        double total = 0.0;
        for (std::size_t i = 0; i < degree_.size(); ++i) {
            degree_[i] = 0.0;
            for (int a = first_[i]; a < first_[i + 1]; ++a) degree_[i] += arcs_[a].weight = weights_[pair_of_[a]];
            total += degree_[i];
        }
        total_weight_ = 0.5 * total;
        capacity_scale_ = 0.0;
    }

    // Becomes the part of `whole` between these of its nodes, which ascend.
    void take(const GraphCut& whole, std::span<const int> nodes) {
        const std::size_t n = nodes.size();
        place_.assign(whole.label_of_.size(), -1);
        label_of_.resize(n);
        for (std::size_t k = 0; k < n; ++k) {
            label_of_[k] = whole.label_of_[nodes[k]];
            place_[nodes[k]] = static_cast<int>(k);
        }
        degree_.assign(n, 0.0);
        gain_.resize(n);
        open_.resize(n);
        first_.assign(1, 0);
        middle_.clear();
        arcs_.clear();
        total_weight_ = 0.0;
        for (std::size_t k = 0; k < n; ++k) {
            const auto add = [&](int from, int to) {
                for (int a = from; a < to; ++a) {
                    const auto [j, weight] = whole.arcs_[a];
                    if (place_[j] < 0) continue;
                    arcs_.push_back({place_[j], weight});
                    degree_[k] += weight;
                }
            };
            const int i = nodes[k];
            add(whole.first_[i], whole.middle_[i]);
            middle_.push_back(static_cast<int>(arcs_.size()));
            add(whole.middle_[i], whole.first_[i + 1]);
            first_.push_back(static_cast<int>(arcs_.size()));
            total_weight_ += 0.5 * degree_[k];
        }
        capacity_scale_ = 0.0;
        flowing_.clear();
    }

    // A new problem over the nodes: no flow, no supplies. Slopes given later to cut() must not exceed `largest_slope`
    // in absolute value.
    void start(std::span<const double> u, double largest_slope) {
        double most = largest_slope;
        for (double v : u) most = std::max(most, std::abs(v));
        const double reach = 2.0 * (most + largest_slope) + total_weight_ + 1e-30;
        scale_ = std::ldexp(1.0, 56 - std::max(-900, std::ilogb(reach) + 1));
        if (capacity_scale_ != scale_) round_weights();
        base_.resize(label_of_.size());
        for (std::size_t i = 0; i < base_.size(); ++i) base_[i] = rounded(u[i]);
        flowing_.clear();
    }

    // Largest possible error of a cut's value.
    double rounding() const { return static_cast<double>(label_of_.size() * 2 + arcs_.size()) / scale_; }

    // Maximiser of S(y) + sum of slopes[kind of i] y_i under the fixings (null: none), from the flow of the last call.
    void cut(const std::uint8_t* kind, std::span<const double> slopes, const std::uint8_t* fixed, Ties ties,
             std::uint8_t* y) {
        Amount shift[4] = {};
        for (std::size_t k = 0; k < slopes.size(); ++k) shift[k] = rounded(slopes[k]);
        // With ties to the smaller set a node must gain strictly; amounts are integers.
        const Amount least = ties == Ties::largest ? 0 : 1;
        doubtful_.clear();
        for (int i = 0; i < nodes(); ++i) {
            const Amount own = base_[i] + (kind ? shift[kind[i]] : shift[0]);
            if (fixed && fixed[i] != free_node) {
                y[i] = fixed[i] == fixed_on;
            } else if (own >= least) {
                y[i] = 1;
            } else if (own + node_degree_[i] < least) {
                y[i] = 0;
            } else {
                y[i] = doubt;
                gain_[i] = own;
                doubtful_.push_back(i);
            }
        }
        if (doubtful_.empty()) return;
        propagate(least, y);
        doubtful_.erase(std::remove_if(doubtful_.begin(), doubtful_.end(), [&](int i) { return y[i] != doubt; }),
                        doubtful_.end());
        if (!doubtful_.empty()) flow(ties, y);
    }

    // S over the nodes, in double.
    double score(std::span<const double> u, const std::uint8_t* y) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < u.size(); ++i)
            if (y[i]) sum += u[i];
        for (std::size_t i = 0; i < u.size(); ++i)
            if (y[i])
                for (int a = first_[i]; a < middle_[i]; ++a)
                    if (y[arcs_[a].node]) sum += arcs_[a].weight;
        return sum;
    }

  private:
    static constexpr std::uint8_t doubt = 2;

    Amount rounded(double value) const { return static_cast<Amount>(std::llrint(value * scale_)); }

    void round_weights() {
        capacity_scale_ = scale_;
        capacity_.resize(arcs_.size());
        node_degree_.resize(label_of_.size());
        for (std::size_t i = 0; i < node_degree_.size(); ++i) {
            node_degree_[i] = 0;
            for (int a = first_[i]; a < first_[i + 1]; ++a) node_degree_[i] += capacity_[a] = rounded(arcs_[a].weight);
        }
    }

    // Settles nodes whose neighbours decide for them. gain_: with the neighbours on; open_: what doubtful ones may add.
    void propagate(Amount least, std::uint8_t* y) {
        settled_.clear();
        const auto settle = [&](int i) {
            if (gain_[i] >= least)
                y[i] = 1;
            else if (gain_[i] + open_[i] < least)
                y[i] = 0;
            else
                return;
            settled_.push_back(i);
        };
        for (int i : doubtful_) {
            open_[i] = 0;
            for (int a = first_[i]; a < first_[i + 1]; ++a) {
                if (y[arcs_[a].node] == 1) gain_[i] += capacity_[a];
                if (y[arcs_[a].node] == doubt) open_[i] += capacity_[a];
            }
        }
        for (int i : doubtful_) settle(i);
        for (std::size_t k = 0; k < settled_.size(); ++k) {
            const int i = settled_[k];
            for (int a = first_[i]; a < first_[i + 1]; ++a) {
                const int j = arcs_[a].node;
                if (y[j] != doubt) continue;
                open_[j] -= capacity_[a];
                if (y[i] == 1) gain_[j] += capacity_[a];
                settle(j);
            }
        }
    }

    void flow(Ties ties, std::uint8_t* y) {
        if (doubtful_ != flowing_) {
            flowing_ = doubtful_;
            for (std::size_t k = 0; k < flowing_.size(); ++k) place_[flowing_[k]] = static_cast<int>(k);
            flow_edges_.clear();
            flow_capacity_.clear();
            for (int i : flowing_)
                for (int a = first_[i]; a < middle_[i]; ++a)
                    if (y[arcs_[a].node] == doubt) {
                        flow_edges_.emplace_back(place_[i], place_[arcs_[a].node]);
                        flow_capacity_.push_back(capacity_[a]);
                    }
            flow_.set_graph(static_cast<int>(flowing_.size()), flow_edges_);
            flow_.restart(flow_capacity_);
        }
        const int count = static_cast<int>(flowing_.size());
        for (int k = 0; k < count; ++k) flow_.set_supply(k, 2 * gain_[flowing_[k]] + open_[flowing_[k]]);
        flow_.solve();
        if (ties == Ties::smallest) {
            side_.resize(flowing_.size());
            flow_.smallest(side_.data());
            for (int k = 0; k < count; ++k) y[flowing_[k]] = side_[k];
        } else {
            for (int k = 0; k < count; ++k) y[flowing_[k]] = flow_.in_largest(k);
        }
    }

    void rebuild() {
        std::vector<int> node(static_cast<std::size_t>(labels_), -1);
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            positive_[e] = weights_[e] > 0;
            if (positive_[e]) node[pairs_[e].first] = node[pairs_[e].second] = 0;
        }
        label_of_.clear();
        isolated_.clear();
        for (int i = 0; i < labels_; ++i) {
            if (node[i] < 0) {
                isolated_.push_back(i);
            } else {
                node[i] = nodes();
                label_of_.push_back(i);
            }
        }
        const auto n = label_of_.size();
        degree_.resize(n);
        gain_.resize(n);
        open_.resize(n);
        place_.resize(n);
        // Neighbours: first those with a higher number, up to middle_, so that sums over pairs see each once.
        first_.assign(n + 1, 0);
        middle_.assign(n, 0);
        const auto ends = [&](std::size_t e) { return std::minmax(node[pairs_[e].first], node[pairs_[e].second]); };
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            if (!positive_[e]) continue;
            const auto [a, b] = ends(e);
            ++first_[a + 1];
            ++first_[b + 1];
            ++middle_[a];
        }
        for (std::size_t i = 0; i < n; ++i) {
            first_[i + 1] += first_[i];
            middle_[i] += first_[i];
        }
        arcs_.resize(static_cast<std::size_t>(first_[n]));
        pair_of_.resize(arcs_.size());
        std::vector<int> up(first_.begin(), first_.end() - 1), down(middle_);
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            if (!positive_[e]) continue;
            const auto [a, b] = ends(e);
            arcs_[up[a]].node = b;
            arcs_[down[b]].node = a;
            pair_of_[up[a]++] = pair_of_[down[b]++] = static_cast<int>(e);
        }
        flowing_.clear();
    }

    int labels_;
    std::vector<std::pair<int, int>> pairs_;
    std::vector<double> weights_, degree_;
    std::vector<std::uint8_t> positive_;
    std::vector<int> label_of_, isolated_;
    std::vector<int> first_, middle_, pair_of_;  // arcs of node i: [first_[i], first_[i + 1])
    std::vector<Neighbour> arcs_;
    std::vector<int> doubtful_, settled_, flowing_, place_;
    std::vector<Amount> capacity_, node_degree_, base_, gain_, open_, flow_capacity_;
    std::vector<std::pair<int, int>> flow_edges_;
    std::vector<std::uint8_t> side_;
    double total_weight_ = 0.0, scale_ = 1.0, capacity_scale_ = 0.0;
    MaxFlow flow_;
};

// Prediction: the labels that maximise S, and what each of them is worth.
class CutPredictor {
  public:
    CutPredictor(int labels, std::span<const std::pair<int, int>> pairs) : cut_(labels, pairs) {}

    void set_weights(const double* w) {
        cut_.set_weights(w);
        u_.resize(static_cast<std::size_t>(cut_.nodes()));
        y_.resize(u_.size());
        other_.resize(u_.size());
        fixed_.resize(u_.size());
    }

    void predict(const double* u, Ties ties, std::uint8_t* y) {
        for (int l : cut_.isolated()) y[l] = ties == Ties::smallest ? u[l] > 0 : u[l] >= 0;
        if (!cut_.nodes()) return;
        start(u);
        solve(nullptr, ties, y_.data());
        for (int i = 0; i < cut_.nodes(); ++i) y[cut_.label_of(i)] = y_[i];
    }

    // The same; returns the maximum.
    double maximise(const double* u, Ties ties, std::uint8_t* y) {
        predict(u, ties, y);
        double sum = cut_.nodes() ? cut_.score(u_, y_.data()) : 0.0;
        for (int l : cut_.isolated())
            if (y[l]) sum += u[l];
        return sum;
    }
    double rounding() const { return cut_.nodes() ? cut_.rounding() : 0.0; }

    // worth[l] = max S(y) with y_l = 1 minus max S(y) with y_l = 0; positive exactly for the labels of the smallest
    // maximiser.
    void marginals(const double* u, double* worth) {
        for (int l : cut_.isolated()) worth[l] = u[l];
        if (!cut_.nodes()) return;
        start(u);
        solve(nullptr, Ties::smallest, y_.data());
        const double best = cut_.score(u_, y_.data());
        std::fill(fixed_.begin(), fixed_.end(), GraphCut::free_node);
        for (int i = 0; i < cut_.nodes(); ++i) {
            fixed_[i] = y_[i] ? GraphCut::fixed_off : GraphCut::fixed_on;
            solve(fixed_.data(), Ties::smallest, other_.data());
            fixed_[i] = GraphCut::free_node;
            const double loss = std::max(0.0, best - cut_.score(u_, other_.data()));
            worth[cut_.label_of(i)] = y_[i] ? std::max(loss, smallest_worth) : -loss;
        }
    }

  private:
    static constexpr double smallest_worth = 1e-300;

    void start(const double* u) {
        for (int i = 0; i < cut_.nodes(); ++i) u_[i] = u[cut_.label_of(i)];
        cut_.start(u_, 0.0);
    }
    void solve(const std::uint8_t* fixed, Ties ties, std::uint8_t* y) { cut_.cut(nullptr, {}, fixed, ties, y); }

    GraphCut cut_;
    std::vector<double> u_;
    std::vector<std::uint8_t> y_, other_, fixed_;
};

}  // namespace multimargin::inference
