#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/matmul.h"
#include "model/names.h"
#include "model/ops.h"

namespace tern {

namespace {

NormSpec query_norm_of(const AttentionSpec& u) {
  NormSpec n = u.head_norm_like;
  n.width = u.query_norm_width();
  return n;
}
NormSpec key_norm_of(const AttentionSpec& u) {
  NormSpec n = u.head_norm_like;
  n.width = u.key_norm_width();
  return n;
}

// Visits the parameters of one unit, naming each.
class UnitVisitor {
 public:
  using Visit = std::function<void(const ParameterInfo&, Tensor&)>;
  using VisitLinear = std::function<void(const ParameterInfo&, Linear&)>;
  struct Visits {
    Visit parameter = [](const ParameterInfo&, Tensor&) {};
    Visit fixed = [](const ParameterInfo&, Tensor&) {};
    VisitLinear linear = [](const ParameterInfo&, Linear&) {};
  };
  UnitVisitor(const ModelSpec& spec, const Visits& visits, int unit)
      : spec_(spec),
        visit_(visits.parameter),
        visit_fixed_(visits.fixed),
        visit_linear_(visits.linear),
        unit_(unit),
        layer_(spec.units[static_cast<size_t>(unit)].layer) {}

  void table(const std::string& name, HfPart part, Shape shape, Tensor& at) const {
    // Tables decay like matrices, as in PyTorch's usual grouping by rank.
    visit_({name, shape, unit_, true, false, 0, names(part, "weight", shape)}, at);
  }
  void norm(const std::string& prefix, HfPart part, const NormSpec& n, NormWeights& at) const {
    if (!n.present()) return;
    const Shape shape{n.width};
    visit_({prefix + ".weight", shape, unit_, false, true, 1 - n.offset, names(part, "weight", shape)}, at.weight);
    if (n.kind == NormKind::layer)
      visit_({prefix + ".bias", shape, unit_, false, false, 0, names(part, "bias", shape)}, at.bias);
  }
  void linear(const std::string& prefix, HfPart part, bool has_bias, Linear& at, int64_t expert = 0) const {
    const Shape weight{at.out, at.in}, bias{at.out};
    const ParameterInfo info{prefix + ".weight", weight, unit_, true, false, 0, names(part, "weight", weight, expert)};
    visit_linear_(info, at);
    visit_(info, at.weight);
    if (has_bias) visit_({prefix + ".bias", bias, unit_, false, false, 0, names(part, "bias", bias)}, at.bias);
  }
  void attention(const std::string& prefix, const AttentionSpec& u, AttentionWeights& w) const {
    norm(prefix + ".norm", &HfNames::attention_norm, u.norm, w.norm);
    if (u.latent.present())
      latent(prefix, u, w.latent);
    else
      linear(prefix + ".qkv", &HfNames::qkv, u.qkv_bias, w.qkv);
    if (u.head_norm != HeadNormKind::none) {
      norm(prefix + ".query_norm", &HfNames::query_norm, query_norm_of(u), w.query_norm);
      norm(prefix + ".key_norm", &HfNames::key_norm, key_norm_of(u), w.key_norm);
    }
    linear(prefix + ".out", &HfNames::attention_out, u.out_bias, w.out);
    norm(prefix + ".join_norm", &HfNames::attention_post_norm, u.join.norm, w.join_norm);
  }
  void latent(const std::string& prefix, const AttentionSpec& u, LatentWeights& w) const {
    const LatentSpec& l = u.latent;
    if (l.query_rank > 0) {
      linear(prefix + ".query_down", &HfNames::query_down, u.qkv_bias, w.query_down);
      norm(prefix + ".query_norm", &HfNames::query_norm, l.norm(l.query_rank), w.query_norm);
    }
    linear(prefix + ".query_up", l.query_rank > 0 ? &HfNames::query_up : &HfNames::query, false, w.query_up);
    linear(prefix + ".kv_down", &HfNames::kv_down, u.qkv_bias, w.kv_down);
    norm(prefix + ".kv_norm", &HfNames::kv_norm, l.norm(l.kv_rank), w.kv_norm);
    linear(prefix + ".kv_up", &HfNames::kv_up, false, w.kv_up);
  }
  void mlp(const std::string& prefix, const MlpSpec& u, bool own_norm, MlpWeights& w) const {
    if (own_norm) norm(prefix + ".norm", &HfNames::mlp_norm, u.norm, w.norm);
    linear(prefix + ".up", &HfNames::up, u.bias, w.up);
    linear(prefix + ".down", &HfNames::down, u.bias, w.down);
    norm(prefix + ".join_norm", &HfNames::mlp_post_norm, u.join.norm, w.join_norm);
  }

