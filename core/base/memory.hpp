#pragma once
// Aligned, zeroed arrays for the hot loops.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace multimargin::inline base {

// n zeroed values of T, aligned to cache lines. Large arrays come from the system as zeroed pages, each made by the thread
// that touches it first, and ask for huge ones, as many as they fill, since rows are visited at random.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t n) : size_(n) {
        constexpr std::size_t line = 64;
        const std::size_t bytes = (n * sizeof(T) + line - 1) / line * line;
#if defined(__linux__)
        if (bytes >= 2 * huge) {
            data_ = std::unique_ptr<T, Free>(static_cast<T*>(map_pages(bytes)), Free{bytes});
            return;
        }
#endif
        void* memory = std::aligned_alloc(line, bytes ? bytes : line);
        if (!memory) throw std::bad_alloc();
        std::memset(memory, 0, bytes);
        data_.reset(static_cast<T*>(memory));
    }
    // Makes all pages, by this thread. A page that is read before it is written is made twice otherwise, the second time
    // while every thread of the process waits; where the system is older, a huge one falls apart.
    void touch() {
#if defined(__linux__)
        constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
        const std::size_t bytes = data_.get_deleter().mapped;
        if (!bytes || madvise(data_.get(), bytes, populate_write) == 0) return;
        char* first = reinterpret_cast<char*>(data_.get());
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        for (std::size_t at = 0; at < bytes; at += page) __atomic_fetch_or(first + at, 0, __ATOMIC_RELAXED);
#endif
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_.get()[i]; }
    const T& operator[](std::size_t i) const { return data_.get()[i]; }

  private:
    static constexpr std::size_t huge = std::size_t{1} << 21;

    struct Free {
        std::size_t mapped = 0;  // bytes; 0 for memory of the heap
        void operator()(T* p) const {
#if defined(__linux__)
            if (mapped) {
                munmap(p, mapped);
                return;
            }
#endif
            std::free(p);
        }
    };

#if defined(__linux__)
    // Begins at a huge page: what lies before it, and after the end, is given back.
    static void* map_pages(std::size_t bytes) {
        void* found = mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED) throw std::bad_alloc();
        char* first = static_cast<char*>(found);
        const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(first) % huge) % huge;
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t end = (before + bytes + page - 1) / page * page;
        if (before) munmap(first, before);
        if (end < bytes + huge) munmap(first + end, bytes + huge - end);
        madvise(first + before, bytes / huge * huge, MADV_HUGEPAGE);
        return first + before;
    }
#endif

    std::unique_ptr<T, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace multimargin::inline base
