#include "model/names.h"

#include <algorithm>

#include "base/error.h"
#include "model/fragment.h"

namespace tern {

namespace {

std::string with_numbers(std::string_view pattern, int layer, int64_t expert) {
  std::string name(pattern);
  if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, std::to_string(layer));
  if (const size_t at = name.find('@'); at != std::string::npos) name.replace(at, 1, std::to_string(expert));
  return name;
}

// Rows of each fragment: q, k, v of the attention; gate and up halves; else all.
std::vector<int64_t> fragment_rows(const ModelSpec& spec, HfPart part, size_t num_fragments, int64_t rows) {
  if (num_fragments == 1) return {rows};
  if (part == &HfNames::up || part == &HfNames::expert_up || part == &HfNames::shared_up) return {rows / 2, rows / 2};
  const AttentionSpec& u = first_attention(spec);
  return {u.heads * u.head_dim, u.kv_heads * u.head_dim, u.kv_heads * u.head_dim};
}

// The file's rows by key-value head: its query heads, its key, its value; ours: all queries, all keys, all values.
std::vector<Fragment> grouped(const AttentionSpec& u, const std::string& name) {
  const int64_t d = u.head_dim, group = u.heads / u.kv_heads, rows = u.qkv_rows();
  std::vector<Fragment> queries, keys, values;
  int64_t at = 0;
  const auto take = [&](std::vector<Fragment>& list, int64_t begin, int64_t count) {
    list.push_back({name, begin, begin + count, false, at, rows});
    at += count;
  };
  for (int64_t k = 0; k < u.kv_heads; ++k) {
    take(queries, k * group * d, group * d);
    take(keys, (u.heads + k) * d, d);
    take(values, (u.heads + u.kv_heads + k) * d, d);
  }
  queries.insert(queries.end(), keys.begin(), keys.end());
  queries.insert(queries.end(), values.begin(), values.end());
  return queries;
}

int64_t experts_in(const ModelSpec& spec) {
  for (const Unit& unit : spec.units)
    if (const MoeSpec* moe = moe_of(unit)) return moe->experts;
  return 0;
}
// One expert's part of a tensor of all: (experts, in, out), gate and up by turns; the biases (experts, out).
std::vector<Fragment> of_stack(const ModelSpec& spec, HfPart part, std::string name, std::string_view suffix,
                               int64_t rows, int64_t expert) {
  const bool transposed = suffix == "weight";
  if (!transposed) name += "_" + std::string(suffix);
  const int64_t turns = part == &HfNames::expert_up ? 2 : 1, each = rows / turns, experts = experts_in(spec);
  std::vector<Fragment> fragments;
  for (int64_t i = 0; i < turns; ++i)
    fragments.push_back({name, i * each, (i + 1) * each, transposed, i, rows, turns, expert, experts});
  return fragments;
}

// Turned elements in pairs of neighbours: ours in halves.
void take_turned(std::vector<Fragment>& to, const LatentSpec& l, const std::string& name, int64_t& row, int64_t at,
                 int64_t rows) {
  if (!l.interleaved) {
    to.push_back({name, row, row + l.rotary, false, at, rows});
  } else {
    const int64_t half = l.rotary / 2;
    to.push_back({name, row, row + half, false, at, rows, 2});
    to.push_back({name, row + half, row + l.rotary, false, at + 1, rows, 2});
  }
  row += l.rotary;
}
// The file's rows by head, those that do not turn first; ours last.
std::vector<Fragment> latent_queries(const AttentionSpec& u, const std::string& name) {
  const LatentSpec& l = u.latent;
  const int64_t rows = u.heads * u.head_dim;
  std::vector<Fragment> fragments;
  int64_t row = 0;
  for (int64_t at = 0; at < rows; at += u.head_dim) {
    take_turned(fragments, l, name, row, at + l.plain, rows);
    fragments.push_back({name, row, row + l.plain, false, at, rows});
    row += l.plain;
  }
  return fragments;
}
std::vector<Fragment> latent_keys(const LatentSpec& l, const std::string& name) {
  const int64_t rows = l.kv_rank + l.rotary;
  std::vector<Fragment> fragments{{name, 0, l.kv_rank, false, 0, rows}};
  int64_t row = l.kv_rank;
  take_turned(fragments, l, name, row, l.kv_rank, rows);
  return fragments;
}

// Queries, keys and values by name; where a head turns, the file's queries and keys have pairs of neighbours.
std::vector<Fragment> in_pairs(const ModelSpec& spec, const std::vector<std::string>& names) {
  TERN_CHECK(names.size() == 3, "names: queries and keys in pairs of neighbours in {} tensors", names.size());
  const AttentionSpec& u = first_attention(spec);
  LatentSpec turned;
  turned.rotary = spec.rope.rotary_dim;
  std::vector<Fragment> fragments;
  int64_t row = 0;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t rows = (i == 0 ? u.heads : u.kv_heads) * u.head_dim;
    for (int64_t at = 0; at < rows; at += u.head_dim) {
      take_turned(fragments, turned, names[i], row, at, rows);
      const int64_t plain = u.head_dim - turned.rotary;
      if (plain > 0) fragments.push_back({names[i], row, row + plain, false, at + turned.rotary, rows});
      row += plain;
    }
  }
  const int64_t rows = u.kv_heads * u.head_dim;
  fragments.push_back({names[2], row, row + rows, false, 0, rows});
  return fragments;
}

}  // namespace

