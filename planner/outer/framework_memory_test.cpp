// Measured memory of other frameworks' runs whose configuration is stated, beside what is counted under their own
// bytes: the tables of docs/framework-memory.md. And emitted plans, which must fit by these bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/io.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "formats/hf/config.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "plan/cost_model.h"
#include "planner/instance/price.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Of the tests of Megatron-LM: 12 layers of 512 with 8 heads, 1,024 tokens, micro-batch 4, batch 32, eight devices,
// dropout 0.1, tied head, learned positions, a vocabulary of 50,257 padded to a multiple of 128·tp.
struct Run {
  const char* id;
  double published;  // GiB, on the last rank
  const char* what;
  int64_t tensor = 1, context = 1, stages = 1, chunks = 1;
  int zero = 0;  // 1: the distributed optimizer
  FrameworkRun run{.dropout = true, .sequence_parallel = false};
  Recompute recompute = Recompute::none;
  bool tied = true, positions = true, gated = false, biases = true, half_gradients = false;
  int64_t layers = 12, width = 512, heads = 8, kv_heads = 8, hidden = 2048, vocab = 50257, seq = 1024, micro_batch = 4,
          batch = 32;
  bool within = true;  // 10 %
};
constexpr FrameworkRun kUnfused{.dropout = true, .sequence_parallel = false, .fused_attention = false};
constexpr FrameworkRun kSequence{.dropout = true, .sequence_parallel = true};

std::vector<Run> megatron_runs() {
  const Run gpt_7b{.id = "",
                   .published = 0,
                   .what = "",
                   .zero = 1,
                   .tied = false,
                   .layers = 32,
                   .width = 4096,
                   .heads = 32,
                   .kv_heads = 8,
                   .hidden = 16384,
                   .vocab = 131073,
                   .seq = 8192,
                   .micro_batch = 1,
                   .batch = 8};
  std::vector<Run> runs{
      {.id = "F3", .published = 2.507, .what = "te_tp1_pp1_resume_torch_dist_dist_optimizer", .zero = 1},
      {.id = "F4",
       .published = 4.379,
       .what = "te_tp1_pp1_dist_optimizer_no_mmap_bin_files",
       .zero = 1,
       .run = kUnfused},
      {.id = "F5",
       .published = 2.385,
       .what = "te_tp1_pp1_resume_torch_dist_uniform_full_recompute",
       .recompute = Recompute::full},
      {.id = "F6",
       .published = 2.420,
       .what = "te_tp1_pp2_resume_torch_dist_rope_embeddings",
       .stages = 2,
       .positions = false},
      {.id = "F7",
       .published = 2.060,
       .what = "te_tp1_pp4_resume_torch_dist_disable_bias_linear",
       .stages = 4,
       .biases = false},
      {.id = "F8",
       .published = 2.060,
       .what = "te_tp1_pp4_resume_torch_dist_swiglu",
       .stages = 4,
       .gated = true,
       .hidden = 1344},
      {.id = "F9",
       .published = 2.058,
       .what = "te_tp1_pp4_resume_torch_dist_untie_embeddings_and_outputs",
       .stages = 4,
       .tied = false},
      {.id = "F10", .published = 2.462, .what = "te_tp1_pp4_vp1_resume_torch_dist", .stages = 4, .chunks = 3},
      {.id = "F11", .published = 3.875, .what = "te_tp1_pp4_vp1", .stages = 4, .chunks = 3, .run = kUnfused},
      {.id = "F12",
       .published = 2.265,
       .what = "te_tp1_pp4_vp1_resume_torch_dist_dist_optimizer_overlap_grad_reduce",
       .stages = 4,
       .chunks = 3,
       .zero = 1},
      {.id = "F13",
       .published = 3.672,
       .what = "te_tp1_pp4_vp1_dist_optimizer_overlap_grad_reduce_param_gather_overlap_optimizer",
       .stages = 4,
       .chunks = 3,
       .zero = 1,
       .run = kUnfused},
      {.id = "F14",
       .published = 1.149,
       .what = "te_tp2_pp1_resume_torch_dist_cp2_nondeterministic",
       .tensor = 2,
       .context = 2,
       .run = kSequence},
      {.id = "F15", .published = 1.330, .what = "te_tp2_pp2_resume_torch_dist", .tensor = 2, .stages = 2},
      {.id = "F16",
       .published = 0.871,
       .what = "te_tp2_pp2_cp2",
       .tensor = 2,
       .context = 2,
       .stages = 2,
       .run = kSequence},
      {.id = "F17",
       .published = 0.971,
       .what = "te_tp4_pp1_resume_torch_dist_dist_optimizer_overlap_grad_reduce",
       .tensor = 4,
       .zero = 1},
      {.id = "F18",
       .published = 1.437,
       .what = "te_tp4_pp1_dist_optimizer_overlap_grad_reduce_param_gather",
       .tensor = 4,
       .zero = 1,
       .run = kUnfused},
      {.id = "F19",
       .published = 0.786,
       .what = "te_tp4_pp2_resume_torch_dist_reshard_8x1xNone",
       .tensor = 4,
       .stages = 2,
       .zero = 1},
      {.id = "F20", .published = 3.384, .what = "tp1_pp2", .stages = 2, .run = kUnfused},
      {.id = "F21", .published = 2.558, .what = "tp1_pp4", .stages = 4, .run = kUnfused},
      {.id = "F22",
       .published = 4.292,
       .what = "tp1_pp1_resume_torch_dist_dist_optimizer_overlap_grad_reduce_param_gather",
       .zero = 1,
       .run = kUnfused,
       .half_gradients = true},
      {.id = "F23",
       .published = 1.489,
       .what = "tp4_pp1_resume_torch_dist",
       .tensor = 4,
       .run = kUnfused,
       .half_gradients = true},
  };
  Run whole = gpt_7b, stages = gpt_7b;
  whole.id = "F1", whole.published = 53.219, whole.what = "gpt3_7b_tp4_pp1_memory_speed";
  whole.tensor = 4, whole.micro_batch = 2;
  stages.id = "F2", stages.published = 56.551, stages.what = "gpt3_7b_tp1_pp4_memory_speed";
  stages.stages = 4, stages.chunks = 8;
  runs.insert(runs.begin(), {whole, stages});
  return runs;
}

