#pragma once
// The label-set atoms, the rows of calibrated separation and their dual variables (problem: block_ascent.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "core/labels/bits.hpp"
#include "core/separation/label_sets.hpp"

namespace multimargin::separation {

struct Atoms {
    Index labels;  // the first `labels` atoms are the single labels
    LabelSets sets;
};

// Labels the rows have, labels they are known to lack, and what these sides cost; a side that costs nothing has no
// labels.
struct SeparationRows {
    // cost: rows x 2
    SeparationRows(const labels::Labels& source, const double* cost)
        : positive(source.rows, source.labels), negative(source.rows, source.labels), cost_(cost) {
        const labels::LabelBits bits(source);
        for (Index i = 0; i < source.rows; ++i)
            for (std::size_t w = 0; w < bits.words(); ++w) {
                if (cost_of(i)[0] > 0) positive[i][w] = bits.truth(i)[w];
                if (cost_of(i)[1] > 0) negative[i][w] = bits.known(i)[w] & ~bits.truth(i)[w];
            }
    }

    // Cost of the labels a row has, and of those it lacks.
    const double* cost_of(Index i) const { return cost_ + 2 * i; }

    LabelSets positive, negative;

  private:
    const double* cost_;
};

// Dual variables D, rows x atoms.
struct DualVariables {
    std::span<const std::int64_t> offsets;
    std::span<const std::int32_t> atoms;
    std::span<const double> values;
};

// A dual variable of a row: its atom, the side (+1: O, -1: G), the weight >= 0, and its share in the state.
struct Entry {
    std::int32_t atom;
    double side, weight, mean = 0.0;
};

}  // namespace multimargin::separation
