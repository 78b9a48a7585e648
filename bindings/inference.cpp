#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

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
    check_members(subsets);
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

Array moved_flags(std::vector<std::uint8_t>&& flags) {
    static_assert(sizeof(bool) == 1);
    auto* kept = new std::vector<std::uint8_t>(std::move(flags));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<std::uint8_t>*>(p); });
    const std::size_t size = kept->size();
    return Array(kept->data(), 1, &size, owner, nullptr, nb::dtype<bool>());
}

// One entry per row: the labelling found and its value; no labelling has more than the bound; whether that is proved.
struct Labellings {
    Array y, value, bound, exact;
};

Labellings maximize(const CliqueInference& inference, const Matrix<double>& scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), labels = inference.subsets().labels, words = inference.words();
    std::vector<std::uint8_t> y(rows * labels), exact(rows);
    std::vector<double> value(rows), bound(rows);
    std::vector<std::uint64_t> bits(rows * words);
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        std::uint64_t* assignment = bits.data() + i * words;
        const auto best = inference.maximize(scores.data() + i * scores.shape(1), assignment, space);
        value[i] = best.value;
        bound[i] = best.bound;
        exact[i] = best.exact;
        for (std::size_t k = 0; k < labels; ++k) y[i * labels + k] = assignment[k >> 6] >> (k & 63) & 1;
    });
    const auto n = static_cast<Index>(rows);
    return {moved_array(std::move(y), {n, static_cast<Index>(labels)}), moved_array(std::move(value), {n}),
            moved_array(std::move(bound), {n}), moved_flags(std::move(exact))};
}

Array max_marginals(const CliqueInference& inference, const Matrix<double>& scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), labels = inference.subsets().labels;
    std::vector<double> difference(rows * labels);
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        inference.max_marginals(scores.data() + i * scores.shape(1), difference.data() + i * labels, space);
    });
    return moved_array(std::move(difference), {static_cast<Index>(rows), static_cast<Index>(labels)});
}

// Logarithm of the sum over all labellings of a row, and the moments E chi_T.
struct Sums {
    Array log_partition, moments;
};

Sums sums(const CliqueInference& inference, const Matrix<double>& scores, int threads) {
    check(inference, scores);
    const std::size_t rows = scores.shape(0), size = scores.shape(1);
    std::vector<double> total(rows), moments(rows * size);
    each_row(inference, rows, threads, [&](std::size_t i, CliqueInference::Workspace& space) {
        total[i] = inference.log_partition(scores.data() + i * size, moments.data() + i * size, space);
    });
    return {moved_array(std::move(total), {static_cast<Index>(rows)}),
            moved_array(std::move(moments), {static_cast<Index>(rows), static_cast<Index>(size)})};
}

// Which labels roof duality fixes (1 on, -1 off, 0 not told), and its bound, for each row.
struct RoofFixes {
    Array fixed, bound;
};

RoofFixes roof_duality(const Matrix<double>& unary, const Matrix<std::int32_t>& pairs, const Matrix<double>& coupling) {
    const std::size_t rows = unary.shape(0), labels = unary.shape(1);
    std::vector<std::pair<int, int>> list;
    for (std::size_t e = 0; e < pairs.shape(0); ++e) list.emplace_back(pairs(e, 0), pairs(e, 1));
    const RoofDuality roof(labels, std::move(list));
    auto scratch = roof.scratch();
    std::vector<std::int8_t> fixed(rows * labels);
    std::vector<double> bound(rows);
    for (std::size_t i = 0; i < rows; ++i)
        bound[i] = roof.solve(unary.data() + i * labels, coupling.data() + i * coupling.shape(1),
                              fixed.data() + i * labels, scratch);
    return {moved_array(std::move(fixed), {static_cast<Index>(rows), static_cast<Index>(labels)}),
            moved_array(std::move(bound), {static_cast<Index>(rows)})};
}

int treewidth(const CliqueInference& inference) {
    int most = 0;
    for (const auto& part : inference.parts()) most = std::max(most, part.treewidth);
    return most;
}

}  // namespace

void bind_clique_inference(nb::module_& m) {
    nb::class_<LabelSubsets>(m, "LabelSubsets", "Subsets of the labels, one after the other.")
        .def(
            "__init__",
            [](LabelSubsets* self, std::size_t n_labels, const Vector<std::int64_t>& starts,
               const Vector<std::int32_t>& members) { new (self) LabelSubsets(subsets_of(n_labels, starts, members)); },
            nb::arg("n_labels"), nb::arg("starts").noconvert(), nb::arg("members").noconvert());
    nb::class_<CliqueInference::Part>(m, "Component", "A connected component of the label graph.")
        .def_ro("labels", &CliqueInference::Part::labels)
        .def_ro("treewidth", &CliqueInference::Part::treewidth)
        .def_prop_ro("method", [](const CliqueInference::Part& part) { return name_of(part.method); });
    nb::class_<Labellings>(m, "Labellings", "The best labelling of every row.")
        .def_ro("y", &Labellings::y, nb::rv_policy::automatic, "rows x labels, 0 or 1")
        .def_ro("value", &Labellings::value, nb::rv_policy::automatic)
        .def_ro("bound", &Labellings::bound, nb::rv_policy::automatic, "no labelling has more")
        .def_ro("exact", &Labellings::exact, nb::rv_policy::automatic,
                "whether the labelling is proved to be the best");
    nb::class_<Sums>(m, "Sums", "Sums over all labellings of every row.")
        .def_ro("log_partition", &Sums::log_partition, nb::rv_policy::automatic)
        .def_ro("moments", &Sums::moments, nb::rv_policy::automatic, "rows x subsets");
    constexpr InferenceOptions usual;
    nb::class_<CliqueInference>(m, "CliqueInference", "Inference compiled for a list of label subsets.")
        .def(
            "__init__",
            [](CliqueInference* self, const LabelSubsets& subsets, const std::string& method, int treewidth_limit,
               int node_limit, int iteration_limit) {
                InferenceOptions options;
                options.method = method_named(method);
                options.treewidth_limit = treewidth_limit;
                options.node_limit = node_limit;
                options.iteration_limit = iteration_limit;
                new (self) CliqueInference(subsets, options);
            },
            nb::arg("subsets"), nb::kw_only(), nb::arg("method") = "auto",
            nb::arg("treewidth_limit") = usual.treewidth_limit, nb::arg("node_limit") = usual.node_limit,
            nb::arg("iteration_limit") = usual.iteration_limit)
        .def("maximize", &maximize, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def("max_marginals", &max_marginals, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def("sums", &sums, nb::arg("scores").noconvert(), nb::arg("threads"))
        .def_prop_ro("has_sums", &CliqueInference::has_sums)
        .def_prop_ro("treewidth", &treewidth)
        .def_prop_ro("components", &CliqueInference::parts);
}

void bind_testing_inference(nb::module_& m) {
    nb::class_<RoofFixes>(m, "RoofFixes", "What roof duality finds out about every row.")
        .def_ro("fixed", &RoofFixes::fixed, nb::rv_policy::automatic, "1 on, -1 off, 0 not told")
        .def_ro("bound", &RoofFixes::bound, nb::rv_policy::automatic);
    m.def("roof_duality", &roof_duality, nb::arg("unary").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("coupling").noconvert());
}
