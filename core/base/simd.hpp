#pragma once
// Instruction sets. A hot function marked MULTIMARGIN_SIMD is compiled for a plain x86-64, for AVX2 + FMA and for
// AVX-512; the loader picks one on the running machine. Everything it calls must be MULTIMARGIN_INLINE, so that
// the callee is compiled for the same instruction set. Elsewhere the macro is empty and the code is portable.
// A MULTIMARGIN_SIMD function must not throw, nor allocate: g++ assumes that a dispatched call cannot. Sanitizers do
// without: what picks the instruction set runs before they are ready.
//
// Vectors of 64 bytes are quicker where one register holds them, and very slow elsewhere: a MULTIMARGIN_WIDE function is
// called only if has_wide(), and gives the same numbers as the function it stands in for.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MULTIMARGIN_SIMD __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#define MULTIMARGIN_WIDE __attribute__((target("arch=x86-64-v4")))
#define MULTIMARGIN_HAS_WIDE __builtin_cpu_supports("x86-64-v4")
#else
#define MULTIMARGIN_SIMD
#define MULTIMARGIN_WIDE
#define MULTIMARGIN_HAS_WIDE false
#endif

#define MULTIMARGIN_INLINE inline __attribute__((always_inline))

#include <cstdint>
#include <cstring>

namespace multimargin::inline base {

// A chunk: 32 bytes of neighbouring labels, 8 floats or 4 doubles. Plain compiler vectors, lowered to whatever the
// instruction set offers. One flag byte describes a chunk, lane e in bit e.
template <class T>
struct ChunkOf;
template <>
struct ChunkOf<float> {
    typedef float type __attribute__((vector_size(32)));
    typedef std::int32_t mask __attribute__((vector_size(32)));
    static constexpr mask lane_bits = {1, 2, 4, 8, 16, 32, 64, 128};
};
template <>
struct ChunkOf<double> {
    typedef double type __attribute__((vector_size(32)));
    typedef std::int64_t mask __attribute__((vector_size(32)));
    static constexpr mask lane_bits = {1, 2, 4, 8};
};
template <class T>
using Chunk = typename ChunkOf<T>::type;
template <class T>
using ChunkMask = typename ChunkOf<T>::mask;
template <class T>
inline constexpr int lanes = 32 / sizeof(T);

inline bool has_wide() {
    static const bool has = MULTIMARGIN_HAS_WIDE;
    return has;
}
template <class T>
struct WideOf {
    typedef T type __attribute__((vector_size(64)));
};
template <class T>
using Wide = typename WideOf<T>::type;

constexpr int chunks_for(std::int64_t labels, int lane_count) {
    return static_cast<int>((labels + lane_count - 1) / lane_count);
}

template <class T>
MULTIMARGIN_INLINE ChunkMask<T> expand_flags(std::uint8_t flags) {
    using Lane = decltype(ChunkMask<T>{}[0] + 0);
    return (ChunkOf<T>::lane_bits & (ChunkMask<T>{} + static_cast<Lane>(flags))) != 0;
}
// The other way round: bit e is set where lane e of a comparison is true.
template <class T, class M>
MULTIMARGIN_INLINE std::uint8_t pack_flags(M mask) {
    unsigned flags = 0;
    for (int e = 0; e < lanes<T>; ++e) flags |= static_cast<unsigned>(mask[e] & 1) << e;
    return static_cast<std::uint8_t>(flags);
}
// Four numbers from memory of any alignment, in double, and back.
MULTIMARGIN_INLINE Chunk<double> load_chunk(const double* from) {
    Chunk<double> chunk;
    std::memcpy(&chunk, from, sizeof chunk);
    return chunk;
}
MULTIMARGIN_INLINE Chunk<double> load_chunk(const float* from) {
    typedef float Half __attribute__((vector_size(16)));
    Half half;
    std::memcpy(&half, from, sizeof half);
    return __builtin_convertvector(half, Chunk<double>);
}
MULTIMARGIN_INLINE void store_chunk(double* to, Chunk<double> chunk) { std::memcpy(to, &chunk, sizeof chunk); }
template <class V>
MULTIMARGIN_INLINE V lane_min(V a, V b) {
    return a < b ? a : b;
}
template <class V>
MULTIMARGIN_INLINE V lane_max(V a, V b) {
    return a > b ? a : b;
}
// Asks for the first cache lines of what is soon read; a long run goes on by itself.
MULTIMARGIN_INLINE void prefetch_bytes(const void* begin, std::int64_t bytes) {
    constexpr std::int64_t line = 64, enough = 8 * line;
    const char* first = static_cast<const char*>(begin);
    for (std::int64_t b = 0; b < bytes + line && b < enough; b += line) __builtin_prefetch(first + b);
}
// Whether any lane of a comparison is true.
template <class M>
MULTIMARGIN_INLINE bool any(M mask) {
    std::uint64_t words[4];
    std::memcpy(words, &mask, sizeof mask);
    return (words[0] | words[1] | words[2] | words[3]) != 0;
}
template <class M>
MULTIMARGIN_INLINE bool all(M mask) {
    return !any(~mask);
}

}  // namespace multimargin::inline base
