// Experts that stand in one tensor of all (gpt_oss): directories of MXFP4 as they are published, and tern's own codes of such experts.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/coded_matmul.h"
#include "model/check_weights.h"
#include "model/coded_model_testing.h"
#include "model/model_files.h"
#include "model/read_parameter.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

HfConfig stacked_config() {
  HfConfig c = coded_config("gpt_oss", false);
  c.windowed_layers = {};
  c.num_experts = 3;
  return c;
}

bool is_stack(std::string_view name) {
  return name.ends_with(".experts.gate_up_proj") || name.ends_with(".experts.down_proj");
}

// The published form of a random model: each stack of matrices as blocks and scales.
struct Published {
  HfConfig config = stacked_config();
  ModelSpec spec = model_spec(config);
  std::string dir;
  std::map<std::string, std::vector<std::byte>> kept;

  explicit Published(const TemporaryDirectory& in) : dir(in / "published") {
    Arena arena;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 3), DType::f32, in / "dense", real_io());
    const Weights dense(in / "dense/model.safetensors");
    std::mt19937_64 random(5);
    std::vector<TensorToWrite> tensors;
    for (size_t i = 0; i < dense.size(); ++i) {
      const std::string name(dense[i].name);
      const std::vector<int64_t> shape(dense[i].shape.begin(), dense[i].shape.end());
      if (!is_stack(name)) {
        tensors.push_back({name, *dense[i].dtype, shape, dense[i].bytes, {}});
        continue;
      }
      const int64_t experts = shape.at(0), width = shape.at(1), out = shape.at(2);
      std::vector<std::byte>&blocks = kept[name + "_blocks"], &scales = kept[name + "_scales"];
      blocks.resize(static_cast<size_t>(experts * out * width / 2));
      scales.resize(static_cast<size_t>(experts * out * width / 32));
      for (std::byte& b : blocks) b = static_cast<std::byte>(random());
      for (std::byte& s : scales) s = static_cast<std::byte>(119 + random() % 5);
      tensors.push_back({name + "_blocks", DType::u8, {experts, out, width / 32, 16}, std::span(blocks), {}});
      tensors.push_back({name + "_scales", DType::u8, {experts, out, width / 32}, std::span(scales), {}});
    }
    make_dirs(real_io(), dir);
    write_safetensors(real_io(), dir + "/model.safetensors", tensors);
    Json json = parse_json(hf_config_json(config), "config.json");
    json["quantization_config"] = {{"modules_to_not_convert", {"lm_head"}}, {"quant_method", "mxfp4"}};
    write_file_atomically(real_io(), dir + "/config.json", json.dump());
  }
  // Number k of an output's row, by the words of the format: pairs in a byte, the lower half first.
  double number(const std::string& stack, int64_t row, int64_t k, int64_t width) const {
    constexpr double kFp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const auto pair = static_cast<int>(kept.at(stack + "_blocks")[static_cast<size_t>((row * width + k) / 2)]);
    const auto scale = static_cast<int>(kept.at(stack + "_scales")[static_cast<size_t>((row * width + k) / 32)]);
    const int code = k % 2 ? pair >> 4 : pair & 15;
    return std::ldexp(code < 8 ? kFp4[code] : -kFp4[code - 8], scale - 127);
  }
};

TEST(StackedExperts, PublishedMxfp4HoldsGateAndUpByTurns) {
  const TemporaryDirectory dir;
  const Published p(dir);
  const HfConfig config = read_hf_config(p.dir + "/config.json");
  const ModelSpec spec = model_spec(config);
  EXPECT_TRUE(check_weights(spec, p.dir + "/model.safetensors").problems.empty());
  Arena arena;
  const ModelWeights weights = load_weights(spec, p.dir, DType::f32, arena);
  const MoeSpec& u = *moe_of(spec.units[2]);
  const auto& w = std::get<MoeWeights>(weights.units[2]);
  const int64_t F = u.hidden, D = u.width;
  int64_t wrong = 0;
  for (int64_t e = 0; e < u.experts; ++e)
    for (int64_t r = 0; r < 2 * F; ++r)
      for (int64_t k = 0; k < D; ++k) {
        const int64_t row = e * 2 * F + (r < F ? 2 * r : 2 * (r - F) + 1);
        wrong += element(dense_rows(w.up[static_cast<size_t>(e)]), r * D + k) !=
                 p.number("model.layers.0.mlp.experts.gate_up_proj", row, k, D);
        if (r < D && k < F)
          wrong += element(dense_rows(w.down[static_cast<size_t>(e)]), r * F + k) !=
                   p.number("model.layers.0.mlp.experts.down_proj", e * D + r, k, F);
      }
  EXPECT_EQ(wrong, 0);
}

