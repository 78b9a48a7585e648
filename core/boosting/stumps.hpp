#pragma once
// Trees of one level: the split of the rows by one feature for which
//
//   Z = 2 sum_{blocks b} sum_{labels l} sqrt(W+_bl W-_bl)
//
// is smallest, W+_bl and W-_bl being the weights of the positive and negative cells of label l in block b.
//
// For every feature the weights are summed by bins, then from either end, so that no sum is a difference of two: a block
// with cells of one sign has a root of exactly 0. Cost of a feature: rows x labels additions, bins x labels roots.
// Two steps, since most splits are far from the best:
//   screen   every feature in single precision, roots to 8e-7 of themselves (sparse rows: in double, stored entries only,
//            the others being what is missing to the sum of all)
//   decide   those within `screening()` of the best, in double, from the codes of all rows, whatever the layout of X
// Splits that differ by less than rounding are ties: the first feature wins, and its first cut.

#include <bit>
#include <cmath>
#include <limits>

#include "core/boosting/bins.hpp"
#include "core/boosting/cell_weights.hpp"

namespace multimargin::boosting {

// Z of the cut after each bin, and the memory in which it is computed.
template <class T>
struct Curve {
    Buffer<SignedSums<T>> sums{most_bins}, part{most_bins};
    Buffer<Chunk<T>> low{most_bins}, high{most_bins};
    alignas(32) T z[most_bins];
};

template <class T>
struct StumpKernels {
    // Adds weights to the sums of the bins of their rows.
    MULTIMARGIN_SIMD static void add_rows(const Chunk<T>* weights, const std::uint8_t* codes, Index rows,
                                          SignedSums<T>* sums) {
        for (Index i = 0; i < rows; ++i) sums[codes[i]].add(weights[i]);
    }
    // The same for stored entries; the bin of 0 gets what is missing to the sum of all rows.
    MULTIMARGIN_SIMD static void add_entries(const Chunk<T>* weights, const std::int32_t* rows,
                                             const std::uint8_t* codes, Index entries, std::uint8_t zero,
                                             const SignedSums<T>& all, SignedSums<T>* sums) {
        SignedSums<T> stored{};
        for (Index e = 0; e < entries; ++e) {
            sums[codes[e]].add(weights[rows[e]]);
            stored.add(weights[rows[e]]);
        }
        sums[zero].positive += lane_max(all.positive - stored.positive, Chunk<T>{});
        sums[zero].negative += lane_max(all.negative - stored.negative, Chunk<T>{});
    }
    MULTIMARGIN_SIMD static void merge(const SignedSums<T>* part, int bins, SignedSums<T>* sums) {
        for (int b = 0; b < bins; ++b) sums[b].add(part[b]);
    }
    // Adds what a chunk of labels has to Z of every cut. A loop over plain numbers: its roots are taken side by side.
    MULTIMARGIN_SIMD static void add_roots(const SignedSums<T>* sums, int bins, Chunk<T>* low, Chunk<T>* high, T* z) {
        SignedSums<T> up{}, down{};
        for (int b = 0; b + 1 < bins; ++b) {
            up.add(sums[b]);
            low[b] = up.positive * up.negative;
            down.add(sums[bins - 1 - b]);
            high[bins - 2 - b] = down.positive * down.negative;
        }
        T* roots = reinterpret_cast<T*>(low);
        const T* others = reinterpret_cast<const T*>(high);
        const int count = (bins - 1) * lanes<T>;
        for (int k = 0; k < count; ++k) roots[k] = root(roots[k]) + root(others[k]);
        int b = 0;
        if constexpr (lanes<T> == 8)
            for (; b + 8 < bins; b += 8) *reinterpret_cast<Chunk<T>*>(z + b) += 2 * lane_sums(low + b);
        for (; b + 1 < bins; ++b) z[b] += 2 * lane_sum(low[b]);
    }
    MULTIMARGIN_SIMD static T least(const T* z, int count) {
        T least[lanes<T>];
        std::fill_n(least, lanes<T>, std::numeric_limits<T>::infinity());
        int b = 0;
        for (; b + lanes<T> <= count; b += lanes<T>)
            for (int e = 0; e < lanes<T>; ++e) least[e] = z[b + e] < least[e] ? z[b + e] : least[e];
        for (; b < count; ++b) least[0] = std::min(least[0], z[b]);
        return *std::min_element(least, least + lanes<T>);
    }

