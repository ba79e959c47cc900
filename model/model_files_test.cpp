#include "model/model_files.h"

#include <stdlib.h>

#include <filesystem>

#include "base/error.h"
#include "base/io.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/matmul.h"
#include "kernels/dispatch.h"
#include "model/allocate_weights.h"
#include "model/changed_weights_testing.h"
#include "model/check_weights.h"
#include "model/initial_weights.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct TempDir {
  std::string path;
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tern_model_XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path); }
};

struct Saved {
  TempDir dir;
  Arena arena;
  HfConfig config;
  ModelSpec spec;
  ModelWeights weights;
  explicit Saved(HfConfig c, DType dtype = DType::f32, int64_t max_shard_bytes = int64_t{1} << 30)
      : config(c), spec(model_spec(c)), weights(random_weights(spec, dtype, arena, 3)) {
    save_model(spec, config, weights, dtype, dir.path, real_io(), max_shard_bytes);
  }
};

void expect_equal(const ModelSpec& spec, ModelWeights& got, ModelWeights& want) {
  const std::vector<Tensor*> a = tensors(spec, got), b = tensors(spec, want);
  const std::vector<ParameterInfo> infos = parameters(spec);
  for (size_t i = 0; i < infos.size(); ++i) EXPECT_TRUE(same_bits(*a[i], *b[i])) << infos[i].name;
}

void expect_error(const std::function<void()>& call, const std::vector<std::string>& fragments) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    for (const std::string& f : fragments)
      EXPECT_NE(std::string(e.what()).find(f), std::string::npos) << e.what() << "\nlacks: " << f;
  }
}

TEST(ModelFiles, WhatIsSavedLoadsWithTheSameBits) {
  for (const char* family : {"llama", "mistral", "gpt2"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      SCOPED_TRACE(fmt::format("{} {}", family, name_of(dtype)));
      Saved s(tiny_config(family), dtype);
      const HfConfig config = read_hf_config(s.dir.path + "/config.json");
      EXPECT_EQ(config.dtype, dtype);
      ModelWeights loaded = load_weights(model_spec(config), s.dir.path, dtype, s.arena);
      expect_equal(s.spec, loaded, s.weights);
    }
}

TEST(ModelFiles, ShardsLoadTheSame) {
  Saved s(tiny_config("llama"), DType::f32, 4096);
  EXPECT_TRUE(std::filesystem::exists(s.dir.path + "/model.safetensors.index.json"));
  ModelWeights loaded = load_weights(s.spec, s.dir.path, DType::f32, s.arena);
  expect_equal(s.spec, loaded, s.weights);
}

TEST(ModelFiles, LoadingRoundsToTheDtypeAskedFor) {
  Saved s(tiny_config("llama"));
  ModelWeights rounded = load_weights(s.spec, s.dir.path, DType::bf16, s.arena);
  const std::vector<Tensor*> a = tensors(s.spec, rounded), b = tensors(s.spec, s.weights);
  for (size_t p = 0; p < a.size(); ++p)
    for (int64_t i = 0; i < a[p]->count(); ++i)
      ASSERT_EQ(a[p]->span<bf16>()[static_cast<size_t>(i)], to_bf16(b[p]->span<float>()[static_cast<size_t>(i)]));
}

TEST(ModelFiles, TheBareModelsNamesHarmlessBuffersAndAnEqualTiedHeadAreRead) {
  Saved s(tiny_config("gpt2"));
  static const std::vector<std::byte> mask(16 * 16);
  rewrite_weights(s.dir.path, [](std::vector<TensorToWrite>& entries) {
    std::span<const std::byte> table;
    std::vector<int64_t> shape;
    for (TensorToWrite& e : entries) {
      ASSERT_TRUE(e.name.starts_with("transformer."));
      e.name = e.name.substr(12);
      if (e.name == "wte.weight") table = e.bytes, shape = e.shape;
    }
    entries.push_back({"lm_head.weight", DType::f32, shape, table, {}});
    entries.push_back({"h.0.attn.bias", DType::u8, {1, 1, 16, 16}, mask, {}});
  });
  ModelWeights loaded = load_weights(s.spec, s.dir.path, DType::f32, s.arena);
  expect_equal(s.spec, loaded, s.weights);
}

TEST(ModelFiles, ErrorsNameFileTensorAndShapes) {
  Saved s(tiny_config("llama"));
  const auto load = [&](const HfConfig& c) {
    return [&s, c] { load_weights(model_spec(c), s.dir.path, DType::f32, s.arena); };
  };
  HfConfig c = s.config;
  c.vocab_size = 38;
  expect_error(load(c), {"model.safetensors", "'model.embed_tokens.weight'", "(37, 24)", "(38, 24)"});
  c = s.config;
  c.num_hidden_layers = 3;
  expect_error(load(c), {"model.safetensors", "'model.layers.2.", "is missing"});
  c = s.config;
  c.num_hidden_layers = 1;
  expect_error(load(c), {"model.safetensors", "'model.layers.1.", "belongs to no parameter"});
  c = s.config;
  c.tie_word_embeddings = true;
  expect_error(load(c), {"'lm_head.weight' differs", "tie_word_embeddings"});
  c = s.config;
  c.attention_bias = true;
  expect_error(load(c), {"self_attn.q_proj.bias", "is missing"});
  expect_error([&] { load_weights(s.spec, s.dir.path + "/nowhere", DType::f32, s.arena); }, {"no model.safetensors"});

  rewrite_weights(s.dir.path, [](std::vector<TensorToWrite>& entries) {
    for (TensorToWrite& e : entries)
      if (e.name == "model.norm.weight") e.dtype = DType::i32;
  });
  expect_error(load(s.config), {"'model.norm.weight'", "I32"});
}

TEST(Weights, TiedHeadsShareStorageAndComeOnce) {
  Arena arena;
  const ModelSpec spec = model_spec(tiny_config("gpt2"));
  ModelWeights w = random_weights(spec, DType::f32, arena, 1);
  EXPECT_EQ(dense_rows(head_of(w).projection).data(), embed_of(w).tokens.data());
  for (const ParameterInfo& info : parameters(spec)) EXPECT_NE(info.name, "head.projection.weight");
}

TEST(Weights, StandBesideTheUnitsAndTheVisitsOfTheUnitsAreThatOfTheModel) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    SCOPED_TRACE(variant);
    Arena arena;
    ModelWeights w = random_weights(spec, DType::f32, arena, 1);
    ASSERT_EQ(w.units.size(), spec.units.size());
    std::vector<Tensor*> by_unit;
    for (size_t i = 0; i < w.units.size(); ++i)
      for_each_parameter(spec, static_cast<int>(i), w.units[i], [&](const ParameterInfo& info, Tensor& t) {
        EXPECT_EQ(info.unit, static_cast<int>(i));
        by_unit.push_back(&t);
      });
    EXPECT_EQ(by_unit, tensors(spec, w));
  });
}

