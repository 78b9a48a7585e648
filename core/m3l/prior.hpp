#pragma once
// The prior R on label correlations, as row-block solvers use it.
//
// A prior says how wide the solver's state is (what is kept per feature) and offers Row, a workspace for one data
// row, which turns the row's raw state scores into label scores z = R V' x and keeps them right while dual variables
// of that row move:
//
//   open(raw, between)     raw = state' x; afterwards scores()[l] = z_l. A dense R calls between(l) after its row l:
//                          time to ask for memory
//   score(l)               z_l now
//   move(l, d, norm)       beta_il has grown by d, |x_i|^2 = norm
//   step()                 what the moves add to the state, per unit of x
//   step_of(beta)          the same for a move from 0 to beta, without scores
//
//   DensePrior             R, L x L                        state V = X' beta                 (D x L)
//   FactorPrior            R = diag(d) + F F', F L x r     state V                           (D x L)
//   PureFactorPrior        R = F F'                        state U = V F, V is never stored  (D x r)

#include <cstring>
#include <span>
#include <vector>

#include "core/base/chunks.hpp"
#include "core/base/matrix.hpp"
#include "core/numerics/row_kernels.hpp"

namespace multimargin::m3l {

using namespace numerics;

template <class T>
class DensePrior {
  public:
    DensePrior(const T* R, Index labels) : labels_(labels), R_(R, labels, labels) {}
    int state_chunks() const { return R_.width(); }
    T diagonal(Index l) const { return reinterpret_cast<const T*>(R_.row(l))[l]; }

    class Row {
      public:
        explicit Row(const DensePrior& prior) : prior_(prior), z_(prior.R_.width()), moves_(prior.R_.width()) {}
        MULTIMARGIN_INLINE void open(const Chunk<T>* raw) {
            open(raw, [](Index) {});
        }
        template <class Between>
        MULTIMARGIN_INLINE void open(const Chunk<T>* raw, Between&& between) {
            moves_.clear();
            const T* s = reinterpret_cast<const T*>(raw);
            in_register_groups(prior_.R_.width(), [&]<int M>(int first) __attribute__((always_inline)) {
                Chunk<T> sum[M];
                for (int m = 0; m < M; ++m) sum[m] = Chunk<T>{};
                for (Index l = 0; l < prior_.labels_; ++l) {
                    for (int m = 0; m < M; ++m) sum[m] += s[l] * prior_.R_.row(l)[first + m];
                    if (first == 0) between(l);
                }
                for (int m = 0; m < M; ++m) z_.chunks()[first + m] = sum[m];
            });
        }
        MULTIMARGIN_INLINE const ChunkVector<T>& scores() const { return z_; }
        MULTIMARGIN_INLINE T score(Index l) const { return z_[l]; }
        MULTIMARGIN_INLINE void move(Index l, T change, T norm) {
            prior_.R_.add_row(l, change * norm, z_.chunks());
            moves_[l] += change;
        }
        MULTIMARGIN_INLINE const Chunk<T>* step() const { return moves_.chunks(); }
        MULTIMARGIN_INLINE const Chunk<T>* step_of(const Chunk<T>* beta) { return beta; }

      private:
        const DensePrior& prior_;
        ChunkVector<T> z_, moves_;
    };

    // v R v' for a row v of the state.
    MULTIMARGIN_INLINE double quadratic(const Chunk<T>* v, Row& row) const {
        row.open(v);
        const T* s = reinterpret_cast<const T*>(v);
        double sum = 0.0;
        for (Index l = 0; l < labels_; ++l) sum += static_cast<double>(s[l]) * static_cast<double>(row.score(l));
        return sum;
    }

  private:
    Index labels_;
    ChunkTable<T> R_;
};

// R = diag(d) + F F'; without diagonal the state is U = V F.
template <class T, bool WithDiagonal>
class FactorPriorOf {
  public:
    // factor: L x r; transposed: r x L; diagonal: L values.
    FactorPriorOf(const T* factor, const T* transposed, const T* diagonal, Index labels, Index rank)
        : labels_(labels),
          rank_(rank),
          F_(factor, labels, rank),
          Ft_(transposed, rank, labels),
          d_(diagonal, 1, labels) {}
    int state_chunks() const { return WithDiagonal ? Ft_.width() : F_.width(); }
    T diagonal(Index l) const { return d(l) + F_.dot_row(l, F_.row(l)); }

