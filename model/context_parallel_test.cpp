// Context parallelism by all-to-all: ranks with parts of the rows compute the activations of one rank to the bit, and its gradients.
#include <fmt/format.h>

#include <cstring>

#include "comm/ranks_testing.h"
#include "model/context_ranks.h"
#include "model/linear.h"
#include "model/model_testing.h"
#include "model/rope_table.h"
#include "model/visit_weights.h"
#include "spec/context_cost.h"

namespace tern {
namespace {

// Eight heads, or `heads`; so many key/value heads where the family has a number of its own.
ModelSpec spec_of(const std::string& family, int64_t keys = 8, int64_t heads = 8) {
  HfConfig c = tiny_config(family);
  c.num_attention_heads = heads;
  const HfFamily& f = hf_family(c);
  c.num_key_value_heads = f.has_kv_heads && !f.blocks.latent ? keys : heads;
  return model_spec(c);
}

struct Batch {
  std::vector<int32_t> tokens, targets;
  std::optional<RopeTable> rope;
  Rows rows;
  Batch(const ModelSpec& spec, int64_t count) : tokens(random_tokens(count, spec.vocab, 3)) {
    targets = random_tokens(count, spec.vocab, 4);
    targets[1] = -1;
    if (spec.turns()) rope = rope_table(spec, count, count);
    rows = make_rows(tokens, {0, 5, count}, rope ? &*rope : nullptr);
  }
  Batch(const Batch&) = delete;
};

Rows rows_of_rank(const Rows& all, int rank, int ranks) {
  const size_t each = all.tokens.size() / static_cast<size_t>(ranks), first = each * static_cast<size_t>(rank);
  Rows own = all;
  own.tokens = all.tokens.subspan(first, each);
  own.positions.assign(all.positions.begin() + static_cast<std::ptrdiff_t>(first),
                       all.positions.begin() + static_cast<std::ptrdiff_t>(first + each));
  return own;
}

void expect_gradients_of_one(const ModelSpec& spec, int ranks, double bound) {
  const Batch batch(spec, 24);
  Arena arena;
  const ModelWeights weights = random_weights(spec, DType::f64, arena, 7);
  ModelWeights want = zero_gradients(spec, DType::f64, arena);
  const double loss = add_gradients(spec, weights, batch.rows, batch.targets, 0.25, want, {arena});
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Arena memory;
    const ModelWeights own = random_weights(spec, DType::f64, memory, 7);
    ModelWeights got = zero_gradients(spec, DType::f64, memory);
    const ContextRanks group{comm};
    const size_t each = batch.targets.size() / static_cast<size_t>(ranks),
                 first = each * static_cast<size_t>(comm.rank());
    const Compute c{.arena = memory, .context = &group};
    const double part = add_gradients(spec, own, rows_of_rank(batch.rows, comm.rank(), ranks),
                                      std::span(batch.targets).subspan(first, each), 0.25, got, c);
    EXPECT_EQ(memory.current()[static_cast<size_t>(MemoryClass::workspace)], 0);
    double all = 0;
    for (const double one : comm.gather(std::span(&part, 1))) all += one;
    EXPECT_LE(std::abs(all - loss) / loss, bound);
    std::vector<Tensor> sums;
    for (const Tensor* t : trained_tensors(spec, got)) sums.push_back(*t);
    comm.all_reduce_sum(sums);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    const std::vector<Tensor*> was = trained_tensors(spec, want);
    for (size_t p = 0; p < infos.size(); ++p) EXPECT_LE(relative_error(sums[p], *was[p]), bound) << infos[p].name;
  });
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
        UnitSaved saved;
        const Tensor got =
            unit_forward(spec, 1, weights.units[1], rows_of_rank(batch.rows, comm.rank(), ranks),
                         x.rows_view(first, first + each), &saved, nullptr, {.arena = memory, .context = &group});
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

// Buffers and temporaries each at their most, as the executor counts them.
void expect_closed_forms(const std::string& family, DType dtype, Multiply multiply, int ranks) {
  const ModelSpec spec = spec_of(family, 4);
  const Batch batch(spec, 24);
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Arena arena;
    const ModelWeights weights = random_weights(spec, dtype, arena, 1);
    ModelWeights gradients = zero_gradients(spec, dtype, arena);
    const ContextRanks group{comm};
    const Compute c{.arena = arena, .multiply = multiply, .context = &group};
    const Rows rows = rows_of_rank(batch.rows, comm.rank(), ranks);
    const Tensor x = arena.zeros(dtype, {24 / ranks, spec.width}, MemoryClass::activations);
    const CostQuery query{.tokens = 24 / ranks, .dtype = dtype, .scratch = scratch_bytes(multiply, dtype)};
    const UnitCost cost = unit_cost_in_context(spec.units[1], query);
    const SwappedBytes swaps = swapped_bytes(spec.units[1], query);
    UnitSaved saved;
    Tensor y, dx;
    const auto taken = [&](int64_t kept, int64_t workspace, int64_t swapped, const char* pass, auto&& call) {
      const auto now = [&] { return arena.current()[static_cast<size_t>(MemoryClass::activations)]; };
      const int64_t before = now();
      const LinkBytes links = comm.bytes();
      const PeakScope scope(arena);
      call();
      EXPECT_EQ(now() - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::activations)] - before, kept) << pass;
      EXPECT_EQ(scope.peak().each[static_cast<size_t>(MemoryClass::workspace)], workspace) << pass;
      EXPECT_EQ(comm.bytes().sent - links.sent, swapped / ranks * (ranks - 1)) << pass;
      EXPECT_EQ(comm.bytes().received - links.received, swapped / ranks * (ranks - 1)) << pass;
    };
    taken(cost.output_bytes, cost.unsaved_workspace, swaps.forward, "without saving",
          [&] { y = unit_forward(spec, 1, weights.units[1], rows, x, nullptr, nullptr, c); });
    y = {};
    taken(cost.output_bytes + cost.saved_bytes, cost.forward_workspace, swaps.forward, "forward",
          [&] { y = unit_forward(spec, 1, weights.units[1], rows, x, &saved, nullptr, c); });
    taken(cost.output_bytes + cost.left_bytes, cost.backward_input_workspace, swaps.backward_input, "backward input",
          [&] { dx = unit_backward_input(spec, 1, weights.units[1], rows, y, saved, c); });
    taken(0, cost.backward_weight_workspace, swaps.backward_weight, "backward weight",
          [&] { unit_backward_weight(spec, 1, weights.units[1], rows, y, saved, gradients.units[1], c); });
  });
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
