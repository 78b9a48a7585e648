// The native module: each room of the core has its own <room>.cpp, registered here.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_control(nb::module_& m);
void bind_matrix(nb::module_& m);
void bind_m3l(nb::module_& m);
void bind_m3l_newton(nb::module_& m);
void bind_rank_svm(nb::module_& m);
void bind_separation(nb::module_& m);
void bind_gram(nb::module_& m);
void bind_kernel_m3l(nb::module_& m);
void bind_stratify(nb::module_& m);
void bind_readers(nb::module_& m);
void bind_submodular(nb::module_& m);
void bind_clique_inference(nb::module_& m);
void bind_cliques(nb::module_& m);
void bind_decisions(nb::module_& m);

NB_MODULE(_core, m) {
    m.doc() = "Native core of multimargin. Not public: use the estimators.";
    bind_control(m);
    bind_matrix(m);
    bind_m3l(m);
    bind_m3l_newton(m);
    bind_rank_svm(m);
    bind_separation(m);
    bind_gram(m);
    bind_kernel_m3l(m);
    bind_stratify(m);
    bind_readers(m);
    bind_submodular(m);
    bind_clique_inference(m);
    bind_cliques(m);
    bind_decisions(m);
}
