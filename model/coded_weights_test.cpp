// Weights that stay as a GGUF file codes them: the logits of the weights decoded at loading, bit for bit, and exactly the
// file's bytes.
#include <omp.h>

#include "base/bug.h"
#include "base/threads_testing.h"
#include "formats/format_test_support.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/dispatch.h"
#include "model/coded_model_testing.h"
#include "model/gguf_weights.h"
#include "model/model_files.h"

namespace tern {
namespace {

const std::vector<WeightType> kMixedTypes = {WeightType::q4_k, WeightType::q6_k, WeightType::q8_0, WeightType::iq4_xs,
                                             WeightType::q5_1, WeightType::q2_k, WeightType::f16};

void expect_decoded_bits(const std::string& path, DType dtype, size_t num_tokens) {
  const ModelSpec spec = model_spec(gguf_config(Gguf(path)));
  Arena arena;
  const Compute c{arena};
  const ModelWeights decoded = load_weights_to_infer(spec, path, dtype, arena, WeightsIn::own_memory);
  const ModelWeights coded = load_weights_to_infer(spec, path, dtype, arena, WeightsIn::coded_file);
  const std::vector<int32_t> tokens = random_tokens(static_cast<int64_t>(num_tokens), spec.vocab, 11);
  const Tensor want = logits_of(spec, decoded, tokens, c), got = logits_of(spec, coded, tokens, c);
  EXPECT_TRUE(same_bits(got, want)) << num_tokens << " tokens in " << name_of(dtype);
}

TEST(CodedWeights, LogitsAreThoseOfDecodedWeightsUnderEverySet) {
  const TemporaryDirectory dir;
  const Isa before = active_isa();
  for (const char* family : {"llama", "gpt2"})
    for (const bool tied : {false, true}) {
      if (std::string(family) == "gpt2" && !tied) continue;
      const std::string path = dir / (std::string(family) + (tied ? "_tied.gguf" : ".gguf"));
      write_coded_model(coded_config(family, tied), kMixedTypes, path);
      for (const Isa isa : available_isas()) {
        force_isa(isa);
        SCOPED_TRACE(std::string(family) + (tied ? ", tied, " : ", ") + std::string(name_of(isa)));
        with_threads(1, [&] {
          for (const DType dtype : {DType::f32, DType::bf16}) expect_decoded_bits(path, dtype, 13);
        });
        with_threads(2, [&] { expect_decoded_bits(path, tied ? DType::bf16 : DType::f32, 1); });
      }
    }
  force_isa(before);
}

TEST(CodedWeights, AFusedLayerIsPiecesOfItsFilesTypesWhereTheyLie) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.gguf";
  write_coded_model(coded_config("llama", false), kMixedTypes, path);
  const Gguf file(path);
  const ModelSpec spec = model_spec(gguf_config(file));
  Arena arena;
  const ModelWeights w = load_weights_to_infer(spec, path, DType::f32, arena, WeightsIn::coded_file);
  const auto& attention = std::get<AttentionWeights>(w.units[1]);
  const auto& pieces = std::get<CodedWeight>(attention.qkv.weight).pieces;
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].type, WeightType::q6_k);  // the table of tokens is q4_k
  EXPECT_EQ(pieces[1].type, WeightType::q8_0);
  EXPECT_EQ(pieces[2].type, WeightType::iq4_xs);
  EXPECT_EQ(pieces[0].head_dim, 64);
  EXPECT_EQ(pieces[2].head_dim, 0);
  EXPECT_EQ(pieces[1].bytes.bytes(), stored_bytes(WeightType::q8_0, 128, 256));
  EXPECT_EQ(std::memcmp(pieces[1].bytes.data(), file.find_tensor("blk.0.attn_k.weight")->bytes.data(),
                        static_cast<size_t>(pieces[1].bytes.bytes())),
            0);
  EXPECT_THROW(dense_rows(attention.qkv), Bug);
}