TEST(Weights, ABridgeHasNoneAndIsRefusedByItsName) {
  ModelSpec spec = model_spec(tiny_config("llama"));
  spec.units.insert(spec.units.begin() + 3, {-1, BridgeSpec{std::get<MlpSpec>(spec.units[2].spec).norm, 37, 24}});
  const ModelWeights w = empty_weights(spec);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(w.units[3]));
  Arena arena;
  const std::vector<int32_t> tokens{1, 2};
  try {
    unit_forward(spec, 3, w.units[3], make_rows(tokens, {0, 2}, nullptr), {}, nullptr, nullptr, {arena});
    FAIL() << "it ran";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("unit 3: a bridge"), std::string::npos) << e.what();
  }
}

TEST(Weights, InitialisationFollowsTheRuleAndIsTheSameForAnyDtypeUpToRounding) {
  HfConfig config = tiny_config("gpt2");
  config.hidden_size = 48, config.head_dim = 12, config.initializer_range = 0.02;
  const ModelSpec spec = model_spec(config);
  Arena arena;
  ModelWeights a = allocate_weights(spec, DType::f32, MemoryClass::weights, arena),
               b = allocate_weights(spec, DType::bf16, MemoryClass::weights, arena);
  initialize_weights(spec, a, 11);
  initialize_weights(spec, b, 11);
  const std::vector<Tensor*> ta = tensors(spec, a), tb = tensors(spec, b);
  const std::vector<ParameterInfo> infos = parameters(spec);
  for (size_t p = 0; p < infos.size(); ++p) {
    SCOPED_TRACE(infos[p].name);
    double sum = 0;
    for (int64_t i = 0; i < ta[p]->count(); ++i) {
      const double x = element(*ta[p], i);
      sum += x * x;
      ASSERT_EQ(element(*tb[p], i), to_float(to_bf16(static_cast<float>(x))));
    }
    const double n = static_cast<double>(ta[p]->count());
    const bool scaled = infos[p].name.ends_with("attention.out.weight") || infos[p].name.ends_with("mlp.down.weight");
    const double want = infos[p].is_norm_weight ? 1.0 : infos[p].shape.rank == 1 ? 0.0 : scaled ? 0.02 / 2 : 0.02;
    EXPECT_NEAR(std::sqrt(sum / n), want, infos[p].shape.rank == 1 ? 0 : 5 * want / std::sqrt(2 * n));  // five sigma
  }
  ModelWeights other = allocate_weights(spec, DType::f32, MemoryClass::weights, arena);
  initialize_weights(spec, other, 12);
  EXPECT_FALSE(same_bits(embed_of(other).tokens, embed_of(a).tokens));
  EXPECT_FALSE(
      same_bits(dense_rows(std::get<MlpWeights>(a.units[2]).up), dense_rows(std::get<MlpWeights>(a.units[4]).up)));
}