TEST(StackedExperts, PublishedMxfp4RunsAsItLies) {
  const TemporaryDirectory dir;
  const Published p(dir);
  const ModelSpec spec = model_spec(read_hf_config(p.dir + "/config.json"));
  EXPECT_TRUE(holds_coded(spec, p.dir));
  const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Arena arena;
    const Compute c{arena, Multiply::exact};
    const CodedBytes bytes = coded_bytes(spec, p.dir, dtype);
    const bool stays = multiplies_coded(dtype);  // else experts are decoded when they are loaded
    EXPECT_EQ(std::ssize(bytes), stays ? 2 * moe_of(spec.units[2])->experts : 0);
    for (const auto& [name, count] : bytes)
      EXPECT_EQ(count, stored_bytes(WeightType::mxfp4, name.ends_with(".up.weight") ? 512 : 256, 256)) << name;
    const ModelWeights decoded = load_weights(spec, p.dir, dtype, arena);
    const ModelWeights coded = load_weights_to_infer(spec, p.dir, dtype, arena, WeightsIn::coded_file);
    EXPECT_EQ(std::holds_alternative<CodedWeight>(std::get<MoeWeights>(coded.units[2]).up[1].weight), stays);
    EXPECT_TRUE(same_bits(logits_of(spec, coded, tokens, c), logits_of(spec, decoded, tokens, c)));
  }
}

TEST(StackedExperts, BlocksThatDoNotFitAreNamed) {
  const TemporaryDirectory dir;
  const Published p(dir);
  HfConfig config = read_hf_config(p.dir + "/config.json");
  config.intermediate_size = 128;
  Arena arena;
  EXPECT_TRUE(throws(ErrorKind::bad_file, "gate_up_proj_blocks' is U8 (3, 512, 8, 16), expected U8 (3, 256, 8, 16)",
                     [&] { load_weights(model_spec(config), p.dir, DType::f32, arena); }));
}

TEST(StackedExperts, OwnCodesComeBackToTheirExpertsAndRunAsTheyLie) {
  const TemporaryDirectory dir;
  for (const WeightType type : {WeightType::q8_0, WeightType::u4, WeightType::lc3}) {
    SCOPED_TRACE(name_of(type));
    const HfConfig config = stacked_config();
    const ModelSpec spec = model_spec(config);
    const std::string path = dir / std::string(name_of(type));
    Arena arena;
    write_coded_directory(config, type, path);
    EXPECT_TRUE(check_weights(spec, path + "/model.safetensors").problems.empty());
    ModelWeights decoded = load_weights(spec, path, DType::f32, arena);
    for_each_parameter(spec, decoded, [&](const ParameterInfo& info, Tensor& t) {
      if (info.name.find(".experts.") == info.name.npos || info.shape.rank != 2 || table_bytes(type) > 0) return;
      std::vector<float> want(static_cast<size_t>(t.count()));
      decode_blocks(type, random_codes(info, type).rows, want);
      EXPECT_EQ(std::memcmp(want.data(), t.data(), static_cast<size_t>(t.bytes())), 0) << info.name;
    });
    const std::vector<int32_t> tokens = random_tokens(9, spec.vocab, 1);
    const Compute c{arena, Multiply::exact};
    const ModelWeights coded = load_weights_to_infer(spec, path, DType::f32, arena, WeightsIn::coded_file);
    const auto& w = std::get<MoeWeights>(coded.units[2]);
    for (const Linear* linear : {&w.up[2], &w.down[2]})
      EXPECT_TRUE(std::holds_alternative<CodedWeight>(linear->weight));
    EXPECT_TRUE(same_bits(logits_of(spec, coded, tokens, c), logits_of(spec, decoded, tokens, c)));
  }
}

}  // namespace
}  // namespace tern
