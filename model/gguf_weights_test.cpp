#include "model/gguf_weights.h"

#include <cstring>
#include <filesystem>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/gguf/model.h"
#include "formats/gguf/rope.h"
#include "formats/gguf/tokenizer.h"
#include "formats/gguf/vocabulary.h"
#include "formats/mutations_testing.h"
#include "model/coded_model_testing.h"
#include "model/compare_weights.h"
#include "model/golden_weights_testing.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/read_parameter.h"
#include "model/save_gguf.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr const char* kModels[] = {"llama", "llama_tied", "mistral", "gpt2"};

struct LoadedGolden {
  Arena arena;
  HfConfig config;
  ModelSpec spec;
  ModelWeights weights;
  explicit LoadedGolden(const std::string& name)
      : config(read_hf_config(golden("models/" + name + "/config.json"))),
        spec(model_spec(config)),
        weights(load_weights(spec, golden("models/" + name), DType::f32, arena)) {}
  GgufSaved save(WeightType type, const std::string& path) const {
    GgufMetadata metadata;
    add_gguf_config(metadata, config);
    metadata.add("tokenizer.ggml.model", "none");
    return save_gguf(spec, config, parameters_of(spec, weights), {type, type}, metadata, path, real_io());
  }
};

TEST(GgufModel, WhatIsExportedIsReadAsTheSameModelToTheBit) {
  const TemporaryDirectory dir;
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    LoadedGolden g(name);
    const std::string path = dir / (std::string(name) + ".gguf");
    g.save(WeightType::f32, path);
    const Gguf file(path);
    HfConfig config = gguf_config(file);
    EXPECT_EQ(config.rope, g.config.rope);
    EXPECT_EQ(config.sliding_window, g.config.sliding_window);
    EXPECT_EQ(config.norm_eps, g.config.norm_eps);
    const ModelSpec spec = model_spec(config);
    EXPECT_EQ(spec.units, g.spec.units);
    EXPECT_EQ(spec.family, g.spec.family);
    const ModelWeights again = load_weights(spec, path, DType::f32, g.arena);
    const WeightsDifference d = compare_weights(spec, g.weights, again);
    EXPECT_EQ(d.num_different, 0);
    EXPECT_EQ(d.num_elements, num_parameters(spec));
    EXPECT_TRUE(check_weights(spec, path).problems.empty());
  }
}

