#pragma once
// Aligned, zeroed arrays for the hot loops.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace multimargin::inline base {

// n zeroed values of T, aligned to cache lines; large arrays ask for huge pages, as many as they fill, since rows are
// visited at random.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t n) : size_(n) {
        constexpr std::size_t line = 64, huge = std::size_t{1} << 21;
        const std::size_t bytes = n * sizeof(T);
        const std::size_t alignment = bytes >= 2 * huge ? huge : line;
        const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
        void* memory = std::aligned_alloc(alignment, rounded ? rounded : alignment);
        if (!memory) throw std::bad_alloc();
#if defined(__linux__)
        if (alignment == huge) madvise(memory, bytes / huge * huge, MADV_HUGEPAGE);
#endif
        std::memset(memory, 0, (bytes + line - 1) / line * line);
        data_.reset(static_cast<T*>(memory));
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_.get()[i]; }
    const T& operator[](std::size_t i) const { return data_.get()[i]; }

  private:
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace multimargin::inline base