  void moe(const std::string& prefix, const MoeSpec& u, MoeWeights& w) const {
    norm(prefix + ".norm", &HfNames::mlp_norm, u.norm, w.norm);
    linear(prefix + ".router", &HfNames::router, false, w.router);
    if (u.choice_bias) {
      const Shape shape{u.experts};
      visit_fixed_({prefix + ".choice_bias", shape, unit_, false, false, 0,
                    names(&HfNames::router, "e_score_correction_bias", shape)},
                   w.choice_bias);
    }
    for (size_t e = 0; e < w.up.size(); ++e) {
      const std::string expert = prefix + ".experts." + std::to_string(e);
      linear(expert + ".up", &HfNames::expert_up, false, w.up[e], static_cast<int64_t>(e));
      linear(expert + ".down", &HfNames::expert_down, false, w.down[e], static_cast<int64_t>(e));
    }
    if (u.shared_hidden == 0) return;
    linear(prefix + ".shared.up", &HfNames::shared_up, false, w.shared_up);
    linear(prefix + ".shared.down", &HfNames::shared_down, false, w.shared_down);
    if (u.shared_gate) linear(prefix + ".shared_gate", &HfNames::shared_gate, false, w.shared_gate);
  }

 private:
  std::vector<Fragment> names(HfPart part, std::string_view suffix, const Shape& shape, int64_t expert = 0) const {
    return file_names(spec_, layer_, part, suffix, shape[0], expert);
  }
  const ModelSpec& spec_;
  const Visit &visit_, &visit_fixed_;
  const VisitLinear& visit_linear_;
  int unit_, layer_;
};

void pack(Linear& linear, Arena& arena) {
  if (!linear.packed.empty()) return;
  TERN_CHECK(!linear.weight.empty(), "pack_weights: linear ({}, {}) has no weight", linear.out, linear.in);
  pack_pieces(linear, {&linear.weight, 1}, arena);
  linear.weight = {};
}

void visit_units(const ModelSpec& spec, ModelWeights& w, const UnitVisitor::Visits& visits) {
  for (int index = 0; index < static_cast<int>(spec.units.size()); ++index) {
    const Unit& unit = spec.units[static_cast<size_t>(index)];
    const UnitVisitor v(spec, visits, index);
    const std::string layer = "layers." + std::to_string(unit.layer);
    const auto at = static_cast<size_t>(unit.layer);
    if (const auto* e = std::get_if<EmbedSpec>(&unit.spec)) {
      v.table("embed.tokens", &HfNames::tokens, {e->vocab, e->width}, w.embed.tokens);
      if (e->positions) v.table("embed.positions", &HfNames::positions, {e->positions, e->width}, w.embed.positions);
      if (e->token_types)
        v.table("embed.token_types", &HfNames::token_types, {e->token_types, e->width}, w.embed.token_types);
      v.norm("embed.norm", &HfNames::embed_norm, e->norm, w.embed.norm);
    } else if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) {
      v.norm("head.norm", &HfNames::final_norm, h->norm, w.head.norm);
      if (!h->tied) v.linear("head.projection", &HfNames::projection, false, w.head.projection);
    } else {
      const auto* both = std::get_if<ParallelSpec>(&unit.spec);
      if (const AttentionSpec* a = attention_of(unit)) v.attention(layer + ".attention", *a, w.attention.at(at));
      if (const MlpSpec* m = mlp_of(unit)) v.mlp(layer + ".mlp", *m, !both || !both->shared_norm, w.mlp.at(at));
      if (const MoeSpec* x = moe_of(unit)) v.moe(layer + ".moe", *x, w.moe.at(at));
    }
  }
}

}  // namespace

