// Random plans of the planner's own enumeration, on ranks that are threads: one rank's training, by the list that was priced, within the
// plan's memory; what does not run is refused by name.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "base/source_dir_testing.h"
#include "hardware/cluster.h"
#include "model/linear.h"
#include "planner/outer/plan_model.h"
#include "program/checksum.h"
#include "program/lower.h"
#include "program/simulate.h"
#include "spec/recompute.h"
#include "train/mesh_testing.h"
#include "train/plan_settings.h"

namespace tern {
namespace {

constexpr int64_t kExperts = 8;

// What the plans are of. A mixture's layers have eight experts, of which a token has two, and one for all tokens.
struct Model {
  bool tied = false, experts = false;
};

// Heads and widths that eight ranks can share out.
void write_config(const std::string& directory, int layers, const Model& model) {
  const std::string experts = fmt::format(R"("num_experts": {}, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
 "shared_expert_intermediate_size": 20, "decoder_sparse_step": 1, "norm_topk_prob": false,)",
                                          kExperts);
  write_file_atomically(
      real_io(), directory + "/config.json",
      fmt::format(
          R"({{"model_type": "{}", "architectures": ["{}"], {} "vocab_size": {}, "hidden_size": 32,
 "intermediate_size": 48, "num_hidden_layers": {}, "num_attention_heads": 8, "num_key_value_heads": 4,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": {}, "hidden_act": "silu"}})",
          model.experts ? "qwen2_moe" : "llama", model.experts ? "Qwen2MoeForCausalLM" : "LlamaForCausalLM",
          model.experts ? experts : "", Tokenizer::load(kTokenizer).vocab_size(), layers, model.tied));
}

struct Sampler {
  std::mt19937_64 random;
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[random() % list.size()];
  }
  // One or two of them.
  template <class T>
  std::vector<T> some_of(const std::vector<T>& list) {
    std::vector<T> some{one_of(list)};
    if (const T more = one_of(list); more != some[0]) some.push_back(more);
    return some;
  }
};

struct Tally {
  int ran = 0, refused = 0;
  std::map<std::string, int> seen;  // values of axes, of the plans that ran
  int of(const std::string& axis) const { return seen.contains(axis) ? seen.at(axis) : 0; }
};

std::string schedule_axis(PipelineSchedule s) { return fmt::format("schedule {}", name_of(s)); }

// Nine times in ten that of the schedules which was seen least, so that a hundred plans see each ten times. `v_shaped`: whether those of two
// chunks that come back to the first device may be drawn.
PipelineSchedule rarest_schedule(const Tally& tally, bool v_shaped, Sampler& sample) {
  std::vector<PipelineSchedule> drawn(kPipelineSchedules.begin(), kPipelineSchedules.end());
  if (!v_shaped) std::erase_if(drawn, [](PipelineSchedule s) { return traits_of(s).v_shaped; });
  PipelineSchedule rarest = sample.one_of(drawn);
  if (sample.random() % 10 == 0) return rarest;
  for (const PipelineSchedule s : drawn)
    if (tally.of(schedule_axis(s)) < tally.of(schedule_axis(rarest))) rarest = s;
  return rarest;
}

// The axes of a mesh of so many devices, at random; most of what tern train refuses by name is left out. Nothing: a replica needs more
// devices than there are.
std::optional<PinnedAxes> random_axes(const ModelSpec& spec, int devices, const Tally& tally, Sampler& sample) {
  const bool experts = std::ranges::any_of(spec.units, [](const Unit& u) { return moe_of(u); });
  PinnedAxes pins;
  pins.tensor = experts ? 1 : sample.one_of<int64_t>({1, 1, 2, 4});  // tern train shares out one of the two
  pins.context = experts ? sample.one_of<int64_t>({1, 2, 4}) : sample.one_of<int64_t>({1, 1, 2, 4});
  if (*pins.context > 1) pins.ulysses = sample.random() % 2 == 0;
  const int64_t left = devices / (*pins.tensor * *pins.context);
  std::vector<int64_t> stages;
  for (int64_t p = 2; p <= std::min<int64_t>(left, 4); p *= 2) stages.push_back(p);
  const bool one = 10 * (tally.ran - tally.of("stages")) < tally.ran;  // one plan in ten
  pins.stages = stages.empty() || one ? 1 : sample.one_of(stages);
  pins.data = left / *pins.stages;
  const bool replicas = *pins.data * *pins.context > 1;
  if (*pins.stages > 1) pins.schedule = rarest_schedule(tally, !(spec.head().tied && replicas), sample);
  pins.micro_batch = sample.one_of<int64_t>({1, 1, 2});
  if (*pins.data == 0) return std::nullopt;
  if (!experts) return pins;
  std::vector<int64_t> groups;  // of the ranks with the same layers, one time in six none
  for (int64_t e = 2; e <= std::min(*pins.data * *pins.context, kExperts); e *= 2) groups.push_back(e);
  pins.expert = groups.empty() || sample.random() % 6 == 0 ? 1 : sample.one_of(groups);
  return pins;
}

