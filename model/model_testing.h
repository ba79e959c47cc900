#pragma once
// What the tests of this folder share: tiny models of every shape, plain training steps, comparisons that cannot be
// fooled.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "formats/hf/family.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/row_lengths.h"
#include "model/unit.h"
#include "model/visit_weights.h"
#include "spec/unit_cost.h"

namespace tern {

/// How far f32 may be from a reference framework.
inline constexpr double kLogitsBound = 1e-5, kGradientsBound = 1e-4;  // the bounds for f32

/// A model of a few thousand parameters, with the family's own defaults; awkward sizes on purpose.
inline HfConfig tiny_config(const std::string& family) {
  HfConfig c;
  c.model_type = family;
  const HfFamily& f = hf_family(c);
  c.vocab_size = 37;
  c.hidden_size = 24;
  c.intermediate_size = 20;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = f.has_kv_heads ? 2 : 4;
  c.head_dim = 6;
  c.max_position_embeddings = 256;
  c.norm_eps = 1e-5;
  c.initializer_range = 0.2;
  if (f.blocks.positions == HfPositions::rotary) c.rope.type = RopeType::standard;
  if (f.defaults.local_rope_theta > 0) {
    c.local_rope.emplace();
    c.local_rope->type = RopeType::standard, c.local_rope->theta = 100;
  }
  if (f.blocks.windows != HfWindows::none) c.sliding_window = 5;
  if (f.blocks.windows == HfWindows::listed || f.blocks.windows == HfWindows::switched ||
      f.blocks.windows == HfWindows::switched_even)
    c.windowed_layers = {true, false};
  if (f.blocks.unturned_every > 0) c.rotary_layers = {false, true};
  c.hidden_act = f.defaults.hidden_act;
  c.activation = c.hidden_act == "silu"   ? HfActivation::silu
                 : c.hidden_act == "gelu" ? HfActivation::gelu
                 : c.hidden_act == "relu" ? HfActivation::relu
                                          : HfActivation::gelu_tanh;
  c.parallel_residual = has_option(f, &HfConfig::parallel_residual);
  if (family == "falcon") c.multi_query = true, c.num_key_value_heads = 1;
  if (family == "gpt_neox") c.rope.partial = 0.7;  // 4 elements of 6
  if (has_option(f, &HfConfig::type_vocab_size)) c.type_vocab_size = 2;
  c.attention_bias = f.defaults.attention_bias, c.mlp_bias = f.defaults.mlp_bias;
  c.tie_word_embeddings = f.defaults.tied;
  if (f.blocks.experts != HfExperts::none) c.num_experts = 4, c.experts_per_token = 2;
  if (has_option(f, &HfConfig::gate_limit)) c.gate_alpha = 1.702, c.gate_limit = 7;
  if (has_option(f, &HfConfig::expert_size)) c.expert_size = 9, c.normalized_experts = false;
  if (f.blocks.latent) {
    c.num_key_value_heads = 4, c.head_dim = 4, c.plain_head_dim = 5, c.value_head_dim = 7;
    c.query_rank = 10, c.kv_rank = 8, c.rope_interleaved = true;
    c.rope.type = RopeType::yarn, c.rope.factor = 4, c.rope.original_max_position_embeddings = 16;
    c.rope.mscale = 0.7, c.rope.mscale_all_dim = 0.9;
    c.num_experts = 6, c.experts_per_token = 3, c.shared_expert_size = 18, c.expert_scaling = 1.3;
    c.expert_groups = 3, c.top_groups = 2, c.grouped_choice = true;
    c.normalized_experts = f.blocks.sigmoid_router;
  }
  if (has_option(f, &HfConfig::shared_expert_size)) c.shared_expert_size = 11;
  if (has_option(f, &HfConfig::embedding_multiplier))
    c.embedding_multiplier = 3, c.residual_multiplier = 0.7, c.logits_scaling = 2, c.attention_multiplier = 0.3;
  if (has_option(f, &HfConfig::query_pre_attn_scalar)) c.query_pre_attn_scalar = 9;
  if (has_option(f, &HfConfig::attn_logit_softcapping)) c.attn_logit_softcapping = 1.5, c.final_logit_softcapping = 4;
  return c;
}

/// Calls f(name, spec) for models that between them take every road through the units.
inline void for_each_variant(const std::function<void(const std::string&, const ModelSpec&)>& f) {
  for (const char* family : {"llama", "mistral", "gpt2"}) f(family, model_spec(tiny_config(family)));
  // Each of these has a part of a unit that the others lack; families made of the same parts need no test here.
  for (const char* family :
       {"qwen3", "olmo2", "gemma3_text", "granite", "smollm3", "gpt_neox", "falcon", "bloom", "opt", "bert"})
    f(family, model_spec(tiny_config(family)));
  for (const char* family : {"mixtral", "qwen2_moe"}) f(family, model_spec(tiny_config(family)));
  HfConfig bounded = tiny_config("gpt_oss");
  bounded.gate_limit = 0.7;  // which some numbers reach
  bounded.num_experts = 3;   // each of them is chosen
  f("gpt_oss", model_spec(bounded));
  for (const char* family : {"deepseek_v2", "deepseek_v3"}) f(family, model_spec(tiny_config(family)));
  HfConfig plain = tiny_config("deepseek_v2");
  plain.query_rank = 0, plain.value_head_dim = 9, plain.attention_bias = true, plain.expert_layers = {false, true};
  plain.grouped_choice = false;
  f("deepseek_v2, queries without a rank, biases", model_spec(plain));
  HfConfig mixed = tiny_config("qwen3_moe");
  mixed.expert_layers = {true, false}, mixed.normalized_experts = true;
  mixed.num_experts = 3;
  f("qwen3_moe, a layer without experts", model_spec(mixed));
  HfConfig alibi = tiny_config("falcon");
  alibi.alibi = alibi.attention_bias = true, alibi.parallel_residual = false, alibi.rope = {};
  f("falcon, rounded slopes, one after the other", model_spec(alibi));
  HfConfig c = tiny_config("llama");
  c.attention_bias = c.mlp_bias = c.tie_word_embeddings = true;
  c.num_key_value_heads = 1;
  c.activation = HfActivation::gelu;
  f("llama, tied, biases, one kv head, gated gelu", model_spec(c));
  ModelSpec odd = model_spec(tiny_config("llama"));
  odd.layers = 1;
  odd.units.resize(3);
  auto& mlp = std::get<MlpSpec>(odd.units[2].spec);
  mlp.gated = false, mlp.activation = ActivationKind::relu;
  odd.names.up = "mlp.up_proj";  // one matrix, one tensor of the file
  odd.units.push_back(model_spec(tiny_config("llama")).units.back());
  std::get<HeadSpec>(odd.units[3].spec).norm.kind = NormKind::layer;
  f("llama, plain relu, layer norm at the end", odd);
}

/// The variants that run with adapters: experts have none yet.
inline void for_each_dense_variant(const std::function<void(const std::string&, const ModelSpec&)>& f) {
  for_each_variant([&](const std::string& variant, const ModelSpec& spec) {
    if (std::ranges::none_of(spec.units, [](const Unit& u) { return moe_of(u) != nullptr; })) f(variant, spec);
  });
}

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<int32_t>(random_u64({seed, 1}, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  return tokens;
}

inline double element(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::f64:
      return static_cast<const double*>(t.data())[i];
    case DType::f32:
      return static_cast<const float*>(t.data())[i];
    case DType::bf16:
      return to_float(static_cast<const bf16*>(t.data())[i]);
    default:
      ADD_FAILURE() << "element of " << name_of(t.dtype());
      return NAN;
  }
}
inline void set_element(const Tensor& t, int64_t i, double x) {
  switch (t.dtype()) {
    case DType::f64:
      static_cast<double*>(t.data())[i] = x;
      return;
    case DType::f32:
      static_cast<float*>(t.data())[i] = static_cast<float>(x);
      return;
    case DType::bf16:
      static_cast<bf16*>(t.data())[i] = to_bf16(static_cast<float>(x));
      return;
    default:
      ADD_FAILURE() << "element of " << name_of(t.dtype());
  }
}
inline void fill_normal(const Tensor& t, double std, uint64_t seed, double mean = 0) {
  for (int64_t i = 0; i < t.count(); ++i)
    set_element(t, i, mean + std * random_normal({seed, 2}, static_cast<uint64_t>(i)));
}

/// Every second module of the first layers has an adapter, each of its own rank and scale; queries, keys and values of the
/// second layer share one.
inline ModelSpec with_uneven_adapters(ModelSpec spec) {
  spec = with_adapters(spec, 1);
  int n = 0;
  for (Unit& unit : spec.units) {
    UnitAdapters kept;
    for (ModuleAdapter a : unit.adapters)
      if (++n % 2) kept.push_back({a.module, 1 + n % 5, 0.3 + 0.1 * n});
    if (const AttentionSpec* a = attention_of(unit); a && unit.layer == 1 && !a->latent.present())
      kept = {{AdaptedModule::query_key_value, 4, 0.6}};
    unit.adapters = kept;
  }
  return spec;
}

/// The same whose A read means of `pool` inputs, and whose rows of B count for `repeat` rows.
inline ModelSpec with_balance(ModelSpec spec, int64_t pool, int64_t repeat) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.pool = pool, a.repeat = repeat;
  return spec;
}

