#include "spec/model_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "formats/hf/config.h"
#include "formats/hf/fields.h"
#include "formats/mutations_testing.h"
#include "formats/small_file.h"
#include "spec/attended_pairs.h"
#include "spec/training_flops.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

HfConfig llama(int64_t vocab, int64_t width, int64_t hidden, int64_t layers, int64_t heads, int64_t kv_heads) {
  HfConfig c;
  c.vocab_size = vocab, c.hidden_size = width, c.intermediate_size = hidden, c.num_hidden_layers = layers;
  c.num_attention_heads = heads, c.num_key_value_heads = kv_heads, c.head_dim = width / heads;
  c.max_position_embeddings = 4096;
  c.rope.type = RopeType::standard;
  return c;
}

// Published counts of the models' makers.
TEST(ModelSpec, CountsTheParametersOfKnownModels) {
  EXPECT_EQ(num_parameters(model_spec(llama(32000, 4096, 11008, 32, 32, 32))), 6'738'415'616) << "Llama 2 7B";
  EXPECT_EQ(num_parameters(model_spec(llama(128256, 4096, 14336, 32, 32, 8))), 8'030'261'248) << "Llama 3 8B";
  HfConfig tied = llama(128256, 2048, 8192, 16, 32, 8);
  tied.tie_word_embeddings = true;
  EXPECT_EQ(num_parameters(model_spec(tied)), 1'235'814'400) << "Llama 3.2 1B";
  HfConfig mistral = llama(32000, 4096, 14336, 32, 32, 8);
  mistral.model_type = "mistral";
  EXPECT_EQ(num_parameters(model_spec(mistral)), 7'241'732'096) << "Mistral 7B";
  HfConfig gpt2 = llama(50257, 768, 3072, 12, 12, 12);
  gpt2.model_type = "gpt2", gpt2.max_position_embeddings = 1024, gpt2.rope = {};
  gpt2.attention_bias = gpt2.mlp_bias = gpt2.tie_word_embeddings = true;
  EXPECT_EQ(num_parameters(model_spec(gpt2)), 124'439'808) << "GPT-2";
  HfConfig oss = llama(201088, 2880, 2880, 24, 64, 8);
  oss.model_type = "gpt_oss", oss.head_dim = 64, oss.attention_bias = true;
  oss.num_experts = 32, oss.experts_per_token = 4, oss.gate_alpha = 1.702, oss.gate_limit = 7;
  EXPECT_EQ(num_parameters(model_spec(oss)), 20'914'757'184) << "gpt-oss-20b";
}

std::vector<Json> family_configs() {
  std::vector<Json> all;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden/families"))
    all.push_back(parse_json(read_text_file(entry.path(), 1 << 20), entry.path().string(), {}).at("config"));
  return all;
}

TEST(ModelSpec, TheReadersCountIsTheSpecs) {
  const std::vector<Json> all = family_configs();
  ASSERT_GE(all.size(), 40U);
  for (const Json& file : all) {
    const HfConfig c = parse_hf_config(dump_json(file), "c");
    EXPECT_EQ(hf_config_size(c).parameters, static_cast<double>(num_parameters(model_spec(c)))) << dump_json(file);
  }
}

// Whatever two sizes of a file say: it is refused, or everything that inspect counts stays far from 2^63.
TEST(ModelSpec, NoTwoSizesOfAFileOverflowWhatIsCounted) {
  int accepted = 0, refused = 0;
  const auto count = [&](const Json& file) {
    HfConfig c;
    try {
      c = parse_hf_config(dump_json(file), "c");
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::bad_file) << error.what();
      ++refused;
      return;
    }
    ++accepted;
    const ModelSpec spec = model_spec(c);
    const double want = hf_config_size(c).parameters;
    ASSERT_LE(std::abs(static_cast<double>(num_parameters(spec)) - want), 1e-9 * want) << dump_json(file);
    for (const Unit& unit : spec.units)
      for (const int64_t tokens : {int64_t{128}, spec.predicts ? int64_t{128} : spec.context}) {
        const UnitCost cost = unit_cost(unit, {.tokens = tokens, .dtype = DType::f64});
        for (const int64_t n : {cost.parameter_bytes, cost.saved_bytes, cost.forward_workspace, cost.unsaved_workspace,
                                cost.backward_weight_workspace, cost.forward_flops, cost.backward_weight_bytes_moved})
          ASSERT_GE(n, 0) << dump_json(file);
      }
  };
  for (const Json& file : family_configs()) {
    std::vector<std::string> sizes;
    for (const auto& [key, value] : file.items())
      if (value.is_number_integer() && !key.ends_with("token_id")) sizes.push_back(key);
    for (size_t i = 0; i < sizes.size(); ++i)
      for (size_t j = i; j < sizes.size(); ++j)
        for (const int64_t value : {int64_t{2147483647}, int64_t{1} << 30, int64_t{1} << 16}) {
          Json changed = file;
          changed[sizes[i]] = value;
          changed[sizes[j]] = value;
          if (changed.contains("hidden_size")) changed["num_hidden_layers"] = 1;
          count(changed);
        }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(ModelSpecMutationsSlow, EveryFamilysConfigIsCountedOrRefused) {
  std::vector<std::string> seeds;
  for (const Json& file : family_configs()) seeds.push_back(dump_json(file));
  survive_mutations(seeds, [](const std::string& text) {
    const HfConfig c = parse_hf_config(text, "mutated");
    const ModelSpec spec = model_spec(c);
    const double want = hf_config_size(c).parameters;
    if (!(std::abs(static_cast<double>(num_parameters(spec)) - want) <= 1e-9 * want))
      throw std::logic_error("miscounted");
    for (const HfForm form : {HfForm::v5, HfForm::v4}) {
      const HfConfig back = parse_hf_config(hf_config_json(c, form), "written");
      if (back.hidden_size != c.hidden_size || back.rope != c.rope)
        throw std::logic_error("writing changed the config");
    }
  });
}

TEST(ModelSpec, ListsEmbedThenBlocksThenHead) {
  const ModelSpec m = model_spec(llama(100, 16, 24, 3, 4, 2));
  ASSERT_EQ(m.units.size(), 8u);
  EXPECT_EQ(m.embed().positions, 0);
  EXPECT_EQ(m.units[3].layer, 1);
  EXPECT_TRUE(std::holds_alternative<AttentionSpec>(m.units[3].spec));
  EXPECT_TRUE(std::holds_alternative<MlpSpec>(m.units[4].spec));
  EXPECT_EQ(m.head().vocab, 100);
}

TEST(ModelSpec, RefusesWhatMakesNoModelNamingTheKey) {
  const auto message = [](const HfConfig& c) {
    try {
      model_spec(c);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  HfConfig c = llama(100, 16, 24, 3, 4, 2);
  c.model_type = "mamba";
  EXPECT_NE(message(c).find("mamba"), std::string::npos) << message(c);
  EXPECT_NE(message(c).find("mistral"), std::string::npos) << message(c);
  c = llama(100, 16, 24, 3, 4, 3);
  EXPECT_NE(message(c).find("num_key_value_heads 3"), std::string::npos) << message(c);
  c = llama(100, 16, 0, 3, 4, 2);
  EXPECT_NE(message(c).find("intermediate_size"), std::string::npos) << message(c);
  c = llama(100, 20, 24, 3, 4, 2);
  EXPECT_NE(message(c).find("head_dim 5"), std::string::npos) << message(c);
}

TEST(UnitCost, AttendedPairsCountEveryQueryAndKey) {
  for (int64_t queries : {0, 1, 2, 7, 20})
    for (int64_t past : {0, 1, 5, 30})
      for (int64_t window : {0, 1, 3, 8, 40}) {
        int64_t want = 0;
        for (int64_t q = 0; q < queries; ++q)
          for (int64_t k = 0; k <= past + q; ++k) want += window == 0 || past + q - k < window;
        EXPECT_EQ(attended_pairs(queries, past, window), want) << queries << " after " << past << ", window " << window;
      }
}

TEST(UnitCost, TrainingFlopsAreSixPerMultipliedParameterPlusAttention) {
  const ModelSpec m = model_spec(llama(100, 16, 24, 3, 4, 2));
  const double table = 100 * 16, all = static_cast<double>(num_parameters(m));
  // 10 tokens see 55 pairs: 5.5 each, in 3 layers of width 16, twice a multiply-add forward and twice that backward
  EXPECT_DOUBLE_EQ(training_flops_per_token(m, 10), 6 * (all - table) + 3 * 12 * 16 * 5.5);
  // Frozen matrices have no gradients of their own.
  const ModelSpec adapted = with_adapters(m, 2);
  const double products = static_cast<double>(num_parameters(adapted)) - all;
  EXPECT_GT(products, 0);
  EXPECT_DOUBLE_EQ(training_flops(m, 10, 100, 100), 100 * training_flops_per_token(m, 10));
  EXPECT_DOUBLE_EQ(training_flops(m, 10, 100, 30),
                   100 * training_flops_per_token(m, 10) - 70 * 6 * m.width * m.head().vocab);
  EXPECT_DOUBLE_EQ(training_flops_per_token(adapted, 10), 4 * (all - table) + 6 * products + 3 * 12 * 16 * 5.5);
}

}  // namespace
}  // namespace tern