TEST(Weights, PackingKeepsTheNumbersAndFreesThePlainCopies) {
  Arena arena;
  const ModelSpec spec = model_spec(tiny_config("llama"));
  ModelWeights w = random_weights(spec, DType::f32, arena, 2);
  const Compute c{arena};
  const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
  const RopeTable rope = rope_table(spec.rope, 16, 16);
  const Rows rows = make_rows(tokens, {0, 9}, &rope);
  const Tensor want = model_forward(spec, w, rows, nullptr, c);
  pack_weights(spec, w, arena);
  EXPECT_TRUE(std::holds_alternative<PackedWeight>(std::get<AttentionWeights>(w.units[3]).qkv.weight));
  EXPECT_FALSE(embed_of(w).tokens.empty());
  EXPECT_TRUE(same_bits(model_forward(spec, w, rows, nullptr, c), want));
}

// A file in the type to be computed in is packed from where it lies; another is converted first. Never more memory for
// the one than for the other.
TEST(Weights, PackedFromTheFileIsPackedFromACopy) {
  const struct Restored {
    Isa isa = active_isa();
    ~Restored() { force_isa(isa); }
  } before;
  if (reads_plain_weights(DType::bf16)) force_isa(Isa::avx512);  // with tiles nothing is packed
  for (const char* family : {"llama", "gemma2", "mixtral", "gpt2", "phi3", "qwen3_moe"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(family) + " " + std::string(name_of(dtype)));
      const Saved s(tiny_config(family), dtype, 4096);
      Arena of_copy, of_file;
      ModelWeights copied = load_weights(s.spec, s.dir.path, dtype, of_copy);
      pack_weights(s.spec, copied, of_copy);
      ModelWeights direct = load_weights_to_infer(s.spec, s.dir.path, dtype, of_file);
      std::vector<Linear> want, got;
      for_each_linear(s.spec, copied, [&](const ParameterInfo&, Linear& l) { want.push_back(l); });
      for_each_linear(s.spec, direct, [&](const ParameterInfo&, Linear& l) { got.push_back(l); });
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        const auto *a = std::get_if<PackedWeight>(&got[i].weight), *b = std::get_if<PackedWeight>(&want[i].weight);
        ASSERT_TRUE(a && b) << i;
        EXPECT_TRUE(same_bits(a->bytes, b->bytes)) << i;
      }
      EXPECT_EQ(of_file.current_total(), of_copy.current_total());
      EXPECT_LE(of_file.peak_total(), of_copy.peak_total());
    }
}

TEST(CheckWeights, WholeWeightsHaveNoProblem) {
  for (const char* family : {"llama", "mistral", "gpt2"}) {
    SCOPED_TRACE(family);
    const Saved s(tiny_config(family), DType::bf16, 4096);
    const WeightsCheck check = check_weights(s.spec, s.dir.path + "/model.safetensors.index.json");
    EXPECT_TRUE(check.problems.empty()) << check.problems[0];
    EXPECT_GT(check.num_files, 1);
    EXPECT_EQ(check.num_bytes, 2 * num_parameters(s.spec));
    EXPECT_EQ(check.dtypes.at("BF16"), check.num_tensors);
  }
}

TEST(CheckWeights, EveryMissingMisshapedAndForeignTensorIsNamedAtOnce) {
  const Saved s(tiny_config("llama"));
  rewrite_weights(s.dir.path, [](std::vector<TensorToWrite>& all) {
    std::erase_if(all, [](const TensorToWrite& t) { return t.name == "model.norm.weight"; });
    for (TensorToWrite& t : all) {
      if (t.name == "model.layers.0.self_attn.q_proj.weight") std::swap(t.shape[0], t.shape[1]), t.shape.push_back(1);
      if (t.name == "model.layers.0.mlp.down_proj.weight") t.name = "model.layers.7.mlp.down_proj.weight";
    }
  });
  const WeightsCheck check = check_weights(s.spec, s.dir.path + "/model.safetensors");
  std::string all;
  for (const std::string& problem : check.problems) all += problem + "\n";
  ASSERT_EQ(check.problems.size(), 4u) << all;
  for (const char* words :
       {"'model.norm.weight' of shape", "is missing", "'model.layers.0.self_attn.q_proj.weight' has shape",
        "'model.layers.0.mlp.down_proj.weight'", "'model.layers.7.mlp.down_proj.weight'", "belongs to no parameter"})
    EXPECT_NE(all.find(words), std::string::npos) << words << "\n" << all;
}

TEST(CheckWeights, AShardCutShortIsAProblemNotACrash) {
  const Saved s(tiny_config("llama"), DType::f32, 4096);
  std::string last;
  for (const std::string& name : real_io().list(s.dir.path))
    if (name.ends_with(".safetensors")) last = s.dir.path + "/" + name;
  real_io().truncate(last, real_io().stat(last)->size_bytes - 1);
  const WeightsCheck check = check_weights(s.spec, s.dir.path + "/model.safetensors.index.json");
  ASSERT_EQ(check.problems.size(), 1u);
  EXPECT_NE(check.problems[0].find(last), std::string::npos) << check.problems[0];
}

}  // namespace
}  // namespace tern