ModelSpec spec_of(const Run& r) {
  const int64_t padded = ceil_div(r.vocab, 128 * r.tensor) * 128 * r.tensor;
  ModelSpec spec = model_spec(parse_hf_config(
      fmt::format(
          R"({{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": {}, "n_layer": {}, "n_head": {},
        "n_positions": {}, "vocab_size": {}, "n_inner": {}, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}})",
          r.width, r.layers, r.heads, r.seq, padded, r.hidden),
      "gpt"));
  for (Unit& u : spec.units) {
    if (auto* a = std::get_if<AttentionSpec>(&u.spec)) a->kv_heads = r.kv_heads, a->qkv_bias = a->out_bias = r.biases;
    if (auto* m = std::get_if<MlpSpec>(&u.spec)) m->gated = r.gated, m->bias = r.biases;
    if (auto* h = std::get_if<HeadSpec>(&u.spec)) h->tied = r.tied;
    if (auto* e = std::get_if<EmbedSpec>(&u.spec); e && !r.positions) e->positions = 0;
  }
  return spec;
}

// GiB on the last rank of even stages.
double counted_gib(const ModelSpec& spec, const TrainJob& job, const OuterChoice& c, const LayerStrategy& s,
                   Framework f, const FrameworkRun& run) {
  const Machine m = machine_of(with_nodes(find_cluster("h100"), std::max<int64_t>(1, c.devices() / 8)), 0);
  const LayerCosts costs(spec, job, m, c.mesh, c.micro_batch, false, f, run);
  const std::vector<Layer> layers = layers_of(spec);
  Instance in{.num_stages = c.num_stages,
              .chunks_per_stage = c.chunks_per_stage,
              .num_micro = static_cast<int>(c.num_micro),
              .schedule = c.schedule};
  for (size_t u = 0; u < layers.size(); ++u) {
    in.cost.push_back({costs.cost(layers[u], s, c.num_stages > 1)});
    if (u + 1 < layers.size()) in.within.push_back({EdgeCost{}}), in.across.push_back({EdgeCost{}});
  }
  in.capacity.assign(static_cast<size_t>(c.num_stages), {kNever, kNever, kNever});
  const Assignment a{even_stages(spec, layers, c.num_stages * c.chunks_per_stage), std::vector<int>(layers.size())};
  return static_cast<double>(price(in, a).peak.back()[0]) / 0x1p30;
}

