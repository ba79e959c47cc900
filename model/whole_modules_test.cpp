// Modules that an adapter changes as a whole, beside what PEFT's golden files say (adapter_files_test.cpp): any form of the
// model's weights, tied heads, and what is refused.

#include "model/whole_modules.h"

#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/io.h"
#include "base/source_dir_testing.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/adapter_files.h"
#include "model/adapter_files_testing.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"
#include "model/row_lengths.h"
#include "model/saved_modules.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct WholeCase {
  std::string dir, base;
  HfConfig model;
  PeftConfig config;
  ModelSpec spec;
  WholeCase(const std::string& name, const std::string& of)
      : dir(source_dir() + "/tests/golden/adapters/" + name),
        base(source_dir() + "/tests/golden/models/" + of),
        model(read_hf_config(base + "/config.json")),
        config(read_peft_config(peft_config_file(dir))),
        spec(with_adapters(model_spec(model), config, dir, AdapterParts::all)) {}
  void finish(ModelWeights& weights, DType dtype, Arena& arena) const {
    measure_rows(spec, base, dtype, weights, arena);
    load_adapters(spec, dir, dtype, weights, arena, whole_module_tensors(spec, config, dir));
    fix_row_factors(spec, base, dtype, weights);
  }
};

const std::pair<const char*, const char*> kWholeCases[] = {{"saved", "llama"},       {"saved_tied", "llama_tied"},
                                                           {"saved_conv1d", "gpt2"}, {"tables", "llama"},
                                                           {"tables_tied", "gpt2"},  {"tables_dora", "llama"}};

Tensor logits_by(const ModelSpec& spec, const ModelWeights& weights, Arena& arena) {
  const std::vector<int32_t> tokens{3, 1, 4, 1, 5, 9, 2};
  const RopeTable rope = rope_table(spec, 16, 16);
  const Rows rows = make_rows(tokens, std::vector<int64_t>{0, 7}, &rope);
  std::vector<int32_t> every(tokens.size());
  std::iota(every.begin(), every.end(), 0);
  const Compute compute{arena, Multiply::exact};
  return head_logits(spec, weights, model_forward(spec, weights, rows, nullptr, compute), every, compute);
}

TEST(WholeModules, StandInThePlaceOfAnyFormOfTheModelsOwn) {
  for (const auto& [name, of] : kWholeCases)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(name) + " " + std::string(name_of(dtype)));
      const WholeCase c(name, of);
      Arena arena;
      ModelWeights dense = load_weights(c.spec, c.base, dtype, arena);
      put_whole_modules(c.spec, c.config, c.dir, c.base, dtype, dense, arena);
      c.finish(dense, dtype, arena);
      const Tensor want = logits_by(c.spec, dense, arena);
      for (const WeightsIn in : {WeightsIn::mapped_file, WeightsIn::own_memory}) {
        ModelWeights weights = load_weights_to_infer(c.spec, c.base, dtype, arena, in);
        put_whole_modules(c.spec, c.config, c.dir, c.base, dtype, weights, arena);
        pack_weights(c.spec, weights, arena);
        c.finish(weights, dtype, arena);
        EXPECT_TRUE(same_bits(logits_by(c.spec, weights, arena), want));
      }
    }
}

// What `tern adapt merge` writes: no adapter, and a head of its own where it is no longer the table.
TEST(WholeModules, MergedAreAModelOfTheSameLogits) {
  for (const auto& [name, of] : kWholeCases) {
    SCOPED_TRACE(name);
    WholeCase c(name, of);
    Arena arena;
    ModelWeights weights = load_weights(c.spec, c.base, DType::f64, arena);
    put_whole_modules(c.spec, c.config, c.dir, c.base, DType::f64, weights, arena);
    c.finish(weights, DType::f64, arena);
    const Tensor want = logits_by(c.spec, weights, arena);
    const bool tied = c.spec.head().tied;
    EXPECT_EQ(untie_changed_head(c.config, c.spec), tied);
    EXPECT_FALSE(c.spec.head().tied);
    c.model.tie_word_embeddings = false;
    const std::string out = testing::TempDir() + "whole_merged";
    save_model(c.spec, c.model, weights, DType::f64, out, real_io());
    ModelWeights back = load_weights(model_spec(read_hf_config(out + "/config.json")), out, DType::f64, arena);
    for_each_linear(c.spec, weights, [](const ParameterInfo&, Linear& linear) { linear.branches.clear(); });
    EXPECT_TRUE(same_bits(logits_by(c.spec, back, arena), logits_by(c.spec, weights, arena)));
    EXPECT_GT(relative_error(logits_by(c.spec, back, arena), want), 1e-6) << "matrices of layers have branches still";
    remove_all(real_io(), out);
  }
}

