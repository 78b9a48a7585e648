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
// certificate and adds the best atoms to the lists of the rows. Between scans, sweeps visit the rows in random order and
// maximise over the lists alone, reading only the rows of W which the listed atoms use. A row is solved exactly if
// R = I + 11', else by pairwise steps, until a twentieth of the first violation is left.
//
// Acceleration: the point is a mean A of feasible points Z. A pass maximises the dual at (1 - s) A + s Z over Z, row by
// row, and moves A there. s = 1 is plain block ascent; as s falls, rows take longer steps (their curvature is s |x|^2)
// while A stays feasible. It is how an accelerated coordinate ascent steps, with rows in turn. Where the dual has
// fallen between two scans, or the gap has doubled, Z goes back to A, and twice as many plain passes follow: so it ends
// as plain ascent, which converges, if means do not help. An atom leaves a list when it has no weight in Z, and next to none in A.
//
// Certificate: gap = sum_i [c_i max(0, max_P g+) - sum O g+] + [d_i max(0, max_N g-) - sum G g-], g+ = 1 - U, g- = 1 +
// U; dual = sum z - 1/2 sum D o U; primal = dual + gap. All terms of the gap are >= 0. Scans far from the optimum are in
// single precision. Where one would end training, some rows are looked at again in double, and the rounding they show
// is added to the gap; if that is then too large, all rows are. Cost: a scan rows x (state rows x entries of x +
// entries of the allowed atoms), on all threads; a sweep rows x (listed state rows x entries of x), on
// one. Results do not depend on the number of threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/fit/run.hpp"
#include "core/numerics/row_products.hpp"
#include "core/separation/atom_scan.hpp"
#include "core/separation/label_features.hpp"
#include "core/separation/row_problem.hpp"
#include "core/separation/separation_rows.hpp"

namespace multimargin::separation {

// How much of the weights enters the mean, pass by pass.
class Shares {
  public:
    double next() {
        constexpr int period = 256;
        const int pass = pass_++;
        return pass < plain_ ? 1.0 : 1.0 / (1.0 + std::max(1.0, 0.125 * (pass % period)));
    }
    // Begins anew, with more passes without means.
    void restart() { pass_ = 0, plain_ *= 2; }

  private:
    int pass_ = 0, plain_ = 1;
};

template <RowMatrix X, class Features>
class SeparationSolver {
  public:
    using Row = decltype(std::declval<const X&>().row(0));
    using Kernels = SeparationKernels<Row>;

    SeparationSolver(const X& x, const Atoms& atoms, const Features& features, const SeparationRows& rows, double bias)
        : x_(x),
          atoms_(atoms),
          members_(atoms),
          features_(features),
          rows_(rows),
          bias_(bias),
          state_(static_cast<std::size_t>(features.rows() * (x.cols() + 1))),
          other_(state_.size()),
          lists_(static_cast<std::size_t>(x.rows())),
          live_(static_cast<std::size_t>(x.rows()), 0),
          last_gap_(live_.size(), 0.0),
          row_gap_(live_.size(), 0.0),
          row_dual_(live_.size(), 0.0),
          rest_(live_.size(), 0),
          local_(static_cast<std::size_t>(features.rows())),
          place_(static_cast<std::size_t>(features.rows()), -1) {
        for (Index i = 0; i < x.rows(); ++i) norms_.push_back(squared_norm(x.row(i)) + bias * bias);
    }

