// Row invariance: a token's logits have the same bits whatever shares its batch, however its prompt was
// chunked and paged, on one thread or two, within each instruction set that runs here.

#include <fmt/format.h>

#include <omp.h>

#include "kernels/dispatch.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"

namespace tern {
namespace {

constexpr int64_t kPrompt = 150;  // longer than a chunk, longer than a head's tile

// Puts the instruction set and the threads back.
struct Restore {
  Isa isa = active_isa();
  int threads = omp_get_max_threads();
  ~Restore() {
    force_isa(isa);
    omp_set_num_threads(threads);
  }
};

std::vector<int32_t> all_rows(int64_t count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  return rows;
}

// The logits of every token of `prompt`, alone, in one go, without a cache.
Tensor plain_logits(const ModelSpec& spec, const ModelWeights& weights, const RopeTable& rope,
                    const std::vector<int32_t>& prompt, std::optional<KvType> kept, const Compute& c) {
  Rows rows = make_rows(prompt, {0, static_cast<int64_t>(prompt.size())}, &rope);
  rows.kv = kept;
  const Tensor x = model_forward(spec, weights, rows, nullptr, c);
  return head_logits(spec, weights, x, all_rows(x.rows()), c);
}

struct Arrangement {
  int64_t batch, chunk, page_tokens;
};

// The same token logits of sequence `batch / 2` of a batch, its prompt fed in chunks over a paged cache with shuffled
// pages; neighbours are other prompts, at other places.
Tensor cached_logits(const ModelSpec& spec, const ModelWeights& weights, const RopeTable& rope,
                     const std::vector<int32_t>& prompt, const Arrangement& how, std::optional<KvType> kept,
                     const Compute& c) {
  const DType dtype = embed_of(weights).tokens.dtype();
  const KvType type = kept.value_or(kv_type_of(dtype));
  const auto length = static_cast<int64_t>(prompt.size());
  const int64_t mine = how.batch / 2, pages_each = (length + how.page_tokens - 1) / how.page_tokens,
                num_pages = pages_each * how.batch;
  std::vector<Tensor> keys, values;
  for (const Unit& unit : spec.units)
    if (const AttentionSpec* u = attention_of(unit))
      for (auto* store : {&keys, &values})
        store->push_back(c.arena.allocate(
            dtype_of(type).value_or(DType::u8),
            {num_pages, u->kv_heads, how.page_tokens, is_coded(type) ? kv_row_bytes(type, u->head_dim) : u->head_dim},
            MemoryClass::kv_cache));
  KvView kv{.page_tokens = how.page_tokens,
            .past = {},
            .begins = {0},
            .pages = {},
            .keys = keys,
            .values = values,
            .code = type};
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(how.batch));
  kv.past.assign(static_cast<size_t>(how.batch), 0);
  for (int64_t s = 0; s < how.batch; ++s) {
    const int64_t others = std::max<int64_t>(1, (length * (s + 3)) % (length + 1));
    prompts[static_cast<size_t>(s)] =
        s == mine ? prompt : random_tokens(others, spec.vocab, 900 + static_cast<uint64_t>(s));
    for (int64_t p = 0; p < pages_each; ++p)
      kv.pages.push_back(static_cast<int32_t>(
          random_permutation({77, 1}, static_cast<uint64_t>(s * pages_each + p), static_cast<uint64_t>(num_pages))));
    kv.begins.push_back(static_cast<int64_t>(kv.pages.size()));
  }

  const Tensor logits =
      c.arena.allocate(dtype == DType::f64 ? DType::f64 : DType::f32, {length, spec.vocab}, MemoryClass::staging);
  while (kv.past[static_cast<size_t>(mine)] < length) {
    std::vector<int32_t> tokens, positions;
    std::vector<int64_t> starts{0};
    int64_t first = 0, count = 0;
    for (size_t s = 0; s < prompts.size(); ++s) {
      // Neighbours move at their own pace: every third one a token at a time.
      const int64_t step = static_cast<int64_t>(s) != mine && s % 3 == 0 ? 1 : how.chunk;
      const int64_t n = std::min(step, static_cast<int64_t>(prompts[s].size()) - kv.past[s]);
      if (static_cast<int64_t>(s) == mine) first = static_cast<int64_t>(tokens.size()), count = n;
      for (int64_t t = kv.past[s]; t < kv.past[s] + n; ++t) {
        tokens.push_back(prompts[s][static_cast<size_t>(t)]);
        positions.push_back(static_cast<int32_t>(t));
      }
      starts.push_back(static_cast<int64_t>(tokens.size()));
    }
    const Rows rows{.tokens = tokens, .starts = starts, .positions = positions, .rope = &rope};
    const Tensor x = model_forward(spec, weights, rows, &kv, c);
    std::vector<int32_t> wanted = all_rows(count);
    for (int32_t& r : wanted) r += static_cast<int32_t>(first);
    const Tensor some = head_logits(spec, weights, x, wanted, c);
    std::memcpy(logits.rows_view(kv.past[static_cast<size_t>(mine)], kv.past[static_cast<size_t>(mine)] + count).data(),
                some.data(), static_cast<size_t>(some.bytes()));
    for (size_t s = 0; s < prompts.size(); ++s) kv.past[s] += starts[s + 1] - starts[s];
  }
  return logits;
}

void expect_invariant(const std::string& family, DType dtype, bool packed, const std::vector<Arrangement>& arrangements,
                      std::optional<KvType> kept = {}) {
  const Restore restore;
  HfConfig config = tiny_config(family);
  config.hidden_size = 48, config.head_dim = 12;  // more than one vector wide
  config.intermediate_size = 72, config.vocab_size = 101;
  if (config.kv_rank) config.head_dim = 8, config.plain_head_dim = 12, config.value_head_dim = 14;
  if (config.expert_size) config.expert_size = 40;
  if (config.sliding_window) config.sliding_window = 21;
  const ModelSpec spec = model_spec(config);
  const RopeTable rope = rope_table(spec, 256, 256);
  const std::vector<int32_t> prompt = random_tokens(kPrompt, spec.vocab, 42);
  ASSERT_FALSE(available_isas().empty());
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    Arena arena;
    arena.set_poison(true);
    const Compute c{arena, Multiply::exact};
    ModelWeights weights = random_weights(spec, dtype, arena, 5);
    omp_set_num_threads(1);
    const Tensor want = plain_logits(spec, weights, rope, prompt, kept, c);
    if (packed) pack_weights(spec, weights, arena);
    EXPECT_EQ(!kept, same_bits(plain_logits(spec, weights, rope, prompt, {}, c), want)) << "rounded where asked";
    for (const int threads : {1, 2}) {
      omp_set_num_threads(threads);
      SCOPED_TRACE(fmt::format("{}, {}, {}, {} threads", family, name_of(dtype), name_of(isa), threads));
      EXPECT_TRUE(same_bits(plain_logits(spec, weights, rope, prompt, kept, c), want)) << "plain";
      for (const Arrangement& how : arrangements)
        EXPECT_TRUE(same_bits(cached_logits(spec, weights, rope, prompt, how, kept, c), want))
            << "batch " << how.batch << ", chunk " << how.chunk << ", page " << how.page_tokens;
    }
  }
}