double counted(const Run& r) {
  OuterChoice c{.mesh = {.tensor = r.tensor, .context = r.context, .data = 8 / (r.tensor * r.context * r.stages)},
                .num_stages = static_cast<int>(r.stages),
                .chunks_per_stage = static_cast<int>(r.chunks),
                .schedule = r.chunks > 1 ? PipelineSchedule::interleaved : kOneStageSchedule,
                .micro_batch = r.micro_batch};
  c.num_micro = r.batch / (c.mesh.data * r.micro_batch);
  const TrainJob job{.batch = r.batch,
                     .seq = r.seq,
                     .dtype = r.half_gradients ? DType::f16 : DType::bf16,
                     .gradients = r.half_gradients ? DType::f16 : DType::f32};
  return counted_gib(spec_of(r), job, c, {.zero = r.zero, .recompute = r.recompute}, Framework::megatron, r.run);
}

// TorchTitan's tables: Llama 3.1, full recomputation; what PyTorch's allocator reserved.
struct TitanRun {
  const char* id;
  double published;
  const char* model;
  int64_t tensor, context, data, seq, micro_batch;
  bool within;
};
const std::vector<TitanRun> kTitanRuns{{"F24", 83.9, "llama-3-8b", 1, 1, 8, 32768, 1, true},
                                       {"F25", 84.2, "llama-3-8b", 1, 2, 4, 65536, 1, true},
                                       {"F26", 84.0, "llama-3-8b", 1, 4, 2, 131072, 1, true},
                                       {"F27", 84.5, "llama-3-8b", 1, 8, 1, 262144, 1, true},
                                       {"F28", 71.9, "llama-3-70b", 8, 1, 32, 8192, 16, false}};
double counted(const TitanRun& r) {
  const OuterChoice c{.mesh = {.tensor = r.tensor, .context = r.context, .data = r.data}, .micro_batch = r.micro_batch};
  const TrainJob job{.batch = r.data * r.micro_batch, .seq = r.seq};
  return counted_gib(*preset_model(r.model), job, c, {.zero = 3, .recompute = Recompute::full}, Framework::torchtitan,
                     {});
}

struct MemoryRow {
  std::string id;
  double published, ours;
  bool within;
};
std::vector<MemoryRow> rows() {
  std::vector<MemoryRow> all;
  for (const Run& r : megatron_runs()) all.push_back({r.id, r.published, counted(r), r.within});
  for (const TitanRun& r : kTitanRuns) all.push_back({r.id, r.published, counted(r), r.within});
  return all;
}
std::string row_of(const MemoryRow& r) {
  return fmt::format("| {:.4g} | {:.4g} | {:+.1f} % |", r.published, r.ours, 100 * (r.ours / r.published - 1));
}

TEST(FrameworkMemory, MeasuredRunsAreWithinTenPercentUnderTheirOwnBytes) {
  for (const MemoryRow& r : rows()) EXPECT_EQ(std::abs(r.ours / r.published - 1) <= 0.1, r.within) << r.id << row_of(r);
}

TEST(FrameworkMemory, ThePageHasTheseNumbers) {
  const std::string page = real_io().read(source_dir() + "/docs/framework-memory.md");
  size_t lines = 0;
  for (const std::string_view line : split(page, '\n')) lines += line.starts_with("| F");
  EXPECT_EQ(lines, rows().size());
  for (const MemoryRow& r : rows()) {
    const std::string want = row_of(r), key = fmt::format("| {} |", r.id);
    bool found = false;
    for (const std::string_view line : split(page, '\n'))
      found |= line.starts_with(key) && line.find(want) != std::string_view::npos;
    EXPECT_TRUE(found) << key << " … " << want;
  }
}

