#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/m3l_arguments.hpp"
#include "bindings/python_control.hpp"
#include "core/oracles/exhaustive.hpp"
#include "core/oracles/f_score_cut.hpp"
#include "core/oracles/offset_path.hpp"
#include "core/oracles/paper_f_score.hpp"
#include "core/solvers/submodular_blocks.hpp"
#include "core/solvers/submodular_bundle.hpp"

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
    return new_array<std::int32_t>({values.size()},
                                   [&](std::int32_t* out) { std::copy(values.begin(), values.end(), out); });
}

void predict_cut(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, bool largest,
                 OutMatrix<std::uint8_t> y) {
    const Batch batch(u, pairs, w);
    batch.check(y);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs);
    predictor.set_weights(batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n)
        predictor.predict(batch.row(n), largest ? Ties::largest : Ties::smallest, batch.row(y, n));
}

void cut_marginals(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, OutMatrix<double> worth) {
    const Batch batch(u, pairs, w);
    batch.check(worth);
    nb::gil_scoped_release release;
    CutPredictor predictor(batch.labels(), batch.pairs);
    predictor.set_weights(batch.w);
    for (std::size_t n = 0; n < batch.rows(); ++n) predictor.marginals(batch.row(n), batch.row(worth, n));
}

// y: start in, maximiser out.
nb::dict f_score_oracle(Matrix<double> u, Matrix<std::int32_t> pairs, Vector<double> w, Matrix<std::uint8_t> truth,
                        double tol, int node_limit, int group_limit, OutMatrix<std::uint8_t> y) {
    const Batch batch(u, pairs, w);
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
        value[n] = loss == "f1"        ? run(FScoreLoss{m})
                   : loss == "hamming" ? run(HammingLoss{m})
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

// Truth of every cell: labels left out and missing cells are unknown.
Buffer<std::uint8_t> truth_of(Index rows, int labels, const nb::tuple& positives, const nb::object& missing,
                              const Vector<std::uint8_t>& left_out) {
    Buffer<std::uint8_t> truth(static_cast<std::size_t>(rows) * labels);
    const auto mark = [&](const CellList& cells, Truth value) {
        if (cells.offsets.empty()) return;
        for (Index n = 0; n < rows; ++n)
            for (auto l : cells.row(n)) truth[n * labels + l] = value;
    };
    mark(cell_list(positives, rows, labels), present);
    mark(cell_list(missing, rows, labels), unknown);
    for (Index n = 0; n < rows; ++n)
        for (int l = 0; l < labels; ++l)
            if (left_out(l)) truth[n * labels + l] = unknown;
    return truth;
}

nb::dict results(const SubmodularResult& result) {
    nb::dict out;
    out["primal"] = result.primal;
    out["dual"] = result.dual;
    out["passes"] = result.passes;
    out["status"] = name_of(result.status);
    out["oracle_exact"] = result.calls ? static_cast<double>(result.proved) / static_cast<double>(result.calls) : 1.0;
    return out;
}

// The planes in use, for a later start: row, weight, offsets, labels.
template <class Blocks>
nb::tuple planes_of(const Blocks& blocks) {
    std::vector<double> weight;
    std::vector<std::int64_t> row, offsets{0};
    std::vector<std::int32_t> labels;
    blocks.each_plane([&](Index n, double of_plane, std::span<const std::int32_t> its_labels) {
        row.push_back(n);
        weight.push_back(of_plane);
        labels.insert(labels.end(), its_labels.begin(), its_labels.end());
        offsets.push_back(static_cast<std::int64_t>(labels.size()));
    });
    const auto array = []<class T>(const std::vector<T>& values) {
        return new_array<T>({values.size()}, [&](T* out) { std::copy(values.begin(), values.end(), out); });
    };
    return nb::make_tuple(array(row), array(weight), array(offsets), array(labels));
}

template <class X, class Solver>
nb::dict solve(Solver& solver, int n_labels, Index cols, Control& control) {
    SubmodularResult result;
    {
        nb::gil_scoped_release release;
        result = solver.run(control);
    }
    nb::dict out = results(result);
    out["weights"] = new_array<double>({static_cast<std::size_t>(n_labels), static_cast<std::size_t>(cols + 1)},
                                       [&](double* w) { solver.weights().copy(w); });
    out["pair_weights"] = numbers(solver.pair_weights());
    return out;
}

nb::dict fit_submodular(const Rows& rows, int n_labels, nb::tuple positives, nb::object missing,
                        Vector<std::uint8_t> left_out, Vector<double> cost, Matrix<std::int32_t> pairs,
                        Vector<double> factor, double bias, bool hamming, bool paper, nb::object bundle_stride,
                        int node_limit, nb::object start, bool keep_planes, double tol, int max_iter, int threads,
                        std::uint64_t seed, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    return std::visit(
        [&]<class X>(const X& x) -> nb::dict {
            const SubmodularProblem<X> problem{x,
                                               bias,
                                               n_labels,
                                               pair_list(pairs, n_labels),
                                               view(factor),
                                               view(cost),
                                               truth_of(x.rows(), n_labels, positives, missing, left_out),
                                               hamming ? LossKind::hamming : LossKind::f_score,
                                               paper ? OracleKind::paper : OracleKind::exact,
                                               node_limit};
            const SubmodularParams params{tol, max_iter, threads, seed};
            if (!bundle_stride.is_none()) {
                SubmodularBundle<X> solver(problem, params, nb::cast<double>(bundle_stride));
                return solve<X>(solver, n_labels, x.cols(), control);
            }
            SubmodularBlocks<X> solver(problem, params);
            if (!start.is_none())
                solver.start_from(
                    view(exactly<Vector<std::int64_t>>(start[0])), view(exactly<Vector<double>>(start[1])),
                    view(exactly<Vector<std::int64_t>>(start[2])), view(exactly<Vector<std::int32_t>>(start[3])));
            nb::dict out = solve<X>(solver, n_labels, x.cols(), control);
            if (keep_planes) out["planes"] = planes_of(solver);
            return out;
        },
        rows.matrix);
}

}  // namespace

