#pragma once
// How many labels a row has, under p(y) ~ exp(sum_T theta_T chi_T(y)), chi_T(y) = prod_{k in T} (2 y_k - 1), jointly with
// each single label: D(l, k) = P(y_l = 1, |y| = k). That is all the best set for an F-measure depends on.
//
// The count is carried through exact inference as a mark on every label that is on: with p's weights multiplied by
// z^|y|, the sums Z(z) and Z_l(z) (over labellings with y_l = 1) are polynomials whose coefficients are the answer.
// They are evaluated at z = exp(2 pi i m / (L + 1)), m = 0 .. (L + 1)/2 (the others are conjugates), and transformed back.
//
// One evaluation is sum-product by elimination: the table of label v covers v and its neighbours S_v at elimination and
// sends the message sum_{y_v} to the table of the first label of S_v to be eliminated. Downwards, `outside` of a table
// is the derivative of Z by its message; products that leave one child out are built from the left and the right, never
// by division. All z share the tables, side by side. Messages are scaled by their largest entry at z = 1, a factor that
// Z and Z_l have in common. O(L) products of 2^(w + 1) entries with (L + 1)/2 + 1 numbers each, w the largest number of
// neighbours.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <span>
#include <stdexcept>
#include <vector>

namespace multimargin::decisions {

class LabelCounts {
  public:
    using Complex = std::complex<double>;

    // Subset t holds the labels members[starts[t]] .. ; order: every label once, the first to be eliminated first.
    // Without `counting` only the partition can be asked for.
    LabelCounts(std::size_t labels, std::span<const std::int64_t> starts, std::span<const std::int64_t> members,
                std::span<const std::int64_t> order, int most_neighbours, bool counting)
        : labels_(labels), frequencies_(counting ? (labels + 1) / 2 + 1 : 1), cliques_(labels) {
        for (std::size_t m = 0; m <= labels; ++m)
            roots_of_unity_.push_back(
                std::polar(1.0, 2.0 * std::numbers::pi * static_cast<double>(m) / static_cast<double>(labels + 1)));
        std::vector<std::size_t> rank(labels);
        for (std::size_t r = 0; r < labels; ++r) rank[static_cast<std::size_t>(order[r])] = r;
        const auto by_rank = [&](std::size_t a, std::size_t b) { return rank[a] < rank[b]; };
        std::vector<std::vector<std::size_t>> scope(labels);  // neighbours to be eliminated later, by position
        std::vector<std::vector<std::size_t>> bucket(labels);
        const auto subset = [&](std::size_t t) {
            std::vector<std::size_t> list;
            for (auto e = starts[t]; e < starts[t + 1]; ++e)
                list.push_back(static_cast<std::size_t>(members[static_cast<std::size_t>(e)]));
            std::sort(list.begin(), list.end(), by_rank);
            return list;
        };
        const auto join = [&](std::size_t v, std::span<const std::size_t> others) {
            scope[v].insert(scope[v].end(), others.begin(), others.end());
        };
        for (std::size_t t = 0; t + 1 < starts.size(); ++t) {
            const auto list = subset(t);
            bucket[list.front()].push_back(t);
            join(list.front(), std::span(list).subspan(1));
        }
        for (const auto position : order) {
            const auto v = static_cast<std::size_t>(position);
            auto& s = scope[v];
            std::sort(s.begin(), s.end(), by_rank);
            s.erase(std::unique(s.begin(), s.end()), s.end());
            if (static_cast<int>(s.size()) > most_neighbours)
                throw std::invalid_argument("the label graph is too dense for exact inference");
            if (!s.empty()) join(s.front(), std::span(s).subspan(1));
        }
        for (const auto position : order) {
            const auto v = static_cast<std::size_t>(position);
            auto& clique = cliques_[v];
            clique.width = scope[v].size();
            clique.factors.resize(bucket[v].size());
            const auto bit = [&](std::size_t label) {  // 0 is v itself
                if (label == v) return std::size_t{0};
                return 1 +
                       static_cast<std::size_t>(std::find(scope[v].begin(), scope[v].end(), label) - scope[v].begin());
            };
            for (std::size_t f = 0; f < bucket[v].size(); ++f) {
                clique.factors[f] = {bucket[v][f], 0};
                for (const auto label : subset(bucket[v][f])) clique.factors[f].mask |= std::size_t{1} << bit(label);
            }
            sequence_.push_back(v);
            if (scope[v].empty()) {
                roots_.push_back(v);
                continue;
            }
            // Where the entry of the table above finds its entry of this message.
            const auto u = scope[v].front();
            auto& above = cliques_[u];
            std::vector<std::size_t> bits;
            for (const auto label : scope[v])
                bits.push_back(label == u
                                   ? 0
                                   : 1 + static_cast<std::size_t>(std::find(scope[u].begin(), scope[u].end(), label) -
                                                                  scope[u].begin()));
            above.children.push_back({v, std::move(bits)});
        }
        for (auto& clique : cliques_) {
            clique.weights.resize(std::size_t{2} << clique.width);
            clique.inside.resize((std::size_t{1} << clique.width) * frequencies());
            clique.outside.resize(clique.inside.size());
        }
    }

    // log sum_y exp(sum_T theta_T chi_T(y))
    double partition(const double* scores) {
        log_scale_ = 0.0;
        for (const auto v : sequence_) up(v, scores);
        combine_roots();
        return log_scale_ + std::log(total_);
    }

    // sizes: labels x labels, D(l, k) at l * labels + k - 1.
    void compute(const double* scores, double* sizes) {
        partition(scores);
        for (auto v = sequence_.rbegin(); v != sequence_.rend(); ++v) down(*v, sizes);
    }

