#pragma once
// The rows' part of the Newton finish (newton.hpp): for a batch of labels, the centre beta_k, the scores z, and
// everything that is summed over cells (row i, label l). All scalars are per label.
//
//   beta(z) = clip(beta_k + (y m - z) c / tau, box)      -h'(z) of the smoothed loss h
//   h(z)    = (y m - z) beta(z) - tau / (2 c) (beta(z) - beta_k)^2
//
// Panels have a column per label; or, through a factor P of rank r, r columns: then scores are X U P' and what goes
// back is multiplied by P row by row, which is cheaper when r (D + L) < D L.

#include <numeric>
#include <vector>

#include "core/labels/cells.hpp"
#include "core/m3l/newton_preconditioner.hpp"

namespace multimargin::m3l {

using namespace labels;

template <RowMatrix X>
class NewtonRows {
  public:
    using T = typename X::value_type;
    using Panel = Buffer<Chunk<T>>;

    // coupling: null, or the factor the panels are multiplied by; the batch then holds all labels. matrices: whether to
    // form X' W X label by label where that is cheaper.
    NewtonRows(const X& x, const LabelCells<T>& labels, T bias, int first, int chunks, const Coupling<T>* coupling,
               bool matrices)
        : x_(x),
          labels_(labels),
          first_(first),
          chunks_(chunks),
          matrices_allowed_(matrices && is_dense<X> && !coupling && x.cols() * x.cols() <= 4 * x.rows()),
          rows_(x, bias, coupling ? chunks_for(coupling->rank, lanes<T>) : chunks),
          beta_(cells()),
          scores_(cells()),
          free_(cells()),
          step_(static_cast<std::size_t>(quad * std::max(chunks, rows_.chunks()))),
          state_step_(step_.size()),
          slope_(chunks),
          wide_(chunks),
          label_at_(static_cast<std::size_t>(chunks)) {
        std::iota(label_at_.begin(), label_at_.end(), 0);
        if (!coupling) return;
        rank_ = coupling->rank;
        P_.emplace(coupling->P.data(), coupling->labels, rank_);
        Pt_.emplace(coupling->Pt.data(), rank_, coupling->labels);
    }

    int first_chunk() const { return first_; }
    int chunks() const { return chunks_; }
    int panel_chunks() const { return rows_.chunks(); }
    std::size_t padded_labels() const { return static_cast<std::size_t>(chunks_) * lanes<T>; }
    Index first_label() const { return static_cast<Index>(first_) * lanes<T>; }
    Index own_labels() const {
        return std::min<Index>(static_cast<Index>(chunks_) * lanes<T>, labels_.labels() - first_label());
    }

    Values typical_margins() const {
        Values margins(padded_labels());
        for (std::size_t l = 0; l < margins.size(); ++l)
            margins[l] = labels_.typical_margin(first_label() + static_cast<Index>(l));
        return margins;
    }

    // beta_k from signed beta (rows x labels), moved into the box; centre += X' beta_k, linear += sum_i y m beta_k.
    void start_from(const T* beta, Panel& centre, Values& linear, Control& control, bool on_caller) {
        for (Index i = 0; i < x_.rows(); ++i)
            std::memcpy(static_cast<void*>(beta_.data() + i * chunks_), beta + i * labels_.labels() + first_label(),
                        static_cast<std::size_t>(own_labels()) * sizeof(T));
        ChunkVector<T> sums(chunks_);
        for_rows(control, on_caller, [&](Index a, Index b) {
            centre_rows(a, b, centre.data(), sums.chunks());
            drain(sums, linear);
        });
    }
    // beta_k *= theta
    void scale_centre(const Values& theta) {
        spread(theta);
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < chunks_; ++k) beta_[static_cast<std::size_t>(i * chunks_ + k)] *= wide_.chunks()[k];
    }
    // z = X panel
    void set_scores(const Panel& panel, Control& control, bool on_caller) { score(panel, scores_, control, on_caller); }
    Panel scores_of(const Panel& panel, Control& control, bool on_caller) {
        Panel out(cells());
        score(panel, out, control, on_caller);
        return out;
    }
    // z += length change
    void move_scores(const Values& length, const Panel& change) {
        spread(length);
        add_scaled(change.data());
    }

