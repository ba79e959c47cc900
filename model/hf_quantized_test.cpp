// Matrices of GPTQ, AWQ, compressed-tensors and bitsandbytes: the numbers that their formats define, bit for bit; directories of them.
#include "model/hf_quantized.h"
#include "base/io.h"
#include "formats/format_test_support.h"
#include "formats/mutations_testing.h"
#include "formats/safetensors/write.h"
#include "kernels/cpu/decode.h"
#include "model/check_weights.h"
#include "model/coded_model_testing.h"
#include "model/fragment.h"
#include "model/hf_quantized_testing.h"
#include "model/model_files.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr const char* kName = "model.layers.0.self_attn.q_proj.weight";
constexpr int64_t kOut = 32, kIn = 128;

struct PackedCase {
  const char* file;
  HfPacking packing;
  std::optional<WeightType> type;
};
const PackedCase kCases[] = {{"gptq.4-128-symmetric", HfPacking::gptq, WeightType::q4_0},
                             {"gptq.4-64", HfPacking::gptq, WeightType::u4},
                             {"gptq_v2.4-64", HfPacking::gptq_v2, WeightType::u4},
                             {"gptq.4-32", HfPacking::gptq, {}},
                             {"gptq.4-32-act-order", HfPacking::gptq, {}},
                             {"gptq.3-64", HfPacking::gptq, WeightType::u3},
                             {"gptq.2-64", HfPacking::gptq, WeightType::u2},
                             {"gptq.8-128-symmetric", HfPacking::gptq, WeightType::q8_0},
                             {"gptq.8-64", HfPacking::gptq, {}},
                             {"awq.4-64", HfPacking::awq, WeightType::u4},
                             {"awq.4-128", HfPacking::awq, WeightType::u4},
                             {"compressed.4-128-symmetric", HfPacking::compressed, WeightType::q4_0},
                             {"compressed.4-64", HfPacking::compressed, WeightType::u4},
                             {"compressed.4-32-act-order", HfPacking::compressed, {}},
                             {"compressed.8-128-symmetric", HfPacking::compressed, WeightType::q8_0},
                             {"compressed.int8", HfPacking::compressed, WeightType::q8_0},
                             {"compressed.mxfp4", HfPacking::compressed, WeightType::mxfp4},
                             {"bitsandbytes.nf4", HfPacking::bitsandbytes, WeightType::nf4},
                             {"bitsandbytes.nf4-nested", HfPacking::bitsandbytes, WeightType::nf4},
                             {"bitsandbytes.nf4-128", HfPacking::bitsandbytes, WeightType::nf4}};

// A tensor that is one matrix.
Fragment whole(const std::string& name, int64_t out) { return {name, 0, out, false, 0, out}; }

std::string path_of(const PackedCase& c) { return golden("packed/" + std::string(c.file) + ".safetensors"); }
ModelSpec any_spec() { return model_spec(tiny_config("llama")); }

testing::AssertionResult same(std::span<const float> got, std::span<const std::byte> want) {
  if (got.empty() || got.size_bytes() != want.size()) return testing::AssertionFailure() << got.size() << " numbers";
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], want.data() + 4 * i, 4) != 0) {
      float x;
      std::memcpy(&x, want.data() + 4 * i, 4);
      return testing::AssertionFailure() << "[" << i << "] got " << got[i] << ", want " << x;
    }
  return testing::AssertionSuccess();
}

TEST(HfQuantizedMatrix, NumbersAndBlocksAreThoseOfTheFormatsToTheBit) {
  const ModelSpec spec = any_spec();
  for (const PackedCase& c : kCases) {
    SCOPED_TRACE(c.file);
    const Weights file(path_of(c));
    const auto m = find_hf_quantized(spec, file, c.packing, whole(kName, kOut), kIn);
    ASSERT_TRUE(m);
    EXPECT_EQ(m->tensors.size() + 1, file.size());  // beside "expected"
    const std::span<const std::byte> want = file.find("expected")->bytes;
    std::vector<float> numbers(kOut * kIn, NAN);
    unpack_rows(*m, 0, 5, numbers.data());
    unpack_rows(*m, 5, kOut, numbers.data() + 5 * kIn);
    EXPECT_TRUE(same(numbers, want));
    EXPECT_EQ(exact_type(*m), c.type);
    if (!c.type) continue;
    std::vector<std::byte> blocks(static_cast<size_t>(stored_bytes(*c.type, kOut, kIn)));
    unpack_blocks(*m, *c.type, 0, 3, blocks.data());
    unpack_blocks(*m, *c.type, 3, kOut, blocks.data() + stored_bytes(*c.type, 3, kIn));
    std::vector<float> decoded(kOut * kIn, NAN);
    decode_blocks(*c.type, blocks, decoded);
    EXPECT_TRUE(same(decoded, want));
  }
}

