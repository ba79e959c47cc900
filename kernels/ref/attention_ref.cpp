#include "kernels/ref/attention_ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/ref/attention_onto_ref.h"

namespace tern {
namespace {

int64_t first_visible(const AttentionShape& shape, int64_t position) {
  return shape.window > 0 ? std::max<int64_t>(0, position - shape.window + 1) : 0;
}

int64_t last_visible(const AttentionShape& shape, int64_t position, int64_t num_keys) {
  return shape.causal ? position : num_keys - 1;
}

double bf16_of(float slope, int64_t position) { return to_float(to_bf16(slope * static_cast<float>(position))); }

// The score of key j for a query at position p out of scale·q·k, and its derivative.
struct Score {
  double value, slope;
};
Score score_of(const AttentionShape& shape, int64_t head, int64_t p, int64_t j, double product) {
  Score s{product, 1};
  if (shape.softcap > 0) {
    const double t = std::tanh(product / shape.softcap);
    s = {shape.softcap * t, 1 - t * t};
  }
  if (!shape.slopes) return s;
  const float m = shape.slopes[head];
  const double fall =
      shape.slopes_in_bf16 ? bf16_of(m, j) - bf16_of(m, p) : static_cast<double>(m) * static_cast<double>(j - p);
  s.value += shape.slope_factor * fall;
  return s;
}

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void attention_forward_ref(const AttentionShape& shape, std::span<const AttentionSequence<double>> sequences,
                           const double* q, double* out, std::span<double> lse) {
  const int64_t group = shape.heads / shape.kv_heads, dim = shape.head_dim;
  std::vector<double> scores, decoded(static_cast<size_t>(dim));
  for (const AttentionSequence<double>& s : sequences)
    for (int64_t i = 0; i < s.query_count; ++i)
      for (int64_t h = 0; h < shape.heads; ++h) {
        const int64_t row = s.query_begin + i, position = s.num_keys - s.query_count + i;
        const int64_t first = first_visible(shape, position);
        const PageLayout& in = s.layout;
        const auto row_of = [&](const double* from, const uint8_t* kept, int64_t j) -> const double* {
          if (!s.pages) return from + j * shape.kv_stride + h / group * dim;
          const int64_t at = s.pages[j / in.page_tokens] * in.page_stride + j % in.page_tokens * in.key_stride +
                             h / group * in.head_stride;
          if (!kept) return from + at;
          read_kv_row(s.kept.type, kept + at, dim, decoded.data());
          return decoded.data();
        };
        scores.clear();
        const int64_t last = last_visible(shape, position, s.num_keys);
        for (int64_t j = first; j <= last; ++j)
          scores.push_back(
              score_of(shape, h, position, j,
                       shape.scale * dot(q + row * shape.q_stride + h * dim, row_of(s.keys, s.kept.keys, j), dim))
                  .value);
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (const double score : scores) sum += std::exp(score - top);
        double* y = out + row * shape.out_stride + h * dim;
        std::fill(y, y + dim, 0.0);
        for (int64_t j = first; j <= last; ++j) {
          const double p = std::exp(scores[static_cast<size_t>(j - first)] - top) / sum;
          const double* value = row_of(s.values, s.kept.values, j);
          for (int64_t d = 0; d < dim; ++d) y[d] += p * value[d];
        }
        if (!lse.empty()) lse[static_cast<size_t>(row * shape.heads + h)] = top + std::log(sum);
      }
}

// out_i = Σ_j P_ij v_j, P_ij = exp(s_ij - lse_i), s_ij = scale·q_i·k_j, lse_i = log Σ_j exp(s_ij).
//   dv_j = Σ_i P_ij dout_i;  dP_ij = dout_i·v_j;  ∂P_ij/∂s_il = P_ij(δ_jl - P_il), so
//   dS_il = P_il (dP_il - Σ_j P_ij dP_ij), and Σ_j P_ij dP_ij = dout_i·Σ_j P_ij v_j = dout_i·out_i = D_i.
//   dq_i = scale Σ_j dS_ij k_j;  dk_j = scale Σ_i dS_ij q_i.
// Under a cap c the score is c·tanh(x/c) of x = scale·q_i·k_j, and dS_ij is to be multiplied by 1 - tanh²(x/c).
void attention_backward_ref(const AttentionShape& shape, std::span<const int64_t> starts, const double* q,
                            const double* k, const double* v, const double* out, const double* dout,
                            std::span<const double> lse, double* dq, double* dk, double* dv) {
  const int64_t group = shape.heads / shape.kv_heads, dim = shape.head_dim;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    for (int64_t row = starts[s]; row < starts[s + 1]; ++row) {
      std::fill_n(dq + row * shape.q_stride, shape.heads * dim, 0.0);
      std::fill_n(dk + row * shape.kv_stride, shape.kv_heads * dim, 0.0);
      std::fill_n(dv + row * shape.kv_stride, shape.kv_heads * dim, 0.0);
    }
    for (int64_t i = starts[s]; i < starts[s + 1]; ++i)
      for (int64_t h = 0; h < shape.heads; ++h) {
        const double* q_i = q + i * shape.q_stride + h * dim;
        const double* dout_i = dout + i * shape.out_stride + h * dim;
        const double delta = dot(dout_i, out + i * shape.out_stride + h * dim, dim);
        const int64_t begin = starts[s], last = begin + last_visible(shape, i - begin, starts[s + 1] - begin);
        for (int64_t j = begin + first_visible(shape, i - begin); j <= last; ++j) {
          const int64_t at = j * shape.kv_stride + h / group * dim;
          const Score score = score_of(shape, h, i - begin, j - begin, shape.scale * dot(q_i, k + at, dim));
          const double p = std::exp(score.value - lse[static_cast<size_t>(i * shape.heads + h)]);
          const double ds = p * (dot(dout_i, v + at, dim) - delta) * score.slope;
          for (int64_t d = 0; d < dim; ++d) {
            dv[at + d] += p * dout_i[d];
            dk[at + d] += shape.scale * ds * q_i[d];
            dq[i * shape.q_stride + h * dim + d] += shape.scale * ds * k[at + d];
          }
        }
      }
  }
}

namespace {

// Calls visit(query row, head, key row, score) for each key of the piece that a query sees.
template <class Visit>
void for_each_seen(const AttentionShape& shape, const AttentionPiece& p, const double* q, const double* k, int64_t i,
                   int64_t h, Visit visit) {
  const int64_t dim = shape.head_dim, position = p.distance + i, row = p.query_row + i;
  const int64_t end = std::min(position + 1, p.num_keys);
  for (int64_t j = first_visible(shape, position); j < end; ++j) {
    const int64_t at = (p.key_row + j) * shape.kv_stride + h / (shape.heads / shape.kv_heads) * dim;
    visit(at, score_of(shape, h, position, j, shape.scale * dot(q + row * shape.q_stride + h * dim, k + at, dim)));
  }
}

// Calls visit(key element, P, dS) likewise.
template <class Visit>
void for_each_gradient(const AttentionShape& shape, const AttentionPiece& p, const AttentionInputs<double>& x,
                       int64_t i, int64_t h, Visit visit) {
  const int64_t dim = shape.head_dim, row = p.query_row + i, at_out = row * shape.out_stride + h * dim;
  const double delta = dot(x.dout + at_out, x.out + at_out, dim);
  for_each_seen(shape, p, x.q, x.k, i, h, [&](int64_t at, Score score) {
    const double weight = std::exp(score.value - x.lse[row * shape.heads + h]);
    visit(at, weight, weight * (dot(x.dout + at_out, x.v + at, dim) - delta) * score.slope);
  });
}

}  // namespace

void attention_onto_ref(const AttentionShape& shape, std::span<const AttentionPiece> pieces, const double* q,
                        const double* k, const double* v, double* out, std::span<double> lse) {
  std::vector<std::pair<int64_t, double>> scores;
  for (const AttentionPiece& p : pieces)
    for (int64_t i = 0; i < p.num_queries; ++i)
      for (int64_t h = 0; h < shape.heads; ++h) {
        scores.clear();
        for_each_seen(shape, p, q, k, i, h, [&](int64_t at, Score score) { scores.emplace_back(at, score.value); });
        if (scores.empty()) continue;
        const int64_t row = p.query_row + i;
        double& so_far = lse[static_cast<size_t>(row * shape.heads + h)];
        double top = so_far;
        for (const auto& [at, score] : scores) top = std::max(top, score);
        const double before = std::exp(so_far - top);
        double sum = before;
        for (const auto& [at, score] : scores) sum += std::exp(score - top);
        double* y = out + row * shape.out_stride + h * shape.head_dim;
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          y[d] *= before / sum;
          for (const auto& [at, score] : scores) y[d] += std::exp(score - top) / sum * v[at + d];
        }
        so_far = top + std::log(sum);
      }
}

