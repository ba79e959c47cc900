#include "spec/presets.h"

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"
#include "spec/preset_configs_impl.h"

namespace tern {
namespace {

// Decoders of the families a config.json describes. Source: the config.json of each model as published.
struct DecoderRow {
  std::string_view name, family;
  int64_t vocab, width, hidden, layers, heads, kv_heads, context;
  bool tied;
  double theta = 10000;            // of rotary positions
  int64_t experts = 0, top_k = 0;  // of mixtures
  bool scaled = false;             // rotary positions stretched 8 times from 8,192, as Llama 3.1's
};
constexpr std::array kDecoders{
    DecoderRow{"gpt2", "gpt2", 50257, 768, 3072, 12, 12, 12, 1024, true},
    DecoderRow{"gpt2-medium", "gpt2", 50257, 1024, 4096, 24, 16, 16, 1024, true},
    DecoderRow{"gpt2-large", "gpt2", 50257, 1280, 5120, 36, 20, 20, 1024, true},
    DecoderRow{"gpt2-xl", "gpt2", 50257, 1600, 6400, 48, 25, 25, 1024, true},
    DecoderRow{"llama-2-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 4096, false},
    DecoderRow{"llama-2-13b", "llama", 32000, 5120, 13824, 40, 40, 40, 4096, false},
    DecoderRow{"llama-2-70b", "llama", 32000, 8192, 28672, 80, 64, 8, 4096, false},
    DecoderRow{"llama-3-8b", "llama", 128256, 4096, 14336, 32, 32, 8, 8192, false, 500000},
    DecoderRow{"llama-3-70b", "llama", 128256, 8192, 28672, 80, 64, 8, 8192, false, 500000},
    DecoderRow{"llama-3-405b", "llama", 128256, 16384, 53248, 126, 128, 8, 131072, false, 500000, 0, 0, true},
    DecoderRow{"llama-3.1-405b", "llama", 128256, 16384, 53248, 126, 128, 8, 131072, false, 500000, 0, 0, true},
    DecoderRow{"mistral-7b", "mistral", 32000, 4096, 14336, 32, 32, 8, 32768, false, 1e6},
    DecoderRow{"mixtral-8x7b", "mixtral", 32000, 4096, 14336, 32, 32, 8, 32768, false, 1e6, 8, 2},
    DecoderRow{"mixtral-8x22b", "mixtral", 32768, 6144, 16384, 56, 48, 8, 65536, false, 1e6, 8, 2},
};

ModelSpec decoder(const DecoderRow& row) {
  if (row.heads < 1 || row.width % row.heads)
    throw Error(ErrorKind::bad_file, "a model of width {}: {} heads do not divide it", row.width, row.heads);
  const HfFamily& family = *find_hf_family(row.family);
  const bool turns = family.blocks.positions == HfPositions::rotary;
  HfConfig c;
  c.model_type = row.family;
  c.vocab_size = row.vocab, c.hidden_size = row.width, c.intermediate_size = row.hidden;
  c.num_hidden_layers = row.layers, c.num_attention_heads = row.heads, c.num_key_value_heads = row.kv_heads;
  c.head_dim = row.width / row.heads, c.max_position_embeddings = row.context;
  c.activation = family.blocks.gated ? HfActivation::silu : HfActivation::gelu_tanh;
  c.norm_eps = 1e-5;
  c.rope.type = !turns ? RopeType::none : row.scaled ? RopeType::llama3 : RopeType::standard;
  if (turns) c.rope.theta = row.theta;
  if (row.scaled) c.rope.factor = 8, c.rope.high_freq_factor = 4, c.rope.original_max_position_embeddings = 8192;
  c.attention_bias = family.defaults.attention_bias, c.mlp_bias = family.defaults.mlp_bias;
  c.tie_word_embeddings = row.tied;
  c.num_experts = row.experts, c.experts_per_token = row.top_k;
  return model_spec(c);
}

// T5 1.0: relu, tied; T5 1.1: gated gelu, untied. Source: Raffel et al. 2020, arXiv:1910.10683, and the published
// configurations.
struct T5Row {
  std::string_view name;
  int64_t width, head_dim, heads, hidden, layers;
  bool gated;
};
constexpr std::array kT5{
    T5Row{"t5-small", 512, 64, 8, 2048, 6, false},     T5Row{"t5-base", 768, 64, 12, 3072, 12, false},
    T5Row{"t5-large", 1024, 64, 16, 4096, 24, false},  T5Row{"t5-3b", 1024, 128, 32, 16384, 24, false},
    T5Row{"t5-11b", 1024, 128, 128, 65536, 24, false}, T5Row{"t5-v1.1-xl", 2048, 64, 32, 5120, 24, true},
};
constexpr int64_t kT5Vocab = 32128, kT5RelativeRows = 32;

ModelSpec t5(const T5Row& row) {
  ModelSpec m{.family = "t5", .vocab = kT5Vocab, .width = row.width, .layers = 2 * row.layers, .context = 512};
  const NormSpec norm{NormKind::rms, row.width, 1e-6};
  const AttentionSpec attention{.norm = norm,
                                .width = row.width,
                                .heads = row.heads,
                                .kv_heads = row.heads,
                                .head_dim = row.head_dim,
                                .qkv_bias = false,
                                .out_bias = false,
                                .window = 0};
  const MlpSpec mlp{norm,      row.width, row.hidden, row.gated ? ActivationKind::gelu_tanh : ActivationKind::relu,
                    row.gated, false};
  int layer = 0;
  m.units.push_back({-1, EmbedSpec{kT5Vocab, row.width, 0}});
  for (int64_t i = 0; i < row.layers; ++i, ++layer) {
    AttentionSpec self = attention;
    self.causal = false;
    self.relative = i == 0 ? kT5RelativeRows : 0;  // the first layer's table serves all
    m.units.push_back({layer, self});
    m.units.push_back({layer, mlp});
  }
  m.units.push_back({-1, BridgeSpec{norm, kT5Vocab, row.width}});
  for (int64_t i = 0; i < row.layers; ++i, ++layer) {
    AttentionSpec self = attention, cross = attention;
    self.relative = i == 0 ? kT5RelativeRows : 0;
    cross.causal = false, cross.cross = true;
    m.units.push_back({layer, self});
    m.units.push_back({layer, cross});
    m.units.push_back({layer, mlp});
  }
  m.units.push_back({-1, HeadSpec{norm, row.width, kT5Vocab, !row.gated}});
  return m;
}

}  // namespace

std::optional<ModelSpec> preset_model(std::string_view name) {
  const std::string wanted = lowercase(name);
  for (const DecoderRow& row : kDecoders)
    if (row.name == wanted) return decoder(row);
  for (const PresetConfig& row : preset_configs())
    if (row.name == wanted) return model_spec(parse_hf_config(row.json, "preset " + wanted));
  for (const T5Row& row : kT5)
    if (row.name == wanted) return t5(row);
  return std::nullopt;
}

ModelSpec decoder_of(const DecoderSizes& z) {
  const HfFamily* family = find_hf_family(z.family);
  TERN_CHECK(family, "decoder_of: no family '{}'", z.family);
  return decoder({"", z.family, z.vocab, z.width, z.hidden ? z.hidden : 4 * z.width, z.layers, z.heads,
                  z.kv_heads ? z.kv_heads : z.heads, z.context, family->defaults.tied});
}

void refuse_preset(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored) || !preset_model(model)) return;
  throw Error(
      ErrorKind::usage,
      "{}: a preset, which is sizes alone, for tern plan; here a model's files are needed: the directory or the name "
      "(ORG/NAME) of one that was downloaded, or of a new one that tern new writes",
      model);
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const DecoderRow& row : kDecoders) names.push_back(row.name);
  for (const PresetConfig& row : preset_configs()) names.push_back(row.name);
  for (const T5Row& row : kT5) names.push_back(row.name);
  return names;
}

}  // namespace tern
