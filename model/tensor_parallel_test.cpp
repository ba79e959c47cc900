// Tensor and sequence parallelism: a model's parts on so many ranks compute the gradients of the whole on one.
#include <fmt/format.h>

#include <mutex>

#include "base/error.h"
#include "comm/group.h"
#include "comm/ranks_testing.h"
#include "model/allocate_weights.h"
#include "model/model_testing.h"
#include "model/rope_table.h"
#include "model/sum_gradients.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// Sizes that 2, 4 and 8 ranks divide, but for the vocabulary and the rows.
HfConfig config_of(const std::string& family, int64_t keys = 8) {
  HfConfig c = tiny_config(family);
  c.num_attention_heads = 8, c.intermediate_size = 40;
  c.num_key_value_heads = hf_family(c).has_kv_heads ? keys : 8;
  if (family == "falcon") c.num_key_value_heads = 1;
  return c;
}

struct TensorBatch {
  std::vector<int32_t> tokens, targets;
  std::optional<RopeTable> rope;
  Rows rows;
  TensorBatch(const ModelSpec& spec, int64_t count) : tokens(random_tokens(count, spec.vocab, 3)) {
    targets = random_tokens(count, spec.vocab, 4);
    targets[1] = -1;
    if (spec.turns()) rope = rope_table(spec, count, count);
    rows = make_rows(tokens, {0, 5, count}, rope ? &*rope : nullptr);
  }
  TensorBatch(const TensorBatch&) = delete;
};

struct Result {
  double loss = 0;
  Arena arena;
  ModelWeights gradients;
  LinkBytes links;  // of all ranks
};

// How a group runs.
struct GroupRun {
  bool beside = false;  // exchanges beside products
  Multiply multiply = Multiply::exact;
  bool baton = true;
};

Result on_one_rank(const ModelSpec& spec, const TensorBatch& batch, DType dtype, double scale) {
  Result r;
  const ModelWeights weights = random_weights(spec, dtype, r.arena, 7);
  r.gradients = zero_gradients(spec, dtype, r.arena);
  r.loss = add_gradients(spec, weights, batch.rows, batch.targets, scale, r.gradients, {r.arena});
  join_tied_gradients(spec, r.gradients);
  return r;
}

// Every rank's part of `whole`, into weights of its part of the model.
void take_parts(const ModelSpec& spec, ModelWeights& whole, ModelWeights& own, int rank, int ranks) {
  const std::vector<ParameterInfo> infos = parameters(spec);
  const std::vector<Tensor*> from = tensors(spec, whole), to = tensors(tensor_part(spec, ranks), own);
  for (size_t p = 0; p < infos.size(); ++p) take_part(tensor_holding(spec, infos[p], rank, ranks), *from[p], *to[p]);
}

// The gradients that ranks have in parts, put together; where several hold the same, they are asked to be equal.
Result on_ranks(const ModelSpec& spec, const TensorBatch& batch, DType dtype, double scale, int ranks,
                const GroupRun& how = {}) {
  Result all;
  all.gradients = zero_gradients(spec, dtype, all.arena);
  std::mutex one_at_a_time;
  with_comms(ranks, {.baton = how.baton}, [&](Comm& comm) {
    const int rank = comm.rank();
    const ModelSpec part = tensor_part(spec, ranks);
    Arena arena;
    ModelWeights weights = allocate_weights(part, dtype, MemoryClass::weights, arena);
    {
      ModelWeights whole = random_weights(spec, dtype, arena, 7);
      take_parts(spec, whole, weights, rank, ranks);
    }
    ModelWeights gradients = zero_gradients(part, dtype, arena);
    const std::vector<int> same = ranks_of_same_keys(spec, rank, ranks);
    std::optional<Comm> keys;
    if (same.size() > 1) keys.emplace(group_of(comm.transport(), same));
    ExchangeBeside beside;
    const TensorRanks group{comm, tokens_of(spec.vocab, rank, ranks), keys ? &*keys : nullptr,
                            how.beside ? &beside : nullptr};
    const Compute c{.arena = arena, .multiply = how.multiply, .tensor = &group};
    const double loss = add_gradients(part, weights, batch.rows, batch.targets, scale, gradients, c);
    const LinkBytes links = comm.bytes();
    EXPECT_EQ(arena.current()[static_cast<size_t>(MemoryClass::workspace)], 0);
    sum_shared_gradients(part, gradients, group);
    join_tied_gradients(part, gradients);
    const std::lock_guard lock(one_at_a_time);
    if (all.loss != 0) EXPECT_EQ(loss, all.loss) << "all ranks know the whole loss";
    all.loss = loss, all.links += links;
    const std::vector<ParameterInfo> infos = parameters(spec);
    const std::vector<Tensor*> from = tensors(part, gradients), to = tensors(spec, all.gradients);
    for (size_t p = 0; p < infos.size(); ++p) put_part(tensor_holding(spec, infos[p], rank, ranks), *from[p], *to[p]);
  });
  return all;
}

