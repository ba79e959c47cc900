#include "formats/hf/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "formats/format_test_support.h"

namespace tern {
namespace {

using nlohmann::json;

/// The config files the reference wrote, without expected.json.
std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const std::string& file : real_io().list(golden("hf_config")))
    if (file.ends_with(".json") && file != "expected.json") names.push_back(file.substr(0, file.size() - 5));
  return names;
}

json ids(const std::vector<int64_t>& eos) {
  if (eos.empty()) return nullptr;
  return eos.size() == 1 ? json(eos[0]) : json(eos);
}
template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

/// What transformers understands by a file, said with our values and its names.
json as_reference(const HfConfig& c) {
  json j = {{"model_type", c.model_type},
            {"vocab_size", c.vocab_size},
            {"tie_word_embeddings", c.tie_word_embeddings},
            {"bos_token_id", or_null(c.bos_token_id)},
            {"eos_token_id", ids(c.eos_token_ids)},
            {"pad_token_id", or_null(c.pad_token_id)},
            {"initializer_range", c.initializer_range}};
  j["dtype"] = nullptr;
  if (c.dtype) j["dtype"] = *c.dtype == DType::f32 ? "float32" : *c.dtype == DType::bf16 ? "bfloat16" : "float16";
  if (c.model_type == "gpt2") {
    j.update({{"n_embd", c.hidden_size},
              {"n_inner", c.intermediate_size},
              {"n_layer", c.num_hidden_layers},
              {"n_head", c.num_attention_heads},
              {"n_positions", c.max_position_embeddings},
              {"activation_function", c.hidden_act},
              {"layer_norm_epsilon", c.norm_eps},
              {"attn_pdrop", c.attention_dropout},
              {"resid_pdrop", c.residual_dropout},
              {"embd_pdrop", c.embedding_dropout}});
    return j;
  }
  j.update({{"hidden_size", c.hidden_size},
            {"intermediate_size", c.intermediate_size},
            {"num_hidden_layers", c.num_hidden_layers},
            {"num_attention_heads", c.num_attention_heads},
            {"num_key_value_heads", c.num_key_value_heads},
            {"head_dim", c.head_dim},
            {"max_position_embeddings", c.max_position_embeddings},
            {"hidden_act", c.hidden_act},
            {"rms_norm_eps", c.norm_eps},
            {"attention_dropout", c.attention_dropout}});
  if (c.model_type == "mistral") {
    j["sliding_window"] = or_null(c.sliding_window);
  } else {
    j["attention_bias"] = c.attention_bias;
    j["mlp_bias"] = c.mlp_bias;
  }
  json rope = {{"rope_type", name_of(c.rope.type)}, {"rope_theta", c.rope.theta}};
  if (c.rope.factor) rope["factor"] = *c.rope.factor;
  if (c.rope.original_max_position_embeddings > 0)
    rope["original_max_position_embeddings"] = c.rope.original_max_position_embeddings;
  if (c.rope.attention_factor) rope["attention_factor"] = *c.rope.attention_factor;
  if (c.rope.mscale) rope["mscale"] = *c.rope.mscale;
  if (c.rope.mscale_all_dim) rope["mscale_all_dim"] = *c.rope.mscale_all_dim;
  if (c.rope.type == RopeType::yarn)
    rope.update({{"beta_fast", c.rope.beta_fast}, {"beta_slow", c.rope.beta_slow}, {"truncate", c.rope.truncate}});
  if (c.rope.type == RopeType::llama3)
    rope.update({{"low_freq_factor", c.rope.low_freq_factor}, {"high_freq_factor", c.rope.high_freq_factor}});
  if (c.rope.type == RopeType::longrope)
    rope.update({{"short_factor", c.rope.short_factor}, {"long_factor", c.rope.long_factor}});
  j["rope_parameters"] = rope;
  return j;
}

TEST(HfConfig, UnderstandsEveryGoldenFileAsTransformersDoes) {
  const json expected = json::parse(read_bytes(golden("hf_config/expected.json")));
  const std::vector<std::string> names = golden_names();
  ASSERT_GE(names.size(), 20u);
  ASSERT_EQ(names.size(), expected.size());
  for (const std::string& name : names) {
    json want = expected.at(name), got = as_reference(read_hf_config(golden("hf_config/" + name + ".json")));
    // Where a file leaves yarn's optional numbers out, we hold the values transformers fills in when it computes.
    if (want.contains("rope_parameters") && want["rope_parameters"]["rope_type"] == "yarn")
      for (const auto& [key, value] :
           {std::pair{"beta_fast", json(32.0)}, std::pair{"beta_slow", json(1.0)}, std::pair{"truncate", json(true)}})
        if (!want["rope_parameters"].contains(key)) want["rope_parameters"][key] = value;
    EXPECT_EQ(got, want) << name << "\n" << json::diff(want, got).dump(1);
  }
}

