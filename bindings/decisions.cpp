#include <nanobind/nanobind.h>

#include <limits>

#include "bindings/arrays.hpp"
#include "bindings/python_control.hpp"
#include "core/decisions/cuts.hpp"
#include "core/decisions/expected_f.hpp"
#include "core/decisions/label_counts.hpp"
#include "core/decisions/offset.hpp"
#include "core/decisions/platt.hpp"

namespace {

using namespace multimargin::bindings;
using multimargin::Index;
namespace rules = multimargin::decisions;

// Marked cells as (offsets, rows), column by column; None: no cells.
rules::Marks marks(const nb::object& pair, std::size_t rows, std::size_t cols) {
    if (pair.is_none()) return {};
    const auto offsets = exactly<Vector<std::int64_t>>(pair[0]);
    const auto row_of = exactly<Vector<std::int64_t>>(pair[1]);
    const auto starts = view(offsets);
    expect(starts.size() == cols + 1 && starts.front() == 0 &&
               starts.back() <= static_cast<std::int64_t>(row_of.shape(0)) &&
               std::is_sorted(starts.begin(), starts.end()),
           "the cells do not fit the labels");
    for (auto i : view(row_of)) expect(i >= 0 && i < static_cast<std::int64_t>(rows), "row of a cell out of range");
    return {starts, view(row_of)};
}

template <class T>
Vector<T> vector_of(const nb::object& object, std::size_t size) {
    auto vector = exactly<Vector<T>>(object);
    expect(vector.shape(0) == size, "a vector of another length than the core expects");
    return vector;
}

// Calls work(columns) for scores of either layout and precision: a matrix, or (values, rows, offsets, number of rows).
template <class Work>
auto with_columns(const nb::object& scores, Work&& work) {
    if (nb::isinstance<nb::tuple>(scores)) {
        const auto rows = nb::cast<std::size_t>(scores[3]);
        const auto offsets = exactly<Vector<std::int64_t>>(scores[2]);
        const auto cells = marks(nb::make_tuple(scores[2], scores[1]), rows, offsets.shape(0) - 1);
        if (Vector<float> values; nb::try_cast(scores[0], values, false)) {
            expect(values.shape(0) == cells.row_of.size(), "the values do not fit the cells");
            rules::SparseColumns<float> columns(view(values), cells.row_of, cells.offsets, rows);
            return work(columns);
        }
        const auto values = vector_of<double>(scores[0], cells.row_of.size());
        rules::SparseColumns<double> columns(view(values), cells.row_of, cells.offsets, rows);
        return work(columns);
    }
    if (Matrix<float> matrix; nb::try_cast(scores, matrix, false)) {
        rules::DenseColumns<float> columns(matrix.data(), matrix.shape(0), matrix.shape(1));
        return work(columns);
    }
    const auto matrix = exactly<Matrix<double>>(scores);
    rules::DenseColumns<double> columns(matrix.data(), matrix.shape(0), matrix.shape(1));
    return work(columns);
}

template <class T>
nb::object array_of(const std::vector<T>& values) {
    return new_array<T>({values.size()}, [&](T* out) { std::copy(values.begin(), values.end(), out); });
}

// The outside world, looked at between labels and rows.
class Interruption {
  public:
    Interruption() : control_(nb::none(), std::numeric_limits<double>::infinity()) {}
    void after(std::size_t work) { control_.leave_after(static_cast<std::int64_t>(work)); }

