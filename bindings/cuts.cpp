#include "bindings/cuts.hpp"

#include <nanobind/stl/tuple.h>

#include "core/inference/cuts/graph_cut.hpp"
#include "core/inference/cuts/offset_path.hpp"

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

}  // namespace

void bind_cuts(nb::module_& m) {
    m.def("predict_cut", &predict_cut, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("largest"), nb::arg("y").noconvert());
    m.def("cut_marginals", &cut_marginals, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("worth").noconvert());
    m.def("f_score_path", &f_score_path, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("firm").noconvert(), nb::arg("low"),
          nb::arg("high"));
}