// As gpt-oss is published: transformers' numbers of every expert's rows, gate's and up's by turns (dev/golden/mxfp4_experts.py).
TEST(HfQuantizedMatrix, ExpertsInOneTensorAreTheReferencesToTheBit) {
  const ModelSpec spec = model_spec(tiny_config("gpt_oss"));
  const Weights file(golden("packed/mxfp4.experts.safetensors"));
  const std::span<const std::byte> want = file.find("expected")->bytes;
  constexpr int64_t kRows = 8, kExperts = 3, kWidth = 64;
  for (int64_t e = 0; e < kExperts; ++e)
    for (const int64_t turn : {0, 1}) {
      const Fragment f{"model.layers.0.mlp.experts.gate_up_proj", 0, kRows / 2, true, turn, kRows, 2, e, kExperts};
      const auto m = find_hf_quantized(spec, file, HfPacking::mxfp4, f, kWidth);
      ASSERT_TRUE(m);
      EXPECT_EQ(m->out, kRows * kExperts);
      EXPECT_EQ(exact_type(*m), WeightType::mxfp4);
      for (int64_t r = 0; r < kRows / 2; ++r) {
        const int64_t row = f.first_row() + r * f.file_step;
        std::vector<float> numbers(kWidth, NAN);
        unpack_rows(*m, row, row + 1, numbers.data());
        EXPECT_TRUE(same(numbers, want.subspan(static_cast<size_t>(4 * kWidth * row), 4 * kWidth))) << e << ", " << r;
      }
    }
  const Fragment one{"model.layers.0.mlp.experts.gate_up_proj", 0, kRows, true, 0, kRows};
  EXPECT_FALSE(find_hf_quantized(spec, file, HfPacking::mxfp4, one, kWidth)) << "a tensor that is one matrix";
}

TEST(HfQuantizedMatrix, WhatDoesNotFitIsNamed) {
  const ModelSpec spec = any_spec();
  const auto refused = [&](const char* file, HfPacking packing, int64_t out, int64_t in, const char* what) {
    return throws(ErrorKind::bad_file, what, [&] {
      find_hf_quantized(spec, Weights(golden("packed/" + std::string(file) + ".safetensors")), packing,
                        whole(kName, out), in);
    });
  };
  EXPECT_TRUE(refused("gptq.4-64", HfPacking::gptq, kOut, 96, "expected 2, 3, 4 or 8 bits"));
  EXPECT_TRUE(refused("gptq.4-64", HfPacking::gptq, 64, kIn, "qweight' is I32 (16, 32), expected I32 (16, 64)"));
  EXPECT_TRUE(refused("gptq.4-64", HfPacking::awq, kOut, kIn, "expected I32 (128, 4)"));
  EXPECT_TRUE(refused("awq.4-64", HfPacking::gptq, kOut, kIn, "128 words for 128 codes"));
  EXPECT_TRUE(refused("compressed.4-64", HfPacking::compressed, 64, kIn, "weight_packed' is I32 (32, 16)"));
  EXPECT_TRUE(refused("compressed.mxfp4", HfPacking::compressed, kOut, 96, "expected U8 (32, 48)"));
  EXPECT_TRUE(refused("compressed.mxfp4", HfPacking::compressed, kOut, 100, "no whole blocks of 32"));
  EXPECT_TRUE(refused("bitsandbytes.nf4", HfPacking::bitsandbytes, 16, kIn, "expected U8 (1024, 1)"));
  EXPECT_FALSE(find_hf_quantized(spec, Weights(golden("packed/awq.4-64.safetensors")), {}, whole(kName, kOut), kIn));
  EXPECT_FALSE(find_hf_quantized(spec, Weights(golden("packed/awq.4-64.safetensors")), HfPacking::awq,
                                 whole("other.weight", 1), 1));
}