  private:
    PythonControl control_;
};

nb::dict cuts(const nb::object& scores, const nb::object& positives, const nb::object& unknown,
              const nb::object& weights) {
    const auto found = with_columns(scores, [&](auto& columns) {
        const rules::ColumnLabels labels{marks(positives, columns.rows(), columns.cols()),
                                         marks(unknown, columns.rows(), columns.cols())};
        const auto w = vector_of<double>(weights, columns.rows());
        Interruption interruption;
        nb::gil_scoped_release release;
        rules::CutFinder finder(columns, labels, view(w));
        rules::Cuts all;
        for (std::size_t l = 0; l < columns.cols(); ++l) {
            finder.append(l, all);
            interruption.after(20 * columns.rows());
        }
        return all;
    });
    nb::dict out;
    out["offsets"] = array_of(found.offsets);
    out["thresholds"] = array_of(found.thresholds);
    out["hits"] = array_of(found.hits);
    out["predicted"] = array_of(found.predicted);
    out["positives"] = array_of(found.positives);
    out["squares"] = array_of(found.squares);
    out["known"] = array_of(found.known);
    out["quota"] = array_of(found.quota);
    out["lowest"] = array_of(found.lowest);
    return out;
}

bool fits(std::span<const std::int64_t> starts, std::size_t cells) {
    return !starts.empty() && starts.front() == 0 && std::is_sorted(starts.begin(), starts.end()) &&
           starts.back() == static_cast<std::int64_t>(cells);
}

// (values, starts, members or None): the cells of each group; without members, one for each member in order.
struct Groups {
    Vector<double> values;
    Vector<std::int64_t> starts;
    rules::Marks cells;
};

Groups groups_of(const nb::tuple& cells, std::size_t members) {
    Groups groups{exactly<Vector<double>>(cells[0]), exactly<Vector<std::int64_t>>(cells[1]), {}};
    const auto starts = view(groups.starts);
    expect(fits(starts, groups.values.shape(0)), "the cells do not fit the groups");
    if (cells[2].is_none()) {
        for (std::size_t g = 0; g + 1 < starts.size(); ++g)
            expect(starts[g + 1] - starts[g] == static_cast<std::int64_t>(members), "a group without all its members");
    } else {
        groups.cells = marks(nb::make_tuple(cells[1], cells[2]), members, starts.size() - 1);
        expect(groups.cells.row_of.size() == groups.values.shape(0), "the values do not fit the cells");
    }
    return groups;
}

nb::tuple best_offset(const nb::tuple& cells, const nb::object& positives, const nb::object& unknown,
                      const nb::object& group_weights, const nb::object& member_weights, double beta_squared,
                      bool at_least_one) {
    const auto w = exactly<Vector<double>>(member_weights);
    const auto groups = groups_of(cells, w.shape(0));
    const auto n_groups = groups.starts.shape(0) - 1;
    const auto v = vector_of<double>(group_weights, n_groups);
    const rules::OffsetProblem problem{view(groups.values),
                                       view(groups.starts),
                                       groups.cells.row_of,
                                       marks(positives, w.shape(0), n_groups),
                                       marks(unknown, w.shape(0), n_groups),
                                       view(v),
                                       view(w),
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
    return nb::make_tuple(best.threshold, best.value);
}

// One line per label; targets, centre, precision and start are (labels, 2).
nb::tuple lines(const nb::object& scores, const nb::object& positives, const nb::object& unknown,
                const nb::object& weights, double scale, const nb::object& targets, const nb::object& centre,
                const nb::object& precision, const nb::object& fixed_slope, const nb::object& start) {
    return with_columns(scores, [&](auto& columns) {
        const auto n_labels = columns.cols();
        const auto shape = [&](const nb::object& matrix) {
            return matrix_of<double>(matrix, static_cast<Index>(n_labels), 2);
        };
        const rules::ColumnLabels labels{marks(positives, columns.rows(), n_labels),
                                         marks(unknown, columns.rows(), n_labels)};
        const auto w = vector_of<double>(weights, columns.rows());
        const auto target = shape(targets), mean = shape(centre), sharp = shape(precision), from = shape(start);
        const auto fixed = vector_of<std::uint8_t>(fixed_slope, n_labels);
        std::vector<rules::LineFit> fits(n_labels);
        {
            Interruption interruption;
            nb::gil_scoped_release release;
            rules::ColumnReader reader(labels, view(w));
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
                const rules::LineProblem problem{target.data()[2 * l], target.data()[2 * l + 1], pair(mean, l),
                                                 pair(sharp, l), fixed.data()[l] != 0};
                fits[l] = rules::LineFitter(positive, negative, problem).fit(pair(from, l));
                interruption.after(200 * columns.rows());
            }
        }
        const auto table = [&](rules::Line rules::LineFit::* which) {
            return new_array<double>({n_labels, 2}, [&](double* out) {
                for (std::size_t l = 0; l < n_labels; ++l) {
                    out[2 * l] = (fits[l].*which).slope;
                    out[2 * l + 1] = (fits[l].*which).offset;
                }
            });
        };
        return nb::make_tuple(table(&rules::LineFit::line), table(&rules::LineFit::variance));
    });
}

// The set of largest expected F of every row, 1 for the cells that belong to it, and its value. Row i has the
// probabilities starts[i] .. starts[i + 1].
nb::tuple best_expected_f(const nb::object& probabilities, const nb::object& starts, double beta_squared) {
    const auto values_of = exactly<Vector<double>>(probabilities);
    const auto starts_of = exactly<Vector<std::int64_t>>(starts);
    const auto p = view(values_of);
    const auto from = view(starts_of);
    expect(fits(from, p.size()), "the probabilities do not fit the rows");
    std::vector<double> values(from.size() - 1);
    auto chosen = new_array<std::uint8_t>({p.size()}, [&](std::uint8_t* out) {
        Interruption interruption;
        nb::gil_scoped_release release;
        rules::ExpectedF decoder(beta_squared);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto begin = static_cast<std::size_t>(from[i]), size = static_cast<std::size_t>(from[i + 1]) - begin;
            values[i] = decoder.decode(p.subspan(begin, size), {out + begin, size});
            interruption.after(100 * size);
        }
    });
    return nb::make_tuple(chosen, array_of(values));
}