void bind_submodular(nb::module_& m) {
    m.def("fit_submodular", &fit_submodular, nb::arg("rows"), nb::arg("n_labels"), nb::arg("positives"),
          nb::arg("missing").none(), nb::arg("left_out").noconvert(), nb::arg("cost").noconvert(),
          nb::arg("pairs").noconvert(), nb::arg("factor").noconvert(), nb::arg("bias"), nb::arg("hamming"),
          nb::arg("paper"), nb::arg("bundle_stride").none(), nb::arg("node_limit"), nb::arg("start").none(),
          nb::arg("keep_planes"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("threads"), nb::arg("seed"),
          nb::arg("report").none(), nb::arg("time_limit"));
    m.def("predict_cut", &predict_cut, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(), nb::arg("w").noconvert(),
          nb::arg("largest"), nb::arg("y").noconvert());
    m.def("cut_marginals", &cut_marginals, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("worth").noconvert());
    m.def("f_score_oracle", &f_score_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("tol"), nb::arg("node_limit"),
          nb::arg("group_limit"), nb::arg("y").noconvert());
    m.def("paper_oracle", &paper_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("upwards"), nb::arg("certify"),
          nb::arg("y").noconvert());
    m.def("exhaustive_oracle", &exhaustive_oracle, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("loss"), nb::arg("tie"),
          nb::arg("smallest").noconvert(), nb::arg("largest").noconvert());
    m.def("f_score_path", &f_score_path, nb::arg("u").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("w").noconvert(), nb::arg("truth").noconvert(), nb::arg("firm").noconvert(), nb::arg("low"),
          nb::arg("high"));
}