void expect_gradients_of_one(const std::string& name, const ModelSpec& spec, DType dtype, double bound) {
  const TensorBatch batch(spec, 13);
  Result want = on_one_rank(spec, batch, dtype, 0.25);
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(name + " on " + std::to_string(ranks));
    Result got = on_ranks(spec, batch, dtype, 0.25, ranks);
    EXPECT_LE(std::abs(got.loss - want.loss) / want.loss, bound);
    const std::vector<ParameterInfo> infos = parameters(spec);
    const std::vector<Tensor*> is = tensors(spec, got.gradients), was = tensors(spec, want.gradients);
    for (size_t p = 0; p < infos.size(); ++p) { EXPECT_LE(relative_error(*is[p], *was[p]), bound) << infos[p].name; }
  }
}

void for_each_family(const std::function<void(const std::string&, const ModelSpec&)>& f) {
  for (const char* family : {"llama", "gpt2", "qwen3", "gemma3_text", "granite", "gpt_neox", "falcon", "opt"})
    f(family, model_spec(config_of(family)));
  for (const int64_t keys : {1, 2, 4}) {
    HfConfig c = config_of("llama", keys);
    c.attention_bias = c.mlp_bias = c.tie_word_embeddings = true;
    f("llama, tied, biases, " + std::to_string(keys) + " key/value heads", model_spec(c));
  }
  HfConfig gemma = config_of("gemma2", 2);  // capped scores and logits
  f("gemma2, 2 key/value heads", model_spec(gemma));
}

// In bf16, where the active set has a fused head: parts of the vocabulary that are ragged or empty, a second tile of rows, no targets at all.
TEST(TensorParallel, TheHeadInOneKernelIsThatOfOneRank) {
  for (const int64_t vocab : {37, 9})
    for (const int64_t rows : {13, 600})
      for (const bool masked : {false, true}) {
        HfConfig config = config_of("llama");
        config.vocab_size = vocab;
        const ModelSpec spec = model_spec(config);
        TensorBatch batch(spec, rows);
        if (masked) std::ranges::fill(batch.targets, -1);
        const Result want = on_one_rank(spec, batch, DType::bf16, 0.25);
        for (const int ranks : {2, 8}) {
          SCOPED_TRACE(
              fmt::format("vocabulary {}, {} rows on {} ranks{}", vocab, rows, ranks, masked ? ", masked" : ""));
          const Result got = on_ranks(spec, batch, DType::bf16, 0.25, ranks, {.multiply = Multiply::fast});
          EXPECT_NEAR(got.loss, want.loss, 0.01 * want.loss);
          const auto& is = std::get<HeadWeights>(got.gradients.units.back());
          const auto& was = std::get<HeadWeights>(want.gradients.units.back());
          const Tensor &of_matrix = dense_rows(is.projection), &wanted = dense_rows(was.projection);
          if (masked)
            for (const float g : of_matrix.span<float>()) EXPECT_EQ(g, 0);
          else
            EXPECT_LE(relative_error(of_matrix, wanted), 0.03);
        }
      }
}

TEST(TensorParallel, EveryGradientIsThatOfOneRank) {
  for_each_family(
      [](const std::string& name, const ModelSpec& spec) { expect_gradients_of_one(name, spec, DType::f64, 1e-12); });
}