    // Starts from given dual variables D (rows x atoms); weights beyond the cost of a side are scaled back, and atoms
    // which do not belong to a row are left out.
    void start_from(const DualVariables& D) {
        started_ = true;
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
                e.mean = e.weight;
            }
        }
    }

    fit::FitResult run(const fit::Limits& limits, Control& control) {
        order_.resize(static_cast<std::size_t>(x_.rows()));
        std::iota(order_.begin(), order_.end(), 0);
        rng_ = Rng(limits.seed);
        next_scan_ = limits.passes_before + 1;
        patience_ = 1;
        coarse_left_ = most_coarse;
        const fit::Bounds first = scan(limits, started_, control);
        dual_ = first.dual;
        gap_ = first.gap();
        return fit::run(*this, limits, control, first);
    }

    // The engine of fit/run.hpp: sweeps, and scans where the lists have little left to give.
    void pass(const fit::Moment& now, Control& control) {
        if (now.bounds.within(now.limits.tol)) return;  // begun at a solution
        rng_.shuffle(std::span(order_));
        recentre(shares_.next());
        estimate_ = sweep(order_, control);
        for (auto& entries : lists_)
            for (Entry& e : entries) e.mean = share_ * e.weight + (1 - share_) * e.mean;
    }
    bool pays(const fit::Moment& now) const {
        return now.pass >= next_scan_ || optimism_ * estimate_ <= now.tolerated();
    }
    fit::Bounds evaluate(const fit::Moment& now, Control& control) {
        constexpr int most_sweeps = 8;       // between two scans
        constexpr double most_growth = 2.0;  // of the gap
        patience_ = std::min(2 * patience_, most_sweeps);
        next_scan_ = now.pass + patience_;
        const bool exact = now.final_pass || now.stopped || coarse_left_ == 0;
        fit::Bounds found = scan(now.limits, exact, control);
        if (!exact && found.within(std::max(now.limits.tol, coarse_until))) {
            fit::Bounds wide = found;
            wide.primal += coarse_error(now.limits.threads, control);
            if (wide.within(now.limits.tol)) {
                found = wide;
            } else {
                coarse_left_ = 0;
                found = scan_in<double>(now.limits.threads, control);
            }
        }
        optimism_ = estimate_ > 0 ? std::clamp(found.gap() / estimate_, 0.2, 2.0) : 1.0;
        if (found.dual < dual_ || found.gap() > most_growth * gap_) forget_momentum();
        dual_ = found.dual;
        gap_ = found.gap();
        return found;
    }

    const std::vector<Entry>& entries(Index i) const { return lists_[static_cast<std::size_t>(i)]; }

  private:
    // Scans in single precision: so many, while the relative gap is larger.
    static constexpr int most_coarse = 64;
    static constexpr double coarse_until = 1e-3;
    // Rows with less than this part of the mean to gain are left out of so many sweeps, unless a scan finds atoms for them.
    static constexpr double little_gain = 0.1;
    static constexpr std::uint8_t sweeps_at_rest = 2;

    // Multiply-adds of a visit, about.
    Index row_work(Index i) const {
        const auto listed = static_cast<Index>(entries(i).size());
        return (1 + listed) * features_.entries() * (x_.row(i).size() + listed);
    }
    std::vector<Entry>& list(Index i) { return lists_[static_cast<std::size_t>(i)]; }
    std::span<Entry> live(Index i) {
        return std::span(list(i)).subspan(0, static_cast<std::size_t>(live_[static_cast<std::size_t>(i)]));
    }
    // +1 for atoms within the labels of the row, -1 for those within the labels it lacks, else 0.
    double side_of(Index i, Index atom) const {
        if (atom < atoms_.labels) return rows_.positive.has(i, atom) ? 1.0 : rows_.negative.has(i, atom) ? -1.0 : 0.0;
        const labels::Word* set = atoms_.sets[atom];
        return rows_.positive.contains(i, set) ? 1.0 : rows_.negative.contains(i, set) ? -1.0 : 0.0;
    }
    double score(Index atom, const double* scores) const {
        double sum = 0.0;
        features_.score(atom, [&](Index f, double value) { sum += value * scores[f]; });
        return sum;
    }

    // The state that belongs to the weights (or means) of all entries, from nothing, so that rounding does not add up.
    template <class Weight>
    void sum_state(Buffer<double>& state, Weight&& weight, Control& control) {
        std::memset(state.data(), 0, state.size() * sizeof(double));
        for (Index i = 0; i < x_.rows(); ++i) {
            control.leave_after(row_work(i));
            if (control.leave_unfinished(false)) return;
            for (const Entry& e : list(i)) note_change(e.atom, e.side * weight(e));
            apply_changes(i, state, 1.0);
        }
    }

    // From the state of the means to the one in which the weights have this share. `other_` is the state of the weights
    // after a scan, else that of the means before the last pass, from which it follows.
    void recentre(double share) {
        const double towards = other_is_weights_ ? share : -share * (1 - share_) / share_;
        double *state = state_.data(), *other = other_.data();
        for (std::size_t k = 0; k < state_.size(); ++k) {
            const double mean = state[k];
            state[k] = mean + towards * (other[k] - mean);
            other[k] = mean;
        }
        share_ = share;
        other_is_weights_ = false;
    }
    void forget_momentum() {
        for (auto& entries : lists_)
            for (Entry& e : entries) e.weight = e.mean;
        for (Index i = 0; i < x_.rows(); ++i)
            live_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(list(i).size());
        std::copy_n(state_.data(), state_.size(), other_.data());
        shares_.restart();
    }

    fit::Bounds scan(const fit::Limits& limits, bool exact, Control& control) {
        for (Index i = 0; i < x_.rows(); ++i) {
            const double least = 1e-12 * std::max(rows_.cost_of(i)[0], rows_.cost_of(i)[1]);
            std::erase_if(list(i), [&](const Entry& e) { return e.weight <= 0 && e.mean <= least; });
        }
        sum_state(other_, [](const Entry& e) { return e.weight; }, control);
        sum_state(state_, [](const Entry& e) { return e.mean; }, control);
        other_is_weights_ = true;
        if (exact) return scan_in<double>(limits.threads, control);
        --coarse_left_;
        return scan_in<float>(limits.threads, control);
    }

    // How far single precision may have moved the bounds of the last scan, by what double precision says of some rows.
    double coarse_error(int threads, Control& control) {
        constexpr int every = 32;
        const std::vector<double> gap = row_gap_, dual = row_dual_;
        scan_in<double>(threads, control, every);
        double moved = 0.0;
        for (std::size_t i = 0; i < gap.size(); ++i)
            moved += std::abs(row_gap_[i] - gap[i]) + std::abs(row_dual_[i] - dual[i]);
        return every * moved;
    }

    // Looks at all atoms of all rows, or of one in `every` batch of rows: certificate, and new entries of the lists.
    template <class T>
    fit::Bounds scan_in(int threads, Control& control, int every = 1) {
        constexpr int group = AtomScan<T>::rows;
        const Index n = x_.rows();
        using S = std::conditional_t<Kernels::dense, T, double>;
        Buffer<S> copy(std::is_same_v<S, double> ? 0 : state_.size());
        for (std::size_t k = 0; k < copy.size(); ++k) copy[k] = static_cast<S>(state_[k]);
        const S* state;
        if constexpr (std::is_same_v<S, double>)
            state = state_.data();
        else
            state = copy.data();
        constexpr int batch = 4 * group;
        const auto blocks = static_cast<int>((n + Index{batch} * every - 1) / (Index{batch} * every));
        parallel_for(blocks, threads, control, [&](int block, bool on_caller) {
            AtomScan<T> atoms(members_, features_.rows());
            Buffer<S> room(static_cast<std::size_t>(Kernels::dense ? (x_.cols() + 1) * group : features_.rows()));
            const Index first = Index{block} * every * batch, last = std::min(n, first + batch);
            for (Index i = first; i < last; i += group) {
                if (on_caller) control.wait_a_little();
                if (control.leave_unfinished(false)) return;
                const int count = static_cast<int>(std::min<Index>(group, last - i));
                Row rows[group];
                for (int r = 0; r < count; ++r) rows[r] = x_.row(i + r);
                Kernels::block_scores(rows, count, state, features_.rows(), x_.cols(), bias_, room.data(),
                                      atoms.scores());
                scan_rows(i, count, atoms);
            }
        });
        const double D = std::accumulate(row_dual_.begin(), row_dual_.end(), 0.0);
        return {D + std::accumulate(row_gap_.begin(), row_gap_.end(), 0.0), D};
    }

    template <class T>
    void scan_rows(Index first, int count, AtomScan<T>& atoms) {
        double gained[AtomScan<T>::rows][2] = {};
        atoms.set_rows(rows_, first, count);
        for (int r = 0; r < count; ++r) {
            const Index i = first + r;
            const double* cost = rows_.cost_of(i);
            double used[2] = {0.0, 0.0}, half = 0.0;
            for (const Entry& e : list(i)) {
                double U = 0.0;
                features_.score(e.atom,
                                [&](Index f, double value) { U += value * static_cast<double>(atoms.score(f, r)); });
                used[e.side < 0] += e.mean;
                gained[r][e.side < 0] += e.mean * (1.0 - e.side * U);
                half += 0.5 * e.side * e.mean * U;
            }
            row_dual_[static_cast<std::size_t>(i)] = used[0] + used[1] - half;
            for (const int b : {0, 1})
                atoms.set_level(
                    r, b, used[b] >= (1 - 1e-9) * cost[b] && cost[b] > 0 ? std::max(0.0, gained[r][b] / cost[b]) : 0.0);
        }
        atoms.look(features_);
        for (int r = 0; r < count; ++r) {
            const Index i = first + r;
            const double* cost = rows_.cost_of(i);
            double gap = 0.0;
            auto& entries = list(i);
            const auto rest = std::partition(entries.begin(), entries.end(), [&](const Entry& e) {
                return e.weight > 0 || atoms.list(r, e.side < 0).holds(e.atom);
            });
            const auto kept = entries.size();
            std::size_t live = static_cast<std::size_t>(rest - entries.begin());
            for (const int b : {0, 1}) {
                gap += std::max(0.0, cost[b] * atoms.list(r, b).best() - gained[r][b]);
                atoms.list(r, b).each([&](std::int32_t atom) {
                    for (std::size_t e = 0; e < kept; ++e)
                        if (entries[e].atom == atom) return;
                    entries.push_back({atom, b ? -1.0 : 1.0, 0.0});
                });
            }
            if (entries.size() > kept) rest_[static_cast<std::size_t>(i)] = 0;
            for (std::size_t e = kept; e < entries.size(); ++e) std::swap(entries[live++], entries[e]);
            live_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(live);
            row_gap_[static_cast<std::size_t>(i)] = gap;
        }
    }

    // One visit to every row, over its listed atoms; returns the gap of the rows over their lists before their visits.
    double sweep(std::span<const std::int32_t> order, Control& control) {
        double gap = 0.0;
        const double little = little_gain * estimate_ / static_cast<double>(order.size());
        for (const Index i : order) {
            const auto row = static_cast<std::size_t>(i);
            if (rest_[row] > 0) {
                --rest_[row];
                gap += last_gap_[row];
                continue;
            }
            if (control.leave_after(row_work(i))) break;
            if (live(i).empty()) continue;
            last_gap_[row] = visit(i);
            gap += last_gap_[row];
            if (last_gap_[row] < little) rest_[row] = sweeps_at_rest;
        }
        return gap;
    }

    double visit(Index i) {
        const std::span<Entry> entries = live(i);
        const std::size_t n = entries.size();
        const double k = share_ * norms_[static_cast<std::size_t>(i)], *cost = rows_.cost_of(i);
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
            row_problem::solve_unit(entries, gradient_, k, cost, side_values_);
        } else {
            local_gram(entries);
            row_problem::solve_pairwise(entries, gradient_, gram_.data(), k, cost);
        }
        for (std::size_t e = 0; e < n; ++e)
            note_change(entries[e].atom, entries[e].side * (entries[e].weight - before_[e]));
        apply_changes(i, state_, share_);
        return gap;
    }

    // A row without input: its weights change nothing, all of each side belongs to the atom with the best gradient.
    void put_all_on_best(std::span<Entry> entries, const double* cost) {
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
        for (const Entry& e : live(i))
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

    void local_gram(std::span<const Entry> entries) {
        const std::size_t n = entries.size();
        gram_.resize(n * n);
        if constexpr (requires { features_.gram(atoms_.sets, nullptr, Index{0}, gram_.data()); }) {
            listed_.clear();
            for (const Entry& e : entries) listed_.push_back(e.atom);
            return features_.gram(atoms_.sets, listed_.data(), static_cast<Index>(n), gram_.data());
        }
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
    void apply_changes(Index i, Buffer<double>& state, double share) {
        for (double& change : change_) change *= share;
        Kernels::add(x_.row(i), state.data(), features_.rows(), x_.cols(), bias_, changed_.data(),
                     static_cast<int>(changed_.size()), change_.data());
        for (const auto f : changed_) place_[static_cast<std::size_t>(f)] = -1;
        changed_.clear();
        change_.clear();
    }

    const X& x_;
    const Atoms& atoms_;
    AtomMembers members_;
    const Features& features_;
    const SeparationRows& rows_;
    double bias_;
    Buffer<double> state_, other_;  // W, in the order its kernels like
    bool started_ = false, other_is_weights_ = false;
    double share_ = 1.0;
    Shares shares_;
    std::vector<std::vector<Entry>> lists_;
    std::vector<std::int32_t> live_;
    std::vector<double> norms_, last_gap_;
    std::vector<double> row_gap_, row_dual_;  // at the last scan
    std::vector<std::uint8_t> rest_;
    // between passes
    std::vector<std::int32_t> order_;
    Rng rng_{0};
    double estimate_ = 0.0;          // of the gap, over the lists
    double optimism_ = 1.0;          // the gap by this estimate, when last known
    double dual_ = 0.0, gap_ = 0.0;  // at the last scan
    int next_scan_ = 1, patience_ = 1, coarse_left_ = 0;
    // room for one row
    std::vector<double> local_, values_, change_, gradient_, before_, gram_;
    std::vector<std::int32_t> place_, needed_, changed_, listed_;
    row_problem::SideValues side_values_[2];
};

}  // namespace multimargin::separation
