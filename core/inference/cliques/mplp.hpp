#pragma once
// Bounds of max F(y), F(y) = sum_T theta_T chi_T(y), by max-product linear programming (Globerson and Jaakkola 2007)
// over one connected component, for cliques of any order.
//
// The cliques are the subsets that no other contains; each of the others of two labels or more is counted in one
// clique around it, giving theta_c(x_c). Messages need only their slope: m_{c->i}(s_i) = s_i d_{c->i}, s = +-1, since
// constants cancel in the bound. With b_i = theta_i + sum_c d_{c->i}, one clique is updated by
//
//   f(x_c) = theta_c(x_c) + sum_{j in c} s_j (b_j - d_{c->j})
//   b_i <- (max over s_i = +1 of f - max over s_i = -1 of f) / (2 |c|),   d_{c->i} follows,   all i in c at once
//   upper = sum_i |b_i| + sum_c max over x_c of [theta_c(x_c) - sum_j s_j d_{c->j}]
//
// which never rises, and is a bound of max F whatever the messages are. lower = F(y) of the best y_i = [b_i > 0] seen.
// A fixed point need not be optimal; forests without ties are solved.
//
// A label is held at s by adding s M to b_i, M = sum over T with i of |theta_T|: no labelling gains by breaking it.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/inference/cliques/label_subsets.hpp"
#include "core/inference/cliques/walsh.hpp"

namespace multimargin::inference {

class Mplp {
  public:
    static constexpr std::size_t largest_clique = 16;

    Mplp(const LabelSubsets& subsets, std::span<const std::uint32_t> component)
        : component_(component.begin(), component.end()) {
        place_.assign(subsets.labels, 0);
        std::vector<std::uint8_t> inside(subsets.labels, 0);
        for (std::size_t i = 0; i < component.size(); ++i) {
            place_[component[i]] = static_cast<std::uint32_t>(i);
            inside[component[i]] = 1;
        }
        std::vector<std::uint32_t> larger;
        for (std::size_t t = subsets.labels; t < subsets.size(); ++t)
            if (inside[subsets[t][0]]) larger.push_back(static_cast<std::uint32_t>(t));
        std::stable_sort(larger.begin(), larger.end(),
                         [&](auto s, auto t) { return subsets[s].size() > subsets[t].size(); });
        std::vector<std::uint32_t> maximal;
        std::vector<std::vector<std::uint32_t>> parts;  // subsets counted in each clique
        std::vector<std::vector<std::uint32_t>> of(component.size());
        for (auto t : larger) {
            const auto subset = subsets[t];
            const auto& near = of[place_[subset[0]]];
            const auto around = std::find_if(near.begin(), near.end(), [&](std::uint32_t c) {
                const auto clique = subsets[maximal[c]];
                return std::includes(clique.begin(), clique.end(), subset.begin(), subset.end());
            });
            if (around != near.end()) {
                parts[*around].push_back(t);
                continue;
            }
            if (subset.size() > largest_clique)
                throw std::invalid_argument("label subset " + std::to_string(t) + " has " +
                                            std::to_string(subset.size()) + " labels; message passing takes at most " +
                                            std::to_string(largest_clique));
            for (auto a : subset) of[place_[a]].push_back(static_cast<std::uint32_t>(maximal.size()));
            maximal.push_back(t);
            parts.push_back({t});
        }
        for (std::size_t c = 0; c < maximal.size(); ++c) {
            const auto clique = subsets[maximal[c]];
            if (clique.size() == 2) {
                pairs_.push_back({place_[clique[0]], place_[clique[1]], maximal[c]});
                continue;
            }
            Clique large{static_cast<int>(clique.size()), members_.size(), entries_};
            for (auto a : clique) members_.push_back(place_[a]);
            for (auto t : parts[c]) {
                std::size_t mask = 0;
                for (auto a : subsets[t])
                    mask |= std::size_t{1} << (std::find(clique.begin(), clique.end(), a) - clique.begin());
                loads_.push_back({t, entries_ + mask});
            }
            entries_ += std::size_t{1} << clique.size();
            largest_ = std::max(largest_, std::size_t{1} << clique.size());
            cliques_.push_back(large);
        }
        for (auto a : component) terms_.push_back(a);
        terms_.insert(terms_.end(), larger.begin(), larger.end());
        for (auto t : terms_) {
            for (auto a : subsets[t]) term_members_.push_back(place_[a]);
            term_ends_.push_back(static_cast<std::uint32_t>(term_members_.size()));
        }
    }

