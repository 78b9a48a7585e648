#pragma once
// Calibrated separation over label-set atoms: CSRL and large-margin output kernels in one problem.
//
// An atom j is a set of labels with a vector psi_j; R_jk = psi_j.psi_k includes the constant 1 of the reference score.
// Row i has positive atoms P_i (subsets of its labels) and negative atoms N_i (subsets of the labels it lacks).
//
//   primal   1/2 |W|^2 + sum_i (c_i xi_i + d_i eta_i),    U_ij = psi_j.W x_i   (score of the atom above the reference)
//            xi_i = max(0, max_{j in P_i} 1 - U_ij),   eta_i = max(0, max_{j in N_i} 1 + U_ij)
//   dual     sum(O + G) - 1/2 tr(D' K D R),   D = O - G,  K = X X' + b^2
//            O_i >= 0 on P_i, G_i >= 0 on N_i, their sums at most c_i and d_i;   W = sum_ij D_ij psi_j x_i'
//
// With the labels themselves as atoms and R = I + 11' this is CSRL (Guo and Schuurmans, 2013).
//
// The vectors psi are never formed. An atom has sparse entries `update` and `score` (label_features.hpp): adding D_ij
// adds D_ij update_jf x_i to row W_f of the state, and U_ij = sum_f score_jf W_f.x_i. Hence R_jk = score_j.update_k.
//
// Method: column generation. A scan, at fixed and freshly summed W, looks at every atom of every row; it gives the
// exact certificate and adds the best atoms to the lists of the rows. Between scans, sweeps visit the rows in random
// order and maximise over the lists alone, reading only the rows of W which the listed atoms use. Lists lose an atom
// only when its weight is zero. A row is solved exactly if R = I + 11', else by pairwise steps.
//
// Where rows are many and nearly parallel, the dual is soon close to the optimum and the primal is what takes long.
// Tried there and left out, since they did not save passes: Anderson extrapolation of the weights with a line search,
// and means of the weights over several sweeps.
//
// Certificate: gap = sum_i [c_i max(0, max_P g+) - sum O g+] + [d_i max(0, max_N g-) - sum G g-], g+ = 1 - U, g- = 1 +
// U; dual = sum z - 1/2 sum D o U; primal = dual + gap. All terms of the gap are >= 0. Cost: a scan rows x (state rows
// x entries of x + entries of the allowed atoms), on all threads; a sweep rows x (listed state rows x entries of x), on
// one. Results do not depend on the number of threads.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/labels/bits.hpp"
#include "core/numerics/row_products.hpp"
#include "core/numerics/simplex.hpp"
#include "core/separation/label_features.hpp"
#include "core/separation/label_sets.hpp"

namespace multimargin::separation {

using namespace numerics;

struct Atoms {
    Index labels;  // the first `labels` atoms are the single labels
    LabelSets sets;
};

// Labels the rows have, labels they are known to lack, and what these sides cost; a side that costs nothing has no
// labels.
struct SeparationRows {
    // cost: rows x 2
    SeparationRows(const labels::Labels& source, const double* cost)
        : positive(source.rows, source.labels), negative(source.rows, source.labels), cost_(cost) {
        const labels::LabelBits bits(source);
        for (Index i = 0; i < source.rows; ++i)
            for (std::size_t w = 0; w < bits.words(); ++w) {
                if (cost_of(i)[0] > 0) positive[i][w] = bits.truth(i)[w];
                if (cost_of(i)[1] > 0) negative[i][w] = bits.known(i)[w] & ~bits.truth(i)[w];
            }
    }

    // Cost of the labels a row has, and of those it lacks.
    const double* cost_of(Index i) const { return cost_ + 2 * i; }

    LabelSets positive, negative;

