// Simulated = predicted = counted bytes, instruction by instruction; recomputation changes no bit; micro-batches add
// up.
#include "exec/executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/rng.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"
#include "model/linear.h"
#include "program/generate.h"
#include "program/validate.h"

namespace tern {
namespace {

struct Case {
  const char* name;
  DType dtype;
  Multiply multiply;
  bool gpt2;  // learned positions, layer norms, biases, tied head, plain mlp; else rotary, grouped queries, gated
  int64_t width, seq;
  std::vector<int64_t> micro;  // sequences of each micro-batch
  bool embed_norm = false;     // the embedding's rows are normed, so that it keeps something too
  bool experts = false;        // the second layer has experts, and a gated one for every token
  bool latent = false;         // latent attention in both layers
};

ModelSpec spec_of(const Case& c) {
  const int64_t heads = 4, head_dim = c.width / heads, vocab = 67;
  const NormSpec norm{.kind = c.gpt2 ? NormKind::layer : NormKind::rms, .width = c.width};
  ModelSpec s{.family = c.gpt2 ? "gpt2" : "llama", .vocab = vocab, .width = c.width, .layers = 2, .context = 64};
  if (!c.gpt2) s.rope = {.kind = RopeKind::standard, .rotary_dim = head_dim};
  s.units.push_back({-1, EmbedSpec{vocab, c.width, c.gpt2 ? 64 : 0}});
  for (int layer = 0; layer < 2; ++layer) {
    s.units.push_back(
        {layer, AttentionSpec{norm, c.width, heads, c.gpt2 ? heads : 2, head_dim, c.gpt2, c.gpt2, c.gpt2 ? 0 : 5}});
    s.units.push_back({layer, MlpSpec{norm, c.width, 2 * c.width + 4,
                                      c.gpt2 ? ActivationKind::gelu_tanh : ActivationKind::silu, !c.gpt2, c.gpt2}});
  }
  s.units.push_back({-1, HeadSpec{norm, c.width, vocab, c.gpt2}});
  HfConfig named;
  named.model_type = c.experts ? "qwen2_moe" : s.family;
  if (c.latent) {
    named.model_type = "deepseek_v2";
    for (const size_t i : {1, 3}) {
      auto& a = std::get<AttentionSpec>(s.units[i].spec);
      a.kv_heads = heads, a.window = 0;
      a.latent = {
          .query_rank = i == 1 ? 10 : 0, .kv_rank = 12, .plain = head_dim - 4, .rotary = 4, .value = head_dim - 1};
    }
    s.rope.rotary_dim = 4;
  }
  if (c.experts) {
    MoeSpec moe{norm, c.width, 20, 6, 3, 28, ActivationKind::silu, true};
    moe.shared_gate = true;
    s.units[4].spec = moe;
  }
  s.names = hf_names(named);
  if (c.embed_norm) {
    std::get<EmbedSpec>(s.units.front().spec).norm = norm;
    s.names.embed_norm = "transformer.word_embeddings_layernorm";
  }
  return s;
}

struct Bench {
  ModelSpec spec;
  Arena arena;
  ModelWeights weights, gradients;
  std::optional<RopeTable> rope;
  std::vector<MicroBatch> batches;
  std::vector<CostQuery> costs;
  int updates = 0;

  explicit Bench(const Case& c) : spec(spec_of(c)) {
    weights = allocate_weights(spec, c.dtype, MemoryClass::weights, arena);
    initialize_weights(spec, weights, 5);
    gradients = allocate_weights(spec, c.dtype == DType::f64 ? DType::f64 : DType::f32, MemoryClass::gradients, arena);
    for (const Tensor* t : tensors(spec, gradients)) t->fill_zero();
    if (!c.gpt2) rope = rope_table(spec.rope, c.seq, c.seq);
    uint64_t next = 0;
    for (const int64_t sequences : c.micro) {
      std::vector<int32_t> tokens, targets;
      std::vector<int64_t> starts;
      for (int64_t i = 0; i < sequences * c.seq; ++i, ++next) {
        if (i % c.seq == 0 || i % c.seq == 3) starts.push_back(i);  // two documents in each window
        tokens.push_back(static_cast<int32_t>(random_u64({9, 1}, next) % 67));
        targets.push_back(i % c.seq == 2 ? -1 : static_cast<int32_t>(random_u64({9, 2}, next) % 67));
      }
      starts.push_back(sequences * c.seq);
      batches.emplace_back(std::move(tokens), std::move(starts), std::move(targets), rope ? &*rope : nullptr);
      costs.push_back({.tokens = sequences * c.seq,
                       .attended_pairs = 0,
                       .dtype = c.dtype,
                       .scratch = scratch_bytes(c.multiply, c.dtype)});
    }
  }

