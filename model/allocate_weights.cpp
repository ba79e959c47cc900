#include "model/allocate_weights.h"

#include "base/error.h"
#include "base/rng.h"
#include "base/wide_type.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {

namespace {

void set(Linear& linear, int64_t out, int64_t in) { linear.out = out, linear.in = in; }
void set(Linear& up, Linear& down, const MlpSpec& u) {
  set(up, u.gated ? 2 * u.hidden : u.hidden, u.width);
  set(down, u.width, u.hidden);
}

// The weights of a unit with the sizes of its linears, no tensors.
EmbedWeights empty(const EmbedSpec&) { return {}; }
std::monostate empty(const BridgeSpec&) { return {}; }
HeadWeights empty(const HeadSpec& u) {
  HeadWeights w;
  set(w.projection, u.vocab, u.width);
  return w;
}
AttentionWeights empty(const AttentionSpec& u) {
  AttentionWeights w;
  set(w.out, u.width, u.value_rows());
  if (const LatentSpec& l = u.latent; l.present()) {
    if (l.query_rank > 0) set(w.latent.query_down, l.query_rank, u.width);
    set(w.latent.query_up, u.heads * u.head_dim, l.query_rank > 0 ? l.query_rank : u.width);
    set(w.latent.kv_down, l.kv_rank + l.rotary, u.width);
    set(w.latent.kv_up, u.heads * (l.plain + l.value), l.kv_rank);
  } else {
    set(w.qkv, u.qkv_rows(), u.width);
  }
  return w;
}
MlpWeights empty(const MlpSpec& u) {
  MlpWeights w;
  set(w.up, w.down, u);
  return w;
}
ParallelWeights empty(const ParallelSpec& u) { return {empty(u.attention), empty(u.mlp)}; }
MoeWeights empty(const MoeSpec& u) {
  MoeWeights w;
  set(w.router, u.experts, u.width);
  w.up.resize(static_cast<size_t>(u.experts)), w.down.resize(w.up.size());
  for (size_t i = 0; i < w.up.size(); ++i) set(w.up[i], w.down[i], u.expert());
  if (u.shared_hidden == 0) return w;
  set(w.shared_up, w.shared_down, u.shared());
  if (u.shared_gate) set(w.shared_gate, 1, u.width);
  return w;
}

}  // namespace

namespace {

// Beside the rows of one module, the first of which is `row`.
void add_branch(Linear& linear, const UnitAdapters& adapters, AdaptedModule module, int64_t row, int64_t rows) {
  if (const ModuleAdapter* a = find_adapter(adapters, module)) {
    TERN_CHECK(linear.in % a->pool == 0 && rows % a->repeat == 0 &&
                   !((a->magnitude || a->elastic) && a->pool * a->repeat > 1) && !(a->magnitude && a->elastic),
               "adapter of {}: means of {}, each row {} times, beside ({}, {}); with magnitudes, or elastic, neither",
               name_of(module), a->pool, a->repeat, rows, linear.in);
    linear.branches.push_back({.module = module,
                               .row_begin = row,
                               .row_end = row + rows,
                               .rank = a->rank,
                               .scale = a->scale,
                               .pool = a->pool,
                               .repeat = a->repeat,
                               .dropout = a->dropout,
                               .has_magnitude = a->magnitude,
                               .is_elastic = a->elastic});
  }
}
void add_branch(Linear& linear, const UnitAdapters& adapters, AdaptedModule module) {
  add_branch(linear, adapters, module, 0, linear.out);
}
void add_adapters(const AttentionSpec& u, const UnitAdapters& adapters, AttentionWeights& w) {
  using enum AdaptedModule;
  const int64_t queries = u.heads * u.head_dim, keys = u.kv_heads * u.head_dim;
  if (u.latent.present()) {
    add_branch(w.latent.query_down, adapters, query_down);
    add_branch(w.latent.query_up, adapters, query_up);
    add_branch(w.latent.kv_down, adapters, kv_down);
    add_branch(w.latent.kv_up, adapters, kv_up);
  } else {
    add_branch(w.qkv, adapters, query, 0, queries);
    add_branch(w.qkv, adapters, key, queries, keys);
    add_branch(w.qkv, adapters, value, queries + keys, keys);
    add_branch(w.qkv, adapters, query_key_value);
  }
  add_branch(w.out, adapters, out);
}
void add_adapters(const MlpSpec& u, const UnitAdapters& adapters, MlpWeights& w) {
  using enum AdaptedModule;
  add_branch(w.up, adapters, gate, 0, u.hidden);
  add_branch(w.up, adapters, up, u.gated ? u.hidden : 0, u.hidden);
  add_branch(w.up, adapters, gate_up);
  add_branch(w.down, adapters, down);
}
void add_adapters(const Unit& unit, UnitWeights& weights) {
  if (moe_of(unit))
    throw Error(ErrorKind::usage, "layer {}: adapters of experts are planned, not run; leave experts without",
                unit.layer);
  if (auto* w = std::get_if<AttentionWeights>(&weights)) add_adapters(*attention_of(unit), unit.adapters, *w);
  if (auto* w = std::get_if<MlpWeights>(&weights)) add_adapters(*mlp_of(unit), unit.adapters, *w);
  if (auto* w = std::get_if<ParallelWeights>(&weights)) {
    add_adapters(*attention_of(unit), unit.adapters, w->attention);
    add_adapters(*mlp_of(unit), unit.adapters, w->mlp);
  }
}
// Each branch's random numbers are its own: by the layer and the module.
void name_streams(int layer, UnitWeights& weights) {
  const auto name = [&](Linear& linear) {
    for (Branch& b : linear.branches)
      b.stream = hash_name(name_of(b.module), hash_name("dropout." + std::to_string(layer) + "."));
  };
  const auto of_attention = [&](AttentionWeights& w) {
    for (Linear* linear :
         {&w.qkv, &w.out, &w.latent.query_down, &w.latent.query_up, &w.latent.kv_down, &w.latent.kv_up})
      name(*linear);
  };
  const auto of_mlp = [&](MlpWeights& w) { name(w.up), name(w.down); };
  if (auto* w = std::get_if<AttentionWeights>(&weights)) of_attention(*w);
  if (auto* w = std::get_if<MlpWeights>(&weights)) of_mlp(*w);
  if (auto* w = std::get_if<ParallelWeights>(&weights)) of_attention(w->attention), of_mlp(w->mlp);
}

}  // namespace

