#include "spec/model_spec.h"

#include <array>
#include <string_view>

#include "base/error.h"
#include "formats/hf_config.h"
#include "spec/unit_cost.h"

namespace tern {

namespace {

ActivationKind activation_of(const HfConfig& c) {
  switch (c.activation) {
    case decltype(c.activation)::silu:
      return ActivationKind::silu;
    case decltype(c.activation)::gelu:
      return ActivationKind::gelu_erf;
    case decltype(c.activation)::gelu_tanh:
      return ActivationKind::gelu_tanh;
  }
  throw Error(ErrorKind::bad_file, "config: hidden_act '{}' is none that tern computes; use silu or a gelu",
              c.hidden_act);
}

RopeSpec rope_of(const HfConfig& c) {
  const HfRope& hf = c.rope;
  RopeSpec r;
  switch (hf.type) {
    case RopeType::none:
      return r;
    case RopeType::standard:
      r.kind = RopeKind::standard;
      break;
    case RopeType::linear:
      r.kind = RopeKind::linear;
      break;
    case RopeType::dynamic:
      r.kind = RopeKind::dynamic;
      break;
    case RopeType::yarn:
      r.kind = RopeKind::yarn;
      break;
    case RopeType::llama3:
      r.kind = RopeKind::llama3;
      break;
    case RopeType::longrope:
      r.kind = RopeKind::longrope;
      break;
  }
  r.rotary_dim = c.head_dim;
  r.theta = hf.theta;
  r.original_context =
      hf.original_max_position_embeddings ? hf.original_max_position_embeddings : c.max_position_embeddings;
  r.factor =
      hf.factor.value_or(static_cast<double>(c.max_position_embeddings) / static_cast<double>(r.original_context));
  r.low_freq_factor = hf.low_freq_factor;
  r.high_freq_factor = hf.high_freq_factor;
  r.beta_fast = hf.beta_fast;
  r.beta_slow = hf.beta_slow;
  r.mscale = hf.mscale.value_or(0.0);
  r.mscale_all_dim = hf.mscale_all_dim.value_or(0.0);
  r.truncate = hf.truncate;
  r.attention_factor = hf.attention_factor;
  r.short_factor = hf.short_factor;
  r.long_factor = hf.long_factor;
  return r;
}

struct FamilyTraits {
  std::string_view name;
  NormKind norm;
  bool gated, learned_positions;
};
// A family whose blocks are built from these pieces is one row here (and its names in model/names.cpp).
constexpr std::array kFamilies{
    FamilyTraits{"llama", NormKind::rms, true, false},
    FamilyTraits{"mistral", NormKind::rms, true, false},
    FamilyTraits{"gpt2", NormKind::layer, false, true},
};

const FamilyTraits& traits_of(const HfConfig& c) {
  std::string known;
  for (const FamilyTraits& f : kFamilies) {
    if (f.name == c.model_type) return f;
    known += (known.empty() ? "" : ", ") + std::string(f.name);
  }
  throw Error(ErrorKind::bad_file, "config: model_type '{}' is no family that tern computes; supported: {}",
              c.model_type, known);
}

// The reader of files has checked these already; a spec may also come from a program.
void check(const HfConfig& c) {
  const auto positive = [](std::string_view key, int64_t value) {
    if (value <= 0) throw Error(ErrorKind::bad_file, "config: {} is {}, expected at least 1", key, value);
  };
  positive("vocab_size", c.vocab_size);
  positive("hidden_size", c.hidden_size);
  positive("intermediate_size", c.intermediate_size);
  positive("num_hidden_layers", c.num_hidden_layers);
  positive("num_attention_heads", c.num_attention_heads);
  positive("num_key_value_heads", c.num_key_value_heads);
  positive("head_dim", c.head_dim);
  positive("max_position_embeddings", c.max_position_embeddings);
  if (c.num_attention_heads % c.num_key_value_heads)
    throw Error(ErrorKind::bad_file, "config: num_attention_heads {} is no multiple of num_key_value_heads {}",
                c.num_attention_heads, c.num_key_value_heads);
  if (c.rope.type != RopeType::none && c.head_dim % 2)
    throw Error(ErrorKind::bad_file, "config: head_dim {} is odd, rotary positions turn pairs", c.head_dim);
}

}  // namespace

ModelSpec model_spec(const HfConfig& c) {
  const FamilyTraits& family = traits_of(c);
  check(c);
  ModelSpec m;
  m.family = c.model_type;
  m.vocab = c.vocab_size;
  m.width = c.hidden_size;
  m.layers = c.num_hidden_layers;
  m.context = c.max_position_embeddings;
  m.rope = rope_of(c);
  m.initializer_range = c.initializer_range;

  const NormSpec norm{family.norm, m.width, c.norm_eps};
  const AttentionSpec attention{.norm = norm,
                                .width = m.width,
                                .heads = c.num_attention_heads,
                                .kv_heads = c.num_key_value_heads,
                                .head_dim = c.head_dim,
                                .qkv_bias = c.attention_bias,
                                .out_bias = c.attention_bias,
                                .window = c.sliding_window.value_or(0)};
  const MlpSpec mlp{norm, m.width, c.intermediate_size, activation_of(c), family.gated, c.mlp_bias};
  m.units.push_back({-1, EmbedSpec{m.vocab, m.width, family.learned_positions ? m.context : 0}});
  for (int layer = 0; layer < m.layers; ++layer) {
    m.units.push_back({layer, attention});
    m.units.push_back({layer, mlp});
  }
  m.units.push_back({-1, HeadSpec{norm, m.width, m.vocab, c.tie_word_embeddings}});
  return m;
}

int64_t num_parameters(const ModelSpec& spec) {
  int64_t n = 0;
  for (const Unit& unit : spec.units) n += unit_cost(unit, {}).parameters;
  return n;
}

ModelSpec with_adapters(ModelSpec spec, int64_t rank) {
  for (Unit& unit : spec.units) {
    unit.frozen = true;
    unit.adapter_rank = unit.layer < 0 ? 0 : rank;
  }
  return spec;
}

}  // namespace tern
