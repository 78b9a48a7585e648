#pragma once
// Weights of the cells of Y, which boosting changes in every round: for every row and chunk of labels a chunk of those
// of positive cells and one of negative cells. A cell is 0 in one of them, so that neither sums nor updates look at
// signs. Chunk by chunk of labels, then row by row.

#include <vector>

#include "core/base/chunks.hpp"
#include "core/labels/labels.hpp"

namespace multimargin::boosting {

// Positive and negative cells of a chunk of labels.
template <class T>
struct SignedChunk {
    Chunk<T> positive, negative;
};

template <class T>
class CellWeights {
  public:
    CellWeights(Index rows, Index labels)
        : rows_(rows),
          labels_(labels),
          chunks_(chunks_for(labels, lanes<T>)),
          values_(static_cast<std::size_t>(rows) * chunks_) {}

    Index rows() const { return rows_; }
    Index labels() const { return labels_; }
    int chunks() const { return chunks_; }
    SignedChunk<T>* of(int k) { return values_.data() + k * rows_; }
    const SignedChunk<T>* of(int k) const { return values_.data() + k * rows_; }

    // Gives all cells the same weight; they sum to 1.
    void set_uniform(const labels::CellList& positives) {
        const T weight = T(1) / (static_cast<T>(rows_) * static_cast<T>(labels_));
        for (Index l = 0; l < labels_; ++l)
            for (Index i = 0; i < rows_; ++i) of(static_cast<int>(l / lanes<T>))[i].negative[l % lanes<T>] = weight;
        for (Index i = 0; i < rows_; ++i)
            for (const auto l : positives.row(i)) {
                SignedChunk<T>& cell = of(l / lanes<T>)[i];
                cell.positive[l % lanes<T>] = weight;
                cell.negative[l % lanes<T>] = 0;
            }
    }

  private:
    Index rows_, labels_;
    int chunks_;
    Buffer<SignedChunk<T>> values_;
};

struct WeightKernels {
    // Sums over the rows with a code up to `bin`, and over the others.
    MULTIMARGIN_SIMD static void block_sums(const SignedChunk<double>* weights, const std::uint8_t* codes, Index rows,
                                            int bin, SignedChunk<double> sums[2]) {
        SignedChunk<double> blocks[2]{};
        for (Index i = 0; i < rows; ++i) {
            SignedChunk<double>& block = blocks[codes[i] > bin];
            block.positive += weights[i].positive;
            block.negative += weights[i].negative;
        }
        sums[0] = blocks[0];
        sums[1] = blocks[1];
    }
    // Multiplies the weights of both blocks.
    MULTIMARGIN_SIMD static void scale(SignedChunk<double>* weights, const std::uint8_t* codes, Index rows, int bin,
                                       const SignedChunk<double> factors[2]) {
        for (Index i = 0; i < rows; ++i) {
            const SignedChunk<double>& factor = factors[codes[i] > bin];
            weights[i].positive *= factor.positive;
            weights[i].negative *= factor.negative;
        }
    }
    // A chunk of single precision is made of two of double precision, the second of which may be missing.
    MULTIMARGIN_SIMD static void round(const SignedChunk<double>* low, const SignedChunk<double>* high, Index rows,
                                       SignedChunk<float>* out) {
        for (Index i = 0; i < rows; ++i)
            for (int e = 0; e < 4; ++e) {
                out[i].positive[e] = static_cast<float>(low[i].positive[e]);
                out[i].negative[e] = static_cast<float>(low[i].negative[e]);
                out[i].positive[e + 4] = high ? static_cast<float>(high[i].positive[e]) : 0.0f;
                out[i].negative[e + 4] = high ? static_cast<float>(high[i].negative[e]) : 0.0f;
            }
    }
};

}  // namespace multimargin::boosting
