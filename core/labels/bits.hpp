#pragma once
// Truth and cost of every row, labels as bits: bit k % 64 of word k / 64. Labels left out are unknown everywhere.

#include <bit>
#include <vector>

#include "core/labels/labels.hpp"

namespace multimargin::labels {

using Word = std::uint64_t;

inline bool bit(const Word* labelling, std::size_t k) { return labelling[k / 64] >> (k % 64) & 1; }

class LabelBits {
  public:
    explicit LabelBits(const Labels& source)
        : labels_(static_cast<std::size_t>(source.labels)),
          words_((labels_ + 63) / 64),
          cost_(source.costs.row.begin(), source.costs.row.end()),
          weight_{{source.costs.negative.begin(), source.costs.negative.end()},
                  {source.costs.positive.begin(), source.costs.positive.end()}},
          truth_(static_cast<std::size_t>(source.rows) * words_, 0),
          known_(truth_.size(), 0) {
        for (Index i = 0; i < source.rows; ++i) {
            Word *truth = truth_.data() + i * words_, *known = known_.data() + i * words_;
            for (auto k : source.positives.row(i)) truth[k / 64] |= Word{1} << (k % 64);
            for (std::size_t k = 0; k < labels_; ++k)
                if (!source.left_out[k]) known[k / 64] |= Word{1} << (k % 64);
            for (auto k : source.missing_in(i)) known[k / 64] &= ~(Word{1} << (k % 64));
            for (std::size_t w = 0; w < words_; ++w) truth[w] &= known[w];
        }
    }

    std::size_t size() const { return labels_; }
    Index rows() const { return static_cast<Index>(cost_.size()); }
    std::size_t words() const { return words_; }
    const Word* truth(Index i) const { return truth_.data() + i * words_; }
    const Word* known(Index i) const { return known_.data() + i * words_; }
    double cost(Index i) const { return cost_[i]; }
    // What a mistake at label k costs in a row that has it, or lacks it, where the row costs 1.
    double weight(std::size_t k, bool present) const { return weight_[present][k]; }
    // Hamming loss of a labelling of row i, mistakes counted with their weights.
    double loss(Index i, const Word* labelling) const {
        double sum = 0.0;
        for (std::size_t w = 0; w < words_; ++w)
            for (Word wrong = (labelling[w] ^ truth(i)[w]) & known(i)[w]; wrong; wrong &= wrong - 1) {
                const auto k = 64 * w + static_cast<std::size_t>(std::countr_zero(wrong));
                sum += weight(k, bit(truth(i), k));
            }
        return sum;
    }

  private:
    std::size_t labels_, words_;
    std::vector<double> cost_, weight_[2];
    std::vector<Word> truth_, known_;
};

}  // namespace multimargin::labels