const std::vector<Arrangement> kFew{{3, 16, 7}, {8, 128, 16}};
const std::vector<Arrangement> kMany{{1, 1, 16},   {1, 16, 7},  {1, 128, 64},     {1, kPrompt, 256}, {3, 16, 1},
                                     {3, 128, 16}, {8, 16, 16}, {8, kPrompt, 33}, {64, 50, 16}};

TEST(RowInvariance, LlamaInF32) { expect_invariant("llama", DType::f32, true, kFew); }
TEST(RowInvariance, MistralInBf16WithWeightsPackedOnTheFly) { expect_invariant("mistral", DType::bf16, false, kFew); }
TEST(RowInvariance, CapsAndAlternatingWindowsInF32) { expect_invariant("gemma2", DType::f32, true, kFew); }
TEST(RowInvariance, NormsOfHeadsAndTwoRotaryTablesInBf16) { expect_invariant("gemma3_text", DType::bf16, true, kFew); }
TEST(RowInvariance, ParallelBranchesOfAPartlyTurnedHeadInF32) { expect_invariant("gpt_neox", DType::f32, true, kFew); }
TEST(RowInvariance, SlopesByDistanceInF32) { expect_invariant("bloom", DType::f32, true, kFew); }
TEST(RowInvariance, MistralInF32) { expect_invariant("mistral", DType::f32, true, kFew); }
TEST(RowInvariance, ExpertsInF32) { expect_invariant("mixtral", DType::f32, true, kFew); }
TEST(RowInvariance, ExpertsAndASharedOneInBf16) { expect_invariant("qwen2_moe", DType::bf16, false, kFew); }
TEST(RowInvariance, LatentAttentionInF32) { expect_invariant("deepseek_v3", DType::f32, true, kFew); }
TEST(RowInvariance, LatentAttentionInBf16) { expect_invariant("deepseek_v2", DType::bf16, false, kFew); }
TEST(RowInvariance, Gpt2InBf16) { expect_invariant("gpt2", DType::bf16, true, kFew); }

// A cache of another type: the bits of a pass without one over rows that were rounded alike.
TEST(RowInvariance, KeysIn8BitsOfLlamaInF32) { expect_invariant("llama", DType::f32, true, kFew, KvType::q8); }
TEST(RowInvariance, KeysIn4BitsOfMistralInF32) { expect_invariant("mistral", DType::f32, true, kFew, KvType::q4); }
TEST(RowInvariance, KeysIn8BitsOfMistralInBf16) { expect_invariant("mistral", DType::bf16, true, kFew, KvType::q8); }
TEST(RowInvariance, KeysInBf16OfGpt2InF32) { expect_invariant("gpt2", DType::f32, true, kFew, KvType::bf16); }
TEST(RowInvariance, LatentKeysIn4BitsInBf16) { expect_invariant("deepseek_v2", DType::bf16, false, kFew, KvType::q4); }

TEST(RowInvarianceSlow, LlamaInF32) { expect_invariant("llama", DType::f32, true, kMany); }
TEST(RowInvarianceSlow, LlamaInBf16) { expect_invariant("llama", DType::bf16, true, kMany); }
TEST(RowInvarianceSlow, MistralInBf16WithWeightsPackedOnTheFly) {
  expect_invariant("mistral", DType::bf16, false, kMany);
}
TEST(RowInvarianceSlow, MistralInF32) { expect_invariant("mistral", DType::f32, true, kMany); }
TEST(RowInvarianceSlow, Gpt2InF32) { expect_invariant("gpt2", DType::f32, true, kMany); }
TEST(RowInvarianceSlow, Gpt2InBf16) { expect_invariant("gpt2", DType::bf16, true, kMany); }

}  // namespace
}  // namespace tern
