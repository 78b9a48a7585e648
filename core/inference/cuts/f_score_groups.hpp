#pragma once
// The loss-augmented problem of f_score_cut.hpp where attraction joins only few labels at a time.
//
// For a group of k attracting labels all 2^k labellings are listed, and the best score for each (s, f) kept. Groups are
// joined by adding counts: best(s, f) = max over splits of the sum of their best scores. Labels that attract nobody
// come last, by sorting (separable_f_score.hpp). Exact, without any cut.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/inference/cuts/separable_f_score.hpp"
#include "core/labels/set_losses.hpp"

namespace multimargin::inference {

using namespace labels;

class FScoreGroups {
  public:
    void clear() {
        groups_.clear();
        best_.clear();
        mask_.clear();
        members_.clear();
    }

    // Adds a group. own: score of each label; attraction: k x k, symmetric; is_true, names: of each label.
    void add(std::span<const double> own, const double* attraction, std::span<const std::uint8_t> is_true,
             std::span<const int> names) {
        const int k = static_cast<int>(own.size());
        Group group{0, 0, best_.size(), 0, members_.size(), k};
        for (std::uint8_t t : is_true) ++(t ? group.s : group.f);
        list_all(own, attraction, is_true, group.f + 1);
        members_.insert(members_.end(), names.begin(), names.end());
        best_.resize(best_.size() + group.cells(), -std::numeric_limits<double>::infinity());
        mask_.resize(best_.size());
        double* best = best_.data() + group.table;
        std::uint32_t* mask = mask_.data() + group.table;
        for (std::uint32_t y = 0; y < std::uint32_t{1} << k; ++y) {
            const int at = cell_[y];
            if (score_[y] > best[at]) {
                best[at] = score_[y];
                mask[at] = y;
            }
        }
        groups_.push_back(group);
    }

    // Max of base + score + h(s0 + s, f0 + f) over the groups and `rest`; writes the labels of both.
    template <class Loss>
    double solve(const Loss& h, int s0, int f0, const SeparableFScore& rest, std::uint8_t* y) {
        join_all();
        const Group& all = groups_.back();
        double value = -std::numeric_limits<double>::infinity();
        SeparableFScore::Best with;
        int s_best = 0, f_best = 0;
        const double* joined = best_.data() + all.joined;
        for (int s = 0; s <= all.s; ++s)
            for (int f = 0; f <= all.f; ++f) {
                const auto here = rest.best(h, s0 + s, f0 + f);
                const double total = *joined++ + here.value;
                if (total > value) {
                    value = total;
                    with = here;
                    s_best = s;
                    f_best = f;
                }
            }
        rest.write(with, y);
        write(s_best, f_best, y);
        return value;
    }

  private:
    struct Group {
        int s, f;            // most true and other labels: of this group; once joined, of it and all before
        std::size_t table;   // where its own cells begin
        std::size_t joined;  // where the cells of it and all before begin
        std::size_t first;   // of its members
        int size;
        int own_s = 0, own_f = 0;
        std::size_t cells() const { return static_cast<std::size_t>(s + 1) * static_cast<std::size_t>(f + 1); }
    };

    // Scores and cells of all labellings, doubling with every label.
    void list_all(std::span<const double> own, const double* attraction, std::span<const std::uint8_t> is_true,
                  int width) {
        const std::size_t k = own.size();
        if (score_.size() < std::size_t{1} << k) {
            score_.resize(std::size_t{1} << k);
            cell_.resize(score_.size());
        }
        score_[0] = 0.0;
        cell_[0] = 0;
        for (std::size_t b = 0; b < k; ++b) {
            const std::size_t half = std::size_t{1} << b;
            double *low = score_.data(), *high = low + half;
            high[0] = own[b];
            for (std::size_t j = 0; j < b; ++j) {
                const double weight = attraction[b * k + j];
                const std::size_t part = std::size_t{1} << j;
                for (std::size_t t = 0; t < part; ++t) high[part + t] = high[t] + weight;
            }
            for (std::size_t t = 0; t < half; ++t) high[t] += low[t];
            const int step = is_true[b] ? width : 1;
            for (std::size_t t = 0; t < half; ++t) cell_[half + t] = cell_[t] + step;
        }
    }

    void join_all() {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            Group& group = groups_[g];
            group.own_s = group.s;
            group.own_f = group.f;
            group.joined = group.table;
            if (g > 0) join(groups_[g - 1], group);
        }
    }
    void join(const Group& before, Group& group) {
        const int s_new = before.s + group.s, f_new = before.f + group.f;
        group.joined = best_.size();
        best_.resize(best_.size() + static_cast<std::size_t>(s_new + 1) * (f_new + 1),
                     -std::numeric_limits<double>::infinity());
        const double* cell = best_.data() + group.table;
        for (int s = 0; s <= group.own_s; ++s)
            for (int f = 0; f <= group.own_f; ++f, ++cell)
                for (int r = 0; r <= before.s; ++r) {
                    const double* from = best_.data() + before.joined + r * (before.f + 1);
                    double* to = best_.data() + group.joined + (r + s) * (f_new + 1) + f;
                    for (int k = 0; k <= before.f; ++k) to[k] = std::max(to[k], from[k] + *cell);
                }
        group.s = s_new;
        group.f = f_new;
    }

    // The labels behind the cell (s, f): splits are found again, by the same sums.
    void write(int s, int f, std::uint8_t* y) const {
        for (std::size_t g = groups_.size(); g-- > 0;) {
            const Group& group = groups_[g];
            const auto [own_s, own_f] = g > 0 ? split(groups_[g - 1], group, s, f) : std::pair{s, f};
            const std::uint32_t mask = mask_[group.table + static_cast<std::size_t>(own_s * (group.own_f + 1) + own_f)];
            for (int k = 0; k < group.size; ++k) y[members_[group.first + k]] = mask >> k & 1;
            s -= own_s;
            f -= own_f;
        }
    }
    std::pair<int, int> split(const Group& before, const Group& group, int s, int f) const {
        const double wanted = best_[group.joined + static_cast<std::size_t>(s * (group.f + 1) + f)];
        for (int a = std::max(0, s - before.s); a <= std::min(s, group.own_s); ++a)
            for (int b = std::max(0, f - before.f); b <= std::min(f, group.own_f); ++b)
                if (best_[before.joined + static_cast<std::size_t>((s - a) * (before.f + 1) + f - b)] +
                        best_[group.table + static_cast<std::size_t>(a * (group.own_f + 1) + b)] ==
                    wanted)
                    return {a, b};
        return {0, 0};
    }

    std::vector<Group> groups_;
    std::vector<double> best_, score_;
    std::vector<std::uint32_t> mask_;
    std::vector<int> cell_, members_;
};

}  // namespace multimargin::inference