  private:
    MULTIMARGIN_INLINE static double root(double x) { return std::sqrt(x); }
    // A guess from the exponent and two steps of Newton's method: sooner there than the instruction, and 0 for 0.
    MULTIMARGIN_INLINE static float root(float x) {
        const float guess = std::bit_cast<float>(0x5F1FFFF9u - (std::bit_cast<std::uint32_t>(x) >> 1));
        const float near = guess * 0.703952253f * (2.38924456f - x * guess * guess), first = x * near;
        return first * (1.5f - 0.5f * first * near);
    }
    // Sums of the lanes of eight chunks, by neighbours.
    MULTIMARGIN_INLINE static Chunk<T> lane_sums(const Chunk<T>* c) {
        const Chunk<T> first = paired(paired(c[0], c[1]), paired(c[2], c[3]));
        const Chunk<T> second = paired(paired(c[4], c[5]), paired(c[6], c[7]));
        return __builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11) +
               __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    MULTIMARGIN_INLINE static Chunk<T> paired(Chunk<T> a, Chunk<T> b) {
        return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) +
               __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
    }
    MULTIMARGIN_INLINE static T lane_sum(Chunk<T> chunk) {
        T v[lanes<T>];
        std::memcpy(v, &chunk, sizeof v);
        for (int width = lanes<T> / 2; width > 0; width /= 2)
            for (int e = 0; e < width; ++e) v[e] += v[e + width];
        return v[0];
    }
};

// Z of all cuts of a feature of which the codes of all rows are given.
template <class T>
void find_curve(const CellWeights<T>& weights, const std::uint8_t* codes, int bins, Curve<T>& curve) {
    constexpr Index rows_at_once = 4096;  // sums of sums: rounding stays small however many rows there are
    const auto bytes = static_cast<std::size_t>(bins) * sizeof(SignedSums<T>);
    std::fill_n(curve.z, bins, T(0));
    for (int k = 0; k < weights.chunks(); ++k) {
        std::memset(static_cast<void*>(curve.sums.data()), 0, bytes);
        for (Index first = 0; first < weights.rows(); first += rows_at_once) {
            const Index count = std::min(rows_at_once, weights.rows() - first);
            SignedSums<T>* sums = first == 0 ? curve.sums.data() : curve.part.data();
            if (first > 0) std::memset(static_cast<void*>(sums), 0, bytes);
            StumpKernels<T>::add_rows(weights.of(k) + first, codes + first, count, sums);
            if (first > 0) StumpKernels<T>::merge(sums, bins, curve.sums.data());
        }
        StumpKernels<T>::add_roots(curve.sums.data(), bins, curve.low.data(), curve.high.data(), curve.z);
    }
}

// The same from stored entries; `all` are the sums over all rows, chunk by chunk.
template <class T>
void find_curve(const CellWeights<T>& weights, const SparseBins::Column& column, const SignedSums<T>* all, int bins,
                Curve<T>& curve) {
    std::fill_n(curve.z, bins, T(0));
    for (int k = 0; k < weights.chunks(); ++k) {
        std::memset(static_cast<void*>(curve.sums.data()), 0, static_cast<std::size_t>(bins) * sizeof(SignedSums<T>));
        StumpKernels<T>::add_entries(weights.of(k), column.rows.data(), column.codes.data(),
                                     static_cast<Index>(column.rows.size()), column.zero, all[k], curve.sums.data());
        StumpKernels<T>::add_roots(curve.sums.data(), bins, curve.low.data(), curve.high.data(), curve.z);
    }
}

// A split: rows whose code of a feature is at most `bin`, and the others.
struct Stump {
    Index feature = -1;
    int bin = 0;
    double z = std::numeric_limits<double>::infinity();
};

template <class Bins>
class StumpFinder {
  public:
    StumpFinder(const Bins& bins, Index labels, int threads)
        : bins_(bins),
          single_(Bins::sparse ? 0 : bins.rows(), labels),
          threads_(threads),
          parts_(static_cast<int>(std::clamp<Index>(bins.cols(), 1, threads > 1 ? 8 * threads : 1))),
          z_(static_cast<std::size_t>(bins.cols())),
          memory_(static_cast<std::size_t>(threads > 1 ? parts_ : 1)),
          all_(static_cast<std::size_t>(chunks_for(labels, lanes<double>))) {}

