#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>

#include <limits>
#include <optional>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/decisions/cuts.hpp"
#include "core/decisions/expected_f.hpp"
#include "core/decisions/label_counts.hpp"
#include "core/decisions/offset.hpp"
#include "core/decisions/platt.hpp"

namespace nb = nanobind;

namespace {

using namespace multimargin::bindings;
using multimargin::Index;
namespace rules = multimargin::decisions;

// Marked cells as the rows of each column; holds on to the arrays.
struct PythonMarks {
    Vector<std::int64_t> offsets, rows;

    rules::Marks list() const { return {view(offsets), view(rows)}; }
};

PythonMarks checked_marks(Vector<std::int64_t> offsets, Vector<std::int64_t> rows, Index n_rows) {
    const auto starts = view(offsets);
    expect(!starts.empty() && starts.front() == 0 && starts.back() <= static_cast<Index>(rows.shape(0)) &&
               std::ranges::is_sorted(starts),
           "the offsets of the cells must rise from 0 to their number");
    for (auto i : view(rows)) expect(i >= 0 && i < n_rows, "row of a cell out of range");
    return {std::move(offsets), std::move(rows)};
}

rules::Marks fitting(const PythonMarks& marks, std::size_t cols) {
    expect(marks.offsets.shape(0) == cols + 1, "the cells do not fit the labels");
    return marks.list();
}

rules::ColumnLabels column_labels(const PythonMarks& positives, const std::optional<PythonMarks>& unknown,
                                  std::size_t cols) {
    return {fitting(positives, cols), unknown ? fitting(*unknown, cols) : rules::Marks{}};
}

// Scores of some cells, column by column.
struct PythonSparseScores {
    std::variant<Vector<float>, Vector<double>> values;
    PythonMarks cells;
    Index n_rows;
};

using Scores = std::variant<Matrix<float>, Matrix<double>, PythonSparseScores>;

// Calls work(columns) for scores of either layout and precision.
template <class Work>
auto with_columns(const Scores& scores, Work&& work) {
    return std::visit(
        [&]<class S>(const S& given) {
            if constexpr (std::is_same_v<S, PythonSparseScores>) {
                return std::visit(
                    [&]<class V>(const V& values) {
                        using T = std::remove_const_t<typename V::Scalar>;
                        const auto cells = given.cells.list();
                        expect(values.shape(0) == cells.row_of.size(), "the values do not fit the cells");
                        rules::SparseColumns<T> columns({values.data(), values.shape(0)}, cells.row_of, cells.offsets,
                                                        static_cast<std::size_t>(given.n_rows));
                        return work(columns);
                    },
                    given.values);
            } else {
                using T = std::remove_const_t<typename S::Scalar>;
                rules::DenseColumns<T> columns(given.data(), given.shape(0), given.shape(1));
                return work(columns);
            }
        },
        scores);
}

void expect_length(const Vector<double>& vector, std::size_t size) {
    expect(vector.shape(0) == size, "a vector of another length than the core expects");
}

template <class T>
Array array_of(std::vector<T> values) {
    const auto size = static_cast<Index>(values.size());
    return moved_array(std::move(values), {size});
}

// The outside world, looked at between labels and rows.
class Interruption {
  public:
    Interruption() : control_(nb::none(), std::numeric_limits<double>::infinity()) {}
    void after(std::size_t work) { control_.leave_after(static_cast<std::int64_t>(work)); }

