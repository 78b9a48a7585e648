#pragma once
// One part of the rows of a linear M3L problem (linear.hpp) that is trained in rounds: over several machines, or over
// files that do not fit the memory together.
//
// A part k owns its rows X_k and their signed dual variables beta_k. In a round it is given a point V, common to all
// parts, and a number per feature, scale_j, and improves the bracket
//
//   target . change - tr(V R U') - 1/2 sum_j scale_j |U_j|_R^2,     U = X_k' (change of beta_k),  target = y m
//
// by coordinate ascent: the state is V + scale o U, a row's curvature sum_j scale_j x_ij^2. That is the ascent of
// linear_separable.hpp and linear_coupled.hpp on other features: with x_ij' = r_j x_ij and V_j' = V_j / r_j, where
// r_j^2 = scale_j, scores x'.V' are x.V, a step adds scale_j x_ij to V_j, and curvatures are squared lengths. So a round
// begins by multiplying the entries of X by r_j, once for all labels; the constant feature keeps its value and has a
// share of its own.
//
// The driver adds the parts' U, takes theta of the sum, and says so by settle(theta) before the next round, or
// settle(nothing) where the round is void: then nothing has happened. Rounding: U_j comes out of the state as a
// difference, except for the constant feature, whose scale is the smallest by far and which every row moves: its U is
// the sum of the changes, in double. The certificate is summed from the data as they are (linear_certifier.hpp).
//
// Memory besides X: a copy of its entries, 4 (d + 1) L bytes for the state and 4 n L for beta (single precision), and 4
// n L for beta as it was, where a change may be taken back.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "core/base/rng.hpp"
#include "core/m3l/linear_certifier.hpp"
#include "core/m3l/partition_ascent.hpp"

namespace multimargin::m3l {

// X with its columns multiplied by numbers that change from round to round.
template <RowMatrix X>
class RescaledRows {
  public:
    using T = typename X::value_type;

    explicit RescaledRows(const X& x)
        : x_(x),
          offsets_(offsets_of(x)),
          values_(static_cast<std::size_t>(offsets_.back())),
          view_(view_of(x, offsets_.data(), values_.data())),
          squares_(static_cast<std::size_t>(x.rows())) {}
    RescaledRows(const RescaledRows&) = delete;
    RescaledRows& operator=(const RescaledRows&) = delete;

    const X& view() const { return view_; }
    const std::vector<T>& squares() const { return squares_; }

    void scale(const std::vector<T>& roots) {
        T* to = values_.data();
        for (Index i = 0; i < x_.rows(); ++i) {
            const auto row = x_.row(i);
            for (Index k = 0; k < row.size(); ++k)
                *to++ = row.values[static_cast<std::size_t>(k)] * roots[static_cast<std::size_t>(row.column(k))];
            squares_[static_cast<std::size_t>(i)] = static_cast<T>(squared_norm(view_.row(i)));
        }
    }

  private:
    static std::vector<std::int64_t> offsets_of(const X& x) {
        std::vector<std::int64_t> offsets{0};
        for (Index i = 0; i < x.rows(); ++i) offsets.push_back(offsets.back() + x.row(i).size());
        return offsets;
    }
    static DenseRows<T> view_of(const DenseRows<T>& x, const std::int64_t*, const T* values) {
        return {values, x.rows(), x.cols()};
    }
    static CsrRows<T> view_of(const CsrRows<T>& x, const std::int64_t* offsets, const T* values) {
        return {values, x.rows() ? x.row(0).columns.data() : nullptr, offsets, x.rows(), x.cols()};
    }