    // V = X' beta(z), the free cells, linear = sum y m beta, hinge = sum c max(0, m - y z).
    void gradient(const Values& tau, Panel& V, Values& linear, Values& hinge, Control& control, bool on_caller) {
        set_tau(tau);
        PanelSpace<T>::clear(V);
        linear.assign(padded_labels(), 0.0);
        hinge.assign(padded_labels(), 0.0);
        ChunkVector<T> sums[2] = {ChunkVector<T>(chunks_), ChunkVector<T>(chunks_)};
        for_rows(control, on_caller, [&](Index a, Index b) {
            gradient_rows(a, b, V.data(), sums[0].chunks(), sums[1].chunks());
            drain(sums[0], linear);
            drain(sums[1], hinge);
        });
    }
    // tau of beta(z), for along_line() without a gradient().
    void set_tau(const Values& tau) {
        for (std::size_t l = 0; l < tau.size(); ++l) slope_[static_cast<Index>(l)] = static_cast<T>(1.0 / tau[l]);
    }
    // beta_k += theta (beta - beta_k), with tau and the scores of the last gradient.
    void move_centre(const Values& theta) {
        spread(theta);
        move_centre_rows();
    }

    // Prepares curvature(); returns the mean of W = c / tau over all rows, per label.
    Values prepare_curvature(const Values& tau, int iteration, Control& control, bool on_caller) {
        chosen_.clear();
        std::int64_t free_cells = 0;
        for (Index i = 0; i < x_.rows(); ++i) {
            int found = 0;
            for (int k = 0; k < chunks_; ++k)
                found += __builtin_popcount(free_[static_cast<std::size_t>(i * chunks_ + k)]);
            if (found) chosen_.push_back(static_cast<std::int32_t>(i));
            free_cells += found;
        }
        Values rho(padded_labels());
        ChunkVector<T> costs(chunks_);
        for (std::size_t a = 0; a < chosen_.size(); a += batch) {
            free_costs(chosen_.data() + a, std::min<std::size_t>(batch, chosen_.size() - a), costs.chunks());
            drain(costs, rho);
        }
        for (std::size_t l = 0; l < rho.size(); ++l) rho[l] /= static_cast<double>(x_.rows()) * tau[l];
        matrices_.clear();
        const bool form = matrices_pay(free_cells);
        const std::size_t stride =
            choose_rows(tau, free_cells, iteration, form ? 2 * rows_per_unknown : rows_per_unknown);
        if (form) form_matrices(static_cast<double>(stride), tau, control, on_caller);
        return rho;
    }
    bool has_matrices() const { return !matrices_.empty(); }
    // q += X' W X p; nothing else may come between prepare_curvature() and this.
    void curvature(const Panel& p, Panel& q, Control& control, bool on_caller) {
        if (has_matrices()) return apply_matrices(p, q);
        for (std::size_t a = 0; a < chosen_.size() && !control.leave_unfinished(on_caller); a += batch)
            curvature_rows(chosen_.data() + a, std::min<std::size_t>(batch, chosen_.size() - a), p.data(), q.data());
    }

    // sums += c x x' over the free cells of a label at the last gradient, the constant feature last: the upper triangle,
    // row by row. Rows are added up in the precision of X some thousand at a time. For dense rows.
    void add_free_squares(Index l, double* sums, Control& control, bool on_caller) {
        constexpr Index range = 4096;
        const int width = chunks_for(x_.cols() + 1, lanes<T>), k = static_cast<int>(l / lanes<T>);
        const Index stride = static_cast<Index>(width) * lanes<T>;
        std::vector<int> at(static_cast<std::size_t>(width));
        std::iota(at.begin(), at.end(), 0);
        Panel H(static_cast<std::size_t>((x_.cols() + 1) * width)), steps(static_cast<std::size_t>(quad * width));
        std::vector<std::int32_t> rows;
        for (Index first = 0; first < x_.rows() && !control.leave_unfinished(on_caller); first += range) {
            rows.clear();
            for (Index i = first; i < std::min(x_.rows(), first + range); ++i)
                if (free_[static_cast<std::size_t>(i * chunks_ + k)] >> (l % lanes<T>)&1)
                    rows.push_back(static_cast<std::int32_t>(i));
            PanelSpace<T>::clear(H);
            for (std::size_t a = 0; a < rows.size(); a += quad)
                add_squares(rows.data() + a, static_cast<int>(std::min<std::size_t>(quad, rows.size() - a)), l, T(1),
                            at.data(), width, steps.data(), H.data());
            const T* h = reinterpret_cast<const T*>(H.data());
            double* to = sums;
            for (Index j = 0; j <= x_.cols(); ++j)
                for (Index m = j; m <= x_.cols(); ++m) *to++ += static_cast<double>(h[j * stride + m]);
        }
    }

