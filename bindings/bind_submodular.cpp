#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/arrays.hpp"
#include "core/oracles/exhaustive.hpp"
#include "core/oracles/f_score_cut.hpp"
#include "core/oracles/offset_path.hpp"
#include "core/oracles/paper_f_score.hpp"

namespace nb = nanobind;
using namespace multimargin;

namespace {

using Pairs = std::vector<std::pair<int, int>>;
template <class T>
using OutVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Pairs pair_list(const Matrix<std::int32_t>& pairs, Index labels) {
    if (pairs.shape(1) != 2) throw std::invalid_argument("pairs must have two columns");
    Pairs list;
    for (std::size_t e = 0; e < pairs.shape(0); ++e) {
        const int a = pairs(e, 0), b = pairs(e, 1);
        if (a < 0 || b < 0 || a >= labels || b >= labels || a == b) throw std::invalid_argument("pair out of range");
        list.emplace_back(a, b);
    }
    return list;
}

// A batch of rows with the pairs they share, checked.
struct Batch {
    Matrix<double> u;
    Pairs pairs;
    const double* w;
    Batch(const Matrix<double>& u, const Matrix<std::int32_t>& pairs, const Vector<double>& w)
        : u(u), pairs(pair_list(pairs, static_cast<Index>(u.shape(1)))), w(w.data()) {
        if (w.shape(0) != pairs.shape(0)) throw std::invalid_argument("one weight per pair");
        for (auto v : view(w))
            if (!(v >= 0)) throw std::invalid_argument("pair weights must not be negative");
    }
    std::size_t rows() const { return u.shape(0); }
    int labels() const { return static_cast<int>(u.shape(1)); }
    const double* row(std::size_t n) const { return u.data() + n * u.shape(1); }
    template <class A>
    auto* row(const A& array, std::size_t n) const {
        return array.data() + n * u.shape(1);
    }
    template <class A>
    void check(const A& array) const {
        if (array.shape(0) != u.shape(0) || array.shape(1) != u.shape(1)) throw std::invalid_argument("shapes differ");
    }
};

nb::object numbers(const std::vector<double>& values) {
    return new_array<double>({values.size()}, [&](double* out) { std::copy(values.begin(), values.end(), out); });
}
nb::object counts(const std::vector<int>& values) {
    return new_array<std::int32_t>({values.size()}, [&](std::int32_t* out) { std::copy(values.begin(), values.end(), out); });
}

void predict_cut(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, bool largest, OutMatrix<std::uint8_t> y) {
    const Batch batch(u, pairs, w);
    batch.check(y);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs, batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n)
        predictor.predict(batch.row(n), largest ? Ties::largest : Ties::smallest, batch.row(y, n));
}

void cut_marginals(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, OutMatrix<double> worth) {
    const Batch batch(u, pairs, w);
    batch.check(worth);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs, batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n) predictor.marginals(batch.row(n), batch.row(worth, n));
}

// y: start in, maximiser out.
nb::dict f_score_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                        double tol, int node_limit, OutMatrix<std::uint8_t> y) {
    const Batch batch(u, pairs, w);
    batch.check(truth);
    batch.check(y);
    std::vector<double> lower(batch.rows()), upper(batch.rows());
    std::vector<int> nodes(batch.rows()), cuts(batch.rows());
    {
        nb::gil_scoped_release release;
        FScoreCut oracle(batch.labels(), batch.pairs, node_limit);
        for (std::size_t n = 0; n < batch.rows(); ++n) {
            oracle.set_weights(batch.w);
            const auto answer = oracle.solve(batch.row(n), batch.row(truth, n), tol, batch.row(y, n));
            lower[n] = answer.lower;
            upper[n] = answer.upper;
            nodes[n] = answer.nodes;
            cuts[n] = answer.cuts;
        }
    }
    nb::dict out;
    out["lower"] = numbers(lower);
    out["upper"] = numbers(upper);
    out["nodes"] = counts(nodes);
    out["cuts"] = counts(cuts);
    return out;
}

