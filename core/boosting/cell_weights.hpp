#pragma once
// Weights of the cells of Y, which boosting changes in every round, with the sign of the cell: for every row a chunk for
// each chunk of labels. Chunk by chunk of labels, then row by row.

#include "core/base/chunks.hpp"
#include "core/labels/labels.hpp"

namespace multimargin::boosting {

// Sums over positive and over negative cells, of a chunk of labels. Callers compiled for a plain x86-64 would align it to
// 16 bytes only.
template <class T>
struct alignas(32) SignedSums {
    Chunk<T> positive, negative;

    MULTIMARGIN_INLINE void add(Chunk<T> weight) {
        const Chunk<T> above = lane_max(weight, Chunk<T>{});
        positive += above;
        negative += above - weight;
    }
    MULTIMARGIN_INLINE void add(const SignedSums& other) {
        positive += other.positive;
        negative += other.negative;
    }
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
    Chunk<T>* of(int k) { return values_.data() + k * rows_; }
    const Chunk<T>* of(int k) const { return values_.data() + k * rows_; }

    // Gives all cells the same weight; they sum to 1.
    void set_uniform(const labels::CellList& positives) {
        const T weight = T(1) / (static_cast<T>(rows_) * static_cast<T>(labels_));
        for (Index l = 0; l < labels_; ++l)
            for (Index i = 0; i < rows_; ++i) of(static_cast<int>(l / lanes<T>))[i][l % lanes<T>] = -weight;
        for (Index i = 0; i < rows_; ++i)
            for (const auto l : positives.row(i)) of(l / lanes<T>)[i][l % lanes<T>] = weight;
    }

  private:
    Index rows_, labels_;
    int chunks_;
    Buffer<Chunk<T>> values_;
};

struct WeightKernels {
    // Sums over the rows with a code up to `bin`, and over the others.
    MULTIMARGIN_SIMD static void block_sums(const Chunk<double>* weights, const std::uint8_t* codes, Index rows,
                                            int bin, SignedSums<double> sums[2]) {
        SignedSums<double> blocks[2]{};
        for (Index i = 0; i < rows; ++i) blocks[codes[i] > bin].add(weights[i]);
        sums[0] = blocks[0];
        sums[1] = blocks[1];
    }
    // Multiplies the weights of positive and negative cells in both blocks.
    MULTIMARGIN_SIMD static void scale(Chunk<double>* weights, const std::uint8_t* codes, Index rows, int bin,
                                       const SignedSums<double> factors[2]) {
        for (Index i = 0; i < rows; ++i) {
            const SignedSums<double>& factor = factors[codes[i] > bin];
            weights[i] *= weights[i] > 0 ? factor.positive : factor.negative;
        }
    }
    // A chunk of single precision is made of two of double precision, the second of which may be missing.
    MULTIMARGIN_SIMD static void round(const Chunk<double>* low, const Chunk<double>* high, Index rows,
                                       Chunk<float>* out) {
        for (Index i = 0; i < rows; ++i)
            for (int e = 0; e < 4; ++e) {
                out[i][e] = static_cast<float>(low[i][e]);
                out[i][e + 4] = high ? static_cast<float>(high[i][e]) : 0.0f;
            }
    }
};

}  // namespace multimargin::boosting
