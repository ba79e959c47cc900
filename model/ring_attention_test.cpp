// Context parallelism in a ring: ranks that pass keys and values on compute what one rank computes, within rounding, with any number of heads.
#include "model/ring_attention.h"

#include <map>
#include <mutex>

#include "model/context_testing.h"

namespace tern {
namespace {

void expect_ring_of_one(const ModelSpec& spec, int ranks, double bound = 1e-12, DType dtype = DType::f64) {
  expect_gradients_of_one(spec, Batch(spec, ranks == 8 ? 48 : 24), ranks, dtype, bound, true);
}

// Fewer key/value heads than ranks, heads that ranks do not divide, capped scores, windows that end inside parts and before them.
TEST(RingAttention, EveryGradientIsThatOfOneRank) {
  for (const char* family : {"llama", "gpt2", "gpt_neox", "mistral"})
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {}", family, ranks));
      expect_ring_of_one(spec_of(family, 1, 5), ranks);
    }
  for (const int ranks : {2, 3, 4, 8}) expect_ring_of_one(spec_of("gemma2", 2, 6), ranks);
}

TEST(RingAttention, HeadsThatAreNormedSlopedLatentOrHaveSinksHaveTheGradientsOfOneRankToo) {
  for (const char* family : {"qwen3", "olmo2", "gemma3_text", "bloom", "gpt_oss", "deepseek_v2", "deepseek_v3"})
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {}", family, ranks));
      expect_ring_of_one(spec_of(family, 3, 3), ranks);
    }
  HfConfig plain = tiny_config("deepseek_v2");
  plain.query_rank = 0, plain.value_head_dim = 9;
  expect_ring_of_one(model_spec(plain), 2);
}

// Sequences that begin and end inside parts, one of a token, and more than one to a part.
TEST(RingAttention, SequencesLieAcrossPartsAsTheyMay) {
  const ModelSpec spec = spec_of("gemma2", 2, 4);
  for (const std::vector<int64_t>& starts : std::vector<std::vector<int64_t>>{{0, 48},
                                                                              {0, 24, 48},
                                                                              {0, 1, 2, 31, 48},
                                                                              {0, 7, 14, 21, 28, 35, 42, 48},
                                                                              {0, 16, 32, 48},
                                                                              {0, 0, 47, 47, 48}})
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} sequences on {}", starts.size() - 1, ranks));
      expect_gradients_of_one(spec, Batch(spec, 48, starts), ranks, DType::f64, 1e-12, true);
    }
}

// Sums of a row come in the order of the blocks: f32 within 3e-5 of one rank, bf16 within what its rounding gives.
TEST(RingAttention, InOtherTypesWithinRounding) {
  for (const char* family : {"llama", "gemma2", "gpt_oss"})
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {}", family, ranks));
      expect_ring_of_one(spec_of(family, 2, 4), ranks, 3e-5, DType::f32);
      expect_ring_of_one(spec_of(family, 2, 4), ranks, 0.1, DType::bf16);
    }
}

// The loss of all ranks, along random directions of each matrix.
TEST(RingAttention, GradientsAreFiniteDifferencesOfTheLossOfAllRanks) {
  const ModelSpec spec = spec_of("llama", 1, 3);
  const Batch batch(spec, 24);
  constexpr double kStep = 1e-5;
  with_comms(3, {.baton = true}, [&](Comm& comm) {
    Arena memory;
    ModelWeights weights = random_weights(spec, DType::f64, memory, 7);
    ModelWeights gradients = zero_gradients(spec, DType::f64, memory);
    const ContextRanks group{comm, true};
    const PartOfBatch part(batch, comm.rank(), comm.size(), true);
    const Compute c{.arena = memory, .context = &group};
    const auto loss_of = [&](ModelWeights& into) {
      const double own = add_gradients(spec, weights, part.rows, part.targets, 0.25, into, c);
      double all = 0;
      for (const double one : comm.gather(std::span(&own, 1))) all += one;
      return 0.25 * all;
    };
    loss_of(gradients);
    std::vector<Tensor> sums;
    for (const Tensor* t : trained_tensors(spec, gradients)) sums.push_back(*t);
    comm.all_reduce_sum(sums);
    const std::vector<Tensor*> values = trained_tensors(spec, weights);
    const std::vector<ParameterInfo> infos = trained_parameters(spec);
    for (size_t p = 0; p < infos.size(); ++p) {
      const Tensor direction = memory.allocate(DType::f64, values[p]->shape(), MemoryClass::staging);
      fill_normal(direction, 1, 11 + p);
      double want = 0, norm = 0, loss[2];
      for (int64_t i = 0; i < direction.count(); ++i)
        want += element(direction, i) * element(sums[p], i), norm += std::pow(element(sums[p], i), 2);
      for (const int side : {0, 1}) {
        const double step = side ? kStep : -kStep;
        for (int64_t i = 0; i < direction.count(); ++i)
          set_element(*values[p], i, element(*values[p], i) + step * element(direction, i));
        ModelWeights unread = zero_gradients(spec, DType::f64, memory);
        loss[side] = loss_of(unread);
        for (int64_t i = 0; i < direction.count(); ++i)
          set_element(*values[p], i, element(*values[p], i) - step * element(direction, i));
      }
      EXPECT_GT(norm, 0) << infos[p].name;
      EXPECT_LE(std::abs((loss[1] - loss[0]) / (2 * kStep) - want), 1e-6 * (std::sqrt(norm) + std::abs(want)))
          << infos[p].name;
    }
  });
}

