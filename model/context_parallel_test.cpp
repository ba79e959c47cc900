// Context parallelism by all-to-all: ranks with parts of the rows compute the activations of one rank to the bit, and its gradients.
#include "model/context_testing.h"

namespace tern {
namespace {

void expect_gradients_of_one(const ModelSpec& spec, int ranks, double bound) {
  expect_gradients_of_one(spec, Batch(spec, 24), ranks, DType::f64, bound, false);
}

TEST(ContextParallel, EveryGradientIsThatOfOneRank) {
  for (const char* family : {"llama", "gpt2", "gpt_neox", "opt", "granite"})
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(std::string(family) + " on " + std::to_string(ranks));
      expect_gradients_of_one(spec_of(family), ranks, 1e-12);
    }
  for (const int ranks : {2, 4}) expect_gradients_of_one(spec_of("llama", 4), ranks, 1e-12);
  expect_gradients_of_one(spec_of("gemma2", 4), 2, 1e-12);  // capped scores, windows
}

// Norms by head and by row, two tables of turns; slopes of each head's own, their number a power of two or not; narrow rows, which queries
// have or not, and value heads that are longer than key heads or shorter.
TEST(ContextParallel, HeadsThatAreNormedSlopedOrLatentHaveTheGradientsOfOneRankToo) {
  for (const char* family : {"qwen3", "olmo2", "gemma3_text", "bloom", "gpt_oss", "deepseek_v2", "deepseek_v3"})
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::string(family) + " on " + std::to_string(ranks));
      expect_gradients_of_one(spec_of(family, 4), ranks, 1e-12);
    }
  for (const int ranks : {2, 3, 4, 6}) expect_gradients_of_one(spec_of("bloom", 12, 12), ranks, 1e-12);
  HfConfig plain = tiny_config("deepseek_v2");
  plain.query_rank = 0, plain.value_head_dim = 9;
  expect_gradients_of_one(model_spec(plain), 2, 1e-12);
}

// Sums of weight gradients come part by part: f32 within 1e-5 of one rank, bf16 within what its rounding gives.
TEST(ContextParallel, InOtherTypesWithinRounding) {
  for (const char* family : {"llama", "gpt2", "gpt_oss"})
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::string(family) + " on " + std::to_string(ranks));
      const ModelSpec spec = spec_of(family, 4);
      expect_gradients_of_one(spec, Batch(spec, 24), ranks, DType::f32, 1e-5, false);
      expect_gradients_of_one(spec, Batch(spec, 24), ranks, DType::bf16, 0.1, false);
    }
}

// What each row becomes does not depend on who has which rows.
void expect_rows_of_one_rank(const std::string& family) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ModelSpec spec = spec_of(family, 4);
    const Batch batch(spec, 24);
    Arena arena;
    const ModelWeights weights = random_weights(spec, dtype, arena, 7);
    const Tensor x = arena.allocate(dtype, {24, spec.width}, MemoryClass::activations);
    const auto numbers = random_tokens(x.count(), 200, 9);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float value = static_cast<float>(numbers[i] - 100) / 64;
      dtype == DType::f32 ? void(x.span<float>()[i] = value) : void(x.span<bf16>()[i] = to_bf16(value));
    }
    const Tensor want = unit_forward(spec, 1, weights.units[1], batch.rows, x, nullptr, nullptr, {arena});
    for (const int ranks : {2, 4})
      with_comms(ranks, {.baton = true}, [&](Comm& comm) {
        Arena memory;
        const ContextRanks group{comm};
        const int64_t each = 24 / ranks, first = each * comm.rank();
        const PartOfBatch part(batch, comm.rank(), ranks, false);
        UnitSaved saved;
        const Tensor got = unit_forward(spec, 1, weights.units[1], part.rows, x.rows_view(first, first + each), &saved,
                                        nullptr, {.arena = memory, .context = &group});
        const Tensor own = want.rows_view(first, first + each);
        EXPECT_EQ(std::memcmp(got.data(), own.data(), static_cast<size_t>(own.bytes())), 0)
            << family << ", rank " << comm.rank();
      });
  }
}

TEST(ContextParallel, AttentionLeavesTheRowsOfOneRankToTheBit) {
  for (const char* family : {"llama", "qwen3", "olmo2", "bloom", "gpt_oss", "deepseek_v2"})
    expect_rows_of_one_rank(family);
}

void expect_closed_forms(const std::string& family, DType dtype, Multiply multiply, int ranks) {
  const ModelSpec spec = spec_of(family, 4);
  const CostQuery query{.tokens = 24 / ranks, .dtype = dtype, .scratch = scratch_bytes(multiply, dtype)};
  const SwappedBytes swaps = swapped_bytes(spec.units[1], query);
  const auto sent = [&](int64_t bytes) { return bytes / ranks * (ranks - 1); };
  expect_closed_forms(spec, dtype, multiply, ranks, false, unit_cost_in_context(spec.units[1], query),
                      {sent(swaps.forward), sent(swaps.backward_input), sent(swaps.backward_weight)});
}

TEST(ContextParallel, BytesInMemoryAndOnLinksAreTheClosedForms) {
  for (const char* family : {"llama", "gpt_neox", "qwen3", "olmo2", "bloom", "gpt_oss", "deepseek_v2"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast})
        for (const int ranks : {2, 4}) {
          SCOPED_TRACE(fmt::format("{} {} on {}", family, name_of(dtype), ranks));
          expect_closed_forms(family, dtype, multiply, ranks);
        }
}

}  // namespace
}  // namespace tern