nb::dict paper_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                      bool upwards, bool certify, OutMatrix<std::uint8_t> y) {
    const Batch batch(u, pairs, w);
    batch.check(truth);
    batch.check(y);
    std::vector<double> value(batch.rows());
    std::vector<int> cuts(batch.rows()), paper(batch.rows()), tight(batch.rows());
    {
        nb::gil_scoped_release release;
        PaperFScore oracle(batch.labels(), batch.pairs);
        oracle.set_weights(batch.w);
        for (std::size_t n = 0; n < batch.rows(); ++n) {
            const auto answer =
                oracle.solve(batch.row(n), batch.row(truth, n), upwards, certify, certify, batch.row(y, n));
            value[n] = answer.value;
            cuts[n] = answer.cuts;
            paper[n] = answer.paper_certificate;
            tight[n] = answer.tight_certificate;
        }
    }
    nb::dict out;
    out["value"] = numbers(value);
    out["cuts"] = counts(cuts);
    out["paper"] = counts(paper);
    out["tight"] = counts(tight);
    return out;
}

// loss: "f1", "hamming" or "none"; smallest and largest: intersection and union of all maximisers up to `tie`.
nb::object exhaustive_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                             const std::string& loss, double tie, OutMatrix<std::uint8_t> smallest,
                             OutMatrix<std::uint8_t> largest) {
    const Batch batch(u, pairs, w);
    batch.check(truth);
    batch.check(smallest);
    batch.check(largest);
    if (batch.labels() > 25) throw std::invalid_argument("too many labels to enumerate");
    std::vector<double> value(batch.rows());
    for (std::size_t n = 0; n < batch.rows(); ++n) {
        const auto* t = batch.row(truth, n);
        const std::span<const double> row(batch.row(n), u.shape(1));
        const int m = static_cast<int>(std::count(t, t + batch.labels(), std::uint8_t{present}));
        const auto run = [&](const auto& h) {
            return exhaustive(row, std::span<const std::pair<int, int>>(batch.pairs), batch.w, t, h, tie,
                              batch.row(smallest, n), batch.row(largest, n));
        };
        value[n] = loss == "f1" ? run(FScoreLoss{m}) : loss == "hamming" ? run(HammingLoss{m})
                                                                         : run([](int, int) { return 0.0; });
    }
    return numbers(value);
}

// Mean F-score as a function of the offset: its value at `low`, the offsets at which it changes, and the changes.
nb::tuple f_score_path(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                       Vector<std::uint8_t> firm, double low, double high) {
    const Batch batch(u, pairs, w);
    batch.check(truth);
    if (firm.shape(0) != u.shape(1)) throw std::invalid_argument("shapes differ");
    std::vector<OffsetPath::Step> steps;
    std::vector<int> ends;
    std::vector<double> start(batch.rows());
    {
        nb::gil_scoped_release release;
        OffsetPath path(batch.labels(), batch.pairs, batch.w);
        for (std::size_t n = 0; n < batch.rows(); ++n) {
            start[n] = path.walk(batch.row(n), batch.row(truth, n), firm.data(), low, high, steps);
            ends.push_back(static_cast<int>(steps.size()));
        }
    }
    std::vector<double> offsets, changes;
    for (const auto& step : steps) {
        offsets.push_back(step.offset);
        changes.push_back(step.change);
    }
    return nb::make_tuple(numbers(start), numbers(offsets), numbers(changes), counts(ends));
}

}  // namespace

void bind_submodular(nb::module_& m) {
    m.def("predict_cut", &predict_cut, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("largest"), nb::arg("y").noconvert());
    m.def("cut_marginals", &cut_marginals, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("worth").noconvert());
    m.def("f_score_oracle", &f_score_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("tol"), nb::arg("node_limit"),
          nb::arg("y").noconvert());
    m.def("paper_oracle", &paper_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("truth").noconvert(), nb::arg("upwards"), nb::arg("certify"), nb::arg("y").noconvert());
    m.def("exhaustive_oracle", &exhaustive_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("loss"), nb::arg("tie"),
          nb::arg("smallest").noconvert(), nb::arg("largest").noconvert());
    m.def("f_score_path", &f_score_path, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("truth").noconvert(), nb::arg("firm").noconvert(), nb::arg("low"), nb::arg("high"));
}