void attention_queries_onto_ref(const AttentionShape& shape, std::span<const AttentionPiece> pieces,
                                const AttentionInputs<double>& x, double* dq) {
  for (const AttentionPiece& p : pieces)
    for (int64_t i = 0; i < p.num_queries; ++i)
      for (int64_t h = 0; h < shape.heads; ++h)
        for_each_gradient(shape, p, x, i, h, [&](int64_t at, double, double ds) {
          double* to = dq + (p.query_row + i) * shape.out_stride + h * shape.head_dim;
          for (int64_t d = 0; d < shape.head_dim; ++d) to[d] += shape.scale * ds * x.k[at + d];
        });
}

void attention_keys_onto_ref(const AttentionShape& shape, std::span<const AttentionPiece> pieces,
                             const AttentionInputs<double>& x, double* dk, double* dv) {
  for (const AttentionPiece& p : pieces)
    for (int64_t i = 0; i < p.num_queries; ++i)
      for (int64_t h = 0; h < shape.heads; ++h) {
        const int64_t row = p.query_row + i;
        const double *q = x.q + row * shape.q_stride + h * shape.head_dim,
                     *dout = x.dout + row * shape.out_stride + h * shape.head_dim;
        for_each_gradient(shape, p, x, i, h, [&](int64_t at, double weight, double ds) {
          for (int64_t d = 0; d < shape.head_dim; ++d)
            dv[at + d] += weight * dout[d], dk[at + d] += shape.scale * ds * q[d];
        });
      }
}

}  // namespace tern