    // At scores z + length change: sums over cells of -h' dz, of c dz^2 over free cells, and of the change of h.
    void along_line(const Values& length, const Values& tau, const Panel& change, Values& slope, Values& curvature,
                    Values& loss, Control& control, bool on_caller) {
        spread(length);
        for (auto* sum : {&slope, &curvature, &loss}) sum->assign(padded_labels(), 0.0);
        ChunkVector<T> widths(chunks_),
            sums[3] = {ChunkVector<T>(chunks_), ChunkVector<T>(chunks_), ChunkVector<T>(chunks_)};
        for (std::size_t l = 0; l < tau.size(); ++l) widths[static_cast<Index>(l)] = static_cast<T>(tau[l]);
        for_rows(control, on_caller, [&](Index a, Index b) {
            line_rows(a, b, change.data(), widths.chunks(), sums[0].chunks(), sums[1].chunks(), sums[2].chunks());
            drain(sums[0], slope);
            drain(sums[1], curvature);
            drain(sums[2], loss);
        });
        for (std::size_t l = 0; l < tau.size(); ++l) curvature[l] /= tau[l];
    }

    void read_beta(Index i, Index first, Index count, double* out) const {
        const T* beta = reinterpret_cast<const T*>(beta_.data() + i * chunks_);
        const Index begin = std::max(first, first_label()), end = std::min(first + count, first_label() + own_labels());
        for (Index l = begin; l < end; ++l) out[l - first] = static_cast<double>(beta[l - first_label()]);
    }
    void copy_beta(T* beta) const {
        for (Index i = 0; i < x_.rows(); ++i)
            std::memcpy(beta + i * labels_.labels() + first_label(), beta_.data() + i * chunks_,
                        static_cast<std::size_t>(own_labels()) * sizeof(T));
    }

  private:
    static constexpr double rows_per_unknown = 6.0;
    static constexpr Index batch = 128;  // rows between two looks at the outside world; a multiple of four

    std::size_t cells() const { return static_cast<std::size_t>(x_.rows() * chunks_); }

    template <class Work>
    void for_rows(Control& control, bool on_caller, Work&& work) {
        for (Index a = 0; a < x_.rows() && !control.leave_unfinished(on_caller); a += batch)
            work(a, std::min(x_.rows(), a + batch));
    }
    void spread(const Values& values) {
        for (std::size_t l = 0; l < values.size(); ++l) wide_[static_cast<Index>(l)] = static_cast<T>(values[l]);
    }
    void drain(ChunkVector<T>& sums, Values& totals) const {
        for (std::size_t l = 0; l < totals.size(); ++l) totals[l] += static_cast<double>(sums[static_cast<Index>(l)]);
        sums.clear();
    }
    void score(const Panel& panel, Panel& out, Control& control, bool on_caller) {
        for_rows(control, on_caller, [&](Index a, Index b) { score_rows(a, b, panel.data(), out.data()); });
    }

    struct Cell {
        ChunkMask<T> positive;
        Chunk<T> target, cost, low, high;
    };
    MULTIMARGIN_INLINE Cell cell(Index i, int k) const {
        const Chunk<T> zero{};
        const auto positive = labels_.is_positive(i, first_ + k);
        const Chunk<T> cost = labels_.cost(i, first_ + k, positive);
        return {positive, labels_.target(i, first_ + k, positive), cost, positive ? zero : -cost,
                positive ? cost : zero};
    }
    MULTIMARGIN_INLINE Chunk<T> dual_of(const Cell& c, Chunk<T> centre, Chunk<T> score, Chunk<T> slope) const {
        return lane_min(c.high, lane_max(c.low, centre + (c.target - score) * (c.cost * slope)));
    }