rules::LabelCounts counts_of(const Matrix<double>& scores, const nb::object& starts, const nb::object& members,
                             const nb::object& order, int most_neighbours, bool counting) {
    const auto sequence = exactly<Vector<std::int64_t>>(order);
    const auto labels = sequence.shape(0);
    const auto subsets = marks(nb::make_tuple(starts, members), labels, scores.shape(1));
    std::vector<std::uint8_t> seen(labels, 0);
    for (const auto l : view(sequence)) {
        expect(l >= 0 && l < static_cast<std::int64_t>(labels) && !seen[static_cast<std::size_t>(l)],
               "the order must hold every label once");
        seen[static_cast<std::size_t>(l)] = 1;
    }
    for (std::size_t t = 0; t < scores.shape(1); ++t)
        expect(subsets.offsets[t] < subsets.offsets[t + 1], "a label subset without labels");
    return {labels, subsets.offsets, subsets.row_of, view(sequence), most_neighbours, counting};
}

// P(y_l = 1, |y| = k) of every row, from the scores of label subsets.
nb::object label_counts(const nb::object& scores, const nb::object& starts, const nb::object& members,
                        const nb::object& order, int most_neighbours) {
    const auto theta = exactly<Matrix<double>>(scores);
    auto counts = counts_of(theta, starts, members, order, most_neighbours, true);
    const auto rows = theta.shape(0), labels = exactly<Vector<std::int64_t>>(order).shape(0);
    return new_array<double>({rows, labels, labels}, [&](double* out) {
        Interruption interruption;
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < rows; ++i) {
            counts.compute(theta.data() + i * theta.shape(1), out + i * labels * labels);
            interruption.after(100 * labels * labels);
        }
    });
}