/// The same with elastic connections, and with dropout.
inline ModelSpec with_elastic(ModelSpec spec, double dropout = 0) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.elastic = true, a.dropout = dropout;
  return spec;
}

/// The same with magnitudes of rows (DoRA), and with dropout.
inline ModelSpec with_magnitudes(ModelSpec spec, double dropout = 0) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.magnitude = true, a.dropout = dropout;
  return spec;
}

/// Every parameter random, norms around one, biases too: nothing is at a value that hides a missing term.
inline ModelWeights random_weights(const ModelSpec& spec, DType dtype, Arena& arena, uint64_t seed, double std = 0.3) {
  ModelWeights w = allocate_weights(spec, dtype, MemoryClass::weights, arena);
  for_each_parameter(spec, w, [&](const ParameterInfo& info, Tensor& t) {
    fill_normal(t, std, seed ^ hash_name(info.name), info.is_norm_weight ? 1 : 0);
  });
  for_each_fixed(spec, w,
                 [&](const ParameterInfo& info, Tensor& t) { fill_normal(t, std / 6, seed ^ hash_name(info.name)); });
  for_each_adapter(spec, w,
                   [&](const ParameterInfo& info, Tensor& t) { fill_normal(t, std, seed ^ hash_name(info.name)); });
  measure_rows(spec, w, w, arena);
  return w;
}
inline ModelWeights zero_gradients(const ModelSpec& spec, DType dtype, Arena& arena) {
  return allocate_gradients(spec, dtype, arena);
}