  ExecuteResult execute_with(const Program& p, Multiply multiply, double scale = 1.0) {
    return execute(p, {.spec = spec,
                       .weights = weights,
                       .gradients = &gradients,
                       .micro_batches = batches,
                       .loss_scale = scale,
                       .compute = {arena, multiply},
                       .update = [&] { ++updates; }});
  }
};

std::vector<std::byte> bits(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<std::byte> all;
  for (const Tensor* t : tensors(spec, weights)) {
    const auto* begin = static_cast<const std::byte*>(t->data());
    all.insert(all.end(), begin, begin + t->bytes());
  }
  return all;
}

const Case kCases[] = {
    {"llama_f32_fast", DType::f32, Multiply::fast, false, 32, 9, {2}},
    {"llama_f32_exact", DType::f32, Multiply::exact, false, 32, 9, {2, 2, 1}},
    {"llama_bf16_fast", DType::bf16, Multiply::fast, false, 32, 16, {3, 1}},
    {"llama_bf16_exact", DType::bf16, Multiply::exact, false, 64, 7, {1}},
    {"llama_f64", DType::f64, Multiply::exact, false, 32, 9, {2, 1}},
    {"gpt2_f32_fast", DType::f32, Multiply::fast, true, 32, 33, {4, 4}},
    {"gpt2_f32_exact", DType::f32, Multiply::exact, true, 40, 5, {1, 1, 1, 1}},
    {"gpt2_bf16_fast", DType::bf16, Multiply::fast, true, 64, 50, {3}},  // 150 rows: more than one tile of the head
    {"gpt2_bf16_exact", DType::bf16, Multiply::exact, true, 32, 9, {2}},
    {"gpt2_f64", DType::f64, Multiply::fast, true, 32, 9, {2}},
    {"embed_norm_bf16_exact", DType::bf16, Multiply::exact, true, 32, 9, {2, 1}, true},
    {"experts_f32_exact", DType::f32, Multiply::exact, false, 32, 9, {2, 1}, false, true},
    {"experts_f32_fast", DType::f32, Multiply::fast, false, 32, 9, {2}, false, true},
    {"experts_bf16_fast", DType::bf16, Multiply::fast, false, 32, 9, {2, 2}, false, true},
    {"latent_f32_exact", DType::f32, Multiply::exact, false, 32, 9, {2, 1}, false, false, true},
    {"latent_bf16_fast", DType::bf16, Multiply::fast, false, 32, 9, {2}, false, false, true},
};

class ExecutorBytes : public testing::TestWithParam<Case> {};

TEST_P(ExecutorBytes, CountedEqualPredictedAtEveryInstructionInEveryMode) {
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    Bench run(GetParam());
    const Program p = training_program(run.spec, run.costs, recompute);
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    const int64_t before = run.arena.current_total();
    const ExecuteResult result = run.execute_with(p, GetParam().multiply);
    EXPECT_EQ(describe_mismatches(result), "");
    const Simulation simulated = simulate(p);
    EXPECT_EQ(result.bytes.peak_bytes, simulated.ranks[0].peak_bytes);
    EXPECT_EQ(result.bytes.peak_buffers, simulated.ranks[0].peak_buffers);
    EXPECT_EQ(result.bytes.peak_workspace, simulated.ranks[0].peak_workspace);
    EXPECT_GT(result.bytes.peak_buffers, 0);
    EXPECT_EQ(run.arena.current_total(), before) << "something is still held";
    EXPECT_EQ(run.updates, 1);
    EXPECT_EQ(result.trace.size(), p.instructions.size());
  }
}

TEST_P(ExecutorBytes, ForwardProgramsCountExactlyAndGiveTheSameLoss) {
  Bench run(GetParam());
  const ExecuteResult trained =
      run.execute_with(training_program(run.spec, run.costs, Recompute::none), GetParam().multiply);
  const Program p = forward_program(run.spec, run.costs);
  const ExecuteResult result = execute(p, {.spec = run.spec,
                                           .weights = run.weights,
                                           .micro_batches = run.batches,
                                           .compute = {run.arena, GetParam().multiply},
                                           .update = {}});
  EXPECT_EQ(describe_mismatches(result), "");
  EXPECT_EQ(result.num_targets, trained.num_targets);
  // The losses of the same logits, in another loop: f32 logits of a 67-word vocabulary.
  EXPECT_NEAR(result.loss_sum, trained.loss_sum, 1e-5 * trained.loss_sum);
}

TEST_P(ExecutorBytes, RecomputationChangesNoBitAndIsReallyDone) {
  std::vector<std::byte> want;
  double loss = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    Bench run(GetParam());
    const ExecuteResult result =
        run.execute_with(training_program(run.spec, run.costs, recompute), GetParam().multiply, 0.125);
    const auto remade = std::count_if(result.trace.begin(), result.trace.end(),
                                      [](const TraceEvent& e) { return e.op == Opcode::recompute; });
    EXPECT_EQ(remade, static_cast<int>(recompute) * 2 * static_cast<int>(GetParam().micro.size()));
    if (recompute == Recompute::none) {
      want = bits(run.spec, run.gradients);
      loss = result.loss_sum;
      continue;
    }
    EXPECT_EQ(std::memcmp(&loss, &result.loss_sum, sizeof loss), 0);
    const std::vector<std::byte> got = bits(run.spec, run.gradients);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0)
        << name_of(Opcode::recompute) << " " << static_cast<int>(recompute);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExecutorBytes, testing::ValuesIn(kCases),
                         [](const auto& one) { return one.param.name; });