// Of the families whose golden files hold no weights: the configuration too comes back whole.
TEST(GgufModel, FurtherFamiliesComeBackToTheBit) {
  for (const char* name : {"granite", "granite_biases", "olmo2", "phi3", "smollm3", "qwen3", "gpt_neox", "falcon_7b",
                           "falcon_40b", "bloom", "bloom_six_heads", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"}) {
    SCOPED_TRACE(name);
    const TemporaryDirectory dir;
    const Json given = read_json_file(golden("families/" + std::string(name) + ".json"));
    write_golden_model(given, dir.path());
    const HfConfig config = read_hf_config(dir / "config.json");
    const ModelSpec spec = model_spec(config);
    Arena arena;
    const ModelWeights weights = load_weights(spec, dir.path(), DType::f32, arena);
    GgufMetadata metadata;
    add_gguf_config(metadata, config);
    save_gguf(spec, config, parameters_of(spec, weights), {WeightType::f32, WeightType::f32}, metadata, dir / "m.gguf",
              real_io());
    const HfConfig again = gguf_config(Gguf(dir / "m.gguf"));
    EXPECT_EQ(again.rope, config.rope);
    EXPECT_EQ(again.rotary_layers, config.rotary_layers);
    EXPECT_EQ(model_spec(again).units, spec.units);
    const WeightsDifference d =
        compare_weights(spec, weights, load_weights(model_spec(again), dir / "m.gguf", DType::f32, arena));
    EXPECT_EQ(d.num_different, 0);
    EXPECT_EQ(d.num_elements, num_parameters(spec));
  }
}

// Keys and tensors of llama.cpp's own converter (dev/golden/gguf_converted.py), and a model out of them.
TEST(GgufModel, WhatIsExportedIsWhatLlamaCppsConverterMakes) {
  const Json cases = read_json_file(golden("gguf/converted.json"));
  EXPECT_GE(cases.size(), 13u);
  for (const auto& [name, given] : cases.items()) {
    SCOPED_TRACE(name);
    const TemporaryDirectory dir;
    write_golden_model(given, dir.path());
    const HfConfig config = read_hf_config(dir / "config.json");
    const ModelSpec spec = model_spec(config);
    Arena arena;
    const ModelWeights weights = load_weights(spec, dir.path(), DType::f32, arena);
    GgufMetadata metadata;
    add_gguf_config(metadata, config);
    save_gguf(spec, config, parameters_of(spec, weights), {WeightType::f32, WeightType::f32}, metadata, dir / "m.gguf",
              real_io());
    const Gguf file(dir / "m.gguf");
    EXPECT_EQ(file.get("general.architecture").as_string(), given["architecture"].get<std::string>());
    for (const auto& [key, value] : given["keys"].items()) {
      // Falcon's context stands in no config.json for the converter, its layout is the only one.
      if (key == "falcon.context_length" || key == "falcon.tensor_data_layout") continue;
      const auto ours = file.find(key);
      if (!ours && key.ends_with("head_count_kv") && name.starts_with("bloom")) continue;
      ASSERT_TRUE(ours) << key;
      if (value.is_boolean())
        EXPECT_EQ(ours->as_bool(), value.get<bool>()) << key;
      else
        EXPECT_EQ(ours->as_number(), value.get<double>()) << key;
    }
    const Json& tensors = given["converted"];
    for (const auto& [tensor, about] : tensors.items()) {
      const GgufTensor* t = file.find_tensor(tensor);
      ASSERT_NE(t, nullptr) << tensor;
      auto shape = about["shape"].get<std::vector<int64_t>>();
      if (shape.size() == 2 && shape[0] == 1)
        shape.erase(shape.begin());  // the gate of the shared expert, by some converters
      EXPECT_EQ(t->shape(), shape) << tensor;
      EXPECT_EQ(crc32c(t->bytes), about["crc32c"].get<uint32_t>()) << tensor;
    }
    for (const GgufTensor& t : file.tensors()) EXPECT_TRUE(tensors.contains(std::string(t.name))) << t.name;
    EXPECT_EQ(model_spec(gguf_config(file)).units, spec.units);
  }
}

// Files hold 1 + w: back to the bit where w has the bits of bf16, as published models have; else to a rounding of 1 + w.
TEST(GgufModel, GemmasNormsComeBack) {
  for (const char* family : {"gemma", "gemma2", "gemma3_text"})
    for (const bool in_bf16 : {true, false}) {
      SCOPED_TRACE(family);
      const TemporaryDirectory dir;
      HfConfig config = tiny_config(family);
      config.query_pre_attn_scalar = 6;
      if (config.query_pre_attn_scalar && std::string_view(family) == "gemma") config.query_pre_attn_scalar = {};
      if (std::string_view(family) == "gemma3_text") config.windowed_layers = {}, config.attn_logit_softcapping = {};
      const ModelSpec spec = model_spec(config);
      Arena arena;
      ModelWeights weights = random_weights(spec, DType::f32, arena, 3);
      for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
        if (!info.is_norm_weight) return;
        for (float& x : t.span<float>()) x = in_bf16 ? to_float(to_bf16(x - 1)) : x - 1;
      });
      GgufMetadata metadata;
      add_gguf_config(metadata, config);
      save_gguf(spec, config, parameters_of(spec, weights), {WeightType::f32, WeightType::f32}, metadata,
                dir / "m.gguf", real_io());
      const HfConfig again = gguf_config(Gguf(dir / "m.gguf"));
      EXPECT_EQ(model_spec(again).units, spec.units);
      const WeightsDifference d =
          compare_weights(spec, weights, load_weights(model_spec(again), dir / "m.gguf", DType::f32, arena));
      EXPECT_EQ(d.num_elements, num_parameters(spec));
      if (in_bf16)
        EXPECT_EQ(d.num_different, 0);
      else
        EXPECT_LE(d.largest, 0x1p-23);  // half a unit of numbers below 4
    }
}

TEST(GgufModel, ExpertsOfAFileRunAsTheyLie) {
  const TemporaryDirectory dir;
  for (const char* family : {"mixtral", "qwen2_moe", "gpt_oss"}) {
    SCOPED_TRACE(family);
    HfConfig config = coded_config(family, false);
    if (hf_family(config).blocks.windows != HfWindows::listed) config.sliding_window = {};
    config.windowed_layers = {};
    if (config.expert_size > 0) config.expert_size = 256, config.shared_expert_size = 256;
    const std::string path = dir / (std::string(family) + ".gguf");
    write_coded_model(config, {WeightType::q4_k, WeightType::q6_k, WeightType::q8_0}, path);
    const ModelSpec spec = model_spec(gguf_config(Gguf(path)));
    Arena arena;
    const ModelWeights decoded = load_weights(spec, path, DType::f32, arena);
    const ModelWeights coded = load_weights_to_infer(spec, path, DType::f32, arena, WeightsIn::coded_file);
    int64_t experts = 0;
    for (const auto& [name, bytes] : coded_bytes(spec, path, DType::f32))
      experts += name.find(".experts.") != name.npos;
    EXPECT_EQ(experts, 2 * config.num_experts);
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const Compute c{arena, Multiply::exact};
    EXPECT_TRUE(same_bits(logits_of(spec, coded, tokens, c), logits_of(spec, decoded, tokens, c)));
  }
}

