#include "model/names.h"

#include <array>

#include "base/error.h"

namespace tern {

namespace {

// In the order of Part. '#' stands for the layer's number, ',' parts fragments, a leading '^' marks a matrix held as
// (in, out).
struct FamilyNames {
  std::string_view family, prefix;
  std::array<std::string_view, 10> parts;
};
constexpr std::array<std::string_view, 10> kLlamaParts{
    "model.embed_tokens",
    "",
    "model.layers.#.input_layernorm",
    "model.layers.#.self_attn.q_proj,model.layers.#.self_attn.k_proj,model.layers.#.self_attn.v_proj",
    "model.layers.#.self_attn.o_proj",
    "model.layers.#.post_attention_layernorm",
    "model.layers.#.mlp.gate_proj,model.layers.#.mlp.up_proj",
    "model.layers.#.mlp.down_proj",
    "model.norm",
    "lm_head"};
constexpr std::array kFamilies{
    FamilyNames{"llama", "model.", kLlamaParts},
    FamilyNames{"mistral", "model.", kLlamaParts},
    FamilyNames{"gpt2",
                "transformer.",
                {"transformer.wte", "transformer.wpe", "transformer.h.#.ln_1", "^transformer.h.#.attn.c_attn",
                 "^transformer.h.#.attn.c_proj", "transformer.h.#.ln_2", "^transformer.h.#.mlp.c_fc",
                 "^transformer.h.#.mlp.c_proj", "transformer.ln_f", "lm_head"}},
};

const FamilyNames& family_of(const ModelSpec& spec) {
  for (const FamilyNames& f : kFamilies)
    if (f.family == spec.family) return f;
  TERN_CHECK(false, "names: no file names for family '{}'", spec.family);
  return kFamilies[0];
}

std::string with_layer(std::string_view pattern, int layer) {
  std::string name(pattern);
  if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, std::to_string(layer));
  return name;
}

// Rows of each fragment: q, k, v of the attention; gate and up halves; else all.
std::vector<int64_t> fragment_rows(const ModelSpec& spec, Part part, size_t num_fragments, int64_t rows) {
  if (num_fragments == 1) return {rows};
  if (part == Part::up) return {rows / 2, rows / 2};
  const auto& u = std::get<AttentionSpec>(spec.units.at(1).spec);
  return {u.heads * u.head_dim, u.kv_heads * u.head_dim, u.kv_heads * u.head_dim};
}

}  // namespace

std::vector<Fragment> file_names(const ModelSpec& spec, int layer, Part part, std::string_view suffix, int64_t rows) {
  std::string_view pattern = family_of(spec).parts[static_cast<size_t>(part)];
  const bool transposed = pattern.starts_with('^') && suffix == "weight";
  if (pattern.starts_with('^')) pattern.remove_prefix(1);
  std::vector<std::string> names;
  while (!pattern.empty()) {
    const size_t comma = std::min(pattern.find(','), pattern.size());
    names.push_back(with_layer(pattern.substr(0, comma), layer) + "." + std::string(suffix));
    pattern.remove_prefix(std::min(comma + 1, pattern.size()));
  }
  const std::vector<int64_t> counts = fragment_rows(spec, part, names.size(), rows);
  std::vector<Fragment> fragments;
  int64_t begin = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    fragments.push_back({names[i], begin, begin + counts[i], transposed});
    begin += counts[i];
  }
  TERN_CHECK(begin == rows, "names: {} rows in fragments of {}", begin, rows);
  return fragments;
}

std::string_view base_prefix(const ModelSpec& spec) { return family_of(spec).prefix; }

bool is_harmless_buffer(std::string_view name) {
  for (const std::string_view end :
       {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached", ".attn.bias", ".attn.masked_bias"})
    if (name.ends_with(end)) return true;
  return false;
}

}  // namespace tern
