#include "spec/model_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "formats/hf/config.h"
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
    case decltype(c.activation)::relu:
      return ActivationKind::relu;
  }
  throw Error(ErrorKind::bad_file, "config: hidden_act '{}' is none that tern computes; use silu or a gelu",
              c.hidden_act);
}

RopeSpec rope_of(const HfConfig& c, const HfRope& hf) {
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
  r.rotary_dim = rotary_dim(hf, c.head_dim);
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

NormSpec norm_of(const HfConfig& c, const HfBlocks& blocks) {
  return {.kind = blocks.norm == HfNorm::layer ? NormKind::layer : NormKind::rms,
          .width = c.hidden_size,
          .epsilon = c.norm_eps,
          .offset = blocks.norm == HfNorm::rms_plus_one ? 1.0 : 0.0};
}

double score_scale(const HfConfig& c) {
  if (c.attention_multiplier) return *c.attention_multiplier;
  return c.query_pre_attn_scalar ? 1 / std::sqrt(*c.query_pre_attn_scalar) : 0;
}

// YaRN's factor on cos and sin reaches the turned part alone; the scores get its counterpart of mscale_all_dim.
double latent_scale(const HfConfig& c, int64_t head_dim) {
  const double root = 1 / std::sqrt(static_cast<double>(head_dim)), all = c.rope.mscale_all_dim.value_or(0);
  const double factor = c.rope.factor.value_or(1);
  const double mscale = all != 0 && factor > 1 ? 0.1 * all * std::log(factor) + 1 : 1;
  return root * mscale * mscale;
}

bool in_layer(const std::vector<bool>& layers, int64_t layer) {
  return layers.empty() || layers[static_cast<size_t>(layer)];
}

AttentionSpec attention_in(const HfConfig& c, const HfBlocks& blocks, int64_t layer, const NormSpec& before,
                           const JoinSpec& join) {
  const bool windowed = c.sliding_window && in_layer(c.windowed_layers, layer);
  const bool turned = blocks.positions == HfPositions::rotary && in_layer(c.rotary_layers, layer);
  AttentionSpec a{.norm = before,
                  .width = c.hidden_size,
                  .heads = c.num_attention_heads,
                  .kv_heads = c.num_key_value_heads,
                  .head_dim = c.head_dim,
                  .qkv_bias = c.attention_bias,
                  .out_bias = c.attention_bias && blocks.out_bias,
                  .window = windowed ? *c.sliding_window : 0,
                  .causal = blocks.causal};
  a.rope = !turned ? RopeUse::none : windowed && c.local_rope ? RopeUse::local : RopeUse::main;
  if (blocks.head_norm != HfHeadNorm::none) {
    a.head_norm = blocks.head_norm == HfHeadNorm::head ? HeadNormKind::head : HeadNormKind::row;
    a.head_norm_like = norm_of(c, blocks);
  }
  a.scale = score_scale(c);
  a.softcap = c.attn_logit_softcapping.value_or(0);
  if (blocks.positions == HfPositions::alibi) a.alibi = blocks.alibi_in_bf16 ? AlibiKind::bf16 : AlibiKind::exact;
  a.join = join;
  a.sinks = blocks.sinks;
  if (!blocks.latent) return a;
  a.latent = {.query_rank = c.query_rank,
              .kv_rank = c.kv_rank,
              .plain = c.plain_head_dim,
              .rotary = c.head_dim,
              .value = c.value_head_dim,
              .interleaved = c.rope_interleaved};
  a.head_dim = c.plain_head_dim + c.head_dim;
  a.scale = latent_scale(c, a.head_dim);
  return a;
}

MoeSpec experts_of(const HfConfig& c, const HfBlocks& blocks, const MlpSpec& mlp) {
  TERN_CHECK(mlp.join == JoinSpec{} && !mlp.bias, "model_spec: {}: experts with a joining norm, a multiplier or biases",
             c.model_type);
  MoeSpec e{mlp.norm,
            mlp.width,
            c.expert_size > 0 ? c.expert_size : c.intermediate_size,
            c.num_experts,
            c.experts_per_token,
            c.shared_expert_size,
            mlp.activation,
            mlp.gated};
  e.normalized = c.normalized_experts;
  e.shared_gate = c.shared_expert_size > 0 && blocks.shared_gate;
  e.score = blocks.sigmoid_router ? RouterScore::sigmoid : RouterScore::softmax;
  e.choice_bias = blocks.sigmoid_router;
  e.scaling = c.expert_scaling;
  e.router_bias = blocks.router_bias, e.expert_bias = blocks.expert_bias;
  e.bounds = {c.gate_alpha, c.gate_limit};
  if (c.grouped_choice) e.groups = c.expert_groups, e.top_groups = c.top_groups;
  return e;
}

}  // namespace

