#pragma once
// Vectors and tables of numbers, padded with zeros to whole chunks.

#include <cstring>

#include "core/base/matrix.hpp"
#include "core/base/memory.hpp"
#include "core/base/simd.hpp"

namespace multimargin::inline base {

template <class T>
class ChunkVector {
  public:
    explicit ChunkVector(int chunks) : chunks_(static_cast<std::size_t>(chunks)) {}
    MULTIMARGIN_INLINE T& operator[](Index l) { return reinterpret_cast<T*>(chunks_.data())[l]; }
    MULTIMARGIN_INLINE const T& operator[](Index l) const { return reinterpret_cast<const T*>(chunks_.data())[l]; }
    MULTIMARGIN_INLINE Chunk<T>* chunks() { return chunks_.data(); }
    MULTIMARGIN_INLINE const Chunk<T>* chunks() const { return chunks_.data(); }
    MULTIMARGIN_INLINE int size() const { return static_cast<int>(chunks_.size()); }
    MULTIMARGIN_INLINE void clear() { std::memset(static_cast<void*>(chunks_.data()), 0, chunks_.size() * 32); }

  private:
    Buffer<Chunk<T>> chunks_;
};

// Rows of `cols` values, padded with zeros to whole chunks.
template <class T>
class ChunkTable {
  public:
    ChunkTable(const T* values, Index rows, Index cols)
        : width_(chunks_for(cols, lanes<T>)), chunks_(static_cast<std::size_t>(rows) * width_) {
        for (Index i = 0; i < rows; ++i)
            std::memcpy(static_cast<void*>(chunks_.data() + i * width_), values + i * cols,
                        static_cast<std::size_t>(cols) * sizeof(T));
    }
    MULTIMARGIN_INLINE int width() const { return width_; }
    MULTIMARGIN_INLINE const Chunk<T>* row(Index i) const { return chunks_.data() + i * width_; }
    MULTIMARGIN_INLINE void add_row(Index i, T amount, Chunk<T>* out) const {
        for (int k = 0; k < width_; ++k) out[k] += amount * row(i)[k];
    }
    MULTIMARGIN_INLINE T dot_row(Index i, const Chunk<T>* v) const {
        Chunk<T> sum{};
        for (int k = 0; k < width_; ++k) sum += row(i)[k] * v[k];
        T total = 0;
        for (int e = 0; e < lanes<T>; ++e) total += sum[e];
        return total;
    }

  private:
    int width_;
    Buffer<Chunk<T>> chunks_;
};

}  // namespace multimargin::inline base