  private:
    const double* cost_;
};

// Dual variables D, rows x atoms.
struct DualVariables {
    std::span<const std::int64_t> offsets;
    std::span<const std::int32_t> atoms;
    std::span<const double> values;
};

// A dual variable of a row: its atom, the side (+1: O, -1: G) and the weight >= 0.
struct Entry {
    std::int32_t atom;
    double side, weight;
};

// The few best atoms of one side of a row, in falling order of gradient.
class Shortlist {
  public:
    static constexpr int capacity = 6;
    void offer(std::int32_t atom, double g) {
        if (size_ == capacity && g <= items_[capacity - 1].g) return;
        int at = size_ < capacity ? size_++ : capacity - 1;
        for (; at > 0 && items_[static_cast<std::size_t>(at - 1)].g < g; --at)
            items_[static_cast<std::size_t>(at)] = items_[static_cast<std::size_t>(at - 1)];
        items_[static_cast<std::size_t>(at)] = {atom, g};
    }
    double best() const { return size_ ? items_[0].g : 0.0; }
    template <class Visit>
    void above(double level, Visit&& visit) const {
        for (int e = 0; e < size_ && items_[static_cast<std::size_t>(e)].g > level; ++e)
            visit(items_[static_cast<std::size_t>(e)].atom);
    }

  private:
    struct Item {
        std::int32_t atom;
        double g;
    };
    std::array<Item, capacity> items_{};
    int size_ = 0;
};

// The problem of one row over its listed atoms: maximise sum_e z_e c_e - k/2 d'Rd, d = side o z, sums of the sides
// at most cost[0] and cost[1].
// `g` holds the gradients at the weights of `entries` on entry.
namespace row_problem {

// R = I + 11'. With T = k sum(d): z_e = the projection of (c_e - side_e T) / k, and T is the one root of
// h(T) = min(k cost[0], sum_+ (c - T)_+) - min(k cost[1], sum_- (c + T)_+) - T, decreasing and piecewise linear.
inline void solve_unit(std::span<Entry> entries, std::span<double> g, double k, const double* cost) {
    double own = 0.0;
    for (const Entry& e : entries) own += e.side * e.weight;
    for (std::size_t e = 0; e < entries.size(); ++e) g[e] += k * (entries[e].weight + entries[e].side * own);

    auto side_sum = [&](double side, double T, double& slope) {
        double sum = 0.0, count = 0.0;
        for (std::size_t e = 0; e < entries.size(); ++e)
            if (entries[e].side == side && g[e] - side * T > 0) sum += g[e] - side * T, count += 1.0;
        const double most = k * cost[side < 0];
        slope = sum < most ? count : 0.0;
        return std::min(sum, most);
    };
    double low = -k * cost[1], high = k * cost[0], T = 0.0;
    for (int step = 0; step < 100; ++step) {
        double up, down;
        const double h = side_sum(1.0, T, up) - side_sum(-1.0, T, down) - T;
        (h > 0 ? low : high) = T;
        const double next = T + h / (1.0 + up + down);
        const double moved = (next > low && next < high) ? next : 0.5 * (low + high);
        if (h == 0.0 || std::abs(moved - T) <= 1e-16 * k * std::max(cost[0], cost[1])) break;
        T = moved;
    }
    for (const double side : {1.0, -1.0}) {
        const double most = cost[side < 0];
        const double theta = simplex_level(k * most, [&](auto&& add) {
            for (std::size_t e = 0; e < entries.size(); ++e)
                if (entries[e].side == side) add(g[e] - side * T);
        });
        double total = 0.0;
        for (std::size_t e = 0; e < entries.size(); ++e)
            if (entries[e].side == side) {
                const double z = std::max(0.0, (g[e] - side * T - theta) / k);
                entries[e].weight = std::min(z, std::max(0.0, most - total));
                total += entries[e].weight;
            }
    }
}

// Pairwise steps: weight moves from the atom with the smallest gradient to the one with the largest, slack included.
// R: entries x entries, row-major, without the signs of the sides.
inline void solve_pairwise(std::span<Entry> entries, std::span<double> g, const double* R, double k,
                           const double* cost) {
    const std::size_t n = entries.size();
    double sum[2] = {0.0, 0.0};
    for (const Entry& e : entries) sum[e.side < 0] += e.weight;
    const std::size_t most_steps = 20 * n + 20;
    double first_violation = 0.0;
    for (std::size_t step = 0; step < most_steps; ++step) {
        int block = -1;
        std::ptrdiff_t from = -1, to = -1;
        double worst = 0.0;
        for (int b = 0; b < 2; ++b) {
            const double side = b ? -1.0 : 1.0;
            std::ptrdiff_t best = -1, least = -1;
            double high = 0.0, low = cost[b] > sum[b] ? 0.0 : 1e300;
            for (std::size_t e = 0; e < n; ++e) {
                if (entries[e].side != side) continue;
                if (g[e] > high) high = g[e], best = static_cast<std::ptrdiff_t>(e);
                if (entries[e].weight > 0 && g[e] < low) low = g[e], least = static_cast<std::ptrdiff_t>(e);
            }
            if (low < 1e300 && high - low > worst) worst = high - low, block = b, to = best, from = least;
        }
        if (block < 0) return;
        if (step == 0) first_violation = worst;
        if (worst <= 1e-13 || worst <= 1e-3 * first_violation) return;
        const auto at = [&](std::ptrdiff_t p, std::ptrdiff_t q) {
            return p < 0 || q < 0 ? 0.0 : R[static_cast<std::size_t>(p) * n + static_cast<std::size_t>(q)];
        };
        const double curvature = k * (at(to, to) + at(from, from) - 2 * at(to, from));
        const double room = from < 0 ? cost[block] - sum[block] : entries[static_cast<std::size_t>(from)].weight;
        const bool full = worst >= curvature * room;
        const double amount = full ? room : worst / curvature;
        if (from >= 0) {
            double& weight = entries[static_cast<std::size_t>(from)].weight;
            weight = full ? 0.0 : weight - amount;
        }
        if (to >= 0) entries[static_cast<std::size_t>(to)].weight += amount;
        if (to < 0) sum[block] = std::max(0.0, sum[block] - amount);
        if (from < 0) sum[block] = full ? cost[block] : sum[block] + amount;
        const double side = block ? -1.0 : 1.0;
        for (std::size_t e = 0; e < n; ++e) {
            const auto p = static_cast<std::ptrdiff_t>(e);
            g[e] -= entries[e].side * side * k * amount * (at(p, to) - at(p, from));
        }
    }
}

}  // namespace row_problem

template <RowMatrix X, class Features>
class SeparationSolver {
  public:
    using Row = decltype(std::declval<const X&>().row(0));
    using Kernels = SeparationKernels<Row>;