// A plan of so many devices, or none: what was asked for at random may not be legal.
std::optional<Plan> random_plan(const ModelSpec& spec, const TrainSettings& s, int devices, const Tally& tally,
                                Sampler& sample) {
  Cluster cluster = read_cluster(source_dir() + "/examples/hardware/h100-node.toml");
  cluster.nodes[0].num_devices = cluster.nodes[0].link.devices = devices;
  PlanRequest request{
      .model = "tiny",
      .job = {.batch = s.batch, .seq = s.seq, .dtype = DType::f32, .capacity_factor = kExperts}};  // for any routing
  request.job.optimizer = s.optimizer.rule;
  SearchSpace& space = request.space;
  space.recompute = sample.some_of<Recompute>({Recompute::none, Recompute::attention, Recompute::full});
  space.states = space.activations = {Tier::device};
  space.max_chunks = 2;
  const std::optional<PinnedAxes> pins = random_axes(spec, devices, tally, sample);
  if (!pins) return std::nullopt;
  space.pinned = *pins;
  const bool gathers = !pins->schedule || !splits_backward(*pins->schedule);  // whether zero 3 runs
  space.zero = sample.some_of<int>(gathers ? std::vector{0, 1, 2, 3} : std::vector{0, 1, 2});
  if (gathers && sample.random() % 3 == 0) space.zero = {3};  // of several the planner seldom takes it
  try {
    PlanAnswer answer = plan_model(spec, cluster, request);
    if (!answer.found) return std::nullopt;
    answer.plan.job.dtype = answer.plan.job.gradients = DType::f64;  // the same plan, its rounding aside
    return answer.plan;
  } catch (const Error&) { return std::nullopt; }  // no legal choice
}

bool has_uneven_stages(const Plan& plan) {
  std::map<int, int> layers;
  for (const PlannedLayers& l : plan.layers) layers[l.stage] += l.count;
  return std::ranges::any_of(layers, [&](const auto& stage) { return stage.second != layers.begin()->second; });
}

// What a plan that shares out experts has beside them.
void count_experts(const Plan& plan, Tally& tally) {
  const OuterChoice& c = plan.choice;
  const auto zero = [&](int least) {
    return std::ranges::any_of(plan.layers, [&](const PlannedLayers& l) { return l.strategy.zero >= least; });
  };
  ++tally.seen["experts"];
  if (c.mesh.replicas() > c.mesh.expert) ++tally.seen["experts of several groups"];
  if (c.mesh.data > 1) ++tally.seen["experts, data"];
  if (c.num_stages > 1) ++tally.seen["experts, stages"];
  if (c.mesh.context > 1) ++tally.seen[c.mesh.ulysses ? "experts, ulysses" : "experts, ring"];
  if (zero(1)) ++tally.seen["experts, zero"];
  if (zero(3)) ++tally.seen["experts, zero 3"];
}

void count_axes(const ModelSpec& spec, const Plan& plan, Tally& tally) {
  const OuterChoice& c = plan.choice;
  ++tally.seen[fmt::format("{} devices", c.devices())];
  ++tally.seen[spec.head().tied ? "tied" : "untied"];
  if (c.mesh.tensor > 1) ++tally.seen["tensor"];
  if (c.mesh.context > 1) ++tally.seen["context"], ++tally.seen[c.mesh.ulysses ? "ulysses" : "ring"];
  if (c.mesh.data > 1) ++tally.seen["data"];
  if (c.mesh.expert > 1) count_experts(plan, tally);
  if (c.num_stages > 1) ++tally.seen["stages"], ++tally.seen[schedule_axis(c.schedule)];
  if (c.num_stages > 1 && has_uneven_stages(plan)) ++tally.seen["uneven stages"];
  if (c.micro_batch > 1) ++tally.seen["micro-batch"];
  std::set<std::string> of_layers;
  for (const PlannedLayers& l : plan.layers) {
    if (c.mesh.replicas() > 1) of_layers.insert(fmt::format("zero {}", l.strategy.zero));
    of_layers.insert(fmt::format("recompute {}", name_of(l.strategy.recompute)));
  }
  for (const std::string& name : of_layers) ++tally.seen[name];
}

// One rank's runs, by the sizes of micro-batches and the groups that their sums are taken in.
using OneRankRuns = std::map<int64_t, RunsOfOneRank>;