// 1F1B and one stage, counted by plain sums of the published formulas: at most, on a rank of a Llama.
int64_t megatron_bytes(const ModelSpec& spec, const Plan& p, int rank) {
  const OuterChoice& c = p.choice;
  const LayerStrategy s = p.layers.front().strategy;
  const AttentionSpec& a = first_attention(spec);
  const MlpSpec& m = *first_mlp(spec);
  const int64_t t = c.mesh.tensor, h = spec.width, T = c.micro_batch * ceil_div(p.job.seq, c.mesh.context),
                N = ceil_div(T, t);
  const int64_t q = ceil_div(a.heads, t) * a.head_dim, kv = ceil_div(a.kv_heads, t) * a.head_dim,
                f = ceil_div(m.hidden, t);
  const int64_t kept =
      N * h * 2 * 2 + T * (2 * q + 2 * kv) * 2 + 4 * T * ceil_div(a.heads, t) + T * 3 * f * 2;  // x of each
  const int64_t block = s.recompute == Recompute::full ? 2 * N * h : kept + 2 * N * h;
  const int64_t in_flight = std::min<int64_t>(c.num_stages - rank, c.num_micro), blocks = spec.layers / c.num_stages;
  int64_t bytes = blocks * block * in_flight;
  if (rank + 1 == c.num_stages) bytes += 4 * N * h + (4 + 2) * T * ceil_div(spec.vocab, t);
  const double each = s.zero == 0 ? 18 : 6 + 12.0 / static_cast<double>(c.mesh.replicas());
  const double parameters = static_cast<double>(num_parameters(spec)) / static_cast<double>(t);
  const double tables = 2.0 * static_cast<double>(spec.vocab * h) / static_cast<double>(t);
  return bytes + static_cast<int64_t>(each * ((parameters - tables) / c.num_stages * 0.999));
}

// TERN_PLANS: how many (40).
TEST(FrameworkMemorySlow, NoEmittedPlanExceedsItsFrameworksBytes) {
  const char* given = std::getenv("TERN_PLANS");
  const int plans = given ? std::atoi(given) : 40;
  int found = 0, judged = 0;
  for (int seed = 0; found < plans; ++seed) {
    ASSERT_LT(seed, 4 * plans);
    const auto draw = [&](int64_t most, uint64_t what) {
      return static_cast<int64_t>(random_u64({.seed = static_cast<uint64_t>(seed)}, what) %
                                  static_cast<uint64_t>(most));
    };
    const Framework f = seed % 3 == 2 ? Framework::torchtitan : Framework::megatron;
    const char* models[] = {"llama-2-7b", "llama-2-13b", "llama-3-8b", "llama-3-70b"};
    const ModelSpec spec = *preset_model(f == Framework::torchtitan ? models[2 + draw(2, 1)] : models[draw(4, 1)]);
    const Cluster cluster = with_nodes(find_cluster(draw(2, 2) ? "h100" : "a100-80g"), int64_t{1} << draw(5, 3));
    PlanRequest r{.model = "x", .job = {.batch = int64_t{32} << draw(5, 4), .seq = int64_t{2048} << draw(3, 5)}};
    r.space.states = r.space.activations = {Tier::device};
    r.space.max_context = 2;
    if (seed % 2) r.space.schedules = {PipelineSchedule::one_f_one_b}, r.space.zero = {0, 1};  // which the sums know
    r.space = for_framework(r.space, f);
    const PlanAnswer a = plan_model(spec, cluster, r);
    if (!a.found) continue;
    ++found;
    for (size_t d = 0; d < a.plan.ranks.size(); ++d) {
      const PlannedRank& rank = a.plan.ranks[d];
      EXPECT_LE(rank.peak[0], rank.capacity[0]) << seed;
      if (f != Framework::megatron || a.plan.choice.chunks_per_stage > 1 || a.plan.layers.front().strategy.zero > 1 ||
          (a.plan.choice.num_stages > 1 && a.plan.choice.schedule != PipelineSchedule::one_f_one_b))
        continue;
      const int64_t least = megatron_bytes(spec, a.plan, static_cast<int>(d));
      EXPECT_LE(least, rank.peak[0]) << seed << " rank " << d << ": " << to_string(a.plan.choice);
      EXPECT_LE(least, rank.capacity[0]) << seed;
      ++judged;
    }
  }
  EXPECT_GE(judged, plans / 4);
}

}  // namespace
}  // namespace tern
