#include <optional>

#include "bindings/labels.hpp"
#include "bindings/python_control.hpp"
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

struct Call {
    const M3LParams& params;
    PythonControl& control;
    const nb::object& start;
};

template <class T, class Engine>
nb::dict run(Engine& engine, Index rows, Index labels, Index intercepts, const Call& call) {
    const T* start = call.start.is_none() ? nullptr : matrix_of<T>(call.start, rows, labels).data();
    M3LResult result;
    {
        nb::gil_scoped_release release;
        if (start) engine.start_from(start, call.control);
        result = run_rounds<T>(engine, rows, start != nullptr, call.params, call.control);
    }
    nb::dict out;
    out["primal"] = result.certificate.primal;
    out["dual"] = result.certificate.dual;
    out["passes"] = result.passes;
    out["status"] = name_of(result.status);
    out["beta"] = new_array<T>({static_cast<std::size_t>(rows), static_cast<std::size_t>(labels)},
                               [&](T* beta) { engine.copy_beta(beta); });
    out["dual_beta"] = new_array<T>({static_cast<std::size_t>(rows), static_cast<std::size_t>(labels)},
                                    [&](T* beta) { engine.copy_dual_beta(beta); });
    out["intercept"] = new_array<T>({static_cast<std::size_t>(intercepts)}, [&](T* to) { engine.copy_intercept(to); });
    return out;
}

// gram: the whole matrix (see gram_matrix), or None and `compute` gives rows, `capacity` of which are kept.
// factor: P with R = P P', or None for R = I. targets: y m (rows x labels), or None for margins of 1.
template <class T>
nb::dict fit(nb::object gram, nb::object compute, Index n_rows, Index capacity, Index n_labels, nb::object positives,
             nb::object missing, nb::tuple costs, nb::object factor, nb::object targets, double bias, nb::object start,
             double tol, int max_iter, int threads, std::uint64_t seed, nb::object report, double time_limit) {
    PythonControl control(std::move(report), time_limit);
    const M3LParams params{tol, max_iter, threads, seed};
    const Call call{params, control, start};
    const auto labels = label_cells<T>(n_rows, n_labels, positives, missing, costs);
    PythonRows<T> source(std::move(compute), n_rows);
    std::optional<GramRows<T>> rows;
    if (gram.is_none()) {
        rows.emplace(source, n_rows, capacity);
    } else {
        const auto matrix = exactly<Matrix<T>>(gram);
        if (static_cast<Index>(matrix.shape(0)) != n_rows ||
            static_cast<Index>(matrix.shape(1)) != gram_stride(n_rows) ||
            reinterpret_cast<std::uintptr_t>(matrix.data()) % 64)
            throw std::invalid_argument("gram must come from gram_matrix");
        rows.emplace(matrix.data(), n_rows);
    }
    if (factor.is_none()) {
        KernelEngine<T> engine(*rows, labels, static_cast<T>(bias), tol, threads);
        return run<T>(engine, n_rows, n_labels, n_labels, call);
    }
    const auto P = exactly<Matrix<T>>(factor);
    expect(static_cast<Index>(P.shape(0)) == n_labels, "the factor of the prior does not fit the labels");
    const T* margins = targets.is_none() ? nullptr : matrix_of<T>(targets, n_rows, n_labels).data();
    const auto rank = static_cast<Index>(P.shape(1));
    CoupledKernelEngine<T> engine(*rows, labels, P.data(), rank, margins, static_cast<T>(bias), threads);
    return run<T>(engine, n_rows, n_labels, rank, call);
}

template <class T>
void bind(nb::module_& m, const char* name) {
    m.def(name, &fit<T>, nb::arg("gram").none(), nb::arg("compute").none(), nb::arg("n_rows"), nb::arg("capacity"),
          nb::arg("n_labels"), nb::arg("positives"), nb::arg("missing").none(), nb::arg("costs"),
          nb::arg("factor").none(), nb::arg("targets").none(), nb::arg("bias"), nb::arg("start").none(), nb::arg("tol"),
          nb::arg("max_iter"), nb::arg("threads"), nb::arg("seed"), nb::arg("report").none(), nb::arg("time_limit"));
}

}  // namespace

void bind_kernel_m3l(nb::module_& m) {
    bind<float>(m, "fit_kernel_m3l_float32");
    bind<double>(m, "fit_kernel_m3l_float64");
}