/// Loss (a sum) of the rows, gradients of scale·loss added to `gradients`: one micro-batch, every unit's three passes.
inline double add_gradients(const ModelSpec& spec, const ModelWeights& weights, const Rows& rows,
                            std::span<const int32_t> targets, double scale, ModelWeights& gradients, const Compute& c) {
  const int head = static_cast<int>(spec.units.size()) - 1;
  std::vector<UnitSaved> saved(spec.units.size());
  Tensor x;
  const auto at = [](int u) { return static_cast<size_t>(u); };
  for (int u = 0; u < head; ++u) x = unit_forward(spec, u, weights.units[at(u)], rows, x, &saved[at(u)], nullptr, c);
  HeadSaved& last = saved[at(head)].emplace<HeadSaved>();
  const double loss = head_forward_loss(spec, head_of(weights), rows, x, targets, scale, last, head_of(gradients), c);
  Tensor dy;
  for (int u = head; u >= 0; --u) {
    Tensor dx;
    if (u > 0) dx = unit_backward_input(spec, u, weights.units[at(u)], rows, dy, saved[at(u)], c);
    unit_backward_weight(spec, u, weights.units[at(u)], rows, dy, saved[at(u)], gradients.units[at(u)], c);
    dy = dx;
  }
  return loss;
}

/// ‖got - want‖ / ‖want‖. NaN or infinity if a number is not finite, and NaN if the counts differ: EXPECT_LE then fails.
inline double relative_error(const Tensor& got, const Tensor& want) {
  if (got.count() != want.count() || want.count() == 0) return NAN;
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    const double d = element(got, i) - element(want, i);
    difference += d * d;
    norm += element(want, i) * element(want, i);
  }
  return std::sqrt(difference / norm);
}

/// Bits, so that -0 and NaN count. Different storage is part of the claim.
inline testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  if (got.data() == want.data()) return testing::AssertionFailure() << "one buffer compared with itself";
  if (got.dtype() != want.dtype() || got.count() != want.count() || want.count() == 0)
    return testing::AssertionFailure() << got.count() << " elements, want " << want.count();
  if (std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())) == 0) return testing::AssertionSuccess();
  for (int64_t i = 0; i < want.count(); ++i)
    if (!(element(got, i) == element(want, i)))
      return testing::AssertionFailure() << "[" << i << "] got " << element(got, i) << ", want " << element(want, i);
  return testing::AssertionFailure() << "bits differ in zeros or NaNs";
}

}  // namespace tern