// Rows that no number of ranks divides: of 8 ranks 7 have one of the 9, so that their second half is empty.
TEST(TensorParallel, BesideProductsEveryBitAndByteIsThatOfExchangesInTheirPlaces) {
  for_each_family([](const std::string& name, const ModelSpec& spec) {
    for (const int ranks : {2, 4, 8}) {
      const TensorBatch batch(spec, ranks == 8 ? 9 : 13);
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} in {} on {}", name, name_of(dtype), ranks));
        GroupRun how{.multiply = ranks == 4 ? Multiply::fast : Multiply::exact};
        Result want = on_ranks(spec, batch, dtype, 0.25, ranks, how);
        how.beside = true, how.baton = ranks == 8;
        Result got = on_ranks(spec, batch, dtype, 0.25, ranks, how);
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_EQ(got.links, want.links);
        EXPECT_GT(want.links.sent, 0);
        const std::vector<ParameterInfo> infos = parameters(spec);
        const std::vector<Tensor*> is = tensors(spec, got.gradients), was = tensors(spec, want.gradients);
        for (size_t p = 0; p < infos.size(); ++p)
          if (was[p]->count() > 0) EXPECT_TRUE(same_bits(*is[p], *was[p])) << infos[p].name;
      }
    }
  });
}

TEST(TensorParallelSlow, AVocabularyThatNoNumberOfRanksDivides) {
  HfConfig c = config_of("llama", 2);
  c.vocab_size = 50257, c.num_hidden_layers = 1, c.hidden_size = 8;
  for (const bool tied : {false, true}) {
    c.tie_word_embeddings = tied;
    expect_gradients_of_one(tied ? "tied" : "untied", model_spec(c), DType::f64, 1e-12);
  }
}

TEST(TensorParallel, APartOfEveryWeightPutTogetherIsTheWholeToTheBit) {
  for_each_family([](const std::string& name, const ModelSpec& spec) {
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(name + " on " + std::to_string(ranks));
      Arena arena;
      ModelWeights whole = random_weights(spec, DType::bf16, arena, 5);
      ModelWeights again = allocate_weights(spec, DType::bf16, MemoryClass::weights, arena);
      const std::vector<ParameterInfo> infos = parameters(spec);
      int64_t elements = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ModelSpec part = tensor_part(spec, ranks);
        ModelWeights own = allocate_weights(part, DType::bf16, MemoryClass::weights, arena);
        take_parts(spec, whole, own, rank, ranks);
        const std::vector<ParameterInfo> parts = parameters(part);
        const std::vector<Tensor*> from = tensors(part, own), to = tensors(spec, again);
        ASSERT_EQ(parts.size(), infos.size());
        for (size_t p = 0; p < infos.size(); ++p) {
          const Holding held = tensor_holding(spec, infos[p], rank, ranks);
          EXPECT_EQ(parts[p].name, infos[p].name);
          if (infos[p].shape[0] != spec.vocab) EXPECT_EQ(parts[p].shape.count(), local_count(held)) << infos[p].name;
          put_part(held, *from[p], *to[p]);
          elements += local_count(held);
        }
      }
      EXPECT_LT(elements, ranks * num_parameters(spec)) << "nothing was shared out";
      const std::vector<Tensor*> is = tensors(spec, again), was = tensors(spec, whole);
      for (size_t p = 0; p < infos.size(); ++p) EXPECT_TRUE(same_bits(*is[p], *was[p])) << infos[p].name;
    }
  });
}

