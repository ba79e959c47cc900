#include "spec/parameter_form.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "spec/unit_products.h"
#include "spec/update_rule.h"

namespace tern {
namespace {

void add_tables(const EmbedSpec& u, const CostQuery& q, std::vector<CountedForm>& forms) {
  const int64_t vocab = (u.vocab + q.tensor - 1) / q.tensor;
  for (const int64_t rows : {vocab, u.positions, u.token_types})
    if (rows > 0) forms.push_back({{ParameterKind::table, rows, u.width}});
}

int64_t blocks_of(int64_t elements) { return ceil_div(elements, kUpdateBlock); }

int64_t blocks_of(const NormSpec& n) {
  return n.present() ? blocks_of(n.width) * (n.kind == NormKind::layer ? 2 : 1) : 0;
}

int64_t vector_blocks(const AttentionSpec& u) {
  int64_t blocks = blocks_of(u.norm) + blocks_of(u.join.norm) + (u.out_bias ? blocks_of(u.width) : 0) +
                   (u.sinks ? blocks_of(u.heads) : 0);
  const LatentSpec& l = u.latent;
  if (l.query_rank > 0) blocks += blocks_of(l.norm(l.query_rank)) + (u.qkv_bias ? blocks_of(l.query_rank) : 0);
  if (l.present())
    blocks += blocks_of(l.norm(l.kv_rank)) + (u.qkv_bias ? blocks_of(l.kv_rank + l.rotary) : 0);
  else if (u.qkv_bias)
    blocks += blocks_of(u.qkv_rows());
  if (u.head_norm == HeadNormKind::none) return blocks;
  NormSpec norm = u.head_norm_like;
  for (const int64_t width : {u.query_norm_width(), u.key_norm_width()}) norm.width = width, blocks += blocks_of(norm);
  return blocks;
}

int64_t vector_blocks(const MlpSpec& u, bool own_norm) {
  const int64_t biases = u.bias ? blocks_of(u.gated ? 2 * u.hidden : u.hidden) + blocks_of(u.width) : 0;
  return (own_norm ? blocks_of(u.norm) : 0) + biases + blocks_of(u.join.norm);
}

int64_t vector_blocks(const MoeSpec& u) {
  const int64_t router = u.router_bias ? blocks_of(u.experts) : 0;
  return blocks_of(u.norm) + router + u.experts * vector_blocks(u.expert(), false);
}

int64_t vector_blocks(const Unit& unit) {
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec)) return vector_blocks(*u);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec)) return vector_blocks(*u, true);
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec)) return vector_blocks(*u);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec))
    return vector_blocks(u->attention) + vector_blocks(u->mlp, !u->shared_norm);
  return std::visit(
      [](const auto& u) {
        if constexpr (requires { u.norm; })
          return blocks_of(u.norm);
        else
          return int64_t{0};
      },
      unit.spec);
}

}  // namespace

int64_t trained_blocks(const Unit& unit) {
  int64_t blocks = unit.frozen ? 0 : vector_blocks(unit);
  for (const CountedForm& f : trained_forms(unit, {}))
    if (f.form.kind != ParameterKind::vector) blocks += f.count * blocks_of(f.form.elements());
  return blocks;
}

std::vector<CountedForm> trained_forms(const Unit& unit, const CostQuery& q) {
  return trained_forms(unit, q, unit_cost(unit, q));
}

std::vector<CountedForm> trained_forms(const Unit& unit, const CostQuery& q, const UnitCost& cost) {
  std::vector<CountedForm> forms;
  if (cost.trained == 0) return forms;
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  if (const auto* e = std::get_if<EmbedSpec>(&unit.spec)) add_tables(*e, q, forms);
  for (const MatrixProduct& p : unit_products(unit, q))
    if (p.trained && !(head && head->tied))
      forms.push_back(
          {{head ? ParameterKind::table : ParameterKind::matrix, p.n, p.k}, p.is_expert ? p.count : 1, p.is_expert});
  int64_t rest[2] = {cost.trained - cost.expert_trained, cost.expert_trained};
  for (const CountedForm& f : forms) rest[f.expert] -= f.count * f.form.elements();
  TERN_CHECK(rest[0] >= 0 && rest[1] >= 0, "trained_forms: {} and {} elements too many", -rest[0], -rest[1]);
  for (const bool expert : {false, true})
    if (rest[expert] > 0) forms.push_back({{ParameterKind::vector, 1, rest[expert]}, 1, expert});
  return forms;
}

}  // namespace tern