  private:
    struct Factor {
        std::size_t subset, mask;
    };
    struct Child {
        std::size_t label;
        std::vector<std::size_t> bits;  // bit of this table that is bit j of the child's message
        std::size_t entry(std::size_t e) const {
            std::size_t at = 0;
            for (std::size_t j = 0; j < bits.size(); ++j) at |= (e >> bits[j] & 1) << j;
            return at;
        }
    };
    struct Clique {
        std::size_t width = 0;
        std::vector<Factor> factors;
        std::vector<Child> children;
        std::vector<double> weights;           // of (y_v, y_S), y_v in bit 0
        std::vector<Complex> inside, outside;  // of y_S, for every z
    };

    std::size_t frequencies() const { return frequencies_; }
    const Complex* message(const Child& child, std::size_t e) const {
        return cliques_[child.label].inside.data() + child.entry(e) * frequencies();
    }

    // The product of the weight of entry e, z where v is on, and the messages of all children but one.
    void product(const Clique& clique, std::size_t e, std::size_t left_out, std::vector<Complex>& out) const {
        for (std::size_t m = 0; m < frequencies(); ++m)
            out[m] = e & 1 ? clique.weights[e] * roots_of_unity_[m] : Complex(clique.weights[e]);
        for (std::size_t c = 0; c < clique.children.size(); ++c)
            if (c != left_out) multiply(out.data(), message(clique.children[c], e));
    }
    void multiply(Complex* out, const Complex* factor) const {
        for (std::size_t m = 0; m < frequencies(); ++m) {
            const double re = out[m].real() * factor[m].real() - out[m].imag() * factor[m].imag();
            const double im = out[m].real() * factor[m].imag() + out[m].imag() * factor[m].real();
            out[m] = {re, im};
        }
    }

    void up(std::size_t v, const double* scores) {
        auto& clique = cliques_[v];
        double highest = -HUGE_VAL;
        for (std::size_t e = 0; e < clique.weights.size(); ++e) {
            double sum = 0.0;
            for (const auto& factor : clique.factors) {
                const bool odd_off = __builtin_popcountll(factor.mask & ~e) & 1;
                sum += odd_off ? -scores[factor.subset] : scores[factor.subset];
            }
            clique.weights[e] = sum;
            highest = std::max(highest, sum);
        }
        for (auto& weight : clique.weights) weight = std::exp(weight - highest);
        buffer_.resize(frequencies());
        double largest = 0.0;
        for (std::size_t s = 0; s < clique.weights.size() / 2; ++s) {
            auto* inside = clique.inside.data() + s * frequencies();
            product(clique, 2 * s, none, buffer_);
            std::copy(buffer_.begin(), buffer_.end(), inside);
            product(clique, 2 * s + 1, none, buffer_);
            for (std::size_t m = 0; m < frequencies(); ++m) inside[m] += buffer_[m];
            largest = std::max(largest, inside[0].real());
        }
        // A scale for both the message and the weights, so that sums above and below agree.
        log_scale_ += highest + std::log(largest);
        for (auto& value : clique.inside) value /= largest;
        for (auto& weight : clique.weights) weight /= largest;
    }

    void combine_roots() {
        std::vector<Complex> product(frequencies(), 1.0);
        for (const auto r : roots_) {
            std::copy(product.begin(), product.end(), cliques_[r].outside.begin());
            multiply(product.data(), cliques_[r].inside.data());
        }
        total_ = product[0].real();
        product.assign(frequencies(), 1.0);
        for (std::size_t i = roots_.size(); i-- > 0;) {
            multiply(cliques_[roots_[i]].outside.data(), product.data());
            multiply(product.data(), cliques_[roots_[i]].inside.data());
        }
    }

    void down(std::size_t v, double* sizes) {
        auto& clique = cliques_[v];
        for (const auto& child : clique.children)
            std::fill(cliques_[child.label].outside.begin(), cliques_[child.label].outside.end(), Complex{});
        std::vector<Complex> with_label(frequencies());
        for (std::size_t e = 0; e < clique.weights.size(); ++e) {
            const auto* outside = clique.outside.data() + (e >> 1) * frequencies();
            for (std::size_t c = 0; c < clique.children.size(); ++c) {
                product(clique, e, c, buffer_);
                multiply(buffer_.data(), outside);
                const auto& child = clique.children[c];
                auto* target = cliques_[child.label].outside.data() + child.entry(e) * frequencies();
                for (std::size_t m = 0; m < frequencies(); ++m) target[m] += buffer_[m];
            }
            if (e & 1) {
                product(clique, e, none, buffer_);
                multiply(buffer_.data(), outside);
                for (std::size_t m = 0; m < frequencies(); ++m) with_label[m] += buffer_[m];
            }
        }
        const auto n = labels_ + 1;
        for (std::size_t k = 1; k <= labels_; ++k) {
            double sum = with_label[0].real();
            for (std::size_t m = 1; m < frequencies(); ++m) {
                const auto turned = with_label[m] * std::conj(roots_of_unity_[m * k % n]);
                sum += (2 * m == n ? 1.0 : 2.0) * turned.real();
            }
            sizes[v * labels_ + k - 1] = std::max(sum / (static_cast<double>(n) * total_), 0.0);
        }
    }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::size_t labels_, frequencies_;
    std::vector<Complex> roots_of_unity_, buffer_;
    std::vector<Clique> cliques_;
    std::vector<std::size_t> sequence_, roots_;
    double total_ = 0.0, log_scale_ = 0.0;
};

}  // namespace multimargin::decisions