TEST(HfQuantizedMutationsSlow, EveryMutationIsReadOrRefused) {
  std::vector<std::string> seeds;
  for (const PackedCase& c : kCases) seeds.push_back(read_bytes(path_of(c)));
  const TemporaryDirectory dir;
  const ModelSpec spec = any_spec();
  survive_mutations(
      seeds,
      [&](const std::string& bytes) {
        write_file_atomically(real_io(), dir / "m.safetensors", bytes);
        const Weights file(dir / "m.safetensors");
        bool any = false;
        for (const HfPacking packing : {HfPacking::gptq, HfPacking::gptq_v2, HfPacking::awq, HfPacking::compressed,
                                        HfPacking::bitsandbytes, HfPacking::mxfp4}) {
          std::optional<HfQuantizedMatrix> m;
          try {
            m = find_hf_quantized(spec, file, packing, whole(kName, kOut), kIn);
          } catch (const Error&) { continue; }
          if (!m) continue;
          any = true;
          std::vector<float> numbers(kOut * kIn);
          unpack_rows(*m, 0, kOut, numbers.data());
          if (const auto type = exact_type(*m)) {
            std::vector<std::byte> blocks(static_cast<size_t>(stored_bytes(*type, kOut, kIn)));
            unpack_blocks(*m, *type, 0, kOut, blocks.data());
          }
        }
        if (!any) throw Error(ErrorKind::bad_file, "no packed matrix");
      },
      {.change = MutateNumbers{}});
}

TEST(HfQuantizedModel, WhatStaysInBlocksHasTheBitsOfItsNumbers) {
  for (const bool act_order : {false, true}) {
    HfQuantizedDirectory d(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false})");
    add_gptq_layers(d, true, act_order);
    d.write();
    const ModelSpec spec = model_spec(read_hf_config(d.dir / "config.json"));
    const WeightsCheck check = check_weights(spec, d.dir / "model.safetensors");
    EXPECT_TRUE(check.problems.empty()) << check.problems.front();
    EXPECT_EQ(check.dtypes.contains(act_order ? "packed, read as numbers" : "Q4_0"), true);
    EXPECT_TRUE(holds_coded(spec, d.dir.path()));
    const CodedBytes coded = coded_bytes(spec, d.dir.path(), DType::f32);
    EXPECT_EQ(coded.size(), act_order ? 0u : 4u);
    for (const auto& [name, bytes] : coded)
      for (const ParameterInfo& info : parameters(spec))
        if (info.name == name) { EXPECT_EQ(bytes, stored_bytes(WeightType::q4_0, info.shape[0], info.shape[1])); }
    Arena arena;
    const Compute c{arena, Multiply::exact};
    const std::vector<int32_t> tokens = random_tokens(7, spec.vocab, 2);
    const ModelWeights numbers = load_weights(spec, d.dir.path(), DType::f32, arena);
    const ModelWeights blocks = load_weights_to_infer(spec, d.dir.path(), DType::f32, arena, WeightsIn::coded_file);
    EXPECT_TRUE(same_bits(logits_of(spec, blocks, tokens, c), logits_of(spec, numbers, tokens, c)));
  }
}

TEST(HfQuantizedModel, WhatIsWrongIsNamed) {
  HfQuantizedDirectory d(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})");
  add_gptq_layers(d, false, false);
  const auto dropped =
      std::ranges::find_if(d.tensors, [](const TensorToWrite& t) { return t.name.ends_with("o_proj.scales"); });
  d.kept.erase(d.kept.begin() + (dropped - d.tensors.begin()));
  d.tensors.erase(dropped);
  d.write();
  Arena arena;
  EXPECT_TRUE(throws(ErrorKind::bad_file, "o_proj.scales' is missing",
                     [&] { load_weights(d.spec, d.dir.path(), DType::f32, arena); }));
  EXPECT_FALSE(check_weights(d.spec, d.dir / "model.safetensors").problems.empty());
}

}  // namespace
}  // namespace tern