// What stays coded counts as many bytes as in the file; vectors, and what the file has as dense as the computation.
TEST(CodedWeights, TheirBytesAreTheFilesAndATiedTableCountsOnce) {
  const TemporaryDirectory dir;
  for (const bool tied : {false, true}) {
    const std::string path = dir / (tied ? "tied.gguf" : "m.gguf");
    write_coded_model(coded_config("llama", tied), {WeightType::q4_0, WeightType::q3_k}, path);
    const Gguf file(path);
    const ModelSpec spec = model_spec(gguf_config(file));
    int64_t matrices = 0, vectors = 0;
    for (const GgufTensor& t : file.tensors())
      (t.rank == 2 ? matrices : vectors) += static_cast<int64_t>(t.bytes.size());
    int64_t coded = 0;
    for (const auto& [name, bytes] : coded_bytes(spec, path, DType::f32)) coded += bytes;
    EXPECT_EQ(coded, matrices);
    Arena arena;
    const ModelWeights w = load_weights_to_infer(spec, path, DType::f32, arena, WeightsIn::coded_file);
    EXPECT_EQ(arena.current_total(), matrices + vectors);
    EXPECT_EQ(arena.peak_total(), matrices + vectors);
  }
}

TEST(CodedWeights, MatricesThatAreNoShorterThanTheirNumbersArePacked) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.gguf";
  write_coded_model(coded_config("llama", false), {WeightType::bf16, WeightType::f16, WeightType::f32, WeightType::f32},
                    path);
  const ModelSpec spec = model_spec(gguf_config(Gguf(path)));
  EXPECT_TRUE(coded_bytes(spec, path, DType::bf16).empty());
  EXPECT_TRUE(coded_bytes(spec, path, DType::f64).empty());
  const CodedBytes in_f32 = coded_bytes(spec, path, DType::f32);
  EXPECT_TRUE(in_f32.contains("embed.tokens"));                   // bf16
  EXPECT_TRUE(in_f32.contains("layers.0.attention.qkv.weight"));  // f16, f32, f32
  EXPECT_FALSE(in_f32.contains("layers.0.mlp.down.weight"));      // f32
  expect_decoded_bits(path, DType::f32, 5);
  expect_decoded_bits(path, DType::bf16, 5);
}

// Products in integers take codes whatever is computed in: also where the set's other products would decode them.
TEST(CodedWeights, IntegersKeepCodesInEveryType) {
  const TemporaryDirectory dir;
  const std::string path = dir / "m.gguf";
  write_coded_model(coded_config("llama", false), {WeightType::q4_0, WeightType::q6_k}, path);
  const ModelSpec spec = model_spec(gguf_config(Gguf(path)));
  const CodedBytes want = coded_bytes(spec, path, DType::f32);
  EXPECT_TRUE(coded_bytes(spec, path, DType::f64, WeightsIn::coded_int8).empty());
  const std::vector<int32_t> tokens = random_tokens(21, spec.vocab, 1);  // more rows than a tile has
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    SCOPED_TRACE(name_of(isa));
    for (const DType dtype : {DType::f32, DType::bf16}) {
      EXPECT_EQ(coded_bytes(spec, path, dtype, WeightsIn::coded_int8), want);
      Arena arena;
      const ModelWeights w = load_weights_to_infer(spec, path, dtype, arena, WeightsIn::coded_int8);
      const auto& attention = std::get<AttentionWeights>(w.units[1]);
      EXPECT_TRUE(std::get<CodedWeight>(attention.qkv.weight).in_integers);
      const Tensor logits = logits_of(spec, w, tokens, {arena, Multiply::exact});
      for (int64_t i = 0; i < logits.count(); ++i) ASSERT_TRUE(std::isfinite(element(logits, i))) << i;
    }
  }
  force_isa(before);
}

}  // namespace
}  // namespace tern
