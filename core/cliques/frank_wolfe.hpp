#pragma once
// Block-coordinate pairwise Frank-Wolfe with working sets (problem and notation: problem.hpp).
//
// The distribution of a row is a short list of labellings with weights that sum to one, the true labelling first. A
// visit reads the scores of the row once, asks the oracle for the best labelling, and moves weight from the worst
// labelling of the list to the best one, by the exact step, until the list is nearly optimal. q is updated once, at the
// end of the visit. Rows that had next to nothing to gain are left out of the next passes, of up to seven.
//
// Every few passes eta moves to its closed-form minimiser for the present norms |v_c|. That leaves the dual point and
// so D as they are, and changes W = kappa q. P may rise for a while: the best P, with its weights, and the best D are
// kept. A certificate is a full pass of oracles at fixed weights, on any number of threads; upper bounds of unfinished
// oracle calls count in P. Nothing depends on the number of threads. The numbers steer and stop the solver; what is
// reported of the solution is certified from the data.
//
// Where C |x|^2 is large, weight moves in steps of 1 / (C |x|^2) and passes are many. A proximal step (ProximalStep) then
// solves an easier problem, from the weights W0 reached so far: for any L with L L' - 1 positive semidefinite,
//
//   min over W   P(W) + 1/2 sum_T (W_T - W0_T)' (L L' - 1) (W_T - W0_T) / kappa_T
//
// is the same problem for the rows L^-1 x and the weights V_T = L' W_T = kappa_T (q_T + centre_T), with q from these
// rows and kappa_T centre_T = (L' - L^-1) W0_T: the same visits, on shorter rows, from another origin. Its fixed point
// W = W0 is the solution of the problem itself.
//
// Smoothing the maximum and taking Newton steps needs far fewer passes where C is large and features are few, but each
// costs so much more that no case was found where it wins: 2,000 rows, 10 features, 10 labels, C = 5, relative gap
// 1e-2: 13 s of CPU against 0.34 s with 4 cliques, and with all 45 pairs no certificate after 20 s against 13 s.

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/cliques/group_weights.hpp"
#include "core/cliques/problem.hpp"
#include "core/fit/run.hpp"
#include "core/inference/cliques/clique_inference.hpp"

