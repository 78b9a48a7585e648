#pragma once
// Instruction sets. A hot function marked MULTIMARGIN_SIMD is compiled for a plain x86-64, for AVX2 + FMA and for
// AVX-512; the loader picks one on the running machine. Everything it calls must be MULTIMARGIN_INLINE, so that
// the callee is compiled for the same instruction set. Elsewhere the macro is empty and the code is portable.

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define MULTIMARGIN_SIMD __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MULTIMARGIN_SIMD
#endif

#define MULTIMARGIN_INLINE inline __attribute__((always_inline))