std::vector<Fragment> file_names(const ModelSpec& spec, int layer, HfPart part, std::string_view suffix, int64_t rows,
                                 int64_t expert) {
  std::string_view pattern = spec.names.*part;
  TERN_CHECK(!pattern.empty(), "names: {} models have no file name for a {} of {} rows", spec.family, suffix, rows);
  const bool transposed = pattern.starts_with('^') && suffix == "weight", in_groups = pattern.starts_with('%');
  if (pattern.starts_with('&'))
    return of_stack(spec, part, with_numbers(pattern.substr(1), layer, expert), suffix, rows, expert);
  // '~' of HfNames::qkv: queries and keys turn in pairs of neighbours (glm, ernie4_5, helium).
  const bool neighbours = pattern.starts_with('~');
  if (pattern.starts_with('^') || in_groups || neighbours) pattern.remove_prefix(1);
  std::vector<std::string> names;
  while (!pattern.empty()) {
    const size_t comma = std::min(pattern.find(','), pattern.size());
    names.push_back(with_numbers(pattern.substr(0, comma), layer, expert));
    if (!suffix.empty()) names.back() += "." + std::string(suffix);
    pattern.remove_prefix(std::min(comma + 1, pattern.size()));
  }
  if (part == &HfNames::query_up || part == &HfNames::query)
    return latent_queries(first_attention(spec), names.front());
  if (part == &HfNames::kv_down) return latent_keys(first_attention(spec).latent, names.front());
  if (in_groups) return grouped(first_attention(spec), names.front());
  if (neighbours) return in_pairs(spec, names);
  const std::vector<int64_t> counts = fragment_rows(spec, part, names.size(), rows);
  std::vector<Fragment> fragments;
  int64_t begin = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    fragments.push_back({names[i], begin, begin + counts[i], transposed, 0, counts[i]});
    begin += counts[i];
  }
  TERN_CHECK(begin == rows, "names: {} rows in fragments of {}", begin, rows);
  return fragments;
}

std::string_view base_prefix(const ModelSpec& spec) { return spec.prefix; }

bool is_skipped_layer(const ModelSpec& spec, std::string_view name) {
  const std::string_view before = spec.names.attention_norm.substr(0, spec.names.attention_norm.find('#'));
  for (int64_t i = spec.layers; i < spec.layers + spec.skipped_layers; ++i)
    if (name.starts_with(std::string(before) + std::to_string(i) + ".")) return true;
  return false;
}

bool is_harmless_buffer(std::string_view name) {
  for (const std::string_view end : {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached",
                                     ".attn.bias", ".attn.masked_bias", "embeddings.position_ids"})
    if (name.ends_with(end)) return true;
  return false;
}

bool is_beside_encoder(const ModelSpec& spec, std::string_view name) {
  if (spec.predicts) return false;
  if (name.starts_with(spec.prefix)) name.remove_prefix(spec.prefix.size());
  return name.starts_with("pooler.") || name.starts_with("cls.") || name.starts_with("classifier.") ||
         name.starts_with("qa_outputs.");
}

}  // namespace tern
