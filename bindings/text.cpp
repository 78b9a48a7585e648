#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>

#include "bindings/python_control.hpp"
#include "core/text/arff.hpp"
#include "core/text/csv.hpp"
#include "core/text/sparse.hpp"

namespace nb = nanobind;
using namespace multimargin;
using namespace multimargin::bindings;
using namespace multimargin::text;

using Int32s = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static std::string_view view(const nb::bytes& text) { return {text.c_str(), text.size()}; }
static nb::bytes to_bytes(const std::string& s) { return nb::bytes(s.data(), s.size()); }

template <class T>
using Items = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Csr = std::tuple<Items<double>, Items<std::int32_t>, Items<std::int64_t>>;  // values, columns, offsets
using LabelCells = std::tuple<Items<std::int32_t>, Items<std::int64_t>>;          // columns, offsets
using Range = std::tuple<Index, Index, Index, Index>;  // smallest, its line, largest, its line

template <class T>
static Items<T> to_array(std::vector<T>&& items) {
    auto kept_until_owned = std::make_unique<std::vector<T>>(std::move(items));
    auto* kept = kept_until_owned.get();
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    kept_until_owned.release();
    return Items<T>(kept->data(), {kept->size()}, owner);
}

static Csr to_tuple(CsrMatrix&& x) {
    return {to_array(std::move(x.values)), to_array(std::move(x.columns)), to_array(std::move(x.offsets))};
}

static LabelCells to_tuple(LabelRows&& y) { return {to_array(std::move(y.columns)), to_array(std::move(y.offsets))}; }

static Range to_tuple(const Extent& e) { return {e.smallest, e.smallest_line, e.largest, e.largest_line}; }

using RowReader = void (*)(std::string_view, const Header&, Table&, Control&);

// Features, dense or CSR, labels, unknown labels, and texts.
using FoundTable = std::tuple<std::variant<Items<double>, Csr>, LabelCells, LabelCells, std::vector<nb::bytes>>;

static FoundTable read_table(RowReader read, const nb::bytes& text, const Header& header, const Int32s& label_of,
                             const Int32s& column_of, Index columns, bool dense, bool missing_as_nan,
                             std::size_t max_bytes, Index text_at) {
    const auto width = header.attributes.size();
    if (label_of.size() != width || column_of.size() != width)
        throw std::invalid_argument("label_of and column_of must have one entry per attribute");
    const Plan plan{
        {label_of.data(), width}, {column_of.data(), width}, columns, dense, missing_as_nan, max_bytes, text_at};
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    Table table(header, plan);
    {
        nb::gil_scoped_release release;
        read(view(text), header, table, control);
    }
    std::variant<Items<double>, Csr> x = to_array(std::move(table.dense));
    if (!dense) x = to_tuple(std::move(table.sparse));
    std::vector<nb::bytes> texts;
    texts.reserve(table.texts.size());
    for (const auto& text_of_row : table.texts) texts.push_back(to_bytes(text_of_row));
    return {std::move(x), to_tuple(std::move(table.labels)), to_tuple(std::move(table.unknown)), std::move(texts)};
}

using SparseReader = SparseText (*)(std::string_view, std::size_t, Control&);

static std::tuple<Csr, LabelCells, Range, Range, Index, Index> read_sparse(SparseReader read, const nb::bytes& text,
                                                                           std::size_t max_bytes) {
    PythonControl control(nb::none(), std::numeric_limits<double>::infinity());
    SparseText out;
    {
        nb::gil_scoped_release release;
        out = read(view(text), max_bytes, control);
    }
    return {to_tuple(std::move(out.features)),
            to_tuple(std::move(out.labels)),
            to_tuple(out.feature_extent),
            to_tuple(out.label_extent),
            out.n_features,
            out.n_labels};
}

void bind_readers(nb::module_& m) {
    nb::exception<TextError>(m, "TextError", PyExc_ValueError);
    nb::enum_<Kind>(m, "Kind")
        .value("number", Kind::number)
        .value("binary", Kind::binary)
        .value("nominal", Kind::nominal)
        .value("other", Kind::other);
    nb::class_<Header>(m, "Header")
        .def_prop_ro("relation", [](const Header& h) { return to_bytes(h.relation); })
        .def_ro("sparse", &Header::sparse)
        // name, kind, categories and line of each
        .def_prop_ro("attributes", [](const Header& h) {
            std::vector<std::tuple<nb::bytes, Kind, std::vector<nb::bytes>, Index>> out;
            for (const Attribute& a : h.attributes) {
                std::vector<nb::bytes> categories;
                for (const auto& c : a.categories) categories.push_back(to_bytes(c));
                out.emplace_back(to_bytes(a.name), a.kind, std::move(categories), a.line);
            }
            return out;
        });
    m.attr("MOST_FEATURES") = most_features;
    m.attr("MOST_LABELS") = most_labels;
    m.def(
        "arff_header",
        [](const nb::bytes& text, std::size_t max_bytes) { return read_arff_header(view(text), max_bytes); },
        nb::arg("text"), nb::arg("max_bytes"));
    m.def(
        "csv_header",
        [](const nb::bytes& text, char delimiter, std::size_t max_bytes) {
            return read_csv_header(view(text), delimiter, max_bytes);
        },
        nb::arg("text"), nb::arg("delimiter"), nb::arg("max_bytes"));
    const auto bind_rows = [&m](const char* name, RowReader read) {
        m.def(
            name,
            [read](const nb::bytes& text, const Header& header, const Int32s& label_of, const Int32s& column_of,
                   Index columns, bool dense, bool missing_as_nan, std::size_t max_bytes, Index text_at) {
                return read_table(read, text, header, label_of, column_of, columns, dense, missing_as_nan, max_bytes,
                                  text_at);
            },
            nb::arg("text"), nb::arg("header"), nb::arg("label_of"), nb::arg("column_of"), nb::arg("columns"),
            nb::arg("dense"), nb::arg("missing_as_nan"), nb::arg("max_bytes"), nb::arg("text_at") = -1);
    };
    m.attr("UNNAMED_FIRST_COLUMN") = nb::str(unnamed_first_column.data(), unnamed_first_column.size());
    bind_rows("arff_rows", &read_arff_rows);
    bind_rows("csv_rows", &read_csv_rows);
    const auto bind_sparse = [&m](const char* name, SparseReader read) {
        m.def(
            name, [read](const nb::bytes& text, std::size_t max_bytes) { return read_sparse(read, text, max_bytes); },
            nb::arg("text"), nb::arg("max_bytes"));
    };
    bind_sparse("libsvm_rows", &read_libsvm);
    bind_sparse("xmc_rows", &read_xmc);
}