// The adapter's file with a change.
std::string error_of_put(const WholeCase& c, const std::function<void(std::vector<TensorToWrite>&)>& change) {
  const std::string out = testing::TempDir() + "whole_broken";
  write_changed_adapter(c.dir, out, change);
  Arena arena;
  try {
    ModelWeights weights = load_weights(c.spec, c.base, DType::f32, arena);
    put_whole_modules(c.spec, c.config, out, c.base, DType::f32, weights, arena);
    load_adapters(c.spec, out, DType::f32, weights, arena, whole_module_tensors(c.spec, c.config, out));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "accepted";
}

TEST(WholeModules, EachTensorMissingUnusedOrWrongIsNamed) {
  const std::vector<float> nan(20000, NAN);
  for (const auto& [name, of] : {kWholeCases[0], kWholeCases[2], kWholeCases[4]}) {
    const WholeCase c(name, of);
    EXPECT_EQ(error_of_put(c, [](auto&) {}), "accepted");
    for (const std::string& tensor : whole_module_tensors(c.spec, c.config, c.dir)) {
      SCOPED_TRACE(tensor);
      const auto names_it = [&](const std::string& error) { return error.find(tensor) != std::string::npos; };
      // What PEFT saves of the weight beside a low rank may be missing: it is the model's.
      const bool optional = tensor.ends_with(".base_layer.weight");
      const auto without = error_of_put(
          c, [&](auto& list) { std::erase_if(list, [&](const TensorToWrite& t) { return t.name == tensor; }); });
      EXPECT_TRUE(optional ? without == "accepted" : names_it(without)) << without;
      const auto of_one = [&](const std::function<void(TensorToWrite&)>& change) {
        return error_of_put(c, [&](auto& list) {
          for (TensorToWrite& t : list)
            if (t.name == tensor) change(t);
        });
      };
      EXPECT_TRUE(names_it(of_one([](TensorToWrite& t) { t.shape.insert(t.shape.begin(), 1); })));
      EXPECT_TRUE(
          names_it(of_one([&](TensorToWrite& t) { t.bytes = std::as_bytes(std::span(nan)).first(t.bytes.size()); })));
    }
    const std::string other = "base_model.model.model.other.weight";
    EXPECT_NE(error_of_put(c,
                           [&](auto& list) {
                             list.push_back(list.front());
                             list.back().name = other;
                           })
                  .find(other),
              std::string::npos);
  }
}

TEST(WholeModules, AreRefusedWhereNothingFollowsThem) {
  const WholeCase c("saved", "llama");
  const ModelSpec plain = model_spec(c.model);
  const auto refusal = [&](const PeftConfig& config, AdapterParts parts) -> std::string {
    try {
      with_adapters(plain, config, "x", parts);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(refusal(c.config, AdapterParts::matrices).find("embed_tokens"), std::string::npos);
  PeftConfig other = c.config;
  other.saved.push_back("classifier");
  EXPECT_NE(refusal(other, AdapterParts::all).find("'classifier'"), std::string::npos);
  other = {};
  other.targets.names = {"lm_head"};
  EXPECT_NE(refusal(other, AdapterParts::matrices).find("lm_head"), std::string::npos);
  EXPECT_EQ(refusal(other, AdapterParts::all), "accepted");
  other.targets = {.all_linear = true};
  EXPECT_EQ(refusal(other, AdapterParts::matrices), "accepted") << "which leaves the head out";
}

// Where the head is the table, a change of one leaves the other as it was.
TEST(WholeModules, ATiedHeadStaysAsItWasBesideAChangedTable) {
  const WholeCase c("tables_tied", "gpt2");
  Arena arena;
  const ModelWeights alone = load_weights(c.spec, c.base, DType::f32, arena);
  ModelWeights weights = alone;
  put_whole_modules(c.spec, c.config, c.dir, c.base, DType::f32, weights, arena);
  EXPECT_EQ(dense_rows(head_of(weights).projection).data(), embed_of(alone).tokens.data());
  EXPECT_FALSE(same_bits(embed_of(weights).tokens, embed_of(alone).tokens));
  EXPECT_FALSE(same_bits(embed_of(weights).positions, embed_of(alone).positions));
  const WholeCase head("saved_tied", "llama_tied");
  const ModelWeights before = load_weights(head.spec, head.base, DType::f32, arena);
  weights = before;
  put_whole_modules(head.spec, head.config, head.dir, head.base, DType::f32, weights, arena);
  EXPECT_EQ(embed_of(weights).tokens.data(), embed_of(before).tokens.data());
  EXPECT_FALSE(same_bits(dense_rows(head_of(weights).projection), embed_of(before).tokens));
}

// Trained tables, norm and head are written beside the adapters and read as PEFT's are; a tied head as its table.
TEST(WholeModules, ThoseThatAreTrainedAreReadAsPeftsAre) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"llama", {"embed_tokens"}},
      {"llama", {"lm_head", "model.norm"}},
      {"llama_tied", {"embed_tokens", "lm_head", "model.norm"}},
      {"gpt2", {"wte", "wpe", "ln_f", "lm_head"}}};
  for (const auto& [of, saved] : cases) {
    SCOPED_TRACE(std::string(of) + " " + saved.back());
    const std::string base = source_dir() + "/tests/golden/models/" + of;
    const ModelSpec model = model_spec(read_hf_config(base + "/config.json"));
    PeftConfig config;
    config.targets.all_linear = true, config.rank = 2, config.alpha = 2, config.saved = saved;
    const auto adapted = [&] { return with_adapters(model, config, "x", AdapterParts::all); };
    const ModelSpec trained = with_saved_modules(adapted(), config, "x");
    size_t units = 0;
    for (const Unit& unit : trained.units) units += !unit.frozen;
    EXPECT_EQ(units, saved.size() > 2 ? 2u : 1u);
    Arena arena;
    ModelWeights weights = load_weights(trained, base, DType::f32, arena);
    initialize_adapters(trained, weights, 3);
    for_each_trained(trained, weights, [](const ParameterInfo&, Tensor& t) {
      for (float& x : t.span<float>()) x = 0.75f * x + 0.01f;
    });
    const std::string dir = ::testing::TempDir() + "/tern-saved-modules";
    save_adapters(trained, config, weights, dir, real_io());
    const PeftConfig read = read_peft_config(peft_config_file(dir));
    EXPECT_EQ(read.saved, saved);
    ModelWeights again = load_weights(adapted(), base, DType::f32, arena);
    put_whole_modules(adapted(), read, dir, base, DType::f32, again, arena);
    load_adapters(adapted(), dir, DType::f32, again, arena, whole_module_tensors(adapted(), read, dir));
    EXPECT_TRUE(same_bits(logits_by(adapted(), again, arena), logits_by(trained, weights, arena)));
  }
}