    class Row {
      public:
        explicit Row(const FactorPriorOf& prior)
            : prior_(prior),
              s_(prior.Ft_.width()),
              z_(prior.Ft_.width()),
              u_(prior.F_.width()),
              moves_(prior.state_chunks()) {}
        template <class Between>
        MULTIMARGIN_INLINE void open(const Chunk<T>* raw, Between&&) {
            open(raw);
        }
        MULTIMARGIN_INLINE void open(const Chunk<T>* raw) {
            moves_.clear();
            moved_ = false;
            if constexpr (WithDiagonal) {
                std::memcpy(static_cast<void*>(s_.chunks()), raw, static_cast<std::size_t>(s_.size()) * 32);
                u_.clear();
                for (Index l = 0; l < prior_.labels_; ++l) prior_.F_.add_row(l, s_[l], u_.chunks());
                for (int k = 0; k < z_.size(); ++k) z_.chunks()[k] = prior_.d_.row(0)[k] * s_.chunks()[k];
            } else {
                std::memcpy(static_cast<void*>(u_.chunks()), raw, static_cast<std::size_t>(u_.size()) * 32);
                z_.clear();
            }
            for (Index k = 0; k < prior_.rank_; ++k) prior_.Ft_.add_row(k, u_[k], z_.chunks());
        }
        MULTIMARGIN_INLINE const ChunkVector<T>& scores() const { return z_; }
        MULTIMARGIN_INLINE T score(Index l) const {
            if (!moved_) return z_[l];
            const T shared = prior_.F_.dot_row(l, u_.chunks());
            return WithDiagonal ? shared + prior_.d(l) * s_[l] : shared;
        }
        MULTIMARGIN_INLINE void move(Index l, T change, T norm) {
            moved_ = true;
            prior_.F_.add_row(l, change * norm, u_.chunks());
            if constexpr (WithDiagonal) {
                s_[l] += change * norm;
                moves_[l] += change;
            } else {
                prior_.F_.add_row(l, change, moves_.chunks());
            }
        }
        MULTIMARGIN_INLINE const Chunk<T>* step() const { return moves_.chunks(); }
        MULTIMARGIN_INLINE const Chunk<T>* step_of(const Chunk<T>* beta) {
            if constexpr (WithDiagonal) return beta;
            moves_.clear();
            const T* b = reinterpret_cast<const T*>(beta);
            for (Index l = 0; l < prior_.labels_; ++l) prior_.F_.add_row(l, b[l], moves_.chunks());
            return moves_.chunks();
        }

      private:
        const FactorPriorOf& prior_;
        ChunkVector<T> s_, z_, u_, moves_;
        bool moved_ = false;
    };

    MULTIMARGIN_INLINE double quadratic(const Chunk<T>* v, Row& row) const {
        const T* s = reinterpret_cast<const T*>(v);
        double sum = 0.0;
        if constexpr (WithDiagonal) {
            row.open(v);
            for (Index l = 0; l < labels_; ++l) sum += static_cast<double>(s[l]) * static_cast<double>(row.score(l));
        } else {
            for (Index k = 0; k < rank_; ++k) sum += static_cast<double>(s[k]) * static_cast<double>(s[k]);
        }
        return sum;
    }

  private:
    MULTIMARGIN_INLINE T d(Index l) const { return reinterpret_cast<const T*>(d_.row(0))[l]; }

    Index labels_, rank_;
    ChunkTable<T> F_, Ft_, d_;
};

template <class T>
using FactorPrior = FactorPriorOf<T, true>;
template <class T>
using PureFactorPrior = FactorPriorOf<T, false>;

// R in the form that coordinate ascent takes: R itself, or diag(d) + F F', d null where it is 0. In double.
struct PriorArrays {
    const double* R = nullptr;                         // labels x labels
    const double *F = nullptr, *transposed = nullptr;  // labels x rank and the other way round
    const double* d = nullptr;
    Index rank = 0;
};

// use(prior, width of the state) with the prior of these arrays in precision T.
template <class T, class Use>
auto with_prior(const PriorArrays& a, Index labels, Use&& use) {
    const auto cast = [](const double* values, Index size) { return std::vector<T>(values, values + size); };
    if (a.R) return use(DensePrior<T>(cast(a.R, labels * labels).data(), labels), labels);
    const std::vector<T> F = cast(a.F, labels * a.rank), Ft = cast(a.transposed, labels * a.rank);
    if (a.d) return use(FactorPrior<T>(F.data(), Ft.data(), cast(a.d, labels).data(), labels, a.rank), labels);
    const std::vector<T> zeros(static_cast<std::size_t>(labels));
    return use(PureFactorPrior<T>(F.data(), Ft.data(), zeros.data(), labels, a.rank), a.rank);
}

}  // namespace multimargin::m3l
