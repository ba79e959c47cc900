#include "spec/unit_parts.h"

namespace tern {
namespace {

// Attention and MLPs: the two products around the middle, and their adapters'.
void add_product(std::vector<MatrixProduct>& out, const Unit& unit, int64_t m, const MatrixParts& parts, int64_t k,
                 int64_t count = 1, bool is_expert = false) {
  out.push_back({m, parts.total(), k, count, !unit.frozen, is_expert});
  for (const int64_t n : parts.rows)
    if (const int64_t r = unit.adapter_rank; r && n) {
      out.push_back({m, r, k, count, true, is_expert});
      out.push_back({m, n, r, count, true, is_expert});
    }
}

}  // namespace

std::vector<MatrixProduct> unit_products(const Unit& unit, const CostQuery& q) {
  std::vector<MatrixProduct> out;
  const int64_t T = q.tokens, N = split_rows(q);
  if (const AttentionSpec* whole = attention_of(unit)) {
    const AttentionSpec u = part_of(*whole, q.tensor);
    if (const LatentSpec& l = u.latent; l.present()) {
      if (l.query_rank) add_product(out, unit, T, {l.query_rank}, u.width);
      add_product(out, unit, T, {u.heads * u.head_dim}, l.query_rank ? l.query_rank : u.width);
      add_product(out, unit, T, {l.kv_rank + l.rotary}, u.width);
      add_product(out, unit, T, {u.heads * (l.plain + l.value)}, l.kv_rank);
    } else {
      const int64_t keys = u.kv_heads * u.head_dim;
      add_product(out, unit, T, {u.heads * u.head_dim, keys, keys}, u.width);
    }
    add_product(out, unit, T, {u.width}, u.value_rows());
  }
  if (const MlpSpec* m = mlp_of(unit)) {
    const int64_t F = parts_of(m->hidden, q.tensor);
    add_product(out, unit, T, {F, m->gated ? F : 0}, m->width);
    add_product(out, unit, T, {m->width}, F);
  } else if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) {
    const int64_t F = parts_of(e->hidden, q.expert_tensor), X = parts_of(e->experts, q.expert);
    const int64_t rows = parts_of(expert_rows(*e, q), X);
    out.push_back({N, e->experts, e->width, 1, !unit.frozen});
    add_product(out, unit, rows, {F, e->gated ? F : 0}, e->width, X, true);
    add_product(out, unit, rows, {e->width}, F, X, true);
    if (e->shared_hidden) {
      const int64_t S = parts_of(e->shared_hidden, q.tensor);
      add_product(out, unit, T, {S, e->gated ? S : 0}, e->width);
      add_product(out, unit, T, {e->width}, S);
      if (e->shared_gate) out.push_back({T, 1, e->width, 1, !unit.frozen});
    }
  } else if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) {
    out.push_back({T, parts_of(h->vocab, q.tensor), h->width, 1, !unit.frozen});
  }
  return out;
}

}  // namespace tern