ModelWeights empty_weights(const ModelSpec& spec) {
  ModelWeights w;
  const auto set = [](Linear& linear, int64_t out, int64_t in) { linear.out = out, linear.in = in; };
  const auto set_mlp = [&](Linear& up, Linear& down, const MlpSpec& m) {
    set(up, m.gated ? 2 * m.hidden : m.hidden, m.width);
    set(down, m.width, m.hidden);
  };
  for (const Unit& unit : spec.units) {
    const auto layers = static_cast<size_t>(unit.layer + 1), at = static_cast<size_t>(unit.layer);
    if (const AttentionSpec* a = attention_of(unit)) {
      w.attention.resize(std::max(w.attention.size(), layers));
      set(w.attention[at].out, a->width, a->value_rows());
      if (const LatentSpec& l = a->latent; l.present()) {
        LatentWeights& block = w.attention[at].latent;
        if (l.query_rank > 0) set(block.query_down, l.query_rank, a->width);
        set(block.query_up, a->heads * a->head_dim, l.query_rank > 0 ? l.query_rank : a->width);
        set(block.kv_down, l.kv_rank + l.rotary, a->width);
        set(block.kv_up, a->heads * (l.plain + l.value), l.kv_rank);
      } else {
        set(w.attention[at].qkv, a->qkv_rows(), a->width);
      }
    }
    if (const MlpSpec* m = mlp_of(unit)) {
      w.mlp.resize(std::max(w.mlp.size(), layers));
      set_mlp(w.mlp[at].up, w.mlp[at].down, *m);
    }
    if (const MoeSpec* e = moe_of(unit)) {
      w.moe.resize(std::max(w.moe.size(), layers));
      MoeWeights& block = w.moe[at];
      set(block.router, e->experts, e->width);
      block.up.resize(static_cast<size_t>(e->experts)), block.down.resize(block.up.size());
      for (size_t i = 0; i < block.up.size(); ++i) set_mlp(block.up[i], block.down[i], e->expert());
      if (e->shared_hidden > 0) set_mlp(block.shared_up, block.shared_down, e->shared());
      if (e->shared_hidden > 0 && e->shared_gate) set(block.shared_gate, 1, e->width);
    }
    if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) set(w.head.projection, h->vocab, h->width);
  }
  return w;
}

void for_each_parameter(const ModelSpec& spec, ModelWeights& w,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_units(spec, w, {.parameter = visit});
}

void for_each_fixed(const ModelSpec& spec, ModelWeights& w,
                    const std::function<void(const ParameterInfo&, Tensor&)>& visit) {
  visit_units(spec, w, {.fixed = visit});
}

void for_each_linear(const ModelSpec& spec, ModelWeights& w,
                     const std::function<void(const ParameterInfo&, Linear&)>& visit) {
  visit_units(spec, w, {.linear = visit});
  if (!spec.head().tied) return;
  const ParameterInfo table = parameters(spec).front();
  visit(table, w.head.projection);
}

std::vector<ParameterInfo> parameters(const ModelSpec& spec) {
  std::vector<ParameterInfo> infos;
  ModelWeights none = empty_weights(spec);
  for_each_parameter(spec, none, [&](const ParameterInfo& info, Tensor&) { infos.push_back(info); });
  return infos;
}

std::vector<Tensor*> tensors(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<Tensor*> all;
  for_each_parameter(spec, weights, [&](const ParameterInfo&, Tensor& t) { all.push_back(&t); });
  return all;
}

