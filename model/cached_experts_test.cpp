// Mixtures whose experts are read when a token chooses them: the logits of resident weights, bit for bit, over caches, batches,
// types and readers; each chosen expert is read at most once for a pass; what is read is what the decisions say.
#include <algorithm>

#include "formats/format_test_support.h"
#include "model/coded_model_testing.h"
#include "model/file_bands.h"
#include "model/given_weights.h"
#include "model/load_streamed.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

struct CacheCase {
  int slots = 2;
  CachePolicy policy = CachePolicy::score;
  ReadWay way = ReadWay::direct;
  int percent = 50;
};

StreamedModel load(const ModelSpec& spec, const std::string& path, DType dtype, const FileBands& bands,
                   const CacheCase& test, Arena& arena) {
  std::vector<bool> stays;
  for (size_t i = 0; i < pass_extents(bands, dtype).size(); ++i)
    stays.push_back(static_cast<int>(random_u64({17, 5}, i) % 100) < test.percent);
  const CacheSettings cache{.slots = {test.slots, test.slots}, .policy = test.policy};
  return load_streamed(spec, path, dtype, bands, stays, open_blocks(bands.paths, test.way).files,
                       {.slots = 3, .threads = 2}, arena, cache);
}

// Passes of one token, of many and of some; after each, what was wanted and what was read.
void expect_the_bits_of_resident_weights(const ModelSpec& spec, const std::string& path, DType dtype,
                                         const CacheCase& test) {
  SCOPED_TRACE(fmt::format("{}: {} slots, {}, {}, {} % stay", name_of(dtype), test.slots, name_of(test.policy),
                           name_of(test.way), test.percent));
  Arena arena, whole;
  const FileBands bands = file_bands(spec, path, dtype, kSmallBands);
  ASSERT_GT(bands.experts.size(), 0u);
  const std::vector<CacheItem> items = expert_items(bands);
  const StreamedModel model = load(spec, path, dtype, bands, test, arena);
  const ModelWeights resident = load_weights_to_infer(spec, path, dtype, whole);
  std::vector<int> groups;
  for (const CacheItem& item : items) groups.push_back(item.group);
  CacheDecisions said(groups, {.slots = {test.slots, test.slots}, .policy = test.policy});
  model.cache->record(true);
  int64_t missed = 0;
  for (const int64_t tokens : {1, 1, 13, 1, 5, 1, 1}) {
    const std::vector<int32_t> ids = random_tokens(tokens, spec.vocab, static_cast<uint64_t>(tokens));
    const Tensor got = logits_of(spec, model.weights, ids, {arena});
    EXPECT_TRUE(same_bits(got, logits_of(spec, resident, ids, {whole}))) << tokens << " tokens";
    for (const ExtentCache::Event& event : model.cache->take_events()) {
      if (event.item >= 0) {
        said.see(event.item, event.share);
        continue;
      }
      EXPECT_LE(event.list.size(), 2 * static_cast<size_t>(tokens * bands.experts.front().top_k));
      for (const PlannedRead& read : said.want(event.list))
        for (const Extent& e : items[static_cast<size_t>(event.list[static_cast<size_t>(read.place)])].extents)
          missed += e.bytes;
    }
  }
  const CacheCounts counts = model.cache->counts();
  EXPECT_EQ(counts.items.hits, said.hits().hits);
  EXPECT_EQ(counts.items.wanted, said.hits().wanted);
  EXPECT_EQ(counts.missed_bytes, missed);
  EXPECT_LE(counts.missed_bytes, counts.wanted_bytes);
  if (test.slots >= num_experts(bands)) {
    EXPECT_LE(counts.items.wanted - counts.items.hits, static_cast<int64_t>(items.size()));
  }
}

HfConfig mixture_config(const char* family) {
  HfConfig config = tiny_config(family);
  config.vocab_size = 201;
  return config;
}

TEST(CachedExperts, LogitsAreThoseOfResidentWeightsOverFamiliesTypesAndCaches) {
  const TemporaryDirectory dir;
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3"}) {
    const HfConfig config = mixture_config(family);
    const ModelSpec spec = model_spec(config);
    for (const DType saved : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} saved in {}", family, name_of(saved)));
      const std::string path = dir / fmt::format("{}_{}", family, name_of(saved));
      Arena arena;
      save_model(spec, config, random_weights(spec, DType::f32, arena, 3), saved, path, real_io());
      const auto all = static_cast<int>(num_experts(file_bands(spec, path, DType::f32, kSmallBands)));
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const CacheCase& test :
             {CacheCase{1}, CacheCase{2, CachePolicy::lru}, CacheCase{3, CachePolicy::score, ReadWay::buffered, 0},
              CacheCase{all, CachePolicy::score, ReadWay::direct, 100}})
          expect_the_bits_of_resident_weights(spec, path, dtype, test);
    }
  }
}

TEST(CachedExperts, ADiskThatFailsNamesTheFileAndTheNextPassIsRight) {
  const TemporaryDirectory dir;
  const HfConfig config = mixture_config("mixtral");
  const ModelSpec spec = model_spec(config);
  const std::string path = dir / "model";
  Arena arena, whole;
  save_model(spec, config, random_weights(spec, DType::f32, arena, 3), DType::bf16, path, real_io());
  const FileBands bands = file_bands(spec, path, DType::bf16, kSmallBands);
  const OpenedBlocks opened = open_blocks(bands.paths);
  int64_t failing = -1;
  const StreamedModel model =
      load_streamed(spec, path, DType::bf16, bands, std::vector<bool>(pass_extents(bands, DType::bf16).size(), true),
                    std::make_unique<FaultyBlocks>(
                        *opened.files, [&](int64_t k, int64_t wanted) { return k == failing ? -EIO : wanted; }),
                    {.slots = 3}, arena, {.slots = {2, 2}});
  const ModelWeights resident = load_weights_to_infer(spec, path, DType::bf16, whole);
  auto& files = static_cast<FaultyBlocks&>(*model.files);
  failing = files.num_reads + 5;
  try {
    logits_of(spec, model.weights, {1, 2, 3}, {arena});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("model.safetensors: reading"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(
      same_bits(logits_of(spec, model.weights, {1, 2, 3}, {arena}), logits_of(spec, resident, {1, 2, 3}, {whole})));
}

}  // namespace
}  // namespace tern