    // step_ (per row: chunks_ label chunks) into the panel.
    MULTIMARGIN_INLINE void push(const std::int32_t* rows, int count, Chunk<T>* panel) {
        if (!P_) return rows_.scatter(rows, count, step_.data(), panel);
        for (int k = count * chunks_; k < quad * chunks_; ++k) step_[k] = Chunk<T>{};
        multiply_quad<T>(reinterpret_cast<const T*>(step_.data()), static_cast<Index>(chunks_) * lanes<T>, own_labels(),
                         *P_, rows_.positions(), state_step_.data());
        rows_.scatter(rows, count, state_step_.data(), panel);
    }
    // Label scores of four rows into step_.
    MULTIMARGIN_INLINE void pull(const std::int32_t* rows, int count, const Chunk<T>* panel) {
        if (!P_) return rows_.gather(rows, count, panel, step_.data());
        rows_.gather(rows, count, panel, state_step_.data());
        for (int k = count * rows_.chunks(); k < quad * rows_.chunks(); ++k) state_step_[k] = Chunk<T>{};
        multiply_quad<T>(reinterpret_cast<const T*>(state_step_.data()), static_cast<Index>(rows_.chunks()) * lanes<T>,
                         rank_, *Pt_, label_at_, step_.data());
    }
    static MULTIMARGIN_INLINE int next_quad(Index i, Index last, std::int32_t* rows) {
        const int count = static_cast<int>(std::min<Index>(quad, last - i));
        for (int r = 0; r < count; ++r) rows[r] = static_cast<std::int32_t>(i + r);
        return count;
    }