void run_one(const ModelSpec& spec, TrainSettings s, const Plan& plan, OneRankRuns& ones, Tally& tally) {
  SCOPED_TRACE(to_string(plan.choice) + ", first layer " + to_string(plan.layers.front().strategy));
  if (const std::string why = why_not_trained(plan); !why.empty()) {
    EXPECT_NE(why.find("plan with"), std::string::npos) << why;
    ++tally.refused;
    return;
  }
  s.micro_batch = plan.choice.micro_batch, s.sum_order.groups = plan.choice.mesh.data;
  MemoryIo mesh;
  TrainSettings by_plan = s;
  by_plan.plan = plan, by_plan.plan_path = "plan.json";
  by_plan.tensor = static_cast<int>(plan.choice.mesh.tensor);
  by_plan.context_ranks = static_cast<int>(plan.choice.mesh.context);
  by_plan.context_ring = plan.choice.mesh.context > 1 && !plan.choice.mesh.ulysses;
  by_plan.expert_ranks = static_cast<int>(plan.choice.mesh.expert);
  by_plan.capacity_factor = plan.job.capacity_factor;
  TrainResult got;
  try {
    got = train_on(by_plan, static_cast<int>(plan.choice.devices()), mesh);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage) << e.what();
    EXPECT_TRUE(std::string(e.what()).find("plan with") != std::string::npos ||
                std::string(e.what()).find("choose ") != std::string::npos)
        << e.what();
    ++tally.refused;
    return;
  }
  ++tally.ran;
  count_axes(spec, plan, tally);
  RunsOfOneRank::Run& one =
      ones.try_emplace(s.micro_batch, s).first->second.with_groups(static_cast<int>(plan.choice.mesh.data));
  const TrainResult& want = one.result;
  expect_whole(got);
  EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, 1e-12);
  expect_near(got, mesh, want, one.io, 1e-12);
  const Placement placed =
      placement_of(spec, plan, {.scratch = scratch_bytes(s.multiply, s.dtype), .update = s.optimizer});
  const Program list = lower(spec, placed);
  EXPECT_EQ(got.program_checksum, checksum(list)) << "the list that ran is not the plan's";
  // In the plan's own type, without the scratch that kernels here take and the plan's devices do not.
  Plan as_planned = plan;
  as_planned.job.dtype = as_planned.job.gradients = DType::f32;
  const Simulation simulated = simulate(lower(spec, placement_of(spec, as_planned, {.update = s.optimizer})));
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    EXPECT_LE(simulated.peak[rank][0], plan.ranks[rank].peak[0]) << rank;
}

// As many of each model, of so many layers; steps of so many sequences.
Tally run_plans(int count, uint64_t seed, const std::vector<int>& devices, int layers, int64_t batch) {
  Tally tally;
  Sampler sample{std::mt19937_64(seed)};
  constexpr Model kModels[]{{.tied = true}, {}, {.tied = true, .experts = true}, {.experts = true}};
  for (const Model& model : kModels) {
    const RunInputs inputs(model.tied);
    write_config(inputs.path, layers, model);
    TrainSettings s = settings_of(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    s.batch = batch, s.schedule.total_steps = 2, s.eval_every = s.checkpoint_every = 0, s.valid_data.clear();
    const ModelSpec spec = load_inputs(s).spec;
    OneRankRuns ones;
    const int wanted = tally.ran + (count + 3) / 4;
    for (int tries = 0; tally.ran < wanted && tries < 50 * count; ++tries)
      if (const std::optional<Plan> plan = random_plan(spec, s, sample.one_of(devices), tally, sample))
        run_one(spec, s, *plan, ones, tally);
  }
  std::printf("%d plans trained as one rank, %d refused by name:", tally.ran, tally.refused);
  for (const auto& [name, times] : tally.seen) std::printf(" %s %d,", name.c_str(), times);
  std::printf("\n");
  return tally;
}

TEST(RandomPlans, TrainAsOneRankByTheListThatWasPriced) {
  const Tally tally = run_plans(8, 7, {8}, 4, 8);
  EXPECT_EQ(tally.ran, 8);
  EXPECT_GE(tally.of("experts"), 1);
}

// With TERN_TEST_PLANS=100 in the environment so many, and every axis ten times.
TEST(RandomPlansSlow, OnEightToSixtyFourRanks) {
  const char* given = std::getenv("TERN_TEST_PLANS");
  const int count = given ? std::atoi(given) : 4;
  const Tally tally = run_plans(count, 1, {8, 8, 16, 16, 32, 64}, 6, 16);
  EXPECT_EQ(tally.ran, (count + 3) / 4 * 4);
  std::vector<std::string> axes{"data",
                                "tensor",
                                "context",
                                "ulysses",
                                "ring",
                                "stages",
                                "uneven stages",
                                "tied",
                                "untied",
                                "zero 0",
                                "zero 1",
                                "zero 2",
                                "zero 3",
                                "recompute none",
                                "recompute attention",
                                "recompute full",
                                "micro-batch",
                                "experts",
                                "experts of several groups",
                                "experts, data",
                                "experts, stages",
                                "experts, ulysses",
                                "experts, ring",
                                "experts, zero",
                                "experts, zero 3"};
  for (const PipelineSchedule s : kPipelineSchedules) axes.push_back(schedule_axis(s));
  if (count < 100) return;
  for (const std::string& axis : axes) EXPECT_GE(tally.of(axis), 10) << axis;
}

}  // namespace
}  // namespace tern
