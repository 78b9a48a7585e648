#pragma once
// A linear M3L problem from the outside (notation: linear.hpp), and what a fit makes of it: linear_fit.hpp.

#include <functional>
#include <optional>
#include <vector>

#include "core/base/matrix.hpp"
#include "core/fit/result.hpp"
#include "core/labels/labels.hpp"
#include "core/m3l/linear_certifier.hpp"
#include "core/m3l/prior.hpp"

namespace multimargin::m3l {

using namespace labels;

// What of R a fit needs. Its products with weights are matrix work for somebody with a BLAS.
struct LinearPrior {
    PriorArrays arrays;
    std::vector<double> diagonal;
    bool mild;
    // P with R = P P' without null space, labels x rank, where a Newton finish may be made.
    const double* root = nullptr;
    Index root_rank = 0;
    std::function<void(std::vector<double>& matrix, std::vector<double>& values)> eigen;  // see Coupling
};

// The same for one precision: weights are labels x (cols + 1), the last column the intercepts.
template <class T>
struct PriorProducts {
    std::function<void(const T* state, Index width, T* weights)> weigh;  // from the state of coordinate ascent
    std::function<void(T* weights)> into_range;                          // takes out what rounding left outside
    std::function<PriorForms(const T* weights, const double* V)> forms;
};

// X'X, constant feature included, in its eigenbasis; what Eigenbasis points to.
template <class T>
struct OwnedBasis {
    std::vector<T> Q, Qt;
    std::vector<double> values;
};

template <RowMatrix X>
struct LinearProblem {
    using T = typename X::value_type;
    const X& x;
    MarginLabels cells;
    double bias;
    const LinearPrior* prior;  // null: R = I
    PriorProducts<T> products;
    std::function<OwnedBasis<T>()> eigenbasis;
};

// Where a warm start begins.
template <class T>
struct LinearStart {
    const T* beta = nullptr;     // signed dual variables, rows x labels
    const T* weights = nullptr;  // of a problem much like this one, the last column those of the constant feature
    bool after_newton = false;   // whether a Newton finish found them
};

template <class T>
struct LinearSolution {
    fit::FitResult result;
    Buffer<T> weights;    // labels x (cols + 1), the last column the intercepts
    std::vector<T> beta;  // rows x labels; empty unless it is kept
    bool newton = false;
};

// Whether a Newton finish, which may also start from weights, can serve.
inline bool newton_may_serve(Index rows, Index features) {
    constexpr Index most_features = 1000;
    return features <= most_features && rows > features;
}

// Solves the problem; compiled in files of its own, one for each precision. patience: passes before a Newton finish takes
// over, infinite for never; by the size of the problem if not given. keep: whether the dual variables are wanted.
template <RowMatrix X>
LinearSolution<typename X::value_type> solve_linear(const LinearProblem<X>& problem, const fit::Limits& limits,
                                                    std::optional<double> patience,
                                                    const LinearStart<typename X::value_type>& start, bool keep,
                                                    Control& control);

}  // namespace multimargin::m3l