    SeparationSolver(const X& x, const Atoms& atoms, const Features& features, const SeparationRows& rows, double bias)
        : x_(x),
          atoms_(atoms),
          features_(features),
          rows_(rows),
          bias_(bias),
          state_(static_cast<std::size_t>(features.rows() * (x.cols() + 1))),
          lists_(static_cast<std::size_t>(x.rows())),
          local_(static_cast<std::size_t>(features.rows())),
          place_(static_cast<std::size_t>(features.rows()), -1) {
        for (Index i = 0; i < x.rows(); ++i) norms_.push_back(squared_norm(x.row(i)) + bias * bias);
    }

    // Starts from given dual variables D (rows x atoms); weights beyond the cost of a side are scaled back, and atoms
    // which do not belong to a row are left out.
    void start_from(const DualVariables& D) {
        for (Index i = 0; i < x_.rows(); ++i) {
            const auto row = static_cast<std::size_t>(i);
            const auto begin = static_cast<std::size_t>(D.offsets[row]),
                       end = static_cast<std::size_t>(D.offsets[row + 1]);
            double sum[2] = {0.0, 0.0};
            for (auto k = begin; k < end; ++k) {
                const double side = D.values[k] < 0 ? -1.0 : 1.0, weight = std::abs(D.values[k]);
                if (weight == 0 || side_of(i, D.atoms[k]) != side) continue;
                list(i).push_back({D.atoms[k], side, weight});
                sum[side < 0] += weight;
            }
            for (Entry& e : list(i)) {
                const double total = sum[e.side < 0], cost = rows_.cost_of(i)[e.side < 0];
                if (total > cost) e.weight *= cost / total * (1 - 1e-15);
            }
        }
    }