namespace multimargin::cliques {

using namespace inference;
using namespace numerics;

template <RowMatrix X>
struct CliqueProblem {
    Index rows, columns;  // columns: the constant feature included
    std::span<const FeatureGroup<X>> groups;
    const LabelBits& labels;
    const LabelSubsets& subsets;  // those of the oracle
    const CliqueList& cliques;
};

// plain: one step towards the answer of the oracle, for comparison.
enum class Visits { pairwise, plain };

// The distribution of a row.
struct RowDistribution {
    std::vector<double> weight;
    std::vector<Word> bits;
};

// Labelling j, of row[j], has weight[j] and the words bits[j * words] ...
struct AtomArrays {
    std::vector<std::int64_t> row;
    std::vector<double> weight;
    std::vector<Word> bits;
};

// Loops over all subsets, a chunk at a time.
struct SubsetKernels {
    MULTIMARGIN_SIMD static double dot(const Chunk<double>* a, const Chunk<double>* b, int chunks) {
        Chunk<double> sum{};
        for (int k = 0; k < chunks; ++k) sum += a[k] * b[k];
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    // sum_T slopes_T (b_T - a_T)^2
    MULTIMARGIN_SIMD static double distance(const Chunk<double>* slopes, const Chunk<double>* a, const Chunk<double>* b,
                                            int chunks) {
        Chunk<double> sum{};
        for (int k = 0; k < chunks; ++k) sum += slopes[k] * (b[k] - a[k]) * (b[k] - a[k]);
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    // moved += step (b - a),  scores -= step cost slopes (b - a)
    MULTIMARGIN_SIMD static void move(double step, double cost, const Chunk<double>* slopes, const Chunk<double>* a,
                                      const Chunk<double>* b, Chunk<double>* moved, Chunk<double>* scores, int chunks) {
        for (int k = 0; k < chunks; ++k) {
            const Chunk<double> change = step * (b[k] - a[k]);
            moved[k] += change;
            scores[k] -= cost * slopes[k] * change;
        }
    }
};

template <RowMatrix X>
class CliqueFrankWolfe {
  public:
    CliqueFrankWolfe(const CliqueProblem<X>& problem, const CliqueInference& inference, std::span<const double> eta,
                     Visits visits, const fit::Limits& limits)
        : p_(problem),
          inference_(inference),
          visits_(visits),
          eta_(eta.begin(), eta.end()),
          q_(problem.groups, problem.cliques, problem.subsets, problem.rows),
          chunks_(q_.chunks()),
          slopes_(chunks_),
          change_(chunks_),
          atoms_(static_cast<std::size_t>(problem.rows)),
          order_(atoms_.size()),
          rng_(limits.seed),
          hinge_(atoms_.size()),
          last_gap_(atoms_.size(), 0.0),
          rest_(atoms_.size(), 0),
          resting_(atoms_.size(), 0) {
        std::iota(order_.begin(), order_.end(), 0);
        for (Index i = 0; i < p_.rows; ++i) {
            atoms_[i].weight.assign(1, 1.0);
            atoms_[i].bits.assign(p_.labels.truth(i), p_.labels.truth(i) + p_.labels.words());
        }
        for (int t = 0; t < std::max(limits.threads, 1); ++t) scratch_.emplace_back(inference, chunks_);
        q_.set_shares(eta_);
    }

    // Continues from distributions of an earlier run on the same rows, whatever its cliques were: atom j belongs to
    // row[j]. The true labelling gets what is left of the weight.
    void start_from(std::span<const std::int64_t> row, std::span<const double> weight, const Word* bits) {
        const std::size_t words = p_.labels.words();
        for (std::size_t j = 0; j < row.size(); ++j) {
            RowDistribution& atoms = atoms_[row[j]];
            if (!(p_.labels.cost(row[j]) > 0)) continue;
            atoms.weight[0] -= weight[j];
            atoms.weight.push_back(weight[j]);
            for (std::size_t w = 0; w < words; ++w)
                atoms.bits.push_back(bits[j * words + w] & p_.labels.known(row[j])[w]);
        }
        for (auto& atoms : atoms_) atoms.weight[0] = std::max(atoms.weight[0], 0.0);
        recompute();
    }

    // Weights start from this centre, subsets x (features + 1), instead of 0.
    void move_origin(std::span<const double> centre) {
        centre_ = centre;
        recompute();
    }

    // The engine of fit/run.hpp: passes, and now and then a certificate.
    void pass(const fit::Moment& now, Control& control) {
        enough_ = std::isfinite(best_.primal) ? now.limits.tol * best_.primal : 0.0;
        seen_ = visit_all(enough_, control);
        const bool moves_eta = p_.cliques.budget < p_.cliques.size();
        if (moves_eta && passes_ % passes_between_moves_of_eta == 0 && !control.stopped()) move_eta();
    }
    bool pays(const fit::Moment&) const {
        const bool promising = optimism_ * seen_ <= enough_ && passes_ >= last_evaluation_ + 3;
        return passes_ >= next_evaluation_ || promising;
    }
    // The best P and D so far.
    fit::Bounds evaluate(const fit::Moment&, Control& control) {
        next_evaluation_ = passes_ + std::max(2, passes_ / 2);
        last_evaluation_ = passes_;
        evaluate_here(control);
        if (seen_ > 0) optimism_ = std::clamp(best_.gap() / seen_, 0.1, 1.0);
        return best_;
    }

    // A visit of every row that is not resting; returns the gap the oracles saw last, of which `enough` may be left.
    double visit_all(double enough, Control& control) {
        rng_.shuffle(std::span(order_));
        double seen = 0.0;
        scratch_[0].workspace.watch(control, true);
        const double little = 0.05 * enough / static_cast<double>(order_.size());
        for (Index i : order_) {
            if (control.leave(true)) break;
            if (!(p_.labels.cost(i) > 0)) continue;
            if (resting_[i] > 0) {
                --resting_[i];
            } else {
                last_gap_[i] = visits_ == Visits::pairwise ? visit(i) : plain_visit(i);
                rest_[i] = last_gap_[i] <= little ? static_cast<std::uint8_t>(std::min(2 * rest_[i] + 1, 7)) : 0;
                resting_[i] = rest_[i];
            }
            seen += last_gap_[i];
        }
        if (++passes_ % passes_between_recomputations == 0) recompute();
        return seen;
    }

    // Whatever their values: the present weights and distributions are the ones to return.
    void keep() {
        keep_weights();
        keep_atoms();
    }

    // W of the best primal value: subsets x (features + 1).
    std::vector<double> take_weights() { return std::move(best_weights_); }
    std::vector<double> take_eta() { return std::move(best_eta_); }
    // The distributions of the best dual value, all labellings in use except the true ones.
    AtomArrays take_atoms() { return std::move(best_atoms_); }

  private:
    static constexpr int passes_between_recomputations = 50;  // of q, against drift
    static constexpr int passes_between_moves_of_eta = 2;
    static constexpr int most_steps = 20;          // in a visit
    static constexpr double enough_of_list = 0.1;  // steps end at this part of the gap the oracle saw
    static constexpr double least_eta = 1e-9;      // 0 would be absorbing

    // What a thread needs to look at a row.
    struct Scratch {
        Scratch(const CliqueInference& inference, int chunks)
            : workspace(inference.workspace()), scores(chunks), spare(chunks), chi(chunks), best(inference.words()) {}
        typename CliqueInference::Workspace workspace;
        ChunkVector<double> scores, spare, chi;
        std::vector<Word> best;
        double half_loss = 0.0;  // half the loss of a labelling that is wrong at all known labels
    };

    // Scores of row i with the loss folded into the singletons: value(y) = half_loss + scores . chi(y).
    void read_scores(Index i, Scratch& s) const {
        q_.scores(i, s.scores.chunks(), s.spare.chunks());
        const Word *truth = p_.labels.truth(i), *known = p_.labels.known(i);
        characters(p_.subsets, truth, known, &s.chi[0]);
        bool unknown = false;
        s.half_loss = 0.0;
        for (std::size_t k = 0; k < p_.labels.size(); ++k) {
            const auto at = static_cast<Index>(k);
            const double half = 0.5 * p_.labels.weight(k, s.chi[at] > 0) * s.chi[at];
            s.scores[at] -= half;
            s.half_loss += std::abs(half);
            unknown |= s.chi[at] == 0;
        }
        if (unknown)
            for (std::size_t t = 0; t < p_.subsets.size(); ++t)
                s.scores[static_cast<Index>(t)] *= std::abs(s.chi[static_cast<Index>(t)]);
    }
    double value_of(const Chunk<double>* chi, const Scratch& s) const {
        return s.half_loss + SubsetKernels::dot(chi, s.scores.chunks(), chunks_);
    }
    typename CliqueInference::Optimum ask(Index i, Scratch& s) const {
        auto answer = inference_.maximize(&s.scores[0], s.best.data(), s.workspace);
        for (std::size_t w = 0; w < s.best.size(); ++w) s.best[w] &= p_.labels.known(i)[w];
        answer.value += s.half_loss;
        answer.bound += s.half_loss;
        return answer;
    }

    double visit(Index i) {
        Scratch& s = scratch_[0];
        RowDistribution& atoms = atoms_[i];
        const double cost = p_.labels.cost(i);
        read_scores(i, s);
        q_.slopes(i, slopes_.chunks());
        expand(i, atoms);
        change_.clear();
        const auto answer = ask(i, s);
        double mean = value_atoms(atoms, s);
        const double gap = answer.value - mean, seen = cost * (answer.bound - mean);
        if (gap <= 1e-13 * (1.0 + std::abs(mean))) return seen;
        insert(i, atoms, s, answer.value);
        bool moved = false;
        for (int step = 0; step < most_steps; ++step) {
            const auto [best, worst] = extremes(atoms);
            if (best == worst || values_[best] - mean <= enough_of_list * gap * (step > 0)) break;
            const double rise = values_[best] - values_[worst];
            if (!(rise > 0)) break;
            const double slope = cost * SubsetKernels::distance(slopes_.chunks(), chi(worst), chi(best), chunks_);
            const double amount = slope * atoms.weight[worst] > rise ? rise / slope : atoms.weight[worst];
            shift(i, atoms, worst, best, amount, s);
            moved = true;
            mean = value_atoms(atoms, s);
        }
        if (moved) {
            q_.add_nonzero(i, change_, -cost);
            forget_unused(atoms);
        }
        return seen;
    }

    // Plain block-coordinate Frank-Wolfe, for comparison: one call, all weights shrink towards its answer.
    double plain_visit(Index i) {
        Scratch& s = scratch_[0];
        RowDistribution& atoms = atoms_[i];
        const double cost = p_.labels.cost(i);
        read_scores(i, s);
        q_.slopes(i, slopes_.chunks());
        expand(i, atoms);
        change_.clear();
        const auto answer = ask(i, s);
        const double mean = value_atoms(atoms, s), rise = answer.value - mean;
        if (!(rise > 1e-13 * (1.0 + std::abs(mean)))) return cost * (answer.bound - mean);
        const std::size_t best = insert(i, atoms, s, answer.value);
        ChunkVector<double> centre(chunks_);
        for (std::size_t j = 0; j < atoms.weight.size(); ++j)
            for (int k = 0; k < chunks_; ++k) centre.chunks()[k] += atoms.weight[j] * chi(j)[k];
        const double slope = cost * SubsetKernels::distance(slopes_.chunks(), centre.chunks(), chi(best), chunks_);
        const double amount = slope > rise ? rise / slope : 1.0;
        loss_ -= cost * amount * mean_loss(i, atoms);
        for (double& w : atoms.weight) w *= 1.0 - amount;
        atoms.weight[best] += amount;
        loss_ += cost * amount * loss_of(i, atoms, best);
        SubsetKernels::move(amount, cost, slopes_.chunks(), centre.chunks(), chi(best), change_.chunks(),
                            s.scores.chunks(), chunks_);
        q_.add_nonzero(i, change_, -cost);
        forget_unused(atoms);
        return cost * (answer.bound - mean);
    }

    // Characters of the labellings of the row being visited.
    Chunk<double>* chi(std::size_t j) { return expanded_.data() + j * static_cast<std::size_t>(chunks_); }
    void expand(Index i, const RowDistribution& atoms) {
        make_room(atoms.weight.size() + 1);
        for (std::size_t j = 0; j < atoms.weight.size(); ++j) expand_one(i, atoms, j);
    }
    void expand_one(Index i, const RowDistribution& atoms, std::size_t j) {
        characters(p_.subsets, atoms.bits.data() + j * p_.labels.words(), p_.labels.known(i),
                   reinterpret_cast<double*>(chi(j)));
    }
    void make_room(std::size_t atoms) {
        if (atoms * static_cast<std::size_t>(chunks_) <= expanded_.size()) return;
        Buffer<Chunk<double>> larger(2 * atoms * static_cast<std::size_t>(chunks_));
        if (expanded_.size())
            std::memcpy(static_cast<void*>(larger.data()), expanded_.data(), expanded_.size() * sizeof(Chunk<double>));
        expanded_ = std::move(larger);
    }

    double value_atoms(const RowDistribution& atoms, const Scratch& s) {
        values_.resize(atoms.weight.size());
        double mean = 0.0;
        for (std::size_t j = 0; j < values_.size(); ++j) {
            values_[j] = value_of(chi(j), s);
            mean += atoms.weight[j] * values_[j];
        }
        return mean;
    }

    // The labelling found by the oracle joins the list, unless it is there.
    std::size_t insert(Index i, RowDistribution& atoms, const Scratch& s, double value) {
        const std::size_t words = s.best.size();
        for (std::size_t j = 0; j < atoms.weight.size(); ++j)
            if (std::equal(s.best.begin(), s.best.end(), atoms.bits.begin() + static_cast<std::ptrdiff_t>(j * words)))
                return j;
        atoms.weight.push_back(0.0);
        atoms.bits.insert(atoms.bits.end(), s.best.begin(), s.best.end());
        make_room(atoms.weight.size());
        expand_one(i, atoms, atoms.weight.size() - 1);
        values_.push_back(value);
        return atoms.weight.size() - 1;
    }

    // The best labelling of the list, and the worst one in use.
    std::pair<std::size_t, std::size_t> extremes(const RowDistribution& atoms) const {
        std::size_t best = 0, worst = atoms.weight.size();
        for (std::size_t j = 0; j < atoms.weight.size(); ++j) {
            if (values_[j] > values_[best]) best = j;
            if (atoms.weight[j] > 0 && (worst == atoms.weight.size() || values_[j] < values_[worst])) worst = j;
        }
        return {best, worst};
    }

    void shift(Index i, RowDistribution& atoms, std::size_t from, std::size_t to, double amount, Scratch& s) {
        const double cost = p_.labels.cost(i);
        loss_ += cost * amount * (loss_of(i, atoms, to) - loss_of(i, atoms, from));
        atoms.weight[to] += amount;
        atoms.weight[from] = amount >= atoms.weight[from] ? 0.0 : atoms.weight[from] - amount;
        SubsetKernels::move(amount, cost, slopes_.chunks(), chi(from), chi(to), change_.chunks(), s.scores.chunks(),
                            chunks_);
    }

    double loss_of(Index i, const RowDistribution& atoms, std::size_t j) const {
        return p_.labels.loss(i, atoms.bits.data() + j * p_.labels.words());
    }
    double mean_loss(Index i, const RowDistribution& atoms) const {
        double mean = 0.0;
        for (std::size_t j = 1; j < atoms.weight.size(); ++j)
            if (atoms.weight[j] > 0) mean += atoms.weight[j] * loss_of(i, atoms, j);
        return mean;
    }

    static void forget(RowDistribution& atoms, std::size_t j, std::size_t words) {
        atoms.weight.erase(atoms.weight.begin() + static_cast<std::ptrdiff_t>(j));
        const auto first = atoms.bits.begin() + static_cast<std::ptrdiff_t>(j * words);
        atoms.bits.erase(first, first + static_cast<std::ptrdiff_t>(words));
    }
    void forget_unused(RowDistribution& atoms) const {
        for (std::size_t j = atoms.weight.size(); j-- > 1;)
            if (atoms.weight[j] <= 0) forget(atoms, j, p_.labels.words());
    }

    // q and the loss from the distributions alone.
    void recompute() {
        q_.reset(centre_);
        loss_ = 0.0;
        for (Index i = 0; i < p_.rows; ++i) {
            RowDistribution& atoms = atoms_[i];
            if (atoms.weight.size() < 2) continue;
            const double total = std::accumulate(atoms.weight.begin(), atoms.weight.end(), 0.0);
            for (double& w : atoms.weight) w /= total;
            loss_ += p_.labels.cost(i) * mean_loss(i, atoms);
            expand(i, atoms);
            change_.clear();
            for (std::size_t j = 1; j < atoms.weight.size(); ++j)
                for (int k = 0; k < chunks_; ++k) change_.chunks()[k] += atoms.weight[j] * (chi(j)[k] - chi(0)[k]);
            q_.add_nonzero(i, change_, -p_.labels.cost(i));
        }
    }

    std::vector<double> norms_of_cliques(const std::vector<double>& scores) const {
        std::vector<double> norms(scores.size());
        for (std::size_t c = 0; c < scores.size(); ++c) norms[c] = eta_[c] * std::sqrt(scores[c]);
        return norms;
    }
    void move_eta() {
        const auto norms = norms_of_cliques(q_.squares().first);
        k_support(norms, p_.cliques.budget, eta_.data());
        for (double& e : eta_) e = std::max(e, least_eta);
        q_.set_shares(eta_);
    }

    // P and D at the present weights; the best of each is kept.
    void evaluate_here(Control& control) {
        const Index rows = p_.rows;
        const int threads = static_cast<int>(std::min<std::size_t>(scratch_.size(), static_cast<std::size_t>(rows)));
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            Scratch& s = scratch_[t];
            s.workspace.watch(control, on_caller);
            for (Index i = t; i < rows; i += threads) {
                if (control.leave_unfinished(on_caller)) return;
                hinge_[i] = 0.0;
                if (!(p_.labels.cost(i) > 0)) continue;
                read_scores(i, s);
                const double right = value_of(s.chi.chunks(), s);  // s.chi: characters of the truth
                const auto answer = ask(i, s);
                hinge_[i] = std::max(answer.bound - right, 0.0);
            }
        });
        const auto [scores, nodes] = q_.squares();
        std::vector<double> eta(eta_.size());
        double primal = 0.5 * (nodes + k_support(norms_of_cliques(scores), p_.cliques.budget, eta.data()));
        for (Index i = 0; i < rows; ++i) primal += p_.labels.cost(i) * hinge_[i];
        const double dual = best_scaled_dual(loss_, 0.5 * (nodes + sum_of_largest(scores, p_.cliques.budget)));
        if (dual > best_.dual) {
            best_.dual = dual;
            keep_atoms();
        }
        if (primal < best_.primal) {
            best_.primal = primal;
            keep_weights();
        }
    }

