#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/base/parallel.hpp"
#include "core/inference/cliques/clique_inference.hpp"

namespace nb = nanobind;

namespace {

using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::inference;

constexpr std::pair<const char*, InferenceMethod> methods[] = {
    {"auto", InferenceMethod::automatic},
    {"elimination", InferenceMethod::elimination},
    {"exhaustive", InferenceMethod::exhaustive},
    {"mplp", InferenceMethod::mplp},
    {"branch-and-bound", InferenceMethod::branch_and_bound},
};

InferenceMethod method_named(const std::string& name) {
    std::string known;
    for (auto [text, method] : methods) {
        if (name == text) return method;
        known += (known.empty() ? "" : ", ") + std::string(text);
    }
    throw std::invalid_argument("method must be one of " + known + "; got " + name);
}
const char* name_of(InferenceMethod method) {
    for (auto [text, known] : methods)
        if (known == method) return text;
    return "";
}

LabelSubsets subsets_of(std::size_t n_labels, const Vector<std::int64_t>& starts, const Vector<std::int32_t>& members) {
    LabelSubsets subsets;
    subsets.labels = n_labels;
    subsets.starts.assign(view(starts).begin(), view(starts).end());
    subsets.members.assign(view(members).begin(), view(members).end());
    return subsets;
}

void check(const CliqueInference& inference, const Matrix<double>& scores) {
    if (scores.shape(1) != inference.subsets().size())
        throw std::invalid_argument("scores must have one column per label subset, " +
                                    std::to_string(inference.subsets().size()) + "; got " +
                                    std::to_string(scores.shape(1)));
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (!std::isfinite(scores.data()[i])) throw std::invalid_argument("scores must be finite");
}

// work(row, workspace) for every row, on several threads, with the GIL released; obeys Ctrl-C.
template <class Work>
void each_row(const CliqueInference& inference, std::size_t rows, int threads, Work&& work) {
    PythonControl control(nb::none(), HUGE_VAL);
    nb::gil_scoped_release release;
    constexpr std::size_t rows_per_block = 256, rows_per_look = 4;
    const std::size_t blocks = (rows + rows_per_block - 1) / rows_per_block;
    const int workers = std::max(1, static_cast<int>(std::min<std::size_t>(blocks, std::max(threads, 1))));
    parallel_for(workers, workers, control, [&](int worker, bool on_caller) {
        auto space = inference.workspace();
        space.watch(control, on_caller);
        for (std::size_t block = worker; block < blocks; block += workers)
            for (std::size_t i = block * rows_per_block; i < std::min(rows, (block + 1) * rows_per_block); ++i) {
                if (on_caller && i % rows_per_look == 0) control.wait_a_little();
                if (control.stopped()) return;
                work(i, space);
            }
    });
}

template <class T>
auto array(std::initializer_list<std::size_t> shape, T*& data) {
    return new_array<T>(shape, [&](T* out) { data = out; });
}

nb::tuple maximize(const CliqueInference& inference, Matrix<double> scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), labels = inference.subsets().labels, words = inference.words();
    std::uint8_t* y;
    double *value, *bound;
    bool* exact;
    auto out =
        nb::make_tuple(array({rows, labels}, y), array({rows}, value), array({rows}, bound), array({rows}, exact));
    std::vector<std::uint64_t> bits(rows * words);
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        std::uint64_t* assignment = bits.data() + i * words;
        const auto best = inference.maximize(scores.data() + i * scores.shape(1), assignment, space);
        value[i] = best.value;
        bound[i] = best.bound;
        exact[i] = best.exact;
        for (std::size_t k = 0; k < labels; ++k) y[i * labels + k] = assignment[k >> 6] >> (k & 63) & 1;
    });
    return out;
}

nb::object max_marginals(const CliqueInference& inference, Matrix<double> scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), labels = inference.subsets().labels;
    double* difference;
    auto out = array({rows, labels}, difference);
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        inference.max_marginals(scores.data() + i * scores.shape(1), difference + i * labels, space);
    });
    return out;
}

nb::tuple log_partition(const CliqueInference& inference, Matrix<double> scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), size = scores.shape(1);
    double *total, *moments;
    auto out = nb::make_tuple(array({rows}, total), array({rows, size}, moments));
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        total[i] = inference.log_partition(scores.data() + i * size, moments + i * size, space);
    });
    return out;
}

// For tests: which labels roof duality fixes (1 on, -1 off, 0 not told), and its bound, for each row.
nb::tuple roof_duality(Matrix<double> unary, Matrix<std::int32_t> pairs, Matrix<double> coupling) {
    const std::size_t rows = unary.shape(0), labels = unary.shape(1);
    std::vector<std::pair<int, int>> list;
    for (std::size_t e = 0; e < pairs.shape(0); ++e) list.emplace_back(pairs(e, 0), pairs(e, 1));
    const RoofDuality roof(labels, std::move(list));
    auto scratch = roof.scratch();
    std::int8_t* fixed;
    double* bound;
    auto out = nb::make_tuple(array({rows, labels}, fixed), array({rows}, bound));
    for (std::size_t i = 0; i < rows; ++i)
        bound[i] =
            roof.solve(unary.data() + i * labels, coupling.data() + i * coupling.shape(1), fixed + i * labels, scratch);
    return out;
}

int treewidth(const CliqueInference& inference) {
    int most = 0;
    for (const auto& part : inference.parts()) most = std::max(most, part.treewidth);
    return most;
}

// Labels, treewidth and method of each connected component.
nb::list components(const CliqueInference& inference) {
    nb::list out;
    for (const auto& part : inference.parts()) {
        nb::list labels;
        for (auto k : part.labels) labels.append(k);
        out.append(nb::make_tuple(labels, part.treewidth, name_of(part.method)));
    }
    return out;
}

}  // namespace

void bind_clique_inference(nb::module_& m) {
    m.def("roof_duality", &roof_duality, nb::arg("unary").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("coupling").noconvert());
    nb::class_<CliqueInference>(m, "CliqueInference")
        .def(
            "__init__",
            [](CliqueInference* self, std::size_t n_labels, Vector<std::int64_t> starts, Vector<std::int32_t> members,
               const std::string& method, int treewidth_limit, int node_limit, int iteration_limit) {
                InferenceOptions options;
                options.method = method_named(method);
                options.treewidth_limit = treewidth_limit;
                options.node_limit = node_limit;
                options.iteration_limit = iteration_limit;
                new (self) CliqueInference(subsets_of(n_labels, starts, members), options);
            },
            nb::arg("n_labels"), nb::arg("starts").noconvert(), nb::arg("members").noconvert(), nb::arg("method"),
            nb::arg("treewidth_limit"), nb::arg("node_limit"), nb::arg("iteration_limit"))
        .def("maximize", &maximize, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def("max_marginals", &max_marginals, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def("log_partition", &log_partition, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def_prop_ro("has_sums", &CliqueInference::has_sums)
        .def_prop_ro("treewidth", &treewidth)
        .def_prop_ro("components", &components);
}