    fit::FitResult run(const fit::Limits& limits, Control& control) {
        order_.resize(static_cast<std::size_t>(x_.rows()));
        std::iota(order_.begin(), order_.end(), 0);
        rng_ = Rng(limits.seed);
        next_scan_ = limits.passes_before + 1;
        patience_ = 1;
        const fit::Bounds first = scan(limits.threads, control);
        return fit::run(*this, limits, control, first);
    }

    // The engine of fit/run.hpp: sweeps, and scans where the lists have little left to give.
    void pass(const fit::Moment&, Control& control) {
        rng_.shuffle(std::span(order_));
        estimate_ = sweep(order_, control);
    }
    bool pays(const fit::Moment& now) const {
        return now.pass >= next_scan_ || estimate_ <= std::max(0.2 * now.bounds.gap(), 0.3 * now.tolerated());
    }
    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        constexpr int most_sweeps = 16;  // between two scans
        patience_ = std::min(2 * patience_, most_sweeps);
        next_scan_ = now.pass + patience_;
        return scan(now.limits.threads, control);
    }

    const std::vector<Entry>& entries(Index i) const { return lists_[static_cast<std::size_t>(i)]; }

  private:
    static constexpr Index block_rows = 32;

    // Multiply-adds of a visit, about.
    Index row_work(Index i) const {
        const auto listed = static_cast<Index>(entries(i).size());
        return (1 + listed) * features_.entries() * (x_.row(i).size() + listed);
    }
    std::vector<Entry>& list(Index i) { return lists_[static_cast<std::size_t>(i)]; }
    // +1 for atoms within the labels of the row, -1 for those within the labels it lacks, else 0.
    MULTIMARGIN_INLINE double side_of(Index i, Index atom) const {
        if (atom < atoms_.labels) return rows_.positive.has(i, atom) ? 1.0 : rows_.negative.has(i, atom) ? -1.0 : 0.0;
        const labels::Word* set = atoms_.sets[atom];
        return rows_.positive.contains(i, set) ? 1.0 : rows_.negative.contains(i, set) ? -1.0 : 0.0;
    }
    double score(Index atom, const double* scores) const {
        double sum = 0.0;
        features_.score(atom, [&](Index f, double value) { sum += value * scores[f]; });
        return sum;
    }

    // W = sum_ij D_ij psi_j x_i', from nothing, so that rounding does not add up.
    void sum_state(Control& control) {
        std::memset(state_.data(), 0, state_.size() * sizeof(double));
        for (Index i = 0; i < x_.rows(); ++i) {
            control.leave_after(row_work(i));
            if (control.leave_unfinished(false)) return;
            for (const Entry& e : list(i)) note_change(e.atom, e.side * e.weight);
            apply_changes(i);
        }
    }