    // What changes during message passing: copy it to come back to a node of a search.
    struct Messages {
        std::vector<double> belief, pair, clique;
        double held = 0.0;  // sum of M over the labels held
    };
    struct Scratch {
        Messages now;
        std::vector<double> weight;         // M of each label
        std::vector<double> coupling;       // theta of each pair
        std::vector<double> tables, table;  // theta_c of each larger clique; f
        std::vector<std::int8_t> fixed;     // +-1 where a label is held, else 0
        std::vector<std::uint8_t> on, best_on;
        double scale = 0.0;  // sum of |theta_T|
        double upper = 0.0, lower = 0.0;
    };
    Messages messages() const {
        return {std::vector<double>(component_.size()), std::vector<double>(2 * pairs_.size()),
                std::vector<double>(members_.size())};
    }
    Scratch scratch() const {
        Scratch s;
        s.now = messages();
        s.weight.resize(component_.size());
        s.coupling.resize(pairs_.size());
        s.tables.resize(entries_);
        s.table.resize(largest_);
        s.fixed.resize(component_.size());
        s.on.resize(component_.size());
        s.best_on.resize(component_.size());
        return s;
    }

    std::size_t labels() const { return component_.size(); }
    std::uint32_t label(std::size_t i) const { return component_[i]; }
    std::size_t place(std::uint32_t label) const { return place_[label]; }

    // Sum of |theta_T| over the subsets with label i of the component.
    double weight(std::size_t i, const double* scores) const {
        double sum = 0.0;
        for (std::size_t t = 0, k = 0; t < terms_.size(); ++t)
            for (; k < term_ends_[t]; ++k)
                if (term_members_[k] == i) sum += std::fabs(scores[terms_[t]]);
        return sum;
    }

    // Starts anew: no messages, no label held.
    void start(const double* scores, Scratch& s) const {
        std::fill(s.now.pair.begin(), s.now.pair.end(), 0.0);
        std::fill(s.now.clique.begin(), s.now.clique.end(), 0.0);
        std::fill(s.fixed.begin(), s.fixed.end(), std::int8_t{0});
        std::fill(s.weight.begin(), s.weight.end(), 0.0);
        s.now.held = s.scale = 0.0;
        for (std::size_t i = 0; i < component_.size(); ++i) s.now.belief[i] = scores[component_[i]];
        for (std::size_t e = 0; e < pairs_.size(); ++e) s.coupling[e] = scores[pairs_[e].score];
        std::fill(s.tables.begin(), s.tables.end(), 0.0);
        for (const Load& load : loads_) s.tables[load.entry] = scores[load.score];
        for (const Clique& c : cliques_) transform(s.tables.data() + c.table, c.order);
        std::size_t k = 0;
        for (std::size_t t = 0; t < terms_.size(); ++t) {
            const double size = std::fabs(scores[terms_[t]]);
            s.scale += size;
            for (; k < term_ends_[t]; ++k) s.weight[term_members_[k]] += size;
        }
        s.lower = -HUGE_VAL;
        s.upper = upper_bound(s);
    }

    // Holds label i of the component at s = +-1, from the present messages.
    void hold(std::size_t i, int sign, Scratch& s) const {
        s.fixed[i] = static_cast<std::int8_t>(sign);
        s.now.belief[i] += sign * s.weight[i];
        s.now.held += s.weight[i];
    }

    // Passes over all cliques until upper <= goal, or upper <= lower + tol, or a pass gains less than `stall` times
    // what is left between upper and lower, or the limit.
    void tighten(const double* scores, int passes, double stall, double goal, double tol, Scratch& s) const {
        s.upper = upper_bound(s);
        round(scores, s);
        for (int pass = 0; pass < passes; ++pass) {
            if (s.upper <= goal || s.upper <= s.lower + tol) return;
            const double before = s.upper;
            update(*this, s);
            s.upper = std::min(before, upper_bound(s));
            round(scores, s);
            if (!(before - s.upper > stall * (s.upper - s.lower))) return;
        }
    }