// The same twelve sequences as one micro-batch, as 5 + 5 + 2 and one by one: the gradients of one sum.
double relative_difference(DType dtype, std::vector<int64_t> micro) {
  const auto gradients = [&](std::vector<int64_t> sizes) {
    Bench run({"", dtype, dtype == DType::f64 ? Multiply::exact : Multiply::fast, false, 32, 9, std::move(sizes)});
    run.execute_with(training_program(run.spec, run.costs, Recompute::none), Multiply::fast, 1.0 / 96);
    std::vector<double> all;
    for (const Tensor* t : tensors(run.spec, run.gradients))
      for (int64_t i = 0; i < t->count(); ++i)
        all.push_back(dtype == DType::f64 ? t->span<double>()[i] : static_cast<double>(t->span<float>()[i]));
    return all;
  };
  const std::vector<double> whole = gradients({12}), parts = gradients(micro);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < whole.size(); ++i) difference += std::pow(whole[i] - parts[i], 2), norm += whole[i] * whole[i];
  EXPECT_GT(norm, 0);
  return std::sqrt(difference / norm);
}

TEST(Executor, MicroBatchesAddUp) {
  for (const auto& micro : {std::vector<int64_t>{5, 5, 2}, std::vector<int64_t>(12, 1)}) {
    EXPECT_LE(relative_difference(DType::f64, micro), 1e-12);
    EXPECT_LE(relative_difference(DType::f32, micro), 1e-5);
  }
}

TEST(Executor, ReportsBytesThatAreNotAsTheProgramSays) {
#ifdef NDEBUG
  Bench run(kCases[0]);
  Program p = training_program(run.spec, run.costs, Recompute::none);
  p.instructions[2].allocates[0].bytes += 4;
  const ExecuteResult result = run.execute_with(p, Multiply::fast);
  ASSERT_FALSE(result.mismatches.empty());
  EXPECT_EQ(result.mismatches[0].place, 2u);
  EXPECT_NE(describe_mismatches(result).find("[2] FORWARD unit 2 micro 0"), std::string::npos)
      << describe_mismatches(result);
#else
  GTEST_SKIP() << "debug builds stop at a mismatch";
#endif
}

}  // namespace
}  // namespace tern