// What the passes of each unit take on a rank is what spec/unit_cost.h says of it, where all parts are equal.
void expect_bytes(const ModelSpec& spec, DType dtype, Multiply multiply, bool is_beside, Comm& comm) {
  const int ranks = comm.size();
  const ModelSpec part = tensor_part(spec, ranks);
  const TensorBatch batch(spec, 16);
  Arena arena;
  const ModelWeights weights = random_weights(part, dtype, arena, 1);
  ModelWeights gradients = zero_gradients(part, dtype, arena);
  ExchangeBeside beside;
  const TensorRanks group{comm, tokens_of(spec.vocab, comm.rank(), ranks), nullptr, is_beside ? &beside : nullptr};
  const Compute c{.arena = arena, .multiply = multiply, .tensor = &group};
  const Tensor x = arena.zeros(dtype, {16 / ranks, spec.width}, MemoryClass::activations);
  const Tensor dy = arena.zeros(dtype, x.shape(), MemoryClass::activations);
  for (int u = 0; u < static_cast<int>(spec.units.size()); ++u) {
    SCOPED_TRACE("unit " + std::to_string(u));
    const auto at = static_cast<size_t>(u);
    const UnitCost cost = unit_cost(
        spec.units[at], {.tokens = 16, .dtype = dtype, .scratch = scratch_bytes(multiply, dtype), .tensor = ranks});
    const bool is_head = std::holds_alternative<HeadSpec>(spec.units[at].spec);
    UnitSaved saved;
    Tensor y, dx;
    const auto taken = [&](int64_t kept, int64_t workspace, const char* pass, const std::function<void()>& call) {
      const int64_t before = arena.current_total();
      const PeakScope scope(arena);
      call();
      EXPECT_EQ(arena.current_total() - before, kept) << pass;
      EXPECT_EQ(scope.peak().total - before, kept + workspace) << pass;
    };
    taken(cost.output_bytes + cost.saved_bytes, cost.forward_workspace, "forward", [&] {
      if (is_head)
        head_forward_loss(part, head_of(weights), batch.rows, x, batch.targets, 1, saved.emplace<HeadSaved>(),
                          head_of(gradients), c);
      else
        y = unit_forward(part, u, weights.units[at], batch.rows, x, &saved, nullptr, c);
    });
    if (u > 0)
      taken(x.bytes() + cost.left_bytes, cost.backward_input_workspace, "backward of the input", [&] {
        dx = unit_backward_input(part, u, weights.units[at], batch.rows, is_head ? Tensor{} : dy, saved, c);
      });
    taken(0, cost.backward_weight_workspace, "backward of the weights", [&] {
      unit_backward_weight(part, u, weights.units[at], batch.rows, is_head ? Tensor{} : dy, saved, gradients.units[at],
                           c);
    });
  }
}

TEST(TensorParallel, BytesAreThoseOfTheClosedForms) {
  for (const char* family : {"llama", "gpt2", "qwen3", "gemma3_text", "granite", "gpt_neox"})
    for (const int ranks : {2, 4}) {
      HfConfig c = config_of(family, 2);
      c.vocab_size = 40;
      const ModelSpec spec = model_spec(c);
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
        for (const Multiply multiply : {Multiply::exact, Multiply::fast})
          for (const bool beside : {false, true}) {
            SCOPED_TRACE(fmt::format("{} in {} on {}{}", family, name_of(dtype), ranks, beside ? ", beside" : ""));
            with_comms(ranks, {.baton = true}, [&](Comm& comm) { expect_bytes(spec, dtype, multiply, beside, comm); });
          }
    }
}

TEST(TensorParallel, WhatCannotBeSharedOutIsRefusedByName) {
  const auto fault = [](const ModelSpec& spec, int ranks) {
    const std::string why = why_not_in_parts(spec, ranks);
    if (!why.empty()) EXPECT_THROW(tensor_part(spec, ranks), Error);
    return why;
  };
  EXPECT_EQ(fault(model_spec(config_of("llama", 2)), 8), "");
  EXPECT_EQ(fault(model_spec(config_of("llama", 2)), 3), "unit 1 has 8 heads");
  HfConfig odd = config_of("llama", 3);
  odd.num_attention_heads = 24;
  EXPECT_EQ(fault(model_spec(odd), 2), "unit 1 has 3 key/value heads");
  EXPECT_EQ(fault(model_spec(tiny_config("llama")), 8), "unit 1 has 4 heads");
  EXPECT_NE(fault(model_spec(config_of("bloom")), 2).find("slopes by head"), std::string::npos);
  EXPECT_NE(fault(model_spec(config_of("olmo2")), 2).find("norms all queries"), std::string::npos);
  EXPECT_NE(fault(model_spec(tiny_config("mixtral")), 2).find("has experts"), std::string::npos);
  EXPECT_NE(fault(model_spec(tiny_config("deepseek_v2")), 2).find("latent attention"), std::string::npos);
  EXPECT_EQ(fault(model_spec(tiny_config("bert")), 2), "it is an encoder");
  EXPECT_NE(fault(with_adapters(model_spec(config_of("llama")), 2), 2).find("adapters"), std::string::npos);
}

}  // namespace
}  // namespace tern