TEST(HfConfig, OldAndNewFormMeanTheSame) {
  int pairs = 0;
  for (const std::string& name : golden_names()) {
    if (!name.ends_with("_v4")) continue;
    const HfConfig old = read_hf_config(golden("hf_config/" + name + ".json"));
    const HfConfig now = read_hf_config(golden("hf_config/" + name.substr(0, name.size() - 3) + ".json"));
    EXPECT_EQ(old, now) << name;
    ++pairs;
  }
  EXPECT_GE(pairs, 10);
}

TEST(HfConfig, WrittenInEitherFormItReadsTheSame) {
  for (const std::string& name : golden_names()) {
    HfConfig config = read_hf_config(golden("hf_config/" + name + ".json"));
    config.notes.clear();
    if (config.architectures.empty())
      config.architectures = parse_hf_config(hf_config_json(config), name).architectures;
    EXPECT_EQ(parse_hf_config(hf_config_json(config, HfForm::v5), name), config) << name;
    EXPECT_EQ(parse_hf_config(hf_config_json(config, HfForm::v4), name), config) << name;
    const json v5 = json::parse(hf_config_json(config, HfForm::v5)),
               v4 = json::parse(hf_config_json(config, HfForm::v4));
    EXPECT_FALSE(v5.contains("torch_dtype") || v5.contains("rope_theta") || v5.contains("rope_scaling")) << name;
    EXPECT_FALSE(v4.contains("dtype") || v4.contains("rope_parameters")) << name;
    EXPECT_EQ(v4.contains("rope_scaling"), config.model_type != "gpt2") << name;
  }
}

// The files under ours/ are the ones dev/hf_files/make_goldens.py --check had transformers read.
TEST(HfConfig, WritesTheFilesThatTransformersHasReadBack) {
  const bool regenerate = std::getenv("TERN_REGENERATE") != nullptr;
  int files = 0;
  for (const std::string& name : golden_names()) {
    if (name.ends_with("_v4")) continue;
    const HfConfig config = read_hf_config(golden("hf_config/" + name + ".json"));
    for (const auto& [form, ending] : {std::pair{HfForm::v5, "_as_v5.json"}, std::pair{HfForm::v4, "_as_v4.json"}}) {
      const std::string path = golden("hf_config/ours/" + name + ending);
      if (regenerate) write_bytes(path, hf_config_json(config, form));
      EXPECT_EQ(hf_config_json(config, form), read_bytes(path)) << path;
      ++files;
    }
  }
  EXPECT_GE(files, 20);
}

TEST(HfConfig, FillsFamilyDefaults) {
  const HfConfig llama = parse_hf_config(read_bytes(golden("hf_config/llama_bare.json")), "c");
  EXPECT_EQ(llama.num_key_value_heads, llama.num_attention_heads);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  ASSERT_EQ(llama.notes.size(), 1u);
  EXPECT_NE(llama.notes[0].find("max_position_embeddings is missing"), std::string::npos);
  const HfConfig mistral = parse_hf_config(read_bytes(golden("hf_config/mistral_bare.json")), "c");
  EXPECT_EQ(mistral.num_key_value_heads, 8);
  EXPECT_EQ(mistral.sliding_window, 4096);
  const HfConfig gpt2 = parse_hf_config(read_bytes(golden("hf_config/gpt2_bare.json")), "c");
  EXPECT_TRUE(gpt2.tie_word_embeddings && gpt2.attention_bias && gpt2.mlp_bias);
  EXPECT_EQ(gpt2.rope.type, RopeType::none);
  EXPECT_EQ(gpt2.intermediate_size, 4 * gpt2.hidden_size);
  EXPECT_EQ(gpt2.activation, HfActivation::gelu_tanh);
}

json small() {
  return {{"model_type", "llama"},        {"vocab_size", 100},      {"hidden_size", 32},
          {"intermediate_size", 48},      {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"max_position_embeddings", 64}};
}
std::vector<std::string> notes(const json& changes) {
  json c = small();
  if (!changes.is_null()) c.update(changes);
  return parse_hf_config(c.dump(), "c.json").notes;
}