    // Looks at all atoms of all rows: certificate, and new entries of the lists.
    fit::Bounds scan(int threads, Control& control) {
        sum_state(control);
        const Index n = x_.rows();
        std::vector<double> gap(static_cast<std::size_t>(n)), dual(static_cast<std::size_t>(n));
        const auto blocks = static_cast<int>((n + block_rows - 1) / block_rows);
        parallel_for(blocks, threads, control, [&](int block, bool on_caller) {
            constexpr int group = Kernels::group;
            std::vector<double> scores(static_cast<std::size_t>(group * features_.rows()));
            const Index last = std::min(n, (block + 1) * block_rows);
            for (Index i = block * block_rows; i < last; i += group) {
                const int count = static_cast<int>(std::min<Index>(group, last - i));
                Row rows[group];
                for (int r = 0; r < count; ++r) rows[r] = x_.row(i + r);
                Kernels::all_scores(rows, count, state_.data(), features_.rows(), x_.cols(), bias_, scores.data());
                for (int r = 0; r < count; ++r) {
                    if (on_caller) control.wait_a_little();
                    if (control.leave_unfinished(false)) return;
                    scan_row(i + r, scores.data() + r * features_.rows(), gap[static_cast<std::size_t>(i + r)],
                             dual[static_cast<std::size_t>(i + r)]);
                }
            }
        });
        const double D = std::accumulate(dual.begin(), dual.end(), 0.0);
        return {D + std::accumulate(gap.begin(), gap.end(), 0.0), D};
    }

