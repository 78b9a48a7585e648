#pragma once
// Rows that are visited one after the other, and whose scores are read together, on any number of threads.
//
// A visit of row m adds x_m change_m' to the weights. That changes the scores of a row n by (x_m . x_n + bias^2) change_m:
// scores that were read before are made those of the weights at the visit, up to rounding, without reading the weights
// again. With hundreds of labels the products of the rows cost little beside their scores.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/matrix.hpp"

namespace multimargin::submodular {

template <RowMatrix X>
class RowBatch {
  public:
    RowBatch(Index cols, int chunks, std::size_t most, int threads) : most_(most), product_(most * most), sum_(chunks) {
        for (std::size_t k = 0; k < most; ++k) {
            scores_.emplace_back(chunks);
            change_.push_back({{}, ChunkVector<double>(chunks)});
        }
        for (int t = 0; t < threads; ++t) spread_.emplace_back(chunks_for(cols, lanes<double>));
    }

    // Before the first row of a batch.
    void begin(double bias) {
        bias_ = bias;
        sum_.clear();
    }
    // Row number k, with its scores: on any thread, in any order.
    void take(const X& x, std::span<const std::int32_t> rows, std::size_t k, const Chunk<double>* scores, int thread) {
        std::copy_n(scores, scores_[k].size(), scores_[k].chunks());
        change_[k].at.clear();
        if (k == 0) return;
        ChunkVector<double>& spread = spread_[static_cast<std::size_t>(thread)];
        const auto row = x.row(rows[k]);
        for (Index j = 0; j < row.size(); ++j) spread[row.column(j)] += row.values[static_cast<std::size_t>(j)];
        for (std::size_t m = 0; m < k; ++m) product_[k * most_ + m] = product(x.row(rows[m]), &spread[0]);
        for (Index j = 0; j < row.size(); ++j) spread[row.column(j)] = 0.0;
    }

    // The scores of row k after the changes of the rows before it.
    void read(std::size_t k, Chunk<double>* scores) const {
        for (int c = 0; c < sum_.size(); ++c) scores[c] = scores_[k].chunks()[c] + bias_ * bias_ * sum_.chunks()[c];
        for (std::size_t m = 0; m < k; ++m) {
            const double product = product_[k * most_ + m];
            if (product == 0) continue;  // sparse rows often share nothing but the constant feature
            const Changes& changes = change_[m];
            for (std::size_t i = 0; i < changes.at.size(); ++i)
                scores[changes.at[i]] += product * changes.by.chunks()[i];
        }
    }

    struct Changes {
        std::vector<int> at;     // chunks of labels
        ChunkVector<double> by;  // as many chunks
    };
    // Row k changes the labels by `change`; its chunks that are not zero.
    const Changes& tell(std::size_t k, const ChunkVector<double>& change) {
        Changes& changes = change_[k];
        changes.at.clear();
        for (int c = 0; c < change.size(); ++c) {
            if (!any(change.chunks()[c] != 0)) continue;
            changes.by.chunks()[changes.at.size()] = change.chunks()[c];
            changes.at.push_back(c);
            sum_.chunks()[c] += change.chunks()[c];
        }
        return changes;
    }

  private:
    template <class Row>
    static double product(const Row& row, const double* with) {
        double sum[4] = {};  // four chains of additions
        const Index n = row.size();
        Index j = 0;
        for (; j + 4 <= n; j += 4)
            for (Index i = 0; i < 4; ++i)
                sum[i] += row.values[static_cast<std::size_t>(j + i)] * with[row.column(j + i)];
        for (; j < n; ++j) sum[0] += row.values[static_cast<std::size_t>(j)] * with[row.column(j)];
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }

    std::size_t most_;
    double bias_ = 0.0;
    std::vector<double> product_;  // of row k with the rows before it, without the constant feature
    std::vector<Changes> change_;
    ChunkVector<double> sum_;  // of the changes
    std::vector<ChunkVector<double>> scores_, spread_;
};

}  // namespace multimargin::submodular
