#pragma once
// q of all label subsets, for features of which cliques may see different columns.
//
// Columns seen by the same cliques are a group, with rows x_g of their own. For a group g the model is W_T = kappa_Tg q_T
// on its columns, where kappa_Tg sums over those cliques alone that see it: a clique that does not see a column has no
// weight there. Features that everybody sees are one group, and kappa_Tg = kappa_T.
//
//   score of T in row i     sum_g kappa_Tg q_T . x_ig
//   its change with q_T     sum_g kappa_Tg |x_ig|^2

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/cliques/problem.hpp"
#include "core/numerics/label_weights.hpp"

namespace multimargin::cliques {

// Columns that the same cliques see.
template <RowMatrix X>
struct FeatureGroup {
    const X& x;
    double bias;                        // of the constant feature, if it is in this group
    std::vector<Index> columns;         // of x, and of the constant feature, in the whole; -1: not there
    bool nodes;                         // whether single labels see it
    std::vector<std::uint8_t> cliques;  // whether each clique does
};

template <RowMatrix X>
class GroupWeights {
  public:
    GroupWeights(std::span<const FeatureGroup<X>> groups, const CliqueList& cliques, const LabelSubsets& subsets,
                 Index rows)
        : groups_(groups), cliques_(cliques), labels_(subsets.labels), subsets_(subsets.size()) {
        panels_.reserve(groups.size());
        for (const auto& group : groups) {
            panels_.emplace_back(group.x, group.bias, static_cast<int>(subsets_));
            kappa_.emplace_back(panels_.back().chunks());
            auto& norms = norms_.emplace_back(static_cast<std::size_t>(rows));
            for (Index i = 0; i < rows; ++i) norms[i] = squared_norm(group.x.row(i)) + group.bias * group.bias;
        }
    }

    int chunks() const { return panels_[0].chunks(); }

    void set_shares(std::span<const double> eta) {
        std::vector<double> kappa(subsets_);
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            std::fill(kappa.begin(), kappa.end(), 0.0);
            if (groups_[g].nodes) std::fill_n(kappa.begin(), labels_, 0.5);
            for (std::size_t c = 0; c < cliques_.size(); ++c)
                if (groups_[g].cliques[c])
                    for (auto t : cliques_[c]) kappa[t] += eta[c] * cliques_.scale[c];
            for (std::size_t t = 0; t < subsets_; ++t) kappa_[g][static_cast<Index>(t)] = kappa[t];
        }
    }

    // scores: chunks() chunks; so is spare
    void scores(Index i, Chunk<double>* scores, Chunk<double>* spare) const {
        panels_[0].scores(i, scores);
        multiply(kappa_[0].chunks(), scores, chunks());
        for (std::size_t g = 1; g < panels_.size(); ++g) {
            panels_[g].scores(i, spare);
            add_product(kappa_[g].chunks(), spare, scores, chunks());
        }
    }
    void slopes(Index i, Chunk<double>* slopes) const {
        for (int k = 0; k < chunks(); ++k) slopes[k] = norms_[0][i] * kappa_[0].chunks()[k];
        for (std::size_t g = 1; g < panels_.size(); ++g)
            for (int k = 0; k < chunks(); ++k) slopes[k] += norms_[g][i] * kappa_[g].chunks()[k];
    }
    void add_nonzero(Index i, const ChunkVector<double>& change, double factor) {
        for (auto& panel : panels_) panel.add_nonzero(i, change, factor);
    }

    // q = centre, subsets x (features + 1), or 0.
    void reset(std::span<const double> centre) {
        for (auto& panel : panels_) panel.clear();
        if (centre.empty()) return;
        const std::size_t columns = centre.size() / subsets_;
        each_place([&](std::size_t g, std::size_t place, std::size_t t, std::size_t column) {
            panels_[g].values()[place] = centre[t * columns + column];
        });
    }
    // W, subsets x columns
    std::vector<double> weights(std::size_t columns) const {
        std::vector<double> weights(subsets_ * columns, 0.0);
        each_place([&](std::size_t g, std::size_t place, std::size_t t, std::size_t column) {
            weights[t * columns + column] = kappa_[g][static_cast<Index>(t)] * panels_[g].values()[place];
        });
        return weights;
    }

    // s_c of the cliques, and sum_k |q_k|^2 / 2 of the nodes.
    std::pair<std::vector<double>, double> squares() const {
        std::vector<double> scores(cliques_.size(), 0.0);
        double nodes = 0.0;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const auto squares = panels_[g].squared_norms(subsets_);
            if (groups_[g].nodes)
                for (std::size_t k = 0; k < labels_; ++k) nodes += 0.5 * squares[k];
            for (std::size_t c = 0; c < cliques_.size(); ++c)
                if (groups_[g].cliques[c])
                    for (auto t : cliques_[c]) scores[c] += cliques_.scale[c] * squares[t];
        }
        return {std::move(scores), nodes};
    }

  private:
    MULTIMARGIN_SIMD static void multiply(const Chunk<double>* kappa, Chunk<double>* scores, int chunks) {
        for (int k = 0; k < chunks; ++k) scores[k] *= kappa[k];
    }
    MULTIMARGIN_SIMD static void add_product(const Chunk<double>* kappa, const Chunk<double>* a, Chunk<double>* scores,
                                             int chunks) {
        for (int k = 0; k < chunks; ++k) scores[k] += kappa[k] * a[k];
    }

    // visit(group, place in its panel, subset, column in the whole)
    template <class Visit>
    void each_place(Visit&& visit) const {
        const auto width = static_cast<std::size_t>(chunks()) * lanes<double>;
        for (std::size_t g = 0; g < groups_.size(); ++g)
            for (std::size_t j = 0; j < groups_[g].columns.size(); ++j) {
                if (groups_[g].columns[j] < 0) continue;
                for (std::size_t t = 0; t < subsets_; ++t)
                    visit(g, j * width + t, t, static_cast<std::size_t>(groups_[g].columns[j]));
            }
    }

    std::span<const FeatureGroup<X>> groups_;
    const CliqueList& cliques_;
    std::size_t labels_, subsets_;
    std::vector<LabelWeights<X>> panels_;
    std::vector<ChunkVector<double>> kappa_;
    std::vector<std::vector<double>> norms_;
};

}  // namespace multimargin::cliques