    // The best split by these weights; feature -1 where no feature has two bins, or where told to leave.
    Stump find(const CellWeights<double>& weights, Control& control) {
        if constexpr (Bins::sparse)
            sum_all(weights);
        else
            round(weights);
        over_features(bins_.cols(), control,
                      [&](Index j, Memory& memory) { z_[at(j)] = screened(weights, j, memory); });
        const double least = *std::ranges::min_element(z_);
        if (control.stopped() || least == std::numeric_limits<double>::infinity()) return {};
        candidates_.clear();
        for (Index j = 0; j < bins_.cols(); ++j)
            if (z_[at(j)] <= (1.0 + screening()) * least) candidates_.push_back({j, 0, 0.0});
        over_features(static_cast<Index>(candidates_.size()), control,
                      [&](Index k, Memory& memory) { decide(weights, candidates_[at(k)], memory); });
        if (control.stopped()) return {};
        return *first_of_best(candidates_.begin(), candidates_.end(), [](const Stump& s) { return s.z; });
    }

  private:
    static constexpr double ties = 1e-12;
    static constexpr Index work_for_threads = 1 << 20;  // additions; less is done before a thread has begun

    // Of a thread.
    struct Memory {
        Curve<float> single;
        Curve<double> exact;
        std::vector<std::uint8_t> codes;
    };

    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
    // What roundings of the weights, of their sums, and of the sums over chunks may do to Z in single precision.
    double screening() const { return 1e-5 + std::numeric_limits<float>::epsilon() * single_.chunks(); }

    template <class Iterator, class Value>
    static Iterator first_of_best(Iterator begin, Iterator end, Value value) {
        double least = std::numeric_limits<double>::infinity();
        for (auto it = begin; it != end; ++it) least = std::min(least, value(*it));
        return std::find_if(begin, end, [&](const auto& item) { return value(item) <= (1.0 + ties) * least; });
    }

    template <class Task>
    void over_features(Index count, Control& control, Task&& task) {
        const Index work = bins_.rows() * single_.labels();
        const bool alone = threads_ == 1 || count * work < work_for_threads;
        const int parts = alone ? 1 : parts_;
        parallel_for(parts, threads_, control, [&](int part, bool on_caller) {
            Memory& memory = memory_[static_cast<std::size_t>(part)];
            for (Index k = count * part / parts; k < count * (part + 1) / parts; ++k) {
                if (on_caller ? control.leave_after(work) : control.stopped()) return;
                task(k, memory);
            }
        });
    }

    double screened(const CellWeights<double>& weights, Index j, Memory& memory) const {
        const int bins = bins_.bins(j);
        if (bins == 1) return std::numeric_limits<double>::infinity();
        if constexpr (Bins::sparse) {
            find_curve(weights, bins_.column(j), all_.data(), bins, memory.exact);
            return StumpKernels<double>::least(memory.exact.z, bins - 1);
        } else {
            find_curve(single_, bins_.codes(j, memory.codes), bins, memory.single);
            return StumpKernels<float>::least(memory.single.z, bins - 1);
        }
    }
    void decide(const CellWeights<double>& weights, Stump& stump, Memory& memory) const {
        const int bins = bins_.bins(stump.feature);
        find_curve(weights, bins_.codes(stump.feature, memory.codes), bins, memory.exact);
        const double* z = memory.exact.z;
        const double* best = first_of_best(z, z + bins - 1, [](double value) { return value; });
        stump.bin = static_cast<int>(best - z);
        stump.z = *best;
    }
    void round(const CellWeights<double>& weights) {
        for (int k = 0; k < single_.chunks(); ++k)
            WeightKernels::round(weights.of(2 * k), 2 * k + 1 < weights.chunks() ? weights.of(2 * k + 1) : nullptr,
                                 bins_.rows(), single_.of(k));
    }
    void sum_all(const CellWeights<double>& weights) {
        const std::vector<std::uint8_t> codes(at(bins_.rows()), 0);
        for (int k = 0; k < weights.chunks(); ++k) {
            SignedSums<double> blocks[2];
            WeightKernels::block_sums(weights.of(k), codes.data(), bins_.rows(), 0, blocks);
            all_[static_cast<std::size_t>(k)] = blocks[0];
        }
    }

    const Bins& bins_;
    CellWeights<float> single_;
    int threads_, parts_;
    std::vector<double> z_;
    std::vector<Memory> memory_;
    std::vector<Stump> candidates_;
    Buffer<SignedSums<double>> all_;  // sums over all rows, of sparse ones
};

}  // namespace multimargin::boosting
