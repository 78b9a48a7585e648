// What only tests and benchmarks call: oracles row by row, the slow truth, and a solver that does nothing.
#include <nanobind/stl/string.h>

#include <atomic>
#include <limits>

#include "bindings/cuts.hpp"
#include "bindings/python_control.hpp"
#include "core/base/parallel.hpp"
#include "core/inference/cuts/f_score_cut.hpp"
#include "core/inference/cuts/paper_f_score.hpp"
#include "core/inference/exhaustive/f_score.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::inference;
using namespace multimargin::labels;

namespace {

// Spins for `seconds` on `threads` threads as a solver would, so that interruption, time limits, callbacks and
// exceptions crossing threads can be tested without a solver. A negative `fail_at` never fails.
int rehearse(double seconds, int threads, int fail_at, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    nb::gil_scoped_release release;
    int pass = 0;
    while (control.elapsed() < seconds) {
        parallel_for(2 * threads, threads, control, [&](int k, bool on_caller) {
            if (k == fail_at) throw std::invalid_argument("task " + std::to_string(k) + " failed as asked");
            const double until = control.elapsed() + seconds / 4;
            while (control.elapsed() < until)
                if (control.leave(on_caller)) return;
        });
        if (control.tick({.pass = ++pass, .time = control.elapsed()})) break;
    }
    return pass;
}

// Counts the tasks of loops on 1, 2 ... `threads` threads, in each of which there is a loop of as many and one more.
int loops_within_loops(int tasks, int threads) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    nb::gil_scoped_release release;
    std::atomic<int> done{0};
    for (int t = 1; t <= threads; ++t)
        parallel_for(tasks, t, control,
                     [&](int, bool) { parallel_for(tasks, t + 1, control, [&](int, bool) { ++done; }); });
    return done;
}

// y: start in, maximiser out.
nb::dict f_score_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                        double tol, int node_limit, int group_limit, OutMatrix<std::uint8_t> y) {
    const CutBatch batch(u, pairs, w);
    batch.check(truth);
    batch.check(y);
    std::vector<double> lower(batch.rows()), upper(batch.rows());
    std::vector<int> nodes(batch.rows()), cuts(batch.rows());
    {
        nb::gil_scoped_release release;
        FScoreCut oracle(batch.labels(), batch.pairs, node_limit, group_limit);
        oracle.set_weights(batch.w);
        for (std::size_t n = 0; n < batch.rows(); ++n) {
            const auto answer = oracle.solve(batch.row(n), batch.row(truth, n), tol, batch.row(y, n));
            lower[n] = answer.lower;
            upper[n] = answer.upper;
            nodes[n] = answer.nodes;
            cuts[n] = answer.cuts;
        }
    }
    nb::dict out;
    out["lower"] = array_of(lower);
    out["upper"] = array_of(upper);
    out["nodes"] = array_of(nodes);
    out["cuts"] = array_of(cuts);
    return out;
}

nb::dict paper_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                      bool upwards, bool certify, OutMatrix<std::uint8_t> y) {
    const CutBatch batch(u, pairs, w);
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
    out["value"] = array_of(value);
    out["cuts"] = array_of(cuts);
    out["paper"] = array_of(paper);
    out["tight"] = array_of(tight);
    return out;
}

// loss: "f1", "hamming" or "none"; smallest and largest: intersection and union of all maximisers up to `tie`.
Array exhaustive_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                        const std::string& loss, double tie, OutMatrix<std::uint8_t> smallest,
                        OutMatrix<std::uint8_t> largest) {
    const CutBatch batch(u, pairs, w);
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
        value[n] = loss == "f1"        ? run(FScoreLoss{m})
                   : loss == "hamming" ? run(HammingLoss{m})
                                       : run([](int, int) { return 0.0; });
    }
    return array_of(value);
}

}  // namespace

void bind_testing(nb::module_& m) {
    m.def("loops_within_loops", &loops_within_loops, nb::arg("tasks"), nb::arg("threads"));
    m.def("rehearse", &rehearse, nb::arg("seconds"), nb::arg("threads"), nb::arg("fail_at"), nb::arg("report").none(),
          nb::arg("time_limit"));
    m.def("f_score_oracle", &f_score_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("tol"), nb::arg("node_limit"),
          nb::arg("group_limit"), nb::arg("y").noconvert());
    m.def("paper_oracle", &paper_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("upwards"), nb::arg("certify"),
          nb::arg("y").noconvert());
    m.def("exhaustive_oracle", &exhaustive_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("loss"), nb::arg("tie"),
          nb::arg("smallest").noconvert(), nb::arg("largest").noconvert());
}