    const X x_;
    std::vector<std::int64_t> offsets_;
    Buffer<T> values_;
    X view_;
    std::vector<T> squares_;
};

// What a visit has found. Of the groups of labels (PartAscent) at the point it was given and with beta before the visit:
// hinge = sum c max(0, m - y z), linear = sum y m beta; and change_linear, by which linear grew.
template <class T>
struct PartVisit {
    std::vector<T> change;    // U, (cols + 1) x width
    std::vector<double> own;  // |U_j|^2
    std::vector<double> hinge, linear, change_linear;
    double local_gap = 0.0;  // of the first pass: sum c max(t, 0) - b t over all cells, each before its own step
    bool complete = true;    // whether all rows were visited
};

struct PartSums {
    std::vector<double> V;              // X' beta, (cols + 1) x labels
    std::vector<double> linear, hinge;  // by label, at the weights given
};

// Members are defined outside the class, so that only the files that instantiate it compile them.
template <RowMatrix X>
class Partition {
  public:
    using T = typename X::value_type;

    // prior: null for R = I.
    Partition(const X& x, const MarginLabels& cells, double bias, const PriorArrays* prior, int threads);

    Index rows() const { return x_.rows(); }
    Index columns() const { return x_.cols() + 1; }
    Index labels() const { return source_.labels; }
    Index width() const { return ascent_->width(); }
    Index groups() const { return ascent_->groups(); }

    // sum_i x_ij^2, the constant feature last.
    std::vector<double> squares() const;

    // state: columns x width; scale: columns, above 0. revocable: whether settle() follows; else the change stands.
    PartVisit<T> visit(const T* state, const double* scale, int passes, std::uint64_t seed, bool evaluate,
                       bool revocable, Control& control);

    // Makes the pending change theta (one number a group) of what it is; null: takes it back.
    void settle(const double* theta);
    bool is_pending() const { return pending_.has_value(); }

    // weights: labels x columns, the last column the intercepts.
    PartSums sum(const double* weights, Control& control) const;

    void copy_beta(T* beta) const { ascent_->copy_beta(beta); }
    void load_beta(const T* beta);

  private:
    // One number a label, padded, to one number a group.
    std::vector<double> by_group(std::vector<double> of_label) const;
    void constant_change(const std::vector<double>& before, const std::vector<double>& after, T* change) const;

