// The native module: each room of the core has its own <room>.cpp, registered here.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_fit(nb::module_& m);
void bind_labels(nb::module_& m);
void bind_matrix(nb::module_& m);
void bind_m3l_linear(nb::module_& m);
void bind_rank_svm(nb::module_& m);
void bind_category_ranking(nb::module_& m);
void bind_separation(nb::module_& m);
void bind_boosting(nb::module_& m);
void bind_gram(nb::module_& m);
void bind_m3l_partition(nb::module_& m);
void bind_m3l_partition_newton(nb::module_& m);
void bind_m3l_kernel(nb::module_& m);
void bind_kernel_certifier(nb::module_& m);
void bind_stratify(nb::module_& m);
void bind_readers(nb::module_& m);
void bind_submodular(nb::module_& m);
void bind_cuts(nb::module_& m);
void bind_testing(nb::module_& m);
void bind_clique_inference(nb::module_& m);
void bind_cliques(nb::module_& m);
void bind_decisions(nb::module_& m);
void bind_prediction(nb::module_& m);
void bind_testing_inference(nb::module_& m);
void bind_testing_cliques(nb::module_& m);

NB_MODULE(_core, m) {
    m.doc() = "Native core of multimargin. Not public: use the estimators.";
    bind_fit(m);
    bind_labels(m);
    bind_matrix(m);
    bind_m3l_linear(m);
    bind_rank_svm(m);
    bind_category_ranking(m);
    bind_separation(m);
    bind_boosting(m);
    bind_gram(m);
    bind_m3l_partition(m);
    bind_m3l_partition_newton(m);
    bind_m3l_kernel(m);
    bind_kernel_certifier(m);
    bind_stratify(m);
    bind_readers(m);
    bind_cuts(m);
    bind_submodular(m);
    bind_clique_inference(m);
    bind_cliques(m);
    bind_decisions(m);
    bind_prediction(m);
    nb::module_ testing = m.def_submodule("testing", "What only tests and benchmarks call.");
    bind_testing(testing);
    bind_testing_inference(testing);
    bind_testing_cliques(testing);
}