ModelSpec model_spec(const HfConfig& c) {
  const HfFamily* known = find_hf_family(c.model_type);
  if (!known)
    throw Error(ErrorKind::bad_file, "config: model_type '{}' is no family that tern computes; supported: {}",
                c.model_type, fmt::join(supported_families(), ", "));
  const HfFamily& family = *known;
  const HfBlocks blocks = hf_blocks(c);
  check(c);
  ModelSpec m;
  m.family = c.model_type;
  m.vocab = c.vocab_size;
  m.width = c.hidden_size;
  m.layers = c.num_hidden_layers;
  m.context = c.max_position_embeddings;
  m.rope = rope_of(c, c.rope);
  if (c.local_rope) m.local_rope = rope_of(c, *c.local_rope);
  m.initializer_range = c.initializer_range;
  m.scaled_residual_init = blocks.scaled_residual_init;
  m.names = hf_names(c);
  m.prefix = family.prefix;
  m.skipped_layers = c.predicting_layers;

  const NormSpec norm = norm_of(c, blocks), none{.kind = NormKind::none};
  const bool before = blocks.place == HfNormPlace::before || blocks.place == HfNormPlace::around;
  const JoinSpec join{.norm = blocks.place == HfNormPlace::before ? none : norm,
                      .of_sum = blocks.place == HfNormPlace::sum,
                      .multiplier = c.residual_multiplier};
  const MlpSpec mlp{before ? norm : none, m.width, c.intermediate_size, activation_of(c), blocks.gated,
                    c.mlp_bias,           join};
  EmbedSpec embed{m.vocab, m.width, 0};
  if (blocks.positions == HfPositions::learned)
    embed.positions = m.context + blocks.position_offset, embed.position_offset = blocks.position_offset;
  embed.multiplier = c.embedding_multiplier * (blocks.scaled_embedding ? std::sqrt(static_cast<double>(m.width)) : 1);
  embed.token_types = c.type_vocab_size;
  if (!m.names.embed_norm.empty()) embed.norm = norm;
  m.units.push_back({-1, embed});
  for (int layer = 0; layer < m.layers; ++layer) {
    const AttentionSpec attention = attention_in(c, blocks, layer, mlp.norm, join);
    if (c.parallel_residual) {
      m.units.push_back({layer, ParallelSpec{attention, mlp, blocks.shared_norm}});
      continue;
    }
    m.units.push_back({layer, attention});
    if (c.num_experts > 0 && in_layer(c.expert_layers, layer))
      m.units.push_back({layer, experts_of(c, blocks, mlp)});
    else
      m.units.push_back({layer, mlp});
  }
  m.predicts = blocks.causal;
  HeadSpec head{m.predicts ? norm : none, m.width, m.vocab, c.tie_word_embeddings || !m.predicts};
  head.multiplier = 1 / c.logits_scaling;
  head.softcap = c.final_logit_softcapping.value_or(0);
  m.units.push_back({-1, head});
  return m;
}

int64_t learned_positions(const ModelSpec& spec) {
  int64_t least = 0;
  for (const Unit& u : spec.units)
    if (const auto* e = std::get_if<EmbedSpec>(&u.spec); e && e->positions > 0)
      least = least == 0 ? e->positions - e->position_offset : std::min(least, e->positions - e->position_offset);
  return least;
}

const AttentionSpec* attention_of(const Unit& unit) {
  if (const auto* p = std::get_if<ParallelSpec>(&unit.spec)) return &p->attention;
  return std::get_if<AttentionSpec>(&unit.spec);
}

const MlpSpec* mlp_of(const Unit& unit) {
  if (const auto* p = std::get_if<ParallelSpec>(&unit.spec)) return &p->mlp;
  return std::get_if<MlpSpec>(&unit.spec);
}

const MoeSpec* moe_of(const Unit& unit) { return std::get_if<MoeSpec>(&unit.spec); }

const AttentionSpec& first_attention(const ModelSpec& spec) {
  const AttentionSpec* a = attention_of(spec.units.at(1));
  TERN_CHECK(a, "model: unit 1 has no attention");
  return *a;
}

const MlpSpec* first_mlp(const ModelSpec& spec) {
  for (const Unit& unit : spec.units)
    if (const MlpSpec* m = mlp_of(unit)) return m;
  return nullptr;
}

int64_t num_parameters(const ModelSpec& spec) {
  int64_t n = 0;
  for (const Unit& unit : spec.units) n += unit_cost(unit, {}).parameters;
  return n;
}

int64_t num_fixed_numbers(const ModelSpec& spec) {
  int64_t n = 0;
  for (const Unit& unit : spec.units)
    if (const MoeSpec* m = moe_of(unit); m && m->choice_bias) n += m->experts;
  return n;
}

std::vector<AdaptedModule> adapted_modules(const Unit& unit, const HfNames& names) {
  using enum AdaptedModule;
  std::vector<AdaptedModule> list;
  const auto add = [&](std::initializer_list<AdaptedModule> more) { list.insert(list.end(), more); };
  const auto is_one = [](std::string_view name) { return !name.empty() && name.find(',') == name.npos; };
  if (const AttentionSpec* a = attention_of(unit)) {
    if (!a->latent.present())
      is_one(names.qkv) ? add({query_key_value}) : add({query, key, value});
    else if (a->latent.query_rank > 0)
      add({query_down, query_up, kv_down, kv_up});
    else
      add({query_up, kv_down, kv_up});
    add({out});
  }
  const MlpSpec* m = mlp_of(unit);
  const MoeSpec* e = moe_of(unit);
  if (!m && !e) return list;
  if (m ? !m->gated : !e->gated)
    add({up, down});
  else
    is_one(m ? names.up : names.expert_up) ? add({gate_up, down}) : add({gate, up, down});
  return list;
}

ModelSpec with_adapters(ModelSpec spec, int64_t rank, double scale) {
  for (Unit& unit : spec.units) {
    unit.frozen = true;
    unit.adapters.clear();
    if (rank == 0) continue;
    for (const AdaptedModule module : adapted_modules(unit, spec.names)) unit.adapters.push_back({module, rank, scale});
  }
  return spec;
}

ModelSpec without_dropout(ModelSpec spec) {
  for (Unit& unit : spec.units)
    for (ModuleAdapter& a : unit.adapters) a.dropout = 0;
  return spec;
}

}  // namespace tern