    void keep_atoms() {
        best_atoms_ = {};
        for (std::size_t i = 0; i < atoms_.size(); ++i)
            for (std::size_t j = 1; j < atoms_[i].weight.size(); ++j) {
                if (!(atoms_[i].weight[j] > 0)) continue;
                best_atoms_.row.push_back(static_cast<std::int64_t>(i));
                best_atoms_.weight.push_back(atoms_[i].weight[j]);
                const auto first = atoms_[i].bits.begin() + static_cast<std::ptrdiff_t>(j * p_.labels.words());
                best_atoms_.bits.insert(best_atoms_.bits.end(), first,
                                        first + static_cast<std::ptrdiff_t>(p_.labels.words()));
            }
    }

    void keep_weights() {
        best_weights_ = q_.weights(static_cast<std::size_t>(p_.columns));
        best_eta_ = eta_;
    }

    const CliqueProblem<X>& p_;
    const CliqueInference& inference_;
    Visits visits_;
    std::vector<double> eta_, best_eta_, best_weights_;
    AtomArrays best_atoms_;
    std::span<const double> centre_;
    GroupWeights<X> q_;
    int chunks_;
    ChunkVector<double> slopes_, change_;  // slopes_: those of the row being visited
    std::vector<RowDistribution> atoms_;
    std::vector<std::int32_t> order_;
    Rng rng_;
    std::vector<double> hinge_, last_gap_;
    std::vector<std::uint8_t> rest_, resting_;
    std::vector<Scratch> scratch_;
    Buffer<Chunk<double>> expanded_;
    std::vector<double> values_;
    double loss_ = 0.0;
    fit::Bounds best_{std::numeric_limits<double>::infinity(), 0.0};
    double seen_ = 0.0, enough_ = 0.0;  // by the last pass: the gap, and how much of it may be left
    double optimism_ = 0.5;             // gap at an evaluation / gap seen by the pass before it
    int passes_ = 0, next_evaluation_ = 1, last_evaluation_ = -3;
};

// The engine of a proximal step: passes until the gaps they see sum up to `enough`. P is not known on the way.
template <RowMatrix X>
class ProximalStep {
  public:
    ProximalStep(CliqueFrankWolfe<X>& solver, std::span<const double> centre, double enough)
        : solver_(solver), enough_(enough) {
        solver_.move_origin(centre);
    }

    void pass(const fit::Moment&, Control& control) { seen_ = solver_.visit_all(enough_, control); }
    bool pays(const fit::Moment&) const { return seen_ <= enough_; }
    fit::Bounds evaluate(const fit::Moment&, Control&) {
        solver_.keep();
        return {};
    }
    bool converged(const fit::Moment& now) const { return seen_ <= enough_ && !now.stopped; }

  private:
    CliqueFrankWolfe<X>& solver_;
    double enough_, seen_ = 0.0;
};

}  // namespace multimargin::cliques