  private:
    PythonControl control_;
};

// rules::Cuts for Python.
struct FoundCuts {
    Array offsets, thresholds, hits, predicted, positives, squares, known, quota, lowest;
};

FoundCuts cuts(const Scores& scores, const PythonMarks& positives, const std::optional<PythonMarks>& unknown,
               Vector<double> weights) {
    auto found = with_columns(scores, [&](auto& columns) {
        const auto labels = column_labels(positives, unknown, columns.cols());
        expect_length(weights, columns.rows());
        Interruption interruption;
        nb::gil_scoped_release release;
        rules::CutFinder finder(columns, labels, view(weights));
        rules::Cuts all;
        for (std::size_t l = 0; l < columns.cols(); ++l) {
            finder.append(l, all);
            interruption.after(20 * columns.rows());
        }
        return all;
    });
    return {
        array_of(std::move(found.offsets)),   array_of(std::move(found.thresholds)), array_of(std::move(found.hits)),
        array_of(std::move(found.predicted)), array_of(std::move(found.positives)),  array_of(std::move(found.squares)),
        array_of(std::move(found.known)),     array_of(std::move(found.quota)),      array_of(std::move(found.lowest))};
}

bool fits(std::span<const std::int64_t> starts, std::size_t cells) {
    return !starts.empty() && starts.front() == 0 && std::is_sorted(starts.begin(), starts.end()) &&
           starts.back() == static_cast<std::int64_t>(cells);
}

// The cells of each group, with their members; without, one for each member in order.
struct PythonGroups {
    Vector<double> values;
    Vector<std::int64_t> starts;
    std::optional<Vector<std::int64_t>> members;
    Index n_members;
};

PythonGroups checked_groups(Vector<double> values, Vector<std::int64_t> starts,
                            std::optional<Vector<std::int64_t>> members, Index n_members) {
    const auto from = view(starts);
    expect(fits(from, values.shape(0)) && (!members || members->shape(0) == values.shape(0)),
           "the cells do not fit the groups");
    if (members)
        for (auto m : view(*members)) expect(m >= 0 && m < n_members, "member of a group out of range");
    else
        for (std::size_t g = 0; g + 1 < from.size(); ++g)
            expect(from[g + 1] - from[g] == n_members, "a group without all its members");
    return {std::move(values), std::move(starts), std::move(members), n_members};
}

// The best offset and its value.
std::pair<double, double> best_offset(const PythonGroups& groups, const PythonMarks& positives,
                                      const std::optional<PythonMarks>& unknown, Vector<double> group_weights,
                                      Vector<double> member_weights, double beta_squared, bool at_least_one) {
    const auto n_groups = groups.starts.shape(0) - 1;
    expect_length(group_weights, n_groups);
    expect_length(member_weights, static_cast<std::size_t>(groups.n_members));
    const auto labels = column_labels(positives, unknown, n_groups);
    const rules::OffsetProblem problem{view(groups.values),
                                       view(groups.starts),
                                       groups.members ? view(*groups.members) : std::span<const std::int64_t>{},
                                       labels.positive,
                                       labels.unknown,
                                       view(group_weights),
                                       view(member_weights),
                                       beta_squared,
                                       at_least_one};
    rules::Offset best{};
    {
        Interruption interruption;
        nb::gil_scoped_release release;
        rules::OffsetSweep sweep(problem);
        for (std::size_t g = 0; g < n_groups; ++g) {
            sweep.add(g);
            interruption.after(20 * static_cast<std::size_t>(problem.starts[g + 1] - problem.starts[g]));
        }
        best = sweep.best();
    }
    return {best.threshold, best.value};
}

// One line per label, and its variance; targets, centre, precision and start are (labels, 2).
std::pair<Array, Array> lines(const Scores& scores, const PythonMarks& positives,
                              const std::optional<PythonMarks>& unknown, Vector<double> weights, double scale,
                              Matrix<double> targets, Matrix<double> centre, Matrix<double> precision,
                              Vector<std::uint8_t> fixed_slope, Matrix<double> start) {
    return with_columns(scores, [&](auto& columns) -> std::pair<Array, Array> {
        const auto n_labels = columns.cols();
        const auto labels = column_labels(positives, unknown, n_labels);
        expect_length(weights, columns.rows());
        for (const auto& matrix : {targets, centre, precision, start})
            expect(matrix.shape(0) == n_labels && matrix.shape(1) == 2, "the lines do not fit the labels");
        expect(fixed_slope.shape(0) == n_labels, "the lines do not fit the labels");
        std::vector<rules::LineFit> fits(n_labels);
        {
            Interruption interruption;
            nb::gil_scoped_release release;
            rules::ColumnReader reader(labels, view(weights));
            const auto pair = [](const Matrix<double>& m, std::size_t l) {
                return rules::Line{m.data()[2 * l], m.data()[2 * l + 1]};
            };
            std::vector<rules::Cell> positive, negative;
            const auto scaled = [&](const std::vector<rules::Cell>& cells, std::vector<rules::Cell>& out) {
                out.clear();
                for (const auto& cell : cells) out.push_back({cell.score / scale, cell.weight});
            };
            for (std::size_t l = 0; l < n_labels; ++l) {
                const auto& cells = reader.read(columns, l);
                scaled(cells.positive, positive);
                scaled(cells.negative, negative);
                const rules::LineProblem problem{targets.data()[2 * l], targets.data()[2 * l + 1], pair(centre, l),
                                                 pair(precision, l), fixed_slope.data()[l] != 0};
                fits[l] = rules::LineFitter(positive, negative, problem).fit(pair(start, l));
                interruption.after(200 * columns.rows());
            }
        }
        const auto table = [&](rules::Line rules::LineFit::* which) {
            std::vector<double> out;
            for (const auto& fit : fits) {
                out.push_back((fit.*which).slope);
                out.push_back((fit.*which).offset);
            }
            return moved_array(std::move(out), {static_cast<Index>(n_labels), 2});
        };
        return {table(&rules::LineFit::line), table(&rules::LineFit::variance)};
    });
}

// The set of largest expected F of every row, 1 for the cells that belong to it, and its value. Row i has the
// probabilities starts[i] .. starts[i + 1].
std::pair<Array, Array> best_expected_f(Vector<double> probabilities, Vector<std::int64_t> starts,
                                        double beta_squared) {
    const auto p = view(probabilities);
    const auto from = view(starts);
    expect(fits(from, p.size()), "the probabilities do not fit the rows");
    std::vector<double> values(from.size() - 1);
    std::vector<std::uint8_t> chosen(p.size());
    {
        Interruption interruption;
        nb::gil_scoped_release release;
        rules::ExpectedF decoder(beta_squared);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto begin = static_cast<std::size_t>(from[i]), size = static_cast<std::size_t>(from[i + 1]) - begin;
            values[i] = decoder.decode(p.subspan(begin, size), std::span(chosen).subspan(begin, size));
            interruption.after(100 * size);
        }
    }
    return {array_of(std::move(chosen)), array_of(std::move(values))};
}