// Of each rank, the bytes of all gradients.
using BitsOfRanks = std::map<int, std::vector<std::byte>>;
template <class Run>
BitsOfRanks bits_of_a_step(const ModelSpec& spec, const Batch& batch, Run run) {
  BitsOfRanks bits;
  std::mutex one_at_a_time;
  run([&](Comm& comm) {
    Arena memory;
    ModelWeights got = zero_gradients(spec, DType::f32, memory);
    context_step(spec, batch, DType::f32, true, comm, memory, got);
    const std::lock_guard lock(one_at_a_time);
    for (const Tensor* t : trained_tensors(spec, got)) {
      const auto* at = static_cast<const std::byte*>(t->data());
      bits[comm.rank()].insert(bits[comm.rank()].end(), at, at + t->bytes());
    }
  });
  return bits;
}

TEST(RingAttention, RanksThatRunFreelyOrOverSocketsHaveTheBitsOfThreadsInTurn) {
  const ModelSpec spec = spec_of("gemma2", 2, 4);
  const Batch batch(spec, 48, {0, 20, 48});
  const auto in_turn = bits_of_a_step(spec, batch, [](auto work) { with_comms(3, {.baton = true}, work); });
  const auto freely = bits_of_a_step(spec, batch, [](auto work) { with_comms(3, {}, work); });
  const auto sockets = bits_of_a_step(spec, batch, [](auto work) {
    run_socket_ranks(3, 30, [&](std::unique_ptr<Transport> transport) {
      Comm comm(std::move(transport));
      work(comm);
    });
  });
  ASSERT_EQ(in_turn.size(), 3);
  EXPECT_EQ(in_turn.at(0), in_turn.at(2));
  EXPECT_TRUE(in_turn == freely);
  EXPECT_TRUE(in_turn == sockets);
}

TEST(RingAttention, BytesInMemoryAndOnLinksAreTheClosedForms) {
  for (const char* family : {"llama", "gpt_neox", "qwen3", "olmo2", "bloom", "gpt_oss", "deepseek_v2"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast})
        for (const int ranks : {2, 3, 4}) {
          SCOPED_TRACE(fmt::format("{} {} on {}", family, name_of(dtype), ranks));
          const ModelSpec spec = spec_of(family, 1, 4);
          const CostQuery query{.tokens = 24 / ranks, .dtype = dtype, .scratch = scratch_bytes(multiply, dtype)};
          const RingBytes ring = ring_bytes(spec.units[1], query, ranks);
          EXPECT_GT(ring.forward, 0);
          expect_closed_forms(spec, dtype, multiply, ranks, true, unit_cost_in_ring(spec.units[1], query),
                              {ring.forward, ring.backward_input, 0});
        }
}

TEST(RingAttention, WhatItDoesNotTakeIsNamed) {
  const auto why = [](const ModelSpec& spec) { return why_not_in_ring(*attention_of(spec.units[1])); };
  EXPECT_EQ(why(spec_of("llama")), "");
  EXPECT_EQ(why(spec_of("bloom")), "");
  EXPECT_EQ(why(model_spec(tiny_config("bert"))), "attends to later tokens");
  HfConfig alibi = tiny_config("falcon");
  alibi.alibi = alibi.attention_bias = true, alibi.parallel_residual = false, alibi.rope = {};
  EXPECT_EQ(why(model_spec(alibi)), "has slopes in bf16");
}

}  // namespace
}  // namespace tern