TEST(GgufModel, WhatLlamaCppFixesInItsCodeIsRefused) {
  for (const auto& [name, what] : {std::pair{"falcon_rw", "no biases"},
                                   {"falcon_11b", "no biases"},
                                   {"gpt_neox_serial", "gelu"},
                                   {"qwen2_moe_mixed", "no windows"},
                                   {"qwen3_moe_mixed", "no windows"},
                                   {"gemma2", "query_pre_attn_scalar 10"},
                                   {"gemma3", "one layer in 6 without a window"},
                                   {"gpt_oss_bounds", "swiglu_limit 7"}}) {
    const Json given = read_json_file(golden("families/" + std::string(name) + ".json"));
    const HfConfig config = parse_hf_config(given["config"].dump(), name);
    EXPECT_TRUE(throws(ErrorKind::usage, what, [&] {
      GgufMetadata m;
      add_gguf_config(m, config);
    })) << name;
  }
  HfConfig smollm = tiny_config("smollm3");  // two layers, the first unturned
  EXPECT_TRUE(throws(ErrorKind::usage, "one layer in 4", [&] {
    GgufMetadata m;
    add_gguf_config(m, smollm);
  }));
  HfConfig olmo = tiny_config("olmo2");
  olmo.tie_word_embeddings = true;
  EXPECT_TRUE(throws(ErrorKind::usage, "a head of its own", [&] {
    GgufMetadata m;
    add_gguf_config(m, olmo);
  }));
}

// Row 2j + s of a head is row s·d/2 + j of transformers': what llama.cpp's converter does by reshape and transpose.
TEST(GgufModel, RowsOfQueriesAndKeysOfLlamaAreInterleavedInTheFile) {
  const TemporaryDirectory dir;
  for (const char* name : {"llama", "gpt2"}) {
    LoadedGolden g(name);
    const std::string path = dir / (std::string(name) + ".gguf");
    g.save(WeightType::f32, path);
    const Gguf file(path);
    const bool llama = std::string_view(name) == "llama";
    const GgufTensor* t = file.find_tensor(llama ? "blk.0.attn_q.weight" : "blk.0.attn_qkv.weight");
    ASSERT_NE(t, nullptr);
    const int64_t width = g.spec.width, head_dim = g.config.head_dim;
    const auto ours = dense_rows(std::get<AttentionWeights>(g.weights.units[1]).qkv).span<float>();
    for (int64_t r = 0; r < g.config.num_attention_heads * head_dim; ++r) {
      const int64_t head = r / head_dim, j = r % head_dim / 2, s = r % 2;
      const int64_t row = llama ? head * head_dim + s * (head_dim / 2) + j : r;
      EXPECT_EQ(std::memcmp(t->bytes.data() + r * width * 4, ours.data() + row * width, static_cast<size_t>(width) * 4),
                0)
          << name << " row " << r;
    }
  }
}

TEST(GgufModel, HalfAndQuantizedExportsReadBackAsTheirRounding) {
  const TemporaryDirectory dir;
  LoadedGolden g("llama");
  for (const auto& [type, bound] :
       {std::pair{WeightType::f16, 1e-3}, {WeightType::bf16, 4e-3}, {WeightType::q8_0, 1.0 / 254 + 1e-3}}) {
    const std::string path = dir / (std::to_string(static_cast<int>(type)) + ".gguf");
    const GgufSaved saved = g.save(type, path);
    const HfConfig config = gguf_config(Gguf(path));
    EXPECT_EQ(config.dtype, type == WeightType::f16 ? DType::f16 : type == WeightType::bf16 ? DType::bf16 : DType::f32);
    const ModelWeights again = load_weights(model_spec(config), path, DType::f32, g.arena);
    const WeightsDifference d = compare_weights(g.spec, g.weights, again);
    EXPECT_GT(d.num_different, 1000);
    EXPECT_LE(d.largest, bound * d.largest_value);
    // Rows of 40 are no whole blocks: the down projections of both layers.
    EXPECT_EQ(saved.as_f16, type == WeightType::q8_0 ? 2 : 0);
  }
}