ModelWeights empty_weights(const ModelSpec& spec) {
  ModelWeights w;
  for (const Unit& unit : spec.units) {
    w.units.push_back(std::visit([](const auto& u) { return UnitWeights(empty(u)); }, unit.spec));
    if (unit.adapters.empty()) continue;
    add_adapters(unit, w.units.back());
    name_streams(unit.layer, w.units.back());
  }
  return w;
}

namespace {

bool is_in(const std::vector<bool>& units, size_t unit) { return !units.empty() && units[unit]; }

}  // namespace

ModelWeights allocate_weights(const ModelSpec& spec, DType dtype, MemoryClass memory, Arena& arena,
                              const std::vector<bool>& elsewhere) {
  ModelWeights w = empty_weights(spec);
  const auto allocate = [&](const ParameterInfo& info, Tensor& t) {
    const bool heads = spec.head().tied && &t == &embed_of(w).tokens && !is_in(elsewhere, spec.units.size() - 1);
    if (heads || !is_in(elsewhere, static_cast<size_t>(info.unit))) t = arena.allocate(dtype, info.shape, memory);
  };
  for_each_parameter(spec, w, allocate);
  for_each_adapter(spec, w, allocate);
  if (memory == MemoryClass::weights)
    for_each_fixed(spec, w, [&](const ParameterInfo& info, Tensor& t) {
      t = arena.allocate(wide_type(dtype), info.shape, memory);
    });
  share_storage(spec, w);
  return w;
}

// A norm of two branches is one storage.
void share_norms(const ModelSpec& spec, ModelWeights& w) {
  for (size_t i = 0; i < w.units.size(); ++i)
    if (const auto* u = std::get_if<ParallelSpec>(&spec.units[i].spec); u && u->shared_norm) {
      auto& both = std::get<ParallelWeights>(w.units[i]);
      both.mlp.norm = both.attention.norm;
    }
}

ModelWeights allocate_gradients(const ModelSpec& spec, DType dtype, Arena& arena, const std::vector<bool>& without,
                                const std::vector<bool>& elsewhere) {
  const DType type = wide_type(dtype);
  const auto zeros = [&](Shape shape) { return arena.zeros(type, shape, MemoryClass::gradients); };
  ModelWeights g = empty_weights(spec);
  for_each_trained(spec, g, [&](const ParameterInfo& info, Tensor& t) {
    const auto unit = static_cast<size_t>(info.unit);
    if (!is_in(without, unit) && !is_in(elsewhere, unit)) t = zeros(info.shape);
  });
  const HeadSpec& head = spec.head();
  TERN_CHECK(!head.tied || spec.units.front().frozen == spec.units.back().frozen,
             "gradients: a tied table is frozen in the embedding and in the head, or in neither");
  share_norms(spec, g);
  for_each_linear(spec, g, [&](const ParameterInfo& info, Linear& linear) {
    const bool is_table = head.tied && &linear == &head_of(g).projection;
    if (spec.units[is_table ? spec.units.size() - 1 : static_cast<size_t>(info.unit)].frozen)
      linear.weight = NotTrained{};
    else if (is_table && !is_in(elsewhere, spec.units.size() - 1))
      linear.weight = DenseWeight{zeros({head.vocab, head.width})};
  });
  return g;
}

void share_storage(const ModelSpec& spec, ModelWeights& w) {
  if (spec.head().tied) dense_rows(head_of(w).projection) = embed_of(w).tokens;
  share_norms(spec, w);
}

}  // namespace tern