// log of the sum over all labellings of every row.
nb::object label_partition(const nb::object& scores, const nb::object& starts, const nb::object& members,
                           const nb::object& order, int most_neighbours) {
    const auto theta = exactly<Matrix<double>>(scores);
    auto counts = counts_of(theta, starts, members, order, most_neighbours, false);
    return new_array<double>({theta.shape(0)}, [&](double* out) {
        Interruption interruption;
        nb::gil_scoped_release release;
        for (std::size_t i = 0; i < theta.shape(0); ++i) {
            out[i] = counts.partition(theta.data() + i * theta.shape(1));
            interruption.after(100 * theta.shape(1));
        }
    });
}

}  // namespace

void bind_decisions(nanobind::module_& m) {
    // Marked cells are (offsets, rows), column by column.
    m.def("cuts", &cuts, nb::arg("scores"), nb::arg("positives"), nb::arg("unknown").none(), nb::arg("weights"),
          nb::sig("def cuts(scores: Any, positives: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], unknown: "
                  "tuple[NDArray[numpy.int64], NDArray[numpy.int64]] | None, weights: NDArray[numpy.float64]) -> "
                  "dict[str, Any]"));
    m.def("best_offset", &best_offset, nb::arg("cells"), nb::arg("positives"), nb::arg("unknown").none(),
          nb::arg("group_weights"), nb::arg("member_weights"), nb::arg("beta_squared"), nb::arg("at_least_one"),
          nb::sig("def best_offset(cells: tuple[NDArray[numpy.float64], NDArray[numpy.int64], NDArray[numpy.int64] | "
                  "None], positives: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], unknown: "
                  "tuple[NDArray[numpy.int64], NDArray[numpy.int64]] | None, group_weights: NDArray[numpy.float64], "
                  "member_weights: NDArray[numpy.float64], beta_squared: float, at_least_one: bool) -> tuple[float, "
                  "float]"));
    m.def("lines", &lines, nb::arg("scores"), nb::arg("positives"), nb::arg("unknown").none(), nb::arg("weights"),
          nb::arg("scale"), nb::arg("targets"), nb::arg("centre"), nb::arg("precision"), nb::arg("fixed_slope"),
          nb::arg("start"),
          nb::sig("def lines(scores: Any, positives: tuple[NDArray[numpy.int64], NDArray[numpy.int64]], unknown: "
                  "tuple[NDArray[numpy.int64], NDArray[numpy.int64]] | None, weights: NDArray[numpy.float64], scale: "
                  "float, targets: NDArray[numpy.float64], centre: NDArray[numpy.float64], precision: "
                  "NDArray[numpy.float64], fixed_slope: NDArray[numpy.uint8], start: NDArray[numpy.float64]) -> "
                  "tuple[NDArray[numpy.float64], NDArray[numpy.float64]]"));
    m.def("best_expected_f", &best_expected_f, nb::arg("probabilities"), nb::arg("starts"), nb::arg("beta_squared"),
          nb::sig("def best_expected_f(probabilities: NDArray[numpy.float64], starts: NDArray[numpy.int64], "
                  "beta_squared: float) -> tuple[NDArray[numpy.uint8], NDArray[numpy.float64]]"));
    m.def(
        "label_counts", &label_counts, nb::arg("scores"), nb::arg("starts"), nb::arg("members"), nb::arg("order"),
        nb::arg("most_neighbours"),
        nb::sig("def label_counts(scores: NDArray[numpy.float64], starts: NDArray[numpy.int64], members: "
                "NDArray[numpy.int64], order: NDArray[numpy.int64], most_neighbours: int) -> NDArray[numpy.float64]"));
    m.def(
        "label_partition", &label_partition, nb::arg("scores"), nb::arg("starts"), nb::arg("members"), nb::arg("order"),
        nb::arg("most_neighbours"),
        nb::sig("def label_partition(scores: NDArray[numpy.float64], starts: NDArray[numpy.int64], members: "
                "NDArray[numpy.int64], order: NDArray[numpy.int64], most_neighbours: int) -> NDArray[numpy.float64]"));
}