ModelWeights allocate_weights(const ModelSpec& spec, DType dtype, MemoryClass memory, Arena& arena) {
  ModelWeights w = empty_weights(spec);
  for_each_parameter(spec, w,
                     [&](const ParameterInfo& info, Tensor& t) { t = arena.allocate(dtype, info.shape, memory); });
  if (memory == MemoryClass::weights)
    for_each_fixed(spec, w, [&](const ParameterInfo& info, Tensor& t) {
      t = arena.allocate(ops::sum_dtype(dtype), info.shape, memory);
    });
  share_storage(spec, w);
  return w;
}

ModelWeights allocate_gradients(const ModelSpec& spec, DType dtype, Arena& arena) {
  const DType type = ops::sum_dtype(dtype);
  ModelWeights g = allocate_weights(spec, type, MemoryClass::gradients, arena);
  for (const Tensor* t : tensors(spec, g)) t->fill_zero();
  const HeadSpec& head = spec.head();
  if (head.tied) g.head.projection.weight = arena.zeros(type, {head.vocab, head.width}, MemoryClass::gradients);
  return g;
}

void join_tied_gradients(const ModelSpec& spec, const ModelWeights& g) {
  if (spec.head().tied) ops::add_and_clear(g.head.projection.weight, g.embed.tokens);
}

void share_storage(const ModelSpec& spec, ModelWeights& w) {
  if (spec.head().tied) w.head.projection.weight = w.embed.tokens;
  for (const Unit& unit : spec.units)
    if (const auto* both = std::get_if<ParallelSpec>(&unit.spec); both && both->shared_norm) {
      const auto at = static_cast<size_t>(unit.layer);
      w.mlp.at(at).norm = w.attention.at(at).norm;
    }
}

void initialize_weights(const ModelSpec& spec, ModelWeights& weights, uint64_t seed) {
  for_each_fixed(spec, weights, [](const ParameterInfo&, Tensor& t) { t.fill_zero(); });
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    // A matrix that ends a residual branch.
    const bool scaled = spec.scaled_residual_init &&
                        (info.name.ends_with("attention.out.weight") || info.name.ends_with("mlp.down.weight"));
    const double std = spec.initializer_range / (scaled ? std::sqrt(2.0 * static_cast<double>(spec.layers)) : 1.0);
    const RngKey key{seed, hash_name(info.name)};
    const bool is_matrix = info.shape.rank == 2;
    const double constant = info.initial;
    ops::by_dtype(t.dtype(), [&]<class T>() {
      const std::span<T> w = t.span<T>();
      const auto count = static_cast<int64_t>(w.size());
#pragma omp parallel for
      for (int64_t i = 0; i < count; ++i) {
        const double value = is_matrix ? std * random_normal(key, static_cast<uint64_t>(i)) : constant;
        if constexpr (std::is_same_v<T, bf16>)
          w[static_cast<size_t>(i)] = to_bf16(static_cast<float>(value));
        else
          w[static_cast<size_t>(i)] = static_cast<T>(value);
      }
    });
  });
}

void pack_pieces(Linear& linear, std::span<const Tensor> pieces, Arena& arena) {
  const DType dtype = pieces.front().dtype();
  linear.packed = arena.bytes(packed_bytes(dtype, linear.out, linear.in), MemoryClass::weights);
  const std::span<std::byte> to{static_cast<std::byte*>(linear.packed.data()),
                                static_cast<size_t>(linear.packed.bytes())};
  ops::by_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::vector<WeightRows<T>> rows = ops::weight_rows<T>(pieces);
      pack_weight<T>(std::span<const WeightRows<T>>(rows), linear.out, linear.in, to);
    }
  });
}

void pack_weights(const ModelSpec& spec, ModelWeights& weights, Arena& arena) {
  const DType dtype = weights.embed.tokens.dtype();
  if (dtype == DType::f64 || reads_plain_weights(dtype)) return;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) { pack(linear, arena); });
  TERN_CHECK(!spec.head().tied || !weights.embed.tokens.empty(), "pack_weights: the embedding table stays plain");
}

}  // namespace tern
