// Weights that are read band by band: the logits of the same weights loaded whole, bit for bit, whatever stays in memory,
// however long the ring is and whoever reads; and exactly the bytes that were foretold.
#include "model/file_bands.h"
#include "model/given_weights.h"
#include "model/load_streamed.h"

#include <omp.h>

#include "base/threads_testing.h"
#include "formats/format_test_support.h"
#include "kernels/dispatch.h"
#include "model/coded_model_testing.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

std::vector<bool> some_stay(size_t count, int percent, uint64_t seed) {
  std::vector<bool> stays;
  for (size_t i = 0; i < count; ++i) stays.push_back(static_cast<int>(random_u64({seed, 5}, i) % 100) < percent);
  return stays;
}

struct BandCase {
  std::string path;
  DType dtype = DType::f32;
  int percent = 50;
  RingSettings ring = {.slots = 3, .threads = 2};
};

void expect_the_bits_of_resident_weights(const ModelSpec& spec, const BandCase& test) {
  SCOPED_TRACE(fmt::format("{} % stay, {} slots, {} threads, {}", test.percent, test.ring.slots, test.ring.threads,
                           name_of(test.dtype)));
  Arena arena, whole;
  const FileBands bands = file_bands(spec, test.path, test.dtype, kSmallBands);
  const std::vector<PassExtent> extents = pass_extents(bands, test.dtype);
  const std::vector<bool> stays = some_stay(extents.size(), test.percent, 17);
  const CacheSettings cache = bands.experts.empty() ? CacheSettings{} : CacheSettings{.slots = {2, 2}};
  const StreamedModel model =
      load_streamed(spec, test.path, test.dtype, bands, stays, open_blocks(bands.paths).files, test.ring, arena, cache);
  const ModelWeights resident = load_weights_to_infer(spec, test.path, test.dtype, whole);
  const int64_t read = streamed_bytes(extents, stays);
  for (const int64_t tokens : {1, 13, 1}) {
    const std::vector<int32_t> ids = random_tokens(tokens, spec.vocab, static_cast<uint64_t>(tokens));
    const RingCounts before = model.ring ? model.ring->counts() : RingCounts{};
    const Tensor got = logits_of(spec, model.weights, ids, {arena});
    EXPECT_TRUE(same_bits(got, logits_of(spec, resident, ids, {whole}))) << tokens << " tokens";
    if (!model.ring) continue;
    const RingCounts after = model.ring->counts();
    EXPECT_EQ(after.used_bytes - before.used_bytes, read) << "a pass reads what streams, once";
    EXPECT_EQ(after.skipped, 0) << "in the order of use";
  }
}

TEST(FileBands, LogitsAreThoseOfResidentWeightsOverFamiliesTypesAndRings) {
  const TemporaryDirectory dir;
  for (const char* family :
       {"llama", "gemma3_text", "gpt_neox", "gpt2", "qwen3", "olmo2", "falcon", "deepseek_v2", "mixtral"}) {
    HfConfig config = tiny_config(family);
    config.vocab_size = 201;
    const ModelSpec spec = model_spec(config);
    for (const DType saved : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} saved in {}", family, name_of(saved)));
      const std::string path = dir / fmt::format("{}_{}", family, name_of(saved));
      Arena arena;
      save_model(spec, config, random_weights(spec, DType::f32, arena, 3), saved, path, real_io());
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const int percent : {0, 50}) expect_the_bits_of_resident_weights(spec, {path, dtype, percent});
    }
  }
}

TEST(FileBands, NeitherMemoryNorRingNorThreadsNorInstructionSetsChangeABit) {
  const TemporaryDirectory dir;
  const Isa best = active_isa();
  HfConfig config = tiny_config("llama");
  config.hidden_size = 72, config.attention_bias = config.mlp_bias = true, config.vocab_size = 300;
  const ModelSpec spec = model_spec(config);
  const std::string path = dir / "model";
  Arena arena;
  save_model(spec, config, random_weights(spec, DType::f32, arena, 3), DType::bf16, path, real_io(), 60'000);  // shards
  for (const int percent : {0, 30, 90, 100}) expect_the_bits_of_resident_weights(spec, {path, DType::bf16, percent});
  for (const RingSettings ring : {RingSettings{1, 1}, {2, 4}, {9, 3}, {40, 2}})
    expect_the_bits_of_resident_weights(spec, {path, DType::bf16, 40, ring});
  for (const int threads : {1, 3})
    with_threads(threads, [&] { expect_the_bits_of_resident_weights(spec, {path, DType::bf16}); });
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    SCOPED_TRACE(name_of(isa));
    for (const DType dtype : {DType::f32, DType::bf16}) expect_the_bits_of_resident_weights(spec, {path, dtype});
  }
  force_isa(best);
}

TEST(FileBands, GgufStreamsAsItLies) {
  const TemporaryDirectory dir;
  const std::vector<WeightType> types = {WeightType::q4_k, WeightType::q6_k, WeightType::bf16, WeightType::q8_0,
                                         WeightType::f16};
  for (const bool tied : {false, true}) {
    const std::string path = dir / (tied ? "tied.gguf" : "m.gguf");
    write_coded_model(coded_config("llama", tied), types, path);
    const ModelSpec spec = model_spec(gguf_config(Gguf(path)));
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int percent : {0, 50, 100}) expect_the_bits_of_resident_weights(spec, {path, dtype, percent});
  }
}

TEST(FileBands, WhatStaysAndTheRingTakeTheBytesThatAreForetold) {
  const TemporaryDirectory dir;
  HfConfig config = tiny_config("llama");
  config.hidden_size = 72, config.vocab_size = 300;
  const ModelSpec spec = model_spec(config);
  const std::string path = dir / "model";
  Arena some;
  save_model(spec, config, random_weights(spec, DType::f32, some, 3), DType::bf16, path, real_io());
  for (const int percent : {0, 40, 100}) {
    const FileBands bands = file_bands(spec, path, DType::bf16, kSmallBands);
    const std::vector<bool> stays = some_stay(pass_extents(bands, DType::bf16).size(), percent, 17);
    Arena arena;
    const StreamedModel model =
        load_streamed(spec, path, DType::bf16, bands, stays, open_blocks(bands.paths).files, {.slots = 3}, arena);
    const CodedBytes kept = bytes_in_memory(bands, stays, DType::bf16);
    int64_t want = num_parameters(spec) * 2;
    for (const ParameterInfo& info : parameters(spec))
      if (const auto at = kept.find(info.name); at != kept.end()) want += at->second - info.shape.count() * 2;
    EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::weights)], want) << percent;
  }
}

TEST(FileBands, ADiskThatFailsNamesTheFile) {
  const TemporaryDirectory dir;
  HfConfig config = tiny_config("llama");
  config.vocab_size = 201;
  const ModelSpec spec = model_spec(config);
  const std::string path = dir / "model";
  Arena arena;
  save_model(spec, config, random_weights(spec, DType::f32, arena, 3), DType::bf16, path, real_io());
  const FileBands bands = file_bands(spec, path, DType::bf16, kSmallBands);
  const size_t count = pass_extents(bands, DType::bf16).size();
  const OpenedBlocks opened = open_blocks(bands.paths);
  const StreamedModel model = load_streamed(
      spec, path, DType::bf16, bands, std::vector<bool>(count, false),
      std::make_unique<FaultyBlocks>(*opened.files, [](int64_t k, int64_t wanted) { return k == 9 ? -EIO : wanted; }),
      {.slots = 3}, arena);
  try {
    logits_of(spec, model.weights, {1, 2, 3}, {arena});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.safetensors: reading"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tern
