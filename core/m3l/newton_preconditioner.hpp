#pragma once
// Preconditioner of the Newton systems I + X' W X (see newton.hpp): W replaced by its mean rho_l per label, so that
// I + X'X (x) P' diag(rho) P is inverted in the eigenbases of both factors.

#include <functional>
#include <optional>
#include <vector>

#include "core/m3l/newton_panels.hpp"
#include "core/numerics/panels.hpp"

namespace multimargin::m3l {

using namespace numerics;

// R = P P', P = E sqrt(Sigma), both ways round.
template <class T>
struct Coupling {
    std::vector<T> P;   // labels x rank
    std::vector<T> Pt;  // rank x labels
    Index labels, rank;
    // Eigenvalues of a symmetric matrix of this order, which is replaced by its eigenvectors, one per row.
    std::function<void(std::vector<double>& matrix, std::vector<double>& values)> eigen;
};

// X'X (constant feature included) = Q diag(values) Q'.
template <class T>
struct Eigenbasis {
    const T* Q;   // n x n, rows are features
    const T* Qt;  // its transpose
    std::vector<double> values;
};

// out = panel * table (rows x chunks of the table), four rows at a time; out may be wider apart than the table.
template <class T>
void times_table(const Buffer<Chunk<T>>& panel, Index rows, int width, Index inner, const ChunkTable<T>& table,
                 Buffer<Chunk<T>>& out) {
    const int out_width = table.width();
    std::vector<int> at(static_cast<std::size_t>(out_width));
    std::iota(at.begin(), at.end(), 0);
    Buffer<Chunk<T>> four(static_cast<std::size_t>(quad * out_width)), in(static_cast<std::size_t>(quad * width));
    for (Index j = 0; j < rows; j += quad) {
        const Index count = std::min<Index>(quad, rows - j);
        std::memcpy(static_cast<void*>(in.data()), panel.data() + j * width,
                    static_cast<std::size_t>(count * width) * 32);
        multiply_quad<T>(reinterpret_cast<const T*>(in.data()), static_cast<Index>(width) * lanes<T>, inner, table, at,
                         four.data());
        std::memcpy(static_cast<void*>(out.data() + j * out_width), four.data(),
                    static_cast<std::size_t>(count * out_width) * 32);
    }
}

template <class T>
class Preconditioner {
  public:
    using Panel = Buffer<Chunk<T>>;

    // coupling: null if columns are labels of their own.
    Preconditioner(const PanelSpace<T>& space, const Eigenbasis<T>* basis, const Coupling<T>* coupling)
        : space_(space), basis_(basis), coupling_(coupling) {}

    // rho: mean of W per label.
    void set(const Values& rho) {
        if (!coupling_) {
            column_weight_ = rho;
            return;
        }
        const Index r = coupling_->rank;
        std::vector<double> M(static_cast<std::size_t>(r * r));
        for (Index l = 0; l < coupling_->labels; ++l) {
            const T* p = coupling_->P.data() + l * r;
            for (Index a = 0; a < r; ++a) {
                const double scaled = rho[static_cast<std::size_t>(l)] * static_cast<double>(p[a]);
                for (Index b = 0; b < r; ++b)
                    M[static_cast<std::size_t>(a * r + b)] += scaled * static_cast<double>(p[b]);
            }
        }
        coupling_->eigen(M, column_weight_);
        std::vector<T> rows(M.begin(), M.end()), columns(rows.size());
        for (Index a = 0; a < r; ++a)
            for (Index b = 0; b < r; ++b)
                columns[static_cast<std::size_t>(b * r + a)] = rows[static_cast<std::size_t>(a * r + b)];
        from_eigen_.emplace(rows.data(), r, r);
        to_eigen_.emplace(columns.data(), r, r);
        column_weight_.resize(static_cast<std::size_t>(space_.chunks()) * lanes<T>, 0.0);
    }
    // z = Q E diag(1 / (1 + lam_j weight_k)) E' Q' r, or r without a basis.
    void solve(const Panel& r, Panel& z) const {
        if (!basis_) return space_.copy(r, z);
        apply(r, z, [](double lam, double weight) { return 1.0 / (1.0 + lam * weight); });
    }
    // z = (the same) X'X r: the least-squares fit, in the weighted scores, of what r would be without the unit term.
    void fit(const Panel& r, Panel& z) const {
        apply(r, z, [](double lam, double weight) { return lam / (1.0 + lam * weight); });
    }

  private:
    template <class Factor>
    void apply(const Panel& r, Panel& z, Factor&& factor) const {
        auto rotated = space_.panel();
        rotate(basis_->Qt, r.data(), rotated.data());
        if (coupling_) turn(*to_eigen_, rotated);
        for (Index j = 0; j < space_.rows(); ++j) {
            T* row = reinterpret_cast<T*>(rotated.data() + j * space_.chunks());
            const double lam = std::max(basis_->values[static_cast<std::size_t>(j)], 0.0);
            for (std::size_t c = 0; c < column_weight_.size(); ++c)
                row[c] *= static_cast<T>(factor(lam, std::max(column_weight_[c], 0.0)));
        }
        if (coupling_) turn(*from_eigen_, rotated);
        rotate(basis_->Q, rotated.data(), z.data());
    }
    void turn(const ChunkTable<T>& table, Panel& panel) const {
        times_table(panel, space_.rows(), space_.chunks(), coupling_->rank, table, panel);
    }
    void rotate(const T* table, const Chunk<T>* from, Chunk<T>* to) const {
        const Index n = space_.rows();
        const int width = space_.chunks();
        std::vector<int> at(static_cast<std::size_t>(width));
        std::iota(at.begin(), at.end(), 0);
        Panel out(static_cast<std::size_t>(quad * width));
        for (Index i = 0; i < n; i += quad) {
            const T* rows[quad];
            for (int r = 0; r < quad; ++r) rows[r] = table + std::min(i + r, n - 1) * n;
            PanelSpace<T>::clear(out);
            QuadKernels<T>::gather(rows, n, from, width, at.data(), width, width, out.data());
            std::memcpy(static_cast<void*>(to + i * width), out.data(),
                        static_cast<std::size_t>(std::min<Index>(quad, n - i) * width) * 32);
        }
    }

    const PanelSpace<T>& space_;
    const Eigenbasis<T>* basis_;
    const Coupling<T>* coupling_;
    Values column_weight_;
    std::optional<ChunkTable<T>> to_eigen_, from_eigen_;
};

}  // namespace multimargin::m3l
