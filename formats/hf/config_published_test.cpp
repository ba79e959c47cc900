// Configurations as their publishers wrote them, read as transformers reads them (dev/golden/published_configs.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"

namespace tern {
namespace {

Json id_or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

Json ours(const HfConfig& c) {
  Json out = {{"vocab_size", c.vocab_size},
              {"hidden_size", c.hidden_size},
              {"intermediate_size", c.intermediate_size},
              {"num_hidden_layers", c.num_hidden_layers},
              {"num_attention_heads", c.num_attention_heads},
              {"num_key_value_heads", c.num_key_value_heads},
              {"max_position_embeddings", c.max_position_embeddings},
              {"norm_eps", c.norm_eps},
              {"tie_word_embeddings", c.tie_word_embeddings},
              {"bos_token_id", id_or_null(c.bos_token_id)},
              {"pad_token_id", id_or_null(c.pad_token_id)}};
  out["eos_token_id"] = c.eos_token_ids.empty()       ? Json(nullptr)
                        : c.eos_token_ids.size() == 1 ? Json(c.eos_token_ids[0])
                                                      : Json(c.eos_token_ids);
  out["gelu"] = c.activation == HfActivation::gelu_tanh ? "tanh" : c.activation == HfActivation::gelu ? "erf" : "other";
  if (c.rope.type != RopeType::none) {
    out["rope"] = Json::object();  // members in the order of the file
    if (c.rope.factor) out["rope"]["factor"] = *c.rope.factor;
    out["rope"]["theta"] = c.rope.theta, out["rope"]["type"] = name_of(c.rope.type);
  }
  int64_t windows = 0;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    windows += c.sliding_window && (c.windowed_layers.empty() || c.windowed_layers[static_cast<size_t>(i)]);
  out["sliding_layers"] = windows;
  return out;
}

TEST(PublishedConfigs, AreReadAsTransformersReadsThem) {
  const Json entries = parse_json(real_io().read(golden("hf_config_published/configs.json")), "configs.json");
  std::set<std::string> families;
  for (const Json& entry : entries) {
    const auto name = entry["name"].get<std::string>();
    SCOPED_TRACE(name);
    HfConfig config;
    ASSERT_NO_THROW(config = parse_hf_config(dump_json(entry["config"]), name));
    families.insert(config.model_type);
    const Json found = ours(config);
    ASSERT_GE(entry["expected"].size(), 12u);
    for (const auto& [key, value] : entry["expected"].items()) {
      if (key == "sliding_layers" && value.is_null()) continue;  // transformers lists no kinds of layers there
      EXPECT_EQ(found.value(key, Json()), value) << key;
    }
  }
  EXPECT_GE(entries.size(), 40u);
  EXPECT_EQ(families.size(), supported_families().size()) << "every family has a published one";
}

std::string base_of(const std::string& family) {
  const Json entries = parse_json(real_io().read(golden("hf_config_published/configs.json")), "configs.json");
  for (const Json& entry : entries)
    if (entry["config"]["model_type"] == family) return dump_json(entry["config"]);
  return "{}";
}

std::string with(const std::string& family, const std::string& key, const Json& value) {
  Json json = parse_json(base_of(family), "x");
  json[key] = value;
  return dump_json(json);
}

bool is_noted(const HfConfig& c, const std::string& words) {
  return std::any_of(c.notes.begin(), c.notes.end(),
                     [&](const std::string& n) { return n.find(words) != std::string::npos; });
}

TEST(PublishedConfigs, GemmasLegacyGeluIsTheApproximation) {
  for (const char* beside : {"gelu_pytorch_tanh", "gelu"}) {
    const HfConfig c = parse_hf_config(with("gemma", "hidden_activation", beside), "x");
    EXPECT_EQ(c.activation, HfActivation::gelu_tanh);
    EXPECT_EQ(is_noted(c, "hidden_activation"), std::string_view(beside) == "gelu") << "not followed, and said";
    EXPECT_TRUE(is_noted(c, "gelu means gelu_pytorch_tanh"));
  }
  EXPECT_EQ(parse_hf_config(with("gemma", "hidden_act", "gelu_pytorch_tanh"), "x").activation, HfActivation::gelu_tanh);
  EXPECT_EQ(parse_hf_config(with("gpt_neox", "hidden_act", "gelu"), "x").activation, HfActivation::gelu);
}

TEST(PublishedConfigs, KeysThatAreOffPassAndKeysThatAreOnDoNot) {
  for (const char* family : {"llama", "qwen2", "falcon", "gpt2"}) {
    for (const auto& [key, value] :
         std::initializer_list<std::pair<const char*, Json>>{{"use_mrope", false},
                                                             {"license", "mit"},
                                                             {"use_flash_attn", true},
                                                             {"_num_labels", 3},
                                                             {"transformers.js_config", {{"dtype", "q4"}}},
                                                             {"some_key_of_later", nullptr}})
      EXPECT_NO_THROW(parse_hf_config(with(family, key, value), "x")) << family << " " << key;
    EXPECT_THROW(parse_hf_config(with(family, "use_mrope", true), "x"), Error) << family;
    EXPECT_THROW(parse_hf_config(with(family, "some_key_of_later", true), "x"), Error) << family;
    EXPECT_THROW(parse_hf_config(with(family, "some_key_of_later", 0), "x"), Error) << family;
  }
  EXPECT_THROW(parse_hf_config(with("falcon", "apply_residual_connection_post_layernorm", true), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("bloom", "hidden_size", 512), "x"), Error) << "two sizes that differ";
}

std::string without(const std::string& family, const std::string& key) {
  Json json = parse_json(base_of(family), "x");
  json.erase(key);
  return dump_json(json);
}

TEST(PublishedConfigs, BesideWindowsTheOtherLayersOfExaone4DoNotTurn) {
  HfConfig c = parse_hf_config(base_of("exaone4"), "x");
  ASSERT_EQ(c.windowed_layers.size(), 64u);
  EXPECT_EQ(c.rotary_layers, c.windowed_layers);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(c.rotary_layers[i], i % 4 != 3) << i;
  c.rotary_layers[3] = true;
  EXPECT_THROW(check_hf_config(c), Error);
  EXPECT_TRUE(parse_hf_config(with("exaone4", "sliding_window", nullptr), "x").rotary_layers.empty()) << "all turn";
  EXPECT_THROW(parse_hf_config(with("exaone4", "sliding_window_pattern", 1), "x"), Error) << "a window for no layer";
  EXPECT_THROW(parse_hf_config(with("exaone4", "sliding_window_pattern", "LLLG"), "x"), Error);
}

TEST(PublishedConfigs, WhatDiffersByFamilyMustBeSaid) {
  EXPECT_THROW(parse_hf_config(without("cwm", "layer_types"), "x"), Error);
  for (const char* family : {"dots1", "glm4_moe"})
    EXPECT_THROW(parse_hf_config(without(family, "first_k_dense_replace"), "x"), Error) << family;
  EXPECT_NO_THROW(parse_hf_config(without("deepseek_v3", "first_k_dense_replace"), "x"));
  EXPECT_THROW(parse_hf_config(with("gpt_bigcode", "multi_query", false), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("internlm3", "qkv_bias", true), "x"), Error) << "the other matrices have none";
  EXPECT_THROW(parse_hf_config(with("glm4_moe", "use_qk_norm", true), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("stablelm", "qk_layernorm", true), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("olmoe", "clip_qkv", 8.0), "x"), Error);
  EXPECT_TRUE(is_noted(parse_hf_config(base_of("biogpt"), "x"), "layer_norm_eps"));
  const HfConfig windowed = parse_hf_config(with("dots1", "max_window_layers", 60), "x");
  EXPECT_EQ(windowed.sliding_window, 4096) << "as transformers fills it in";
  EXPECT_EQ(std::count(windowed.windowed_layers.begin(), windowed.windowed_layers.end(), true), 2);
}

TEST(PublishedConfigs, TwoSpellingsOfOneValueMustAgree) {
  EXPECT_EQ(parse_hf_config(with("exaone", "rms_norm_eps", 1e-5), "x").norm_eps, 1e-5);
  EXPECT_THROW(parse_hf_config(with("exaone", "rms_norm_eps", 1e-6), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("exaone", "hidden_act", "gelu"), "x"), Error);
  EXPECT_THROW(parse_hf_config(with("internlm3", "attention_bias", true), "x"), Error);
  EXPECT_NO_THROW(parse_hf_config(with("internlm3", "attention_bias", false), "x"));
  for (const char* key : {"rms_norm_eps", "hidden_act"}) {
    const std::string own = std::string(key) == "hidden_act" ? "activation_function" : "layer_norm_epsilon";
    Json json = parse_json(base_of("exaone"), "x");
    const Json value = json[own];
    json[key] = value;
    json.erase(own);
    EXPECT_NO_THROW(parse_hf_config(dump_json(json), "x")) << key;
  }
}

TEST(PublishedConfigs, Gemma3sScoresHaveNoCap) {
  const HfConfig c = parse_hf_config(with("gemma3_text", "attn_logit_softcapping", 50.0), "x");
  EXPECT_FALSE(c.attn_logit_softcapping);
  EXPECT_TRUE(is_noted(c, "attn_logit_softcapping"));
}

}  // namespace
}  // namespace tern
