#pragma once
// Minimum cut of an undirected graph with terminals, in integers, by Dinic's blocking flows (Dinic 1970).
//
// Every node has one signed number, its supply: positive is an arc from the source, negative an arc to the sink. What
// is left of it after the flow is the balance. Changing a supply shifts the balance by the same amount, whatever flows
// at the moment, so a new cut starts from the flow of the last one at no cost. Levels are distances to the sink in the
// residual graph; after solve() the nodes without a level form the largest source side of a minimum cut.
//
// Amounts must stay below 2^61: |supply| plus the capacities at one node.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace multimargin::inference {

class MaxFlow {
  public:
    using Amount = std::int64_t;

    // Capacities and supplies are zero until set.
    void set_graph(int nodes, std::span<const std::pair<int, int>> edges) {
        nodes_ = nodes;
        first_.assign(static_cast<std::size_t>(nodes) + 1, 0);
        for (auto [a, b] : edges) {
            ++first_[a + 1];
            ++first_[b + 1];
        }
        for (int i = 0; i < nodes; ++i) first_[i + 1] += first_[i];
        head_.resize(2 * edges.size());
        twin_.resize(2 * edges.size());
        residual_.assign(2 * edges.size(), 0);
        arc_.resize(edges.size());
        next_.assign(first_.begin(), first_.end() - 1);
        for (std::size_t e = 0; e < edges.size(); ++e) {
            const auto [a, b] = edges[e];
            const int there = next_[a]++, back = next_[b]++;
            head_[there] = b;
            head_[back] = a;
            twin_[there] = back;
            twin_[back] = there;
            arc_[e] = there;
        }
        supply_.assign(static_cast<std::size_t>(nodes), 0);
        balance_.assign(static_cast<std::size_t>(nodes), 0);
        level_.assign(static_cast<std::size_t>(nodes), -1);
        queue_.resize(static_cast<std::size_t>(nodes));
    }

    // Forgets all flow and all supplies. capacities[e] holds in both directions.
    void restart(std::span<const Amount> capacities) {
        for (std::size_t e = 0; e < capacities.size(); ++e)
            residual_[arc_[e]] = residual_[twin_[arc_[e]]] = capacities[e];
        std::fill(supply_.begin(), supply_.end(), 0);
        std::fill(balance_.begin(), balance_.end(), 0);
    }

    void set_supply(int node, Amount amount) {
        balance_[node] += amount - supply_[node];
        supply_[node] = amount;
    }

    void solve() {
        while (find_levels()) {
            std::copy(first_.begin(), first_.end() - 1, next_.begin());
            for (int k = 0; k < reached_; ++k) {
                const int v = queue_[k];
                if (balance_[v] <= 0) continue;
                const Amount excess = balance_[v];
                balance_[v] = 0;  // v is a source here, never a sink
                balance_[v] = excess - push(v, excess);
            }
        }
    }

    // After solve(): whether the node is in the largest minimiser's source side.
    bool in_largest(int node) const { return level_[node] < 0; }

    // After solve(): the smallest source side of a minimum cut.
    void smallest(std::uint8_t* side) {
        int count = 0;
        for (int i = 0; i < nodes_; ++i) {
            side[i] = balance_[i] > 0;
            if (side[i]) queue_[count++] = i;
        }
        for (int k = 0; k < count; ++k) {
            const int v = queue_[k];
            for (int a = first_[v]; a < first_[v + 1]; ++a)
                if (residual_[a] > 0 && !side[head_[a]]) {
                    side[head_[a]] = 1;
                    queue_[count++] = head_[a];
                }
        }
    }

  private:
    // Breadth first from the sinks; true if a node with something left to send was reached.
    bool find_levels() {
        reached_ = 0;
        int waiting = 0;
        for (int i = 0; i < nodes_; ++i) {
            if (balance_[i] < 0) {
                level_[i] = 0;
                queue_[reached_++] = i;
            } else {
                level_[i] = -1;
                waiting += balance_[i] > 0;
            }
        }
        bool found = false;
        for (int k = 0; k < reached_; ++k) {
            const int v = queue_[k];
            found |= balance_[v] > 0;
            for (int a = first_[v]; a < first_[v + 1]; ++a) {
                const int x = head_[a];
                if (level_[x] < 0 && residual_[twin_[a]] > 0) {
                    level_[x] = level_[v] + 1;
                    queue_[reached_++] = x;
                }
            }
        }
        return found && waiting > 0;
    }

    // Sends up to `limit` from v towards the sinks along falling levels; returns what arrived.
    Amount push(int v, Amount limit) {
        Amount sent = 0;
        if (balance_[v] < 0) {
            sent = std::min(limit, -balance_[v]);
            balance_[v] += sent;
            if (sent == limit) return sent;
        }
        for (int& a = next_[v]; a < first_[v + 1]; ++a) {
            const int x = head_[a];
            if (residual_[a] <= 0 || level_[x] < 0 || level_[x] != level_[v] - 1) continue;
            const Amount moved = push(x, std::min(limit - sent, residual_[a]));
            residual_[a] -= moved;
            residual_[twin_[a]] += moved;
            sent += moved;
            if (sent == limit) return sent;
        }
        return sent;
    }

    int nodes_ = 0, reached_ = 0;
    std::vector<int> first_, head_, twin_, arc_, next_, level_, queue_;
    std::vector<Amount> residual_, supply_, balance_;
};

}  // namespace multimargin::inference
