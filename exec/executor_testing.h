#pragma once
// Small models of many kinds with their micro-batches, ready to run a Program on, for the tests of exec/.

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exec/executor.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/linear.h"
#include "model/visit_weights.h"

namespace tern {

/// A kind of model and the sizes of its micro-batches.
struct Case {
  const char* name;
  DType dtype;
  Multiply multiply;
  // true: learned positions, layer norms, biases, tied head, plain mlp; false: rotary positions, grouped queries, gated mlp
  bool gpt2;
  int64_t width, seq;
  std::vector<int64_t> micro;  // sequences of each micro-batch
  // The embedding's rows are normed, so that the embedding saves something for its backward
  bool embed_norm = false;
  bool experts = false;   // the second layer has routed experts, and a gated expert that every token passes
  bool latent = false;    // both layers have latent attention
  int64_t adapters = -1;  // -1: none; else all units are frozen and have adapters of this rank
  int layers = 2;
};

/// The model of a case.
inline ModelSpec spec_of(const Case& c) {
  const int64_t heads = 4, head_dim = c.width / heads, vocab = 67;
  const NormSpec norm{.kind = c.gpt2 ? NormKind::layer : NormKind::rms, .width = c.width};
  ModelSpec s{.family = c.gpt2 ? "gpt2" : "llama", .vocab = vocab, .width = c.width, .layers = c.layers, .context = 64};
  if (!c.gpt2) s.rope = {.kind = RopeKind::standard, .rotary_dim = head_dim};
  s.units.push_back({-1, EmbedSpec{vocab, c.width, c.gpt2 ? 64 : 0}});
  for (int layer = 0; layer < c.layers; ++layer) {
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
  return c.adapters >= 0 ? with_adapters(s, c.adapters) : s;
}

// Adapters begin with zeros in B. Here both matrices are random, so that gradients flow through both.
inline void fill_adapter(const ParameterInfo& info, const Tensor& t) {
  for (int64_t i = 0; i < t.count(); ++i) {
    const auto x = static_cast<float>(0.1 * random_normal({5, hash_name(info.name)}, static_cast<uint64_t>(i)));
    if (t.dtype() == DType::f64) t.span<double>()[static_cast<size_t>(i)] = x;
    if (t.dtype() == DType::f32) t.span<float>()[static_cast<size_t>(i)] = x;
    if (t.dtype() == DType::bf16) t.span<bf16>()[static_cast<size_t>(i)] = to_bf16(x);
  }
}

/// A model with all that a step of it needs. It cannot be copied: `source` and `update` look into it.
struct Bench {
  ModelSpec spec;
  Arena arena;
  ModelWeights weights, gradients;
  std::optional<RopeTable> rope;
  std::vector<MicroBatch> batches;
  std::vector<CostQuery> costs;
  UpdateConfig config;
  OptimizerState state;
  std::optional<UpdatePass> update;
  WeightSource source = weights;

  /// `zero`: the ZeRO stage of all layers. Rank `rank` of `ranks` has its share of the state.
  explicit Bench(const Case& c, const UpdateConfig& rule = update_config(UpdateRule::adamw), int zero = 0, int rank = 0,
                 int ranks = 1)
      : spec(spec_of(c)), config(rule) {
    const Shares shares = make_shares(spec, config.rule, std::vector(spec.units.size(), zero), rank, ranks);
    weights = allocate_own_weights(spec, c.dtype, arena, shares);
    if (shares.any_weights_apart())
      fill_parts(c, shares);
    else
      fill(weights);
    gradients = allocate_gradients(spec, c.dtype, arena, std::vector<bool>(spec.units.size(), zero >= 2 && ranks > 1));
    state = make_optimizer_state(spec, weights, config, arena, shares);
    update.emplace(make_update_pass(spec, state, config, weights, gradients));
    update->weight_dtype = c.dtype;
    add_gradient_parts(*update, c.dtype == DType::f64 ? DType::f64 : DType::f32, arena);
    begin_step(*update, 1, [](int64_t) { return 1e-2; });
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

  void fill(ModelWeights& all) const {
    initialize_weights(spec, all, 5);
    for_each_adapter(spec, all, [](const ParameterInfo& info, Tensor& t) { fill_adapter(info, t); });
  }
  /// This rank's parts of the numbers that `fill` gives a whole model.
  void fill_parts(const Case& c, const Shares& shares) {
    Arena beside;
    ModelWeights all = allocate_weights(spec, c.dtype, MemoryClass::weights, beside);
    fill(all);
    const std::vector<Tensor*> from = trained_tensors(spec, all), to = trained_tensors(spec, weights);
    for (size_t p = 0; p < to.size(); ++p)
      if (!to[p]->empty()) {
        const Tensor own = own_part(shares, p, from[p]->count(), *from[p]);
        std::memcpy(to[p]->data(), own.data(), static_cast<size_t>(own.bytes()));
      }
    for_each_fixed(spec, weights, [](const ParameterInfo&, Tensor& t) { t.fill_zero(); });
  }

  ExecuteResult execute_with(const Program& p, Multiply multiply, double scale = 1.0,
                             const StepCalls* calls = nullptr) {
    return execute(p, {.spec = spec,
                       .weights = source,
                       .gradients = &gradients,
                       .micro_batches = batches,
                       .loss_scale = scale,
                       .compute = {arena, multiply},
                       .update = &*update,
                       .calls = calls});
  }
  /// Runs the Program without NORM and UPDATE, which would clear the gradients.
  ExecuteResult add_gradients(Program p, Multiply multiply, double scale = 1.0) {
    std::erase_if(p.instructions, [](const Instruction& i) { return i.op == Opcode::norm || i.op == Opcode::update; });
    return execute_with(p, multiply, scale);
  }
};

/// All trained weights, byte after byte.
inline std::vector<std::byte> bits(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<std::byte> all;
  for (const Tensor* t : trained_tensors(spec, weights)) {
    const auto* begin = static_cast<const std::byte*>(t->data());
    all.insert(all.end(), begin, begin + t->bytes());
  }
  return all;
}

/// What weights and states hold, by name.
using NamedBits = std::map<std::string, std::vector<std::byte>>;

inline const Case kCases[] = {
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
    {"adapters_f32_exact", DType::f32, Multiply::exact, false, 32, 9, {2, 1}, false, false, false, 4},
    {"adapters_bf16_fast", DType::bf16, Multiply::fast, false, 32, 16, {2, 1}, false, false, false, 4},
    {"adapters_gpt2_f32_fast", DType::f32, Multiply::fast, true, 32, 9, {2, 1}, false, false, false, 5},
    {"adapters_latent_f32_exact", DType::f32, Multiply::exact, false, 32, 9, {2}, false, false, true, 3},
};

/// One rank's share of a step's micro-batches. All shares are equal, in the order of ranks.
struct RankShare {
  std::vector<CostQuery> costs;  // of its micro-batches
  int64_t step_targets = 0;      // targets with a loss on all ranks
};
/// Leaves only the share of rank `rank` of `ranks` in run.batches, and returns it.
inline RankShare keep_share(Bench& run, int rank, int ranks) {
  RankShare share;
  for (const MicroBatch& b : run.batches) share.step_targets += b.num_targets();
  const auto each = static_cast<ptrdiff_t>(run.batches.size()) / ranks, first = each * rank;
  run.batches.erase(run.batches.begin(), run.batches.begin() + first);
  run.batches.erase(run.batches.begin() + each, run.batches.end());
  share.costs.assign(run.costs.begin() + first, run.costs.begin() + first + each);
  return share;
}
/// The input of execute for a rank of `world`.
inline ExecuteInput input_of(Bench& run, const Case& c, const RankShare& share, Comm& world) {
  return {.spec = run.spec,
          .weights = run.source,
          .gradients = &run.gradients,
          .micro_batches = run.batches,
          .loss_scale = 1.0 / static_cast<double>(share.step_targets),
          .compute = {run.arena, c.multiply},
          .update = &*run.update,
          .world = &world,
          .own_weights = &run.weights,
          .step_targets = share.step_targets};
}

}  // namespace tern
