#pragma once
// P and D of a kernel solver once more, in double precision, from beta and the Gram rows as they are stored.
//
// In single precision the scores of a row are sums of many large terms that cancel: with C = 10 and a singular R they
// are off by thousandths, and a gap of 1e-4 may truly be 3e-4. A solver therefore believes its certificate only after
// this. The rounding of the Gram matrix itself stays; what it can do to P is estimated (GramRounding).

#include "core/m3l/kernel_blocks.hpp"
#include "core/m3l/kernel_updates.hpp"

namespace multimargin::m3l {

// out[k][c] += sum over k's moves of by * rows[at][c] for the columns first <= c < last.
template <class T>
MULTIMARGIN_SIMD __attribute__((noinline)) void add_exact_products(std::span<const T* const> rows,
                                                                   const MoveLists<double>& moves,
                                                                   LabelMajorTable<double>& out, Index first,
                                                                   Index last) {
    constexpr int width = 8;
    constexpr Index strip = width * lanes<double>;
    for (Index c = first; c < last; c += strip)
        for (Index k = 0; k < out.labels(); ++k) {
            Chunk<double> sum[width] = {};
            for (const Move<double>& move : moves[static_cast<std::size_t>(k)]) {
                const T* row = rows[static_cast<std::size_t>(move.at)] + c;
                for (int e = 0; e < width; ++e) sum[e] += move.by * load_chunk(row + e * lanes<double>);
            }
            Chunk<double>* to = reinterpret_cast<Chunk<double>*>(out.row(k) + c);
            for (int e = 0; e < width; ++e) to[e] += sum[e];
        }
}

// weights K, a row per label or latent dimension; of every product_columns columns the first `width`.
template <class T>
LabelMajorTable<double> exact_products(GramRows<T>& gram, const LabelMajorTable<double>& weights, Index block,
                                       int threads, Control& control, Index width = product_columns) {
    LabelMajorTable<double> out(weights.labels(), gram.rows());
    const Index most = std::min(block, product_rows);
    MoveLists<double> moves(static_cast<std::size_t>(weights.labels()));
    std::vector<std::int32_t> numbers;
    std::vector<const T*> rows;
    const auto add = [&] {
        gram.request(numbers);
        rows.clear();
        for (auto i : numbers) rows.push_back(gram.row(i));
        const int tasks = static_cast<int>((out.stride() + product_columns - 1) / product_columns);
        parallel_for(tasks, threads, control, [&](int task, bool on_caller) {
            if (control.leave_unfinished(on_caller)) return;
            const Index from = task * product_columns, to = std::min(out.stride(), from + width);
            add_exact_products<T>(rows, moves, out, from, to);
        });
        numbers.clear();
        for (auto& of_label : moves) of_label.clear();
    };
    for (Index i = 0; i < gram.rows(); ++i) {
        const auto at = static_cast<std::int32_t>(numbers.size());
        bool used = false;
        for (Index k = 0; k < weights.labels(); ++k) {
            if (weights.row(k)[i] == 0) continue;
            moves[static_cast<std::size_t>(k)].push_back({at, weights.row(k)[i]});
            used = true;
        }
        if (used) numbers.push_back(static_cast<std::int32_t>(i));
        if (static_cast<Index>(numbers.size()) == most) add();
    }
    if (!numbers.empty()) add();
    return out;
}

struct ExactSums {
    double cross = 0.0, linear = 0.0, hinge = 0.0;  // sum beta z, sum m b, sum c max(0, m - y (z + shift))
};

// One cell of these sums; cost: y c, target: y m.
inline void add_cell(ExactSums& sums, double beta, double cost, double target, double z, double shift) {
    sums.cross += beta * z;
    sums.linear += beta * target;
    sums.hinge += std::max(0.0, cost * (target - z - shift));
}

// How far P may move when the entries of the Gram matrix are rounded to T. The score of a row, sum_j w_j K_ij, is off
// by about eps K_ii |w|. Where a cell is inside its box, at its margin, any error costs; elsewhere errors average out.
template <class T>
class GramRounding {
  public:
    void see(const SquareBlock<T>& block) {
        for (Index a = 0; a < block.size(); ++a) largest_ = std::max(largest_, static_cast<double>(block.row(a)[a]));
    }
    // A label with these weights; costs: y c.
    template <class W>
    double of_label(const W* weights, const T* beta, const T* costs, Index rows) const {
        double squares = 0.0, inside = 0.0, outside = 0.0;
        for (Index i = 0; i < rows; ++i) {
            const double w = static_cast<double>(weights[i]), b = std::abs(static_cast<double>(beta[i])),
                         c = std::abs(static_cast<double>(costs[i]));
            squares += w * w;
            if (b > 0 && b < c)
                inside += c;
            else if (b > 0)
                outside += c * c;
        }
        return 0.5 * std::numeric_limits<T>::epsilon() * largest_ * std::sqrt(squares) *
               (mean_excess * inside + std::sqrt(outside));
    }

  private:
    static constexpr double mean_excess = 0.4;  // of the positive part of a standard normal error
    double largest_ = 0.0;                      // K_ii
};

}  // namespace multimargin::m3l
