#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/fit.hpp"
#include "bindings/labels.hpp"
#include "core/m3l/kernel_coupled.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::labels;
using namespace multimargin::m3l;

namespace {

// Gram rows computed by Python: compute(int32 row numbers) -> array of shape (len(rows), n).
template <class T>
class PythonRows final : public RowSource<T> {
  public:
    PythonRows(nb::object compute, Index n) : compute_(std::move(compute)), n_(n) {}
    void compute(std::span<const std::int32_t> rows, std::span<T* const> out) override {
        nb::gil_scoped_acquire gil;
        constexpr std::size_t batch = 512;
        for (std::size_t first = 0; first < rows.size(); first += batch) {
            const auto part = rows.subspan(first, std::min(batch, rows.size() - first));
            const auto numbers =
                new_array<std::int32_t>({part.size()}, [&](auto* to) { std::copy(part.begin(), part.end(), to); });
            const auto values = exactly<Matrix<T>>(compute_(numbers));
            if (values.shape(0) != part.size() || static_cast<Index>(values.shape(1)) != n_)
                throw std::invalid_argument("the kernel gave Gram rows of another shape");
            for (std::size_t k = 0; k < part.size(); ++k)
                std::memcpy(out[first + k], values.data() + static_cast<Index>(k) * n_,
                            static_cast<std::size_t>(n_) * sizeof(T));
        }
    }

  private:
    nb::object compute_;
    Index n_;
};

// What a fit returns: coefficients of the rows and dual variables (rows x labels), and shifts of the scores.
struct KernelM3LFit {
    fit::FitResult result;
    Array beta, dual_beta, intercept;
};

template <class T, class Engine>
KernelM3LFit run(Engine& engine, Index rows, Index labels, Index intercepts, const T* start, const fit::Limits& limits,
                 Control& control) {
    fit::FitResult result;
    std::vector<T> beta(static_cast<std::size_t>(rows * labels)), dual_beta(beta.size()),
        intercept(static_cast<std::size_t>(intercepts));
    {
        nb::gil_scoped_release release;
        if (start) engine.start_from(start, control);
        KernelRounds<T, Engine> rounds(engine, rows, start != nullptr, limits, control);
        result = fit::run(rounds, limits, control);
        engine.copy_beta(beta.data());
        engine.copy_dual_beta(dual_beta.data());
        engine.copy_intercept(intercept.data());
    }
    return {result, moved_array(std::move(beta), {rows, labels}), moved_array(std::move(dual_beta), {rows, labels}),
            moved_array(std::move(intercept), {intercepts})};
}

// gram: the whole matrix (see gram_matrix), or None and `compute` gives rows, `capacity` of which are kept.
// factor: P with R = P P', or None for R = I.
template <class T>
KernelM3LFit fit_kernel(std::optional<Matrix<T>> gram, nb::object compute, Index capacity, const PythonLabels& labels,
                        const PythonMargins& margins, std::optional<Matrix<T>> factor, double bias,
                        std::optional<Matrix<T>> start, const PythonLimits& limits) {
    PythonControl control = limits.control();
    const auto source = margins.of(labels.view_of());
    const Index n = source.rows, n_labels = source.labels;
    const int threads = limits.core.threads;
    const auto fits = [](const auto& matrix, Index rows, Index cols) {
        return static_cast<Index>(matrix->shape(0)) == rows && static_cast<Index>(matrix->shape(1)) == cols;
    };
    expect((!factor || static_cast<Index>(factor->shape(0)) == n_labels) && (!start || fits(start, n, n_labels)),
           "the prior or the start do not fit the labels");
    expect(!gram || (fits(gram, n, gram_stride(n)) && reinterpret_cast<std::uintptr_t>(gram->data()) % 64 == 0),
           "gram must come from gram_matrix");
    const LabelCells<T> cells(source);
    PythonRows<T> computed(std::move(compute), n);
    GramRows<T> rows = gram ? GramRows<T>(gram->data(), n) : GramRows<T>(computed, n, capacity);
    const T* first = start ? start->data() : nullptr;
    if (!factor) {
        KernelEngine<T> engine(rows, cells, static_cast<T>(bias), limits.core.tol, threads);
        return run<T>(engine, n, n_labels, n_labels, first, limits.core, control);
    }
    const auto rank = static_cast<Index>(factor->shape(1));
    CoupledKernelEngine<T> engine(rows, cells, factor->data(), rank, static_cast<T>(bias), threads);
    return run<T>(engine, n, n_labels, rank, first, limits.core, control);
}

template <class T>
void bind(nb::module_& m, const char* name) {
    m.def(name, &fit_kernel<T>, nb::kw_only(), nb::arg("gram").noconvert().none(), nb::arg("compute").none(),
          nb::arg("capacity"), nb::arg("labels"), nb::arg("margins"), nb::arg("factor").noconvert().none(),
          nb::arg("bias"), nb::arg("start").noconvert().none(), nb::arg("limits"));
}

}  // namespace

void bind_m3l_kernel(nb::module_& m) {
    nb::class_<KernelM3LFit>(m, "KernelM3LFit", "What a kernel M3L fit leaves.")
        .def_ro("result", &KernelM3LFit::result)
        .def_ro("beta", &KernelM3LFit::beta, nb::rv_policy::automatic, "coefficients of the rows, rows x labels")
        .def_ro("dual_beta", &KernelM3LFit::dual_beta, nb::rv_policy::automatic, "signed dual variables, rows x labels")
        .def_ro("intercept", &KernelM3LFit::intercept, nb::rv_policy::automatic,
                "shifts of the scores, of latent dimensions for a prior");
    bind<float>(m, "fit_kernel_m3l_float32");
    bind<double>(m, "fit_kernel_m3l_float64");
}