TEST(GgufModel, ATableThatIsNotLlama3sStaysATable) {
  const TemporaryDirectory dir;
  LoadedGolden g("llama");
  g.save(WeightType::f32, dir / "m.gguf");
  std::string bytes = read_bytes(dir / "m.gguf");
  const std::vector<float> divisors = gguf_rope_divisors(g.config);
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(divisors.data()), divisors.size() * 4));
  ASSERT_NE(at, std::string::npos);
  const float other = 3.25f;
  std::memcpy(bytes.data() + at, &other, 4);
  const HfConfig config = gguf_config(Gguf::over(std::as_bytes(std::span(bytes)), "m"));
  EXPECT_EQ(config.rope.type, RopeType::longrope);
  EXPECT_EQ(config.rope.short_factor, config.rope.long_factor);
  EXPECT_EQ(config.rope.short_factor.at(0), 3.25);
  EXPECT_EQ(config.rope.attention_factor, 1.0);
}

// One change of a good file's key or tensor name, and what is said.
TEST(GgufModelMalformed, WhatDoesNotBelongTogetherIsNamed) {
  const TemporaryDirectory dir;
  LoadedGolden g("llama");
  g.save(WeightType::f32, dir / "m.gguf");
  const std::string good = read_bytes(dir / "m.gguf");
  const auto read = [&](const std::string& from, const std::string& to, size_t skip = 0) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bytes.replace(at + skip, to.size(), to);
    const Gguf file = Gguf::over(std::as_bytes(std::span(bytes)), "m.gguf");
    Arena arena;
    load_gguf_weights(model_spec(gguf_config(file)), file, DType::f32, arena);
  };
  const auto u32 = [](uint32_t n) { return std::string(reinterpret_cast<const char*>(&n), 4); };
  const auto set = [&](const std::string& key, uint32_t n) { read(key, u32(n), key.size() + 4); };
  set("llama.context_length", 32);
  const auto refused = [](const char* what, const std::function<void()>& run) {
    return throws(ErrorKind::bad_file, what, run);
  };
  EXPECT_TRUE(refused("'general.architecture': 'llamb'", [&] { read("llama", "llamb"); }));
  EXPECT_TRUE(refused("'llama.block_count'", [&] { read("llama.block_count", "llama.bluck_count"); }));
  EXPECT_TRUE(refused("holds 22 tensors", [&] { set("llama.block_count", 0x7fffffff); }));
  EXPECT_TRUE(refused("0, expected 1 to", [&] { set("llama.block_count", 0); }));
  EXPECT_TRUE(refused("'blk.2.attn_norm.weight' of shape (32,) is missing", [&] { set("llama.block_count", 3); }));
  EXPECT_TRUE(
      refused("belongs to no parameter of this llama model with 1 layers", [&] { set("llama.block_count", 1); }));
  EXPECT_TRUE(refused("'token_embd.weight' has rows of 32", [&] { set("llama.embedding_length", 64); }));
  EXPECT_TRUE(refused("num_attention_heads", [&] { set("llama.attention.head_count", 0x40000000); }));
  EXPECT_TRUE(refused("'blk.0.ffn_gate.weight' has shape (40, 32), the metadata imply (41, 32)",
                      [&] { set("llama.feed_forward_length", 41); }));
  EXPECT_TRUE(refused("rope.dimension_count", [&] { set("llama.rope.dimension_count", 4); }));
  EXPECT_TRUE(refused("'blk.1.attn_k.weight' of shape (16, 32) is missing",
                      [&] { read("blk.1.attn_k.weight", "blk.1.attn_j.weight"); }));
  EXPECT_TRUE(refused("'token_embd.weight' is missing", [&] { read("token_embd.weight", "token_embe.weight"); }));
}

TEST(GgufModelMutationsSlow, EveryMutationIsReadOrRefusedWithinItsMemory) {
  const TemporaryDirectory dir;
  std::vector<std::string> seeds;
  for (const char* name : kModels) {
    LoadedGolden g(name);
    const Tokenizer tokenizer = Tokenizer::load(golden("tokenizers/sentencepiece_like/tokenizer.json"));
    GgufMetadata metadata;
    add_gguf_config(metadata, g.config);
    add_gguf_vocabulary(metadata, tokenizer, tokenizer.vocab_size());
    save_gguf(g.spec, g.config, parameters_of(g.spec, g.weights), {WeightType::f32, WeightType::f32}, metadata,
              dir / name, real_io());
    seeds.push_back(read_bytes(dir / name));
  }
  survive_mutations(seeds,
                    [](const std::string& bytes) {
                      const Gguf file = Gguf::over(std::as_bytes(std::span(bytes)), "mutated");
                      Arena arena;
                      load_gguf_weights(model_spec(gguf_config(file)), file, DType::f32, arena);
                      gguf_tokenizer(file);
                    },
                    {.change = MutateNumbers{.header = 3000, .plain = 4}});
}

}  // namespace
}  // namespace tern
