#pragma once
// The labellings that an oracle has returned for a row, each with a weight (block ascent: blocks.hpp).

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace multimargin::submodular {

struct Plane {
    double loss = 0.0, weight = 0.0, value = 0.0;
    int first = 0, labels = 0, size = 0;  // items of the row from `first` on: labels, then pairs, both ascending
    int idle = 0;                         // passes since the plane had a weight
    int padded() const { return (size + 3) / 4 * 4; }
};

// The planes of a row. Their items are places in the vector (scores of labels, weights of pairs, 0), of which a visit
// sums up those of every plane: they lie in one piece, each plane padded to a multiple of four by the place of the 0.
struct RowPlanes {
    std::vector<Plane> planes;
    std::vector<std::int32_t> items;

    std::span<const std::int32_t> labels(const Plane& plane) const {
        return {items.data() + plane.first, static_cast<std::size_t>(plane.labels)};
    }
    std::span<const std::int32_t> pairs(const Plane& plane) const {
        return {items.data() + plane.first + plane.labels, static_cast<std::size_t>(plane.size - plane.labels)};
    }
    bool same(const Plane& a, const Plane& b) const { return std::ranges::equal(labels(a), labels(b)); }
    // Keeps the planes that `stays` accepts.
    template <class Stays>
    void keep(Stays&& stays) {
        std::size_t kept = 0;
        int end = 0;
        for (std::size_t k = 0; k < planes.size(); ++k) {
            if (!stays(k)) continue;
            Plane plane = planes[k];
            std::copy_n(items.begin() + plane.first, plane.padded(), items.begin() + end);
            plane.first = end;
            end += plane.padded();
            planes[kept++] = plane;
        }
        planes.resize(kept);
        items.resize(static_cast<std::size_t>(end));
    }
};

}  // namespace multimargin::submodular