    MULTIMARGIN_SIMD void centre_rows(Index first, Index last, Chunk<T>* centre, Chunk<T>* linear) {
        std::int32_t rows[quad];
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const Cell c = cell(i + r, k);
                    Chunk<T>& b = beta_[static_cast<std::size_t>((i + r) * chunks_ + k)];
                    b = lane_min(c.high, lane_max(c.low, b));
                    step_[static_cast<std::size_t>(r * chunks_ + k)] = b;
                    linear[k] += c.target * b;
                }
            push(rows, count, centre);
        }
    }
    MULTIMARGIN_SIMD void score_rows(Index first, Index last, const Chunk<T>* panel, Chunk<T>* out) {
        std::int32_t rows[quad];
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            pull(rows, count, panel);
            std::memcpy(static_cast<void*>(out + i * chunks_), step_.data(),
                        static_cast<std::size_t>(count * chunks_) * 32);
        }
    }
    MULTIMARGIN_SIMD void add_scaled(const Chunk<T>* change) {
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < chunks_; ++k)
                scores_[static_cast<std::size_t>(i * chunks_ + k)] += wide_.chunks()[k] * change[i * chunks_ + k];
    }
    MULTIMARGIN_SIMD void gradient_rows(Index first, Index last, Chunk<T>* V, Chunk<T>* linear, Chunk<T>* hinge) {
        std::int32_t rows[quad];
        const Chunk<T> zero{};
        for (Index i = first; i < last; i += quad) {
            const int count = next_quad(i, last, rows);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const auto at = static_cast<std::size_t>((i + r) * chunks_ + k);
                    const Cell c = cell(i + r, k);
                    const Chunk<T> b = dual_of(c, beta_[at], scores_[at], slope_.chunks()[k]);
                    step_[static_cast<std::size_t>(r * chunks_ + k)] = b;
                    linear[k] += c.target * b;
                    const Chunk<T> g = c.target - scores_[at];
                    hinge[k] += c.cost * lane_max(c.positive ? g : -g, zero);
                    free_[at] = pack_flags<T>((b > c.low) & (b < c.high));
                }
            push(rows, count, V);
        }
    }
    MULTIMARGIN_SIMD void move_centre_rows() {
        for (Index i = 0; i < x_.rows(); ++i)
            for (int k = 0; k < chunks_; ++k) {
                const auto at = static_cast<std::size_t>(i * chunks_ + k);
                const Cell c = cell(i, k);
                const Chunk<T> b = dual_of(c, beta_[at], scores_[at], slope_.chunks()[k]);
                const Chunk<T> moved = beta_[at] + wide_.chunks()[k] * (b - beta_[at]);
                beta_[at] = lane_min(c.high, lane_max(c.low, moved));
            }
    }
    MULTIMARGIN_SIMD void free_costs(const std::int32_t* rows, std::size_t n, Chunk<T>* sums) const {
        for (std::size_t a = 0; a < n; ++a)
            for (int k = 0; k < chunks_; ++k) {
                const auto inside =
                    expand_flags<T>(free_[static_cast<std::size_t>(static_cast<Index>(rows[a]) * chunks_ + k)]);
                sums[k] += inside ? cell(rows[a], k).cost : Chunk<T>{};
            }
    }
    MULTIMARGIN_SIMD void curvature_rows(const std::int32_t* rows, std::size_t n, const Chunk<T>* p, Chunk<T>* q) {
        for (std::size_t a = 0; a < n; a += quad) {
            const int count = static_cast<int>(std::min<std::size_t>(quad, n - a));
            pull(rows + a, count, p);
            for (int r = 0; r < count; ++r)
                for (int k = 0; k < chunks_; ++k) {
                    const Index i = rows[a + static_cast<std::size_t>(r)];
                    const auto inside = expand_flags<T>(free_[static_cast<std::size_t>(i * chunks_ + k)]);
                    Chunk<T>& s = step_[static_cast<std::size_t>(r * chunks_ + k)];
                    s = inside ? s * (cell(i, k).cost * wide_.chunks()[k]) : Chunk<T>{};
                }
            push(rows + a, count, q);
        }
    }
    // Every s-th of the rows with a free cell, with weight s, when they abound; returns s.
    std::size_t choose_rows(const Values& tau, std::int64_t free_cells, int iteration, double enough) {
        constexpr std::size_t largest_stride = 8;
        const double per_label = static_cast<double>(free_cells) / static_cast<double>(own_labels());
        std::size_t stride = 1;
        while (stride < largest_stride &&
               per_label / static_cast<double>(2 * stride) > enough * static_cast<double>(x_.cols()))
            stride *= 2;
        Values scale(padded_labels());
        for (std::size_t l = 0; l < scale.size(); ++l) scale[l] = static_cast<double>(stride) / tau[l];
        spread(scale);
        std::size_t kept = 0;
        for (std::size_t a = static_cast<std::size_t>(iteration) % stride; a < chosen_.size(); a += stride)
            chosen_[kept++] = chosen_[a];
        chosen_.resize(kept);
        return stride;
    }

    // The matrix X' W X of a label takes its free rows alone, a product with X all rows with a free cell of the batch:
    // for few features the matrices cost less than ten products, and then CG is nearly free and sees all rows.
    bool matrices_pay(std::int64_t free_cells) const {
        if (!matrices_allowed_) return false;
        constexpr double products = 10.0;
        const double matrix = 0.5 * static_cast<double>(free_cells) * static_cast<double>(x_.cols());
        return matrix < products * 2.0 * static_cast<double>(chosen_.size()) * static_cast<double>(padded_labels());
    }
    void form_matrices(double weight, const Values& tau, Control& control, bool on_caller) {
        const int width = chunks_for(x_.cols() + 1, lanes<T>);
        matrices_.resize(static_cast<std::size_t>(own_labels()));
        std::vector<int> at(static_cast<std::size_t>(width));
        std::iota(at.begin(), at.end(), 0);
        Panel steps(static_cast<std::size_t>(quad * width));
        std::vector<std::int32_t> rows;
        for (Index l = 0; l < own_labels(); ++l) {
            if (control.leave_unfinished(on_caller)) return;
            auto& H = matrices_[static_cast<std::size_t>(l)];
            H = Panel(static_cast<std::size_t>((x_.cols() + 1) * width));
            rows.clear();
            const int k = static_cast<int>(l / lanes<T>);
            for (const auto i : chosen_)
                if (free_[static_cast<std::size_t>(i * static_cast<Index>(chunks_) + k)] >> (l % lanes<T>)&1)
                    rows.push_back(i);
            for (std::size_t a = 0; a < rows.size(); a += quad)
                add_squares(rows.data() + a, static_cast<int>(std::min<std::size_t>(quad, rows.size() - a)), l,
                            static_cast<T>(weight / tau[static_cast<std::size_t>(l)]), at.data(), width, steps.data(),
                            H.data());
            mirror(H, width);
        }
    }
    // The upper triangle (by whole chunks) of H += sum_r c_r / tau x_r x_r' over up to four rows.
    MULTIMARGIN_SIMD void add_squares(const std::int32_t* rows, int count, Index l, T slope, const int* at, int width,
                                      Chunk<T>* steps, Chunk<T>* H) {
        if constexpr (is_dense<X>) {
            const T* x[quad];
            rows_.point_at(rows, count, x);
            const int k = static_cast<int>(l / lanes<T>);
            for (int r = 0; r < quad; ++r) {
                const Index i = rows[r < count ? r : 0];
                T* step = reinterpret_cast<T*>(steps + r * width);
                const T weight = r < count ? slope * cell(i, k).cost[l % lanes<T>] : T(0);
                for (Index j = 0; j < x_.cols(); ++j) step[j] = weight * x[r][j];
                step[x_.cols()] = weight * rows_.bias();
                for (Index j = x_.cols() + 1; j < static_cast<Index>(width) * lanes<T>; ++j) step[j] = 0;
            }
            constexpr int group = 3;
            for (int m = 0; m < width; m += group) {
                const int some = std::min(group, width - m);
                const Index above = std::min<Index>(x_.cols(), static_cast<Index>(m + some) * lanes<T>);
                QuadKernels<T>::scatter(x, above, H, width, at + m, some, width, steps + m);
            }
            Chunk<T>* last = H + x_.cols() * width;
            for (int r = 0; r < count; ++r) last[width - 1] += rows_.bias() * steps[r * width + width - 1];
        }
    }
    void mirror(Panel& H, int width) const {
        T* h = reinterpret_cast<T*>(H.data());
        const Index stride = static_cast<Index>(width) * lanes<T>;
        for (Index a = 0; a <= x_.cols(); ++a)
            for (Index b = 0; b < a; ++b) h[a * stride + b] = h[b * stride + a];
    }
    void apply_matrices(const Panel& p, Panel& q) const {
        ChunkVector<T> column(chunks_for(x_.cols() + 1, lanes<T>));
        for (Index l = 0; l < own_labels(); ++l)
            multiply_matrix(matrices_[static_cast<std::size_t>(l)].data(), l, p.data(), column, q.data());
    }
    MULTIMARGIN_SIMD void multiply_matrix(const Chunk<T>* H, Index l, const Chunk<T>* p, ChunkVector<T>& column,
                                          Chunk<T>* q) const {
        const int width = column.size();
        for (Index j = 0; j <= x_.cols(); ++j) column[j] = reinterpret_cast<const T*>(p + j * chunks_)[l];
        for (Index j = 0; j <= x_.cols(); ++j) {
            Chunk<T> sum{};
            for (int k = 0; k < width; ++k) sum += H[j * width + k] * column.chunks()[k];
            T total = 0;
            for (int e = 0; e < lanes<T>; ++e) total += sum[e];
            reinterpret_cast<T*>(q + j * chunks_)[l] += total;
        }
    }
    // h at the trial point minus h at the present one, in terms of b = beta(z + a dz) and b0 = beta(z).
    MULTIMARGIN_SIMD void line_rows(Index first, Index last, const Chunk<T>* change, const Chunk<T>* tau,
                                    Chunk<T>* slope, Chunk<T>* curvature, Chunk<T>* loss) const {
        const Chunk<T> zero{};
        for (Index i = first; i < last; ++i)
            for (int k = 0; k < chunks_; ++k) {
                const auto at = static_cast<std::size_t>(i * chunks_ + k);
                const Cell c = cell(i, k);
                const Chunk<T> dz = change[at], moved = wide_.chunks()[k] * dz, centre = beta_[at];
                const Chunk<T> b = dual_of(c, centre, scores_[at] + moved, slope_.chunks()[k]);
                const Chunk<T> b0 = dual_of(c, centre, scores_[at], slope_.chunks()[k]);
                slope[k] += b * dz;
                curvature[k] += ((b > c.low) & (b < c.high)) ? c.cost * dz * dz : zero;
                const Chunk<T> stiffness = c.cost > zero ? T(0.5) * tau[k] / c.cost : zero;
                loss[k] += (b - b0) * ((c.target - scores_[at]) - stiffness * (b + b0 - 2 * centre)) - moved * b;
            }
    }

    const X& x_;
    const LabelCells<T>& labels_;
    int first_, chunks_;
    bool matrices_allowed_;
    Index rank_ = 0;
    PanelRows<X> rows_;
    std::optional<ChunkTable<T>> P_, Pt_;
    Panel beta_, scores_;
    Buffer<std::uint8_t> free_;
    Panel step_, state_step_;
    ChunkVector<T> slope_, wide_;  // 1 / tau of the last gradient; scratch of spread()
    std::vector<int> label_at_;
    std::vector<std::int32_t> chosen_;
    std::vector<Panel> matrices_;  // X' W X of every label, while they pay
};

}  // namespace multimargin::m3l