    // F over the component of a labelling of it.
    double value(const double* scores, const std::uint8_t* on) const {
        double sum = 0.0;
        std::size_t k = 0;
        for (std::size_t t = 0; t < terms_.size(); ++t) {
            unsigned off = 0;
            for (; k < term_ends_[t]; ++k) off ^= on[term_members_[k]] ^ 1u;
            sum += off & 1u ? -scores[terms_[t]] : scores[terms_[t]];
        }
        return sum;
    }

  private:
    struct Pair {
        std::uint32_t first, second, score;
    };
    struct Clique {
        int order;
        std::size_t members, table;  // first of each; messages are numbered as members
    };
    struct Load {
        std::uint32_t score;
        std::size_t entry;
    };

    MULTIMARGIN_SIMD static void transform(double* table, int bits) { walsh_transform(table, bits); }

    static void update(const Mplp& graph, Scratch& s) {
        double* b = s.now.belief.data();
        for (std::size_t e = 0; e < graph.pairs_.size(); ++e) {
            const auto [i, j, score] = graph.pairs_[e];
            double* d = s.now.pair.data() + 2 * e;
            const double u = b[i] - d[0], v = b[j] - d[1], w = s.coupling[e];
            b[i] = 0.5 * (u + 0.5 * (std::fabs(v + w) - std::fabs(v - w)));
            b[j] = 0.5 * (v + 0.5 * (std::fabs(u + w) - std::fabs(u - w)));
            d[0] = b[i] - u;
            d[1] = b[j] - v;
        }
        for (const Clique& c : graph.cliques_) {
            const std::uint32_t* members = graph.members_.data() + c.members;
            double* d = s.now.clique.data() + c.members;
            double* f = s.table.data();
            const std::size_t n = std::size_t{1} << c.order;
            double rest[largest_clique];
            for (int j = 0; j < c.order; ++j) rest[j] = b[members[j]] - d[j];
            graph.spread(s.tables.data() + c.table, rest, c.order, f);
            for (int j = 0; j < c.order; ++j) {
                double best[2] = {-HUGE_VAL, -HUGE_VAL};
                for (std::size_t x = 0; x < n; ++x) best[x >> j & 1] = std::max(best[x >> j & 1], f[x]);
                b[members[j]] = (best[0] - best[1]) / (2.0 * c.order);
                d[j] = b[members[j]] - rest[j];
            }
        }
    }

    // out[x] = table[x] + sum_j s_j slope[j]
    static void spread(const double* table, const double* slope, int order, double* out) {
        out[0] = 0.0;
        for (int j = 0; j < order; ++j) out[0] += slope[j];
        for (int j = 0; j < order; ++j)
            for (std::size_t x = 0; x < std::size_t{1} << j; ++x)
                out[(std::size_t{1} << j) + x] = out[x] - 2 * slope[j];
        for (std::size_t x = 0; x < std::size_t{1} << order; ++x) out[x] += table[x];
    }

    double upper_bound(Scratch& s) const {
        double sum = -s.now.held;
        for (double b : s.now.belief) sum += std::fabs(b);
        for (std::size_t e = 0; e < pairs_.size(); ++e) {
            const double a = s.now.pair[2 * e], b = s.now.pair[2 * e + 1], w = s.coupling[e];
            sum += std::max(w + std::fabs(a + b), std::fabs(a - b) - w);
        }
        for (const Clique& c : cliques_) {
            double slope[largest_clique];
            for (int j = 0; j < c.order; ++j) slope[j] = -s.now.clique[c.members + j];
            spread(s.tables.data() + c.table, slope, c.order, s.table.data());
            sum += *std::max_element(s.table.begin(), s.table.begin() + (std::ptrdiff_t{1} << c.order));
        }
        return sum;
    }

    void round(const double* scores, Scratch& s) const {
        for (std::size_t i = 0; i < component_.size(); ++i) s.on[i] = s.fixed[i] ? s.fixed[i] > 0 : s.now.belief[i] > 0;
        const double found = value(scores, s.on.data());
        if (found > s.lower) {
            s.lower = found;
            s.best_on.swap(s.on);
        }
    }

    std::vector<std::uint32_t> component_, place_;
    std::vector<Pair> pairs_;
    std::vector<Clique> cliques_;
    std::vector<Load> loads_;
    std::vector<std::uint32_t> members_;
    std::vector<std::uint32_t> terms_, term_members_, term_ends_;  // all subsets of the component, for F
    std::size_t entries_ = 0, largest_ = 0;
};

}  // namespace multimargin::inference