    void scan_row(Index i, const double* scores, double& gap, double& dual) {
        auto& entries = list(i);
        const double* cost = rows_.cost_of(i);
        double used[2] = {0.0, 0.0}, gained[2] = {0.0, 0.0}, half = 0.0;
        for (const Entry& e : entries) {
            const double U = score(e.atom, scores);
            used[e.side < 0] += e.weight;
            gained[e.side < 0] += e.weight * (1.0 - e.side * U);
            half += 0.5 * e.side * e.weight * U;
        }
        Shortlist best[2];
        for (Index j = 0; j < atoms_.sets.size(); ++j) {
            const double side = side_of(i, j);
            if (side != 0) best[side < 0].offer(static_cast<std::int32_t>(j), 1.0 - side * score(j, scores));
        }
        dual = used[0] + used[1] - half;
        gap = 0.0;
        std::erase_if(entries, [](const Entry& e) { return e.weight <= 0; });
        const std::size_t kept = entries.size();
        for (int b = 0; b < 2; ++b) {
            gap += std::max(0.0, cost[b] * std::max(0.0, best[b].best()) - gained[b]);
            const double level = used[b] >= cost[b] && cost[b] > 0 ? gained[b] / cost[b] : 0.0;
            best[b].above(level, [&](std::int32_t atom) {
                const auto known = [&](const Entry& e) { return e.atom == atom; };
                if (std::none_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(kept), known))
                    entries.push_back({atom, b ? -1.0 : 1.0, 0.0});
            });
        }
    }

    // One visit to every row, over its listed atoms; returns the gap of the rows over their lists before their visits.
    double sweep(std::span<const std::int32_t> order, Control& control) {
        double gap = 0.0;
        for (const Index i : order) {
            if (control.leave_after(row_work(i))) break;
            if (!list(i).empty()) gap += visit(i);
        }
        return gap;
    }

    double visit(Index i) {
        auto& entries = list(i);
        const std::size_t n = entries.size();
        const double k = norms_[static_cast<std::size_t>(i)], *cost = rows_.cost_of(i);
        listed_scores(i);
        gradient_.resize(n);
        before_.resize(n);
        double best[2] = {0.0, 0.0}, gained = 0.0;
        for (std::size_t e = 0; e < n; ++e) {
            const double g = 1.0 - entries[e].side * score(entries[e].atom, local_.data());
            best[entries[e].side < 0] = std::max(best[entries[e].side < 0], g);
            gained += entries[e].weight * g;
            gradient_[e] = g;
            before_[e] = entries[e].weight;
        }
        const double gap = cost[0] * best[0] + cost[1] * best[1] - gained;
        if (gap <= 1e-14 * std::max(cost[0], cost[1])) return gap;
        if (k <= 0) {
            put_all_on_best(entries, cost);
        } else if constexpr (Features::unit) {
            row_problem::solve_unit(entries, gradient_, k, cost);
        } else {
            local_gram(entries);
            row_problem::solve_pairwise(entries, gradient_, gram_.data(), k, cost);
        }
        for (std::size_t e = 0; e < n; ++e)
            note_change(entries[e].atom, entries[e].side * (entries[e].weight - before_[e]));
        apply_changes(i);
        return gap;
    }

    // A row without input: its weights change nothing, all of each side belongs to the atom with the best gradient.
    void put_all_on_best(std::vector<Entry>& entries, const double* cost) {
        std::ptrdiff_t best[2] = {-1, -1};
        for (std::size_t e = 0; e < entries.size(); ++e) {
            auto& b = best[entries[e].side < 0];
            if (b < 0 || gradient_[e] > gradient_[static_cast<std::size_t>(b)]) b = static_cast<std::ptrdiff_t>(e);
            entries[e].weight = 0.0;
        }
        for (const int side : {0, 1})
            if (best[side] >= 0) entries[static_cast<std::size_t>(best[side])].weight = cost[side];
    }

    // Scores of the rows of W which the listed atoms read, into local_.
    void listed_scores(Index i) {
        needed_.clear();
        for (const Entry& e : list(i))
            features_.score(e.atom, [&](Index f, double) {
                auto& place = place_[static_cast<std::size_t>(f)];
                if (place < 0) place = 0, needed_.push_back(static_cast<std::int32_t>(f));
            });
        values_.resize(needed_.size());
        Kernels::scores(x_.row(i), state_.data(), features_.rows(), x_.cols(), bias_, needed_.data(),
                        static_cast<int>(needed_.size()), values_.data());
        for (std::size_t c = 0; c < needed_.size(); ++c) {
            local_[static_cast<std::size_t>(needed_[c])] = values_[c];
            place_[static_cast<std::size_t>(needed_[c])] = -1;
        }
    }

    void local_gram(const std::vector<Entry>& entries) {
        const std::size_t n = entries.size();
        gram_.resize(n * n);
        for (const auto f : needed_) local_[static_cast<std::size_t>(f)] = 0.0;
        for (std::size_t q = 0; q < n; ++q) {
            const Index atom = entries[q].atom;
            features_.update(atom, [&](Index f, double value) { local_[static_cast<std::size_t>(f)] = value; });
            for (std::size_t p = 0; p <= q; ++p)
                gram_[p * n + q] = gram_[q * n + p] = score(entries[p].atom, local_.data());
            features_.update(atom, [&](Index f, double) { local_[static_cast<std::size_t>(f)] = 0.0; });
        }
    }

    void note_change(Index atom, double amount) {
        if (amount == 0) return;
        features_.update(atom, [&](Index f, double value) {
            auto& place = place_[static_cast<std::size_t>(f)];
            if (place < 0) {
                place = static_cast<std::int32_t>(changed_.size());
                changed_.push_back(static_cast<std::int32_t>(f));
                change_.push_back(0.0);
            }
            change_[static_cast<std::size_t>(place)] += amount * value;
        });
    }
    void apply_changes(Index i) {
        Kernels::add(x_.row(i), state_.data(), features_.rows(), x_.cols(), bias_, changed_.data(),
                     static_cast<int>(changed_.size()), change_.data());
        for (const auto f : changed_) place_[static_cast<std::size_t>(f)] = -1;
        changed_.clear();
        change_.clear();
    }

    const X& x_;
    const Atoms& atoms_;
    const Features& features_;
    const SeparationRows& rows_;
    double bias_;
    Buffer<double> state_;  // W, in the order its kernels like
    std::vector<std::vector<Entry>> lists_;
    std::vector<double> norms_;
    // between passes
    std::vector<std::int32_t> order_;
    Rng rng_{0};
    double estimate_ = 0.0;  // of the gap, over the lists
    int next_scan_ = 1, patience_ = 1;
    // room for one row
    std::vector<double> local_, values_, change_, gradient_, before_, gram_;
    std::vector<std::int32_t> place_, needed_, changed_;
};

}  // namespace multimargin::separation
