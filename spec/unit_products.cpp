#include "spec/unit_products.h"

#include "spec/unit_parts.h"

namespace tern {
namespace {

// Attention and MLPs: the two products around the middle, and their adapters'.
void add_product(std::vector<MatrixProduct>& out, const Unit& unit, int64_t m, const AdaptedMatrix& matrix, int64_t k,
                 int64_t count = 1, bool is_expert = false) {
  out.push_back({m, matrix.rows, k, count, !unit.frozen, is_expert});
  for (const AdaptedMatrix::Part& p : matrix.parts)
    if (const int64_t r = p.adapter_rank; r && p.rows) {
      out.push_back({m, r, k / p.pool, count, true, is_expert});
      out.push_back({m, p.rows_of_b(), r, count, true, is_expert});
      if (p.magnitude) out.push_back({r, matrix.rows, k, count, false, is_expert});
    }
}

}  // namespace

std::vector<MatrixProduct> unit_products(const Unit& unit, const CostQuery& q) {
  using enum AdaptedModule;
  std::vector<MatrixProduct> products;
  const UnitAdapters& adapters = unit.adapters;
  const auto one = [&](AdaptedModule module, int64_t rows) { return adapted_matrix(adapters, module, rows); };
  const int64_t T = q.tokens, N = split_rows(q);
  if (const AttentionSpec* whole = attention_of(unit)) {
    const AttentionSpec u = with_own_heads(*whole, q.tensor);
    if (const LatentSpec& l = u.latent; l.present()) {
      if (l.query_rank) add_product(products, unit, T, one(query_down, l.query_rank), u.width);
      add_product(products, unit, T, one(query_up, u.heads * u.head_dim), l.query_rank ? l.query_rank : u.width);
      add_product(products, unit, T, one(kv_down, l.kv_rank + l.rotary), u.width);
      add_product(products, unit, T, one(kv_up, u.heads * (l.plain + l.value)), l.kv_rank);
    } else {
      add_product(products, unit, T, qkv_matrix(adapters, u.heads * u.head_dim, u.kv_heads * u.head_dim), u.width);
    }
    add_product(products, unit, T, one(out, u.width), u.value_rows());
  }
  if (const MlpSpec* m = mlp_of(unit)) {
    const int64_t F = largest_part(m->hidden, q.tensor);
    add_product(products, unit, T, up_matrix(adapters, F, m->gated), m->width);
    add_product(products, unit, T, one(down, m->width), F);
  } else if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) {
    const int64_t F = largest_part(e->hidden, q.expert_tensor), X = largest_part(e->experts, q.expert);
    const int64_t rows = largest_part(expert_rows(*e, q), X);
    products.push_back({N, e->experts, e->width, 1, !unit.frozen});
    add_product(products, unit, rows, up_matrix(adapters, F, e->gated), e->width, X, true);
    add_product(products, unit, rows, one(down, e->width), F, X, true);
    if (e->shared_hidden) {
      const int64_t S = largest_part(e->shared_hidden, q.tensor);
      add_product(products, unit, T, up_matrix(adapters, S, e->gated), e->width);
      add_product(products, unit, T, one(down, e->width), S);
      if (e->shared_gate) products.push_back({T, 1, e->width, 1, !unit.frozen});
    }
  } else if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) {
    products.push_back({T, largest_part(h->vocab, q.tensor), h->width, 1, !unit.frozen});
  }
  return products;
}

}  // namespace tern
