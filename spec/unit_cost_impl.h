#pragma once
// Building blocks of the units' closed forms: the sizes of one rank's passes, products with matrices that carry
// adapters, norms, and how a branch joins the residual stream.

#include <algorithm>
#include <cstdint>

#include "spec/unit_cost.h"
#include "spec/unit_parts.h"

namespace tern::closed_forms {

inline constexpr ProductKind kForward = ProductKind::forward, kInputGradient = ProductKind::input_gradient,
                             kWeightGradient = ProductKind::weight_gradient, kHeadLoss = ProductKind::head_loss,
                             kExpertForward = ProductKind::expert_forward, kDecoded = ProductKind::decoded;

// Letters: T tokens, N rows whose norms this rank computes, D width, E = heads·head_dim, C = (heads +
// 2·kv_heads)·head_dim, F hidden, G = 2F if gated, else F, V vocab, r an adapter's rank, s bytes of a weight or
// activation, g bytes of a gradient or statistic. Heads, hidden widths and vocabulary are those of one rank.
struct Sizes {
  int64_t T, N, P, s, g;
  const UnitAdapters& adapters;
  bool frozen, coded;
  const CostQuery& query;
  bool swaps;  // ranks swap rows for heads
  bool ring;   // ranks pass keys and values round a ring
  // Scratch bytes of one product of this kind: of m rows with a matrix (n, k).
  int64_t operator()(ProductKind product, int64_t m, int64_t n, int64_t k) const {
    return query.scratch && m ? query.scratch(product, m, n, k) : 0;
  }
  // The same for a product with one of the model's own matrices, which may be coded.
  int64_t own(ProductKind product, int64_t m, int64_t n, int64_t k) const {
    if (!coded) return (*this)(product, m, n, k);
    const int64_t rows = (*this)(kDecoded, m, n, k);
    return rows ? rows + (*this)(product, m, n, k) : 0;
  }
  AdaptedMatrix matrix(AdaptedModule module, int64_t rows) const { return adapted_matrix(adapters, module, rows); }
  // The most bytes that a product of m rows with a matrix of depth k needs beside its operands. First its own scratch;
  // then, for one adapter after the other, the rows h = A·x, the scratch of A and of B, and what A reads or B writes.
  // With magnitudes the factors of rows are held throughout.
  int64_t forward(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    return with_factors(forward_of_branches(m, w, k), w, k);
  }
  int64_t input_gradient(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {  // adding to dx needs no scratch
      return m * p.adapter_rank * s +
             std::max(cut(m, p, w) + (*this)(kInputGradient, m, p.rows_of_b(), p.adapter_rank), read(m, k, p));
    };
    return with_factors(scaled(m, w) + with_branches(own(kInputGradient, m, w.rows, k), w, branch), w, k);
  }
  int64_t weight_gradient(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {
      const int64_t from = read(m, k, p), in = k / p.pool, r = p.adapter_rank;
      const int64_t with_rows =
          std::max({from + (*this)(kForward, m, r, in), (*this)(kWeightGradient, m, p.rows_of_b(), r),
                    (*this)(kInputGradient, m, p.rows_of_b(), r)});
      return m * r * s + std::max(cut(m, p, w) + with_rows, from + (*this)(kWeightGradient, m, r, in));
    };
    const int64_t gradients =
        scaled(m, w) + with_branches(frozen ? 0 : (*this)(kWeightGradient, m, w.rows, k), w, branch);
    // A magnitude's gradient needs y again.
    const int64_t again = has_magnitudes(w) ? m * w.rows * s + forward_of_branches(m, w, k) : 0;
    return with_factors(std::max(gradients, again), w, k);
  }
  int64_t forward_of_branches(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {
      return m * p.adapter_rank * s +
             std::max(read(m, k, p) + (*this)(kForward, m, p.adapter_rank, k / p.pool),
                      m * p.rows_of_b() * s + (*this)(kForward, m, p.rows_of_b(), p.adapter_rank));
    };
    return with_branches(own(kForward, m, w.rows, k), w, branch);
  }
  template <class Branch>
  int64_t with_branches(int64_t most, const AdaptedMatrix& w, Branch&& branch) const {
    for (const AdaptedMatrix::Part& p : w.parts)
      if (p.adapter_rank && p.rows) most = std::max(most, branch(p));
    return most;
  }
  // Bytes of what A reads if that is not x itself (means of inputs, or x after dropout), or of its gradient.
  int64_t read(int64_t m, int64_t k, const AdaptedMatrix::Part& p) const {
    return p.pool == 1 && !p.dropout ? 0 : m * (k / p.pool) * s;
  }
  // Bytes of one part's columns of dy if the matrix has other parts, or of sums of these columns (repeat > 1).
  int64_t cut(int64_t m, const AdaptedMatrix::Part& p, const AdaptedMatrix& w) const {
    return p.repeat == 1 && p.rows == w.rows ? 0 : m * p.rows_of_b() * s;
  }
  static bool has_magnitudes(const AdaptedMatrix& w) {
    return std::ranges::any_of(w.parts, [](const AdaptedMatrix::Part& p) { return p.magnitude && p.rows; });
  }
  // Bytes of dy multiplied by the factors of rows.
  int64_t scaled(int64_t m, const AdaptedMatrix& w) const { return has_magnitudes(w) ? m * w.rows * s : 0; }
  // With magnitudes: factors and lengths of rows, in f64, beside the pass; before it A·wᵀ of all parts, from which they are computed.
  int64_t with_factors(int64_t pass, const AdaptedMatrix& w, int64_t k) const {
    int64_t rows = 0, adapter_ranks = 0, stacked = 0, parts = 0;
    for (const AdaptedMatrix::Part& p : w.parts)
      if (p.magnitude && p.rows) rows += 16 * p.rows, adapter_ranks += p.adapter_rank, ++parts;
    if (adapter_ranks == 0) return pass;
    if (parts > 1) stacked = adapter_ranks * k * s;
    return rows + std::max(pass, stacked + adapter_ranks * w.rows * g + own(kForward, adapter_ranks, w.rows, k));
  }
  bool split() const { return query.tensor > 1; }
  // Bytes of the whole rows that each rank of a tensor group holds, beside its own part, while a product reads or writes them.
  int64_t gathered(int64_t width) const { return split() ? T * width * s : 0; }
};

// A norm's vectors: the weight, and a layer norm's bias. A row has as many statistics: rstd, and a layer norm's mean.
inline int64_t norm_vectors(const NormSpec& n) {
  return n.kind == NormKind::none ? 0 : n.kind == NormKind::layer ? 2 : 1;
}
inline int64_t norm_parameters(const NormSpec& n) { return n.width * norm_vectors(n); }
inline int64_t norm_saved(const NormSpec& n, const Sizes& z) { return z.N * z.g * norm_vectors(n); }

// How a branch joins the residual stream. With a norm the branch's result is saved; each pass of the backward computes
// the result's gradient again, unless that gradient is dy itself.
struct Join {
  int64_t parameters, saved, workspace;
};
inline Join cost_of(const JoinSpec& j, const Sizes& z, int64_t width) {
  const int64_t rows = z.N * width * z.s;
  if (!j.norm.present()) return {0, 0, j.multiplier == 1 ? 0 : rows};
  return {norm_parameters(j.norm), rows + norm_saved(j.norm, z), rows};
}

// What adapters of rank r add to a product of (rows, in) with an (out, in) matrix: each adapted part has A (r, in/pool)
// and B (part's rows/repeat, r). They save nothing: the backward computes A·x again.
struct Adapter {
  int64_t parameters = 0, flops = 0, squares = 0;  // squares: bytes of Σ w², one per row with a magnitude
};
inline void add_adapter(Adapter& a, int64_t rows, const AdaptedMatrix& w, int64_t in, int64_t copies = 1) {
  for (const AdaptedMatrix::Part& p : w.parts) {
    if (p.rows == 0) continue;
    const int64_t factors = p.adapter_rank * (p.rows_of_b() + in / p.pool);
    a.parameters += copies * (factors + (p.magnitude ? p.rows : 0) + (p.elastic ? 2 : 0));
    a.flops += 2 * rows * factors + (p.magnitude ? 2 * p.adapter_rank * w.rows * in : 0);
    if (p.magnitude) a.squares += 8 * p.rows;
  }
}

// Adds the adapters' figures to c. Trained are all parameters, or only the adapters if the unit is frozen.
inline void finish(UnitCost& c, const Adapter& a, const Sizes& z) {
  c.trained = (z.frozen ? 0 : c.parameters) + a.parameters;
  c.parameters += a.parameters;
  c.parameter_bytes = a.squares;
  c.forward_flops += a.flops, c.backward_input_flops += a.flops;
  c.backward_weight_flops =
      (z.frozen ? 0 : c.backward_weight_flops) + 2 * a.flops;  // gradients of A and B; h and dh again
}

/// Cost of one rank's part of an attention, plain or latent (attention_cost.cpp). `whole`: with the heads of all ranks.
UnitCost attention_cost(const AttentionSpec& whole, const Sizes&);

}  // namespace tern::closed_forms