// Subsets of the labels as lists of members, and the order in which labels are eliminated.
struct PythonElimination {
    PythonMarks subsets;
    Vector<std::int64_t> order;
    int most_neighbours;

    rules::LabelCounts counts(const Matrix<double>& scores, bool counting) const {
        expect(scores.shape(1) + 1 == subsets.offsets.shape(0), "the scores do not fit the label subsets");
        return {order.shape(0), view(subsets.offsets), view(subsets.rows), view(order), most_neighbours, counting};
    }
};

PythonElimination checked_elimination(Vector<std::int64_t> starts, Vector<std::int64_t> members,
                                      Vector<std::int64_t> order, int most_neighbours) {
    const auto labels = order.shape(0);
    auto subsets = checked_marks(std::move(starts), std::move(members), static_cast<Index>(labels));
    const auto from = view(subsets.offsets);
    for (std::size_t t = 0; t + 1 < from.size(); ++t) expect(from[t] < from[t + 1], "a label subset without labels");
    std::vector<std::uint8_t> seen(labels, 0);
    for (const auto l : view(order)) {
        expect(l >= 0 && l < static_cast<Index>(labels) && !seen[static_cast<std::size_t>(l)],
               "the order must hold every label once");
        seen[static_cast<std::size_t>(l)] = 1;
    }
    return {std::move(subsets), std::move(order), most_neighbours};
}

// P(y_l = 1, |y| = k) of every row, from the scores of label subsets.
Array label_counts(const PythonElimination& elimination, Matrix<double> scores) {
    auto counts = elimination.counts(scores, true);
    const auto rows = scores.shape(0), labels = elimination.order.shape(0);
    std::vector<double> out(rows * labels * labels);
    {
        Interruption interruption;
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < rows; ++i) {
            counts.compute(scores.data() + i * scores.shape(1), out.data() + i * labels * labels);
            interruption.after(100 * labels * labels);
        }
    }
    return moved_array(std::move(out),
                       {static_cast<Index>(rows), static_cast<Index>(labels), static_cast<Index>(labels)});
}

// log of the sum over all labellings of every row.
Array label_partition(const PythonElimination& elimination, Matrix<double> scores) {
    auto counts = elimination.counts(scores, false);
    std::vector<double> out(scores.shape(0));
    {
        Interruption interruption;
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = counts.partition(scores.data() + i * scores.shape(1));
            interruption.after(100 * scores.shape(1));
        }
    }
    return array_of(std::move(out));
}

}  // namespace