    const X x_;
    MarginLabels source_;
    double bias_;
    int threads_;
    LabelCells<T> cells_;
    RescaledRows<X> scaled_;
    std::vector<std::int32_t> order_;
    std::optional<PriorArrays> pure_;  // of a prior without diagonal, whose state is V F
    std::unique_ptr<PartAscent<T>> ascent_;
    std::optional<std::vector<T>> pending_;  // beta before the last visit
};

template <RowMatrix X>
Partition<X>::Partition(const X& x, const MarginLabels& cells, double bias, const PriorArrays* prior, int threads)
    : x_(x),
      source_(cells),
      bias_(bias),
      threads_(threads),
      cells_(cells),
      scaled_(x),
      order_(static_cast<std::size_t>(x.rows())) {
    const T constant = static_cast<T>(bias);
    if (prior && !prior->R && !prior->d) pure_ = *prior;
    if (!prior)
        ascent_ = std::make_unique<SeparablePart<X>>(scaled_.view(), cells_, scaled_.squares(), constant, threads);
    else
        ascent_ = with_prior<T>(*prior, cells.labels, [&]<class Prior>(Prior made, Index width) {
            return std::unique_ptr<PartAscent<T>>(std::make_unique<CoupledPart<X, Prior>>(
                scaled_.view(), cells_, scaled_.squares(), std::move(made), constant, width, threads));
        });
}

template <RowMatrix X>
std::vector<double> Partition<X>::squares() const {
    std::vector<double> sums(static_cast<std::size_t>(columns()));
    for (Index i = 0; i < x_.rows(); ++i) {
        const auto row = x_.row(i);
        for (Index k = 0; k < row.size(); ++k) {
            const auto v = static_cast<double>(row.values[static_cast<std::size_t>(k)]);
            sums[static_cast<std::size_t>(row.column(k))] += v * v;
        }
    }
    sums.back() = static_cast<double>(x_.rows()) * bias_ * bias_;
    return sums;
}

template <RowMatrix X>
auto Partition<X>::visit(const T* state, const double* scale, int passes, std::uint64_t seed, bool evaluate,
                         bool revocable, Control& control) -> PartVisit<T> {
    const auto n = static_cast<std::size_t>(columns());
    std::vector<T> roots(n, T(1)), inverse(n, T(1));
    for (std::size_t j = 0; j + 1 < n; ++j) {
        roots[j] = static_cast<T>(std::sqrt(scale[j]));
        inverse[j] = 1 / roots[j];
    }
    scaled_.scale(roots);
    ascent_->open(state, inverse, {.constant = static_cast<T>(scale[n - 1]), .bias = static_cast<T>(bias_)});
    PartVisit<T> found;
    if (evaluate) found.hinge = ascent_->hinges(control);
    const BetaSums before = ascent_->sums(control);
    found.linear = by_group(before.linear);
    pending_ = std::nullopt;
    if (revocable) {
        pending_.emplace(static_cast<std::size_t>(rows() * labels()));
        ascent_->copy_beta(pending_->data());
    }
    Rng rng(seed);
    std::iota(order_.begin(), order_.end(), 0);
    for (int pass = 0; pass < passes && !control.stopped(); ++pass) {
        rng.shuffle(std::span(order_));
        const double gap = ascent_->pass(order_, control);
        if (pass == 0) found.local_gap = gap;
    }
    found.complete = !control.stopped();
    const BetaSums after = ascent_->sums(control);
    found.change_linear = by_group(after.linear);
    for (std::size_t g = 0; g < found.linear.size(); ++g) found.change_linear[g] -= found.linear[g];
    found.change.resize(n * static_cast<std::size_t>(width()));
    ascent_->read_change(state, inverse, found.change.data());
    constant_change(before.total, after.total, found.change.data() + (n - 1) * static_cast<std::size_t>(width()));
    found.own.assign(n, 0.0);
    for (std::size_t j = 0, at = 0; j < n; ++j)
        for (Index l = 0; l < width(); ++l, ++at) {
            const auto u = static_cast<double>(found.change[at]);
            found.own[j] += u * u;
        }
    return found;
}

template <RowMatrix X>
void Partition<X>::settle(const double* theta) {
    if (!pending_) return;
    if (theta)
        ascent_->settle(pending_->data(), theta);
    else
        ascent_->load(pending_->data());
    pending_ = std::nullopt;
}

template <RowMatrix X>
PartSums Partition<X>::sum(const double* weights, Control& control) const {
    PartSums found{std::vector<double>(static_cast<std::size_t>(columns() * labels())), {}, {}};
    const auto beta = [this](Index i, Index first, Index count, double* out) {
        ascent_->read_beta(i, first, count, out);
    };
    for (const auto& label : label_sums(x_, source_, bias_, weights, beta, found.V.data(), threads_, control)) {
        found.linear.push_back(label.linear);
        found.hinge.push_back(label.hinge);
    }
    return found;
}

template <RowMatrix X>
void Partition<X>::load_beta(const T* beta) {
    ascent_->load(beta);
    pending_ = std::nullopt;
}

template <RowMatrix X>
std::vector<double> Partition<X>::by_group(std::vector<double> of_label) const {
    of_label.resize(static_cast<std::size_t>(labels()));
    if (groups() > 1 || labels() == 1) return of_label;
    return {std::accumulate(of_label.begin(), of_label.end(), 0.0)};
}

template <RowMatrix X>
void Partition<X>::constant_change(const std::vector<double>& before, const std::vector<double>& after,
                                   T* change) const {
    std::vector<double> moved(static_cast<std::size_t>(labels()));
    for (std::size_t l = 0; l < moved.size(); ++l) moved[l] = bias_ * (after[l] - before[l]);
    for (Index k = 0; k < width(); ++k) {
        double sum = 0.0;
        if (pure_)
            for (Index l = 0; l < labels(); ++l)
                sum += moved[static_cast<std::size_t>(l)] * pure_->F[l * pure_->rank + k];
        else
            sum = moved[static_cast<std::size_t>(k)];
        change[k] = static_cast<T>(sum);
    }
}

}  // namespace multimargin::m3l