TEST(HfConfig, SaysWhatItDoesNotFollow) {
  EXPECT_EQ(notes({}), std::vector<std::string>{});
  const auto one = [](const json& changes, std::string_view says) {
    const std::vector<std::string> n = notes(changes);
    ASSERT_EQ(n.size(), 1u) << changes.dump();
    EXPECT_NE(n[0].find(says), std::string::npos) << n[0];
  };
  one({{"eos_token_id", 100}}, "eos_token_id 100 is outside the vocabulary of 100");
  one({{"pad_token_id", -1}}, "pad_token_id -1 is outside the vocabulary");
  one({{"temperature", 0.7}}, "temperature set here is not followed");
  one({{"temperature", 0.7}, {"top_p", 0.9}}, "temperature, top_p set here are not followed");
  one({{"auto_map", {{"AutoConfig", "x.Y"}}}}, "auto_map names code");
  one({{"max_sequence_length", 2048}}, "max_sequence_length 2048 is not used");
  one({{"original_max_position_embeddings", 32}}, "not used by rotary type 'default'");
  one({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 32}}}},
      "not used by rotary type 'dynamic'");
  one({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}, {"finetuned", true}}}}, "finetuned is not used");
}

TEST(HfConfig, HarmlessKeysAreHarmless) {
  json c = small();
  const HfConfig plain = parse_hf_config(c.dump(), "c");
  c.update({{"_name_or_path", "x/y"},
            {"transformers_version", "4.31.0"},
            {"use_cache", true},
            {"pretraining_tp", 1},
            {"torchscript", false},
            {"id2label", {{"0", "A"}}},
            {"label2id", {{"A", 0}}},
            {"task_specific_params", nullptr},
            {"problem_type", nullptr},
            {"chunk_size_feed_forward", 0},
            {"is_decoder", false},
            {"is_encoder_decoder", false},
            {"pruned_heads", json::object()},
            {"return_dict", true},
            {"output_attentions", false},
            {"tokenizer_class", "LlamaTokenizer"},
            {"quantization_config", nullptr},
            {"architectures", nullptr},
            {"rope_scaling", nullptr},
            {"head_dim", nullptr},
            {"sliding_window", nullptr},
            {"layer_types", {"full_attention", "full_attention"}}});
  EXPECT_EQ(parse_hf_config(c.dump(), "c"), plain);
}

TEST(HfConfig, ValuesMadeByAProgramAreChecked) {
  HfConfig c = parse_hf_config(small().dump(), "c");
  EXPECT_NO_THROW(check_hf_config(c));
  EXPECT_TRUE(throws(ErrorKind::usage, "vocab_size: 0", [] { check_hf_config({}); }));
  const auto wrong = [&](std::string_view says, const std::function<void(HfConfig&)>& change) {
    HfConfig changed = c;
    change(changed);
    EXPECT_TRUE(throws(ErrorKind::usage, says, [&] { check_hf_config(changed); }));
    EXPECT_TRUE(throws(ErrorKind::usage, says, [&] { hf_config_json(changed); }));
  };
  wrong("model_type: 'distilbert'", [](HfConfig& x) { x.model_type = "distilbert"; });
  wrong("eos_token_id: 100", [](HfConfig& x) { x.eos_token_ids = {100}; });
  wrong("hidden_act: 'gelu' is not the name", [](HfConfig& x) { x.hidden_act = "gelu"; });
  wrong("rope_type: none", [](HfConfig& x) { x.rope = {}; });
  wrong("dtype: i8", [](HfConfig& x) { x.dtype = DType::i8; });
  wrong("rms_norm_eps: nan", [](HfConfig& x) { x.norm_eps = std::nan(""); });
  wrong("rotary factor is missing", [](HfConfig& x) { x.rope.type = RopeType::linear; });
  wrong("rotary rope_theta is inf", [](HfConfig& x) { x.rope.theta = INFINITY; });
  wrong("sliding_window: 8, but llama", [](HfConfig& x) { x.sliding_window = 8; });
  wrong("resid_pdrop: set", [](HfConfig& x) { x.residual_dropout = 0.1; });
  wrong("attention_bias: true, but mistral", [](HfConfig& x) { x.model_type = "mistral", x.attention_bias = true; });
  wrong("rope_type: 'default', but gpt2", [](HfConfig& x) { x.model_type = "gpt2"; });
}

}  // namespace
}  // namespace tern