TEST(WholeModules, WhatIsTrainedTogetherIsNamedTogether) {
  const auto refusal = [](const char* of, std::vector<std::string> saved, std::vector<std::string> targets = {}) {
    PeftConfig config;
    config.targets.all_linear = targets.empty(), config.targets.names = std::move(targets);
    config.rank = 2, config.saved = std::move(saved);
    const HfConfig model = read_hf_config(source_dir() + "/tests/golden/models/" + of + "/config.json");
    try {
      with_saved_modules(with_adapters(model_spec(model), config, "x", AdapterParts::all), config, "--save-modules");
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("llama", {"embed_tokens"}), "accepted");
  EXPECT_NE(refusal("llama", {"lm_head"}).find("model.norm"), std::string::npos);
  EXPECT_NE(refusal("llama_tied", {"embed_tokens"}).find("lm_head"), std::string::npos);
  EXPECT_NE(refusal("gpt2", {"wte", "ln_f", "lm_head"}).find("wpe"), std::string::npos);
  EXPECT_NE(refusal("llama", {"q_proj"}).find("q_proj is a module of a layer"), std::string::npos);
  EXPECT_NE(refusal("llama", {"lm_head", "norm"}).find("module of a layer"), std::string::npos) << "of layers too";
  EXPECT_NE(refusal("llama", {"embed_tokens"}, {"lm_head", "q_proj"}).find("low rank"), std::string::npos);
}

}  // namespace
}  // namespace tern
