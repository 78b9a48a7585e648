#include "bindings/cuts.hpp"

#include <nanobind/stl/tuple.h>

#include "bindings/python_control.hpp"
#include "core/base/parallel.hpp"
#include "core/inference/cuts/graph_cut.hpp"
#include "core/inference/cuts/offset_path.hpp"
#include "core/inference/cuts/row_oracle.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::inference;

namespace {

void predict_cut(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, bool largest,
                 OutMatrix<std::uint8_t> y) {
    const CutBatch batch(u, pairs, w);
    batch.check(y);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs);
    predictor.set_weights(batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n)
        predictor.predict(batch.row(n), largest ? Ties::largest : Ties::smallest, batch.row(y, n));
}

void cut_marginals(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, OutMatrix<double> worth) {
    const CutBatch batch(u, pairs, w);
    batch.check(worth);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs);
    predictor.set_weights(batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n) predictor.marginals(batch.row(n), batch.row(worth, n));
}

// Mean F-score as a function of the offset: its value at `low`, the offsets at which it changes, and the changes.
std::tuple<Array, Array, Array, Array> f_score_path(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w,
                                                    Matrix<std::uint8_t> truth, Vector<std::uint8_t> firm, double low,
                                                    double high) {
    const CutBatch batch(u, pairs, w);
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
    return {array_of(start), array_of(offsets), array_of(changes), array_of(ends)};
}

// The exact maximum of score + loss of every row; y: the true labels in, the maximiser out. proved: up to `tol`.
std::tuple<Array, Array, Array> most_violating(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w,
                                               Matrix<std::uint8_t> truth, bool hamming, Vector<double> miss,
                                               Vector<double> excess, double tol, int node_limit, int threads,
                                               OutMatrix<std::uint8_t> y) {
    const CutBatch batch(u, pairs, w);
    batch.check(truth);
    batch.check(y);
    expect(miss.shape(0) == u.shape(1) && excess.shape(0) == u.shape(1), "shapes differ");
    std::vector<double> value(batch.rows()), upper(batch.rows());
    std::vector<std::uint8_t> proved(batch.rows());
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    {
        nb::gil_scoped_release release;
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            RowOracle oracle(batch.labels(), batch.pairs, hamming ? LossKind::hamming : LossKind::f_score,
                             {view(miss), view(excess)}, node_limit);
            oracle.set_weights(batch.w, OracleKind::exact);
            for (auto n = static_cast<std::size_t>(t); n < batch.rows(); n += static_cast<std::size_t>(threads)) {
                if (control.leave(on_caller)) return;
                const RowAnswer answer = oracle.solve(batch.row(n), batch.row(truth, n), OracleKind::exact, tol,
                                                      batch.row(y, n), control, on_caller, false);
                value[n] = answer.lower;
                upper[n] = answer.upper;
                proved[n] = answer.proved;
            }
        });
    }
    return {array_of(std::move(value)), array_of(std::move(upper)), array_of(std::move(proved))};
}

// Algorithm 2 of Petterson & Caetano for every row into y, its values, and whether Algorithm 3 and a tighter test prove
// them largest.
std::tuple<Array, Array, Array> published_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w,
                                                 Matrix<std::uint8_t> truth, int threads, OutMatrix<std::uint8_t> y) {
    const CutBatch batch(u, pairs, w);
    batch.check(truth);
    batch.check(y);
    std::vector<double> value(batch.rows());
    std::vector<std::uint8_t> certified(batch.rows()), proved(batch.rows());
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    {
        nb::gil_scoped_release release;
        parallel_for(threads, threads, control, [&](int t, bool on_caller) {
            PaperFScore oracle(batch.labels(), batch.pairs);
            oracle.set_weights(batch.w);
            for (auto n = static_cast<std::size_t>(t); n < batch.rows(); n += static_cast<std::size_t>(threads)) {
                if (control.leave(on_caller)) return;
                const auto answer = oracle.solve(batch.row(n), batch.row(truth, n), false, true, true, batch.row(y, n));
                value[n] = answer.value;
                certified[n] = answer.paper_certificate;
                proved[n] = answer.tight_certificate;
            }
        });
    }
    return {array_of(std::move(value)), array_of(std::move(certified)), array_of(std::move(proved))};
}

}  // namespace

void bind_cuts(nb::module_& m) {
    m.def("predict_cut", &predict_cut, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("largest"), nb::arg("y").noconvert());
    m.def("cut_marginals", &cut_marginals, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("worth").noconvert());
    m.def("f_score_path", &f_score_path, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("firm").noconvert(), nb::arg("low"),
          nb::arg("high"));
    m.def("most_violating", &most_violating, nb::kw_only(), nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("hamming"), nb::arg("miss").noconvert(),
          nb::arg("excess").noconvert(), nb::arg("tol"), nb::arg("node_limit"), nb::arg("threads"),
          nb::arg("y").noconvert());
    m.def("published_oracle", &published_oracle, nb::kw_only(), nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("threads"), nb::arg("y").noconvert());
}