void bind_decisions(nanobind::module_& m) {
    nb::class_<PythonMarks>(m, "Marks", "Marked cells as the rows of each column.")
        .def(
            "__init__",
            [](PythonMarks* self, Vector<std::int64_t> offsets, Vector<std::int64_t> rows, Index n_rows) {
                new (self) PythonMarks(checked_marks(std::move(offsets), std::move(rows), n_rows));
            },
            nb::arg("offsets").noconvert(), nb::arg("rows").noconvert(), nb::arg("n_rows"));
    nb::class_<PythonSparseScores>(m, "SparseScores", "Scores of some cells, column by column.")
        .def(
            "__init__",
            [](PythonSparseScores* self, std::variant<Vector<float>, Vector<double>> values,
               Vector<std::int64_t> offsets, Vector<std::int64_t> rows, Index n_rows) {
                auto cells = checked_marks(std::move(offsets), std::move(rows), n_rows);
                new (self) PythonSparseScores{std::move(values), std::move(cells), n_rows};
            },
            nb::arg("values").noconvert(), nb::arg("offsets").noconvert(), nb::arg("rows").noconvert(),
            nb::arg("n_rows"));
    nb::class_<PythonGroups>(m, "Groups", "Scores of the cells of each group, and to which members they belong.")
        .def(
            "__init__",
            [](PythonGroups* self, Vector<double> values, Vector<std::int64_t> starts,
               std::optional<Vector<std::int64_t>> members, Index n_members) {
                new (self)
                    PythonGroups(checked_groups(std::move(values), std::move(starts), std::move(members), n_members));
            },
            nb::arg("values").noconvert(), nb::arg("starts").noconvert(), nb::arg("members").noconvert().none(),
            nb::arg("n_members"));
    nb::class_<PythonElimination>(m, "LabelElimination", "Label subsets, and the order in which labels are eliminated.")
        .def(
            "__init__",
            [](PythonElimination* self, Vector<std::int64_t> starts, Vector<std::int64_t> members,
               Vector<std::int64_t> order, int most_neighbours) {
                new (self) PythonElimination(
                    checked_elimination(std::move(starts), std::move(members), std::move(order), most_neighbours));
            },
            nb::arg("starts").noconvert(), nb::arg("members").noconvert(), nb::arg("order").noconvert(),
            nb::arg("most_neighbours"));
    nb::class_<FoundCuts>(m, "Cuts", "The cuts of every label; label l has those from offsets[l] to offsets[l + 1].")
        .def_ro("offsets", &FoundCuts::offsets, nb::rv_policy::automatic)
        .def_ro("thresholds", &FoundCuts::thresholds, nb::rv_policy::automatic)
        .def_ro("hits", &FoundCuts::hits, nb::rv_policy::automatic)
        .def_ro("predicted", &FoundCuts::predicted, nb::rv_policy::automatic)
        .def_ro("positives", &FoundCuts::positives, nb::rv_policy::automatic)
        .def_ro("squares", &FoundCuts::squares, nb::rv_policy::automatic)
        .def_ro("known", &FoundCuts::known, nb::rv_policy::automatic)
        .def_ro("quota", &FoundCuts::quota, nb::rv_policy::automatic)
        .def_ro("lowest", &FoundCuts::lowest, nb::rv_policy::automatic);
    m.def("cuts", &cuts, nb::arg("scores").noconvert(), nb::arg("positives"), nb::arg("unknown").none(),
          nb::arg("weights").noconvert());
    m.def("best_offset", &best_offset, nb::arg("groups"), nb::arg("positives"), nb::arg("unknown").none(),
          nb::arg("group_weights").noconvert(), nb::arg("member_weights").noconvert(), nb::arg("beta_squared"),
          nb::arg("at_least_one"));
    m.def("lines", &lines, nb::arg("scores").noconvert(), nb::arg("positives"), nb::arg("unknown").none(),
          nb::arg("weights").noconvert(), nb::arg("scale"), nb::arg("targets").noconvert(),
          nb::arg("centre").noconvert(), nb::arg("precision").noconvert(), nb::arg("fixed_slope").noconvert(),
          nb::arg("start").noconvert());
    m.def("best_expected_f", &best_expected_f, nb::arg("probabilities").noconvert(), nb::arg("starts").noconvert(),
          nb::arg("beta_squared"));
    m.def("label_counts", &label_counts, nb::arg("elimination"), nb::arg("scores").noconvert());
    m.def("label_partition", &label_partition, nb::arg("elimination"), nb::arg("scores").noconvert());
}
