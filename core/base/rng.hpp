#pragma once
// The one source of randomness: an explicit generator, passed as an argument, the same stream on every platform.

#include <cstdint>
#include <span>
#include <utility>

namespace multimargin::inline base {

// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, any seed is a good seed.
class Rng {
  public:
    explicit Rng(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

    // Uniform in [0, bound) by multiply-shift; the bias is below 2^-32 for bounds below 2^32.
    std::uint64_t below(std::uint64_t bound) {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
    }

    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    template <class T>
    void shuffle(std::span<T> items) {
        for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
    }

  private:
    std::uint64_t state_;
};

}  // namespace multimargin::inline base
