#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "formats/hf/config_impl.h"

// Source: the keys of DeepSeek's configurations as transformers 5.23 reads them (observed by running it).

namespace tern {

void read_hf_latent(HfFields& fields, const HfFamily& family, HfConfig& c) {
  const auto sized = [&](std::string_view key, int64_t value) {
    if (value < 1 || value > INT32_MAX) fields.fail(key, "{}, expected 1 to 2147483647", value);
    return value;
  };
  constexpr int64_t kQueryRank = 1536, kRotary = 64;
  const bool said = fields.has("q_lora_rank");  // null: queries have no rank
  const auto rank = fields.integer("q_lora_rank", HfFields::Null::absent);
  c.query_rank = rank ? sized("q_lora_rank", *rank) : said ? 0 : kQueryRank;
  const int64_t head_dim = c.head_dim;
  c.head_dim = sized("qk_rope_head_dim", fields.integer("qk_rope_head_dim").value_or(kRotary));
  if (fields.has("head_dim") && head_dim != c.head_dim)
    fields.fail("head_dim", "{}, but qk_rope_head_dim is {}", head_dim, c.head_dim);
  if (!has_option(family, &HfConfig::rope_interleaved)) c.rope_interleaved = true;
}

void check_hf_latent(const HfConfig& c, const HfFamily& family, ErrorKind kind, std::string_view place) {
  const auto wrong = [&](std::string_view key, const std::string& fact) {
    throw Error(kind, "{}: {}: {}", place, key, fact);
  };
  const auto in_range = [&](std::string_view key, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) wrong(key, fmt::format("{}, expected {} to {}", value, least, most));
  };
  if (c.predicting_layers != 0 && !has_option(family, &HfConfig::predicting_layers))
    wrong("num_nextn_predict_layers", fmt::format("set, but {} has none", c.model_type));
  in_range("num_nextn_predict_layers", c.predicting_layers, 0, 1000);
  if (!family.blocks.latent) {
    if (c.query_rank != 0 || c.kv_rank != 0 || c.plain_head_dim != 0 || c.value_head_dim != 0 || c.rope_interleaved)
      wrong("kv_lora_rank", fmt::format("set, but {} has none", c.model_type));
    return;
  }
  in_range("q_lora_rank", c.query_rank, 0, INT32_MAX);
  in_range("kv_lora_rank", c.kv_rank, 1, INT32_MAX);
  if (const int64_t most = INT32_MAX / c.num_attention_heads - c.head_dim;
      c.plain_head_dim < 1 || c.plain_head_dim > most)
    wrong("qk_nope_head_dim",
          fmt::format("{}, expected 1 to {}: {} heads of it and qk_rope_head_dim {} stay below 2^31", c.plain_head_dim,
                      most, c.num_attention_heads, c.head_dim));
  if (const int64_t key = c.plain_head_dim + c.head_dim; c.value_head_dim < 1 || c.value_head_dim > key)
    wrong("v_head_dim", fmt::format("{}, expected 1 to {}, the length of a key (qk_nope_head_dim {} and "
                                    "qk_rope_head_dim {}); tern does not have values longer than keys",
                                    c.value_head_dim, key, c.plain_head_dim, c.head_dim));
  if (c.num_key_value_heads != c.num_attention_heads)
    wrong("num_key_value_heads",
          fmt::format("{}, but each of {} heads has its own keys", c.num_key_value_heads, c.num_attention_heads));
  if (!has_option(family, &HfConfig::rope_interleaved) && !c.rope_interleaved)
    wrong("rope_interleave", fmt::format("false, but {} turns pairs of neighbours", c.model_type));
}

}  // namespace tern
