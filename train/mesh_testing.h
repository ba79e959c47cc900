#pragma once
// For tests: runs by plans for several ranks, which are threads, compared with the same runs on one rank.

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "formats/hf/config.h"
#include "plan/layers.h"
#include "program/pipeline_order.h"
#include "spec/pipeline_schedule.h"
#include "spec/recompute.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"

namespace tern {

/// What a plan shares out, and over how many ranks.
struct MeshCase {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 1, data = 1, tensor = 1, zero = 0;
  Recompute recompute = Recompute::none;
  int context = 1, experts = 1;
  bool ring = false;
  double capacity = 0;  // 0: room for any routing
  double capacity_factor() const { return capacity > 0 ? capacity : experts; }
  int ranks() const { return stages * data * tensor * context; }
};

inline std::string to_string(const MeshCase& p) {
  return fmt::format("{}, {} stages × {} replicas × {} of rows{} × {} of matrices, {} of experts, zero {}",
                     name_of(p.schedule), p.stages, p.data, p.context, p.ring ? " in a ring" : "", p.tensor, p.experts,
                     p.zero);
}

inline int chunks_of(const MeshCase& p) {
  if (p.stages == 1) return 1;
  return std::max(least_chunks(p.schedule), traits_of(p.schedule).chunks == ChunkRule::several ? 2 : 1);
}

// The plan that the planner would write, with stages that all take the same time.
inline Plan plan_of(const TrainSettings& s, const MeshCase& p) {
  const ModelSpec spec = load_inputs(s).spec;
  const auto layers = static_cast<int>(layers_of(spec).size());
  Plan plan{.parameters = num_parameters(spec)};
  plan.job = {.batch = s.batch,
              .seq = s.seq,
              .dtype = s.dtype,
              .gradients = s.dtype == DType::f64 ? DType::f64 : DType::f32,
              .optimizer = s.optimizer.rule,
              .capacity_factor = p.capacity_factor()};
  OuterChoice& o = plan.choice;
  o.mesh.data = p.data, o.mesh.tensor = p.tensor, o.mesh.context = p.context;
  o.mesh.expert = p.experts, o.mesh.ulysses = p.context > 1 && !p.ring;
  o.num_stages = p.stages, o.chunks_per_stage = chunks_of(p);
  if (p.stages > 1) o.schedule = p.schedule;
  o.micro_batch = s.micro_batch, o.num_micro = s.batch / s.micro_batch / p.data;
  const int stages = p.stages * o.chunks_per_stage;
  for (int l = 0; l < layers; ++l)  // uneven: what is left over comes to the first stage
    plan.layers.push_back({.first = l,
                           .count = 1,
                           .stage = std::max(0, l - (layers - stages)),
                           .strategy = {.zero = p.zero, .recompute = p.recompute}});
  for (int i = 0; i < stages; ++i)
    plan.stages.push_back(
        {.forward_ps = 10, .backward_ps = 10, .weight_ps = 10, .send_forward_ps = 1, .send_backward_ps = 1});
  plan.ranks.resize(static_cast<size_t>(p.stages));
  return plan;
}

// The settings of a run by such a plan.
inline TrainSettings settings_in_mesh(TrainSettings s, const MeshCase& p) {
  s.plan = plan_of(s, p), s.plan_path = "plan.json", s.sum_order.groups = p.data, s.ranks = p.ranks();
  s.recompute = p.recompute, s.tensor = p.tensor, s.context_ranks = p.context, s.context_ring = p.ring, s.zero = p.zero;
  s.expert_ranks = p.experts, s.capacity_factor = p.capacity_factor();
  return s;
}

// Rank 0's result of a run by such a plan.
inline TrainResult train_in_mesh(const TrainSettings& s, const MeshCase& p, Io& io, const TrainHooks& hooks = {},
                                 const std::atomic<bool>& stop = kNeverStops) {
  return train_on(settings_in_mesh(s, p), p.ranks(), io, hooks, stop);
}

// The run finished, and its counted bytes are the predicted ones.
inline void expect_whole(const TrainResult& got) {
  EXPECT_EQ(got.end, TrainEnd::finished);
  EXPECT_EQ(got.byte_mismatches, 0);
  EXPECT_EQ(got.counted_peak_bytes, got.predicted.tensors());
}

// |got − want| / |want| in the 2-norm, or |got − want| where want is zero.
template <class T>
double difference(const TensorView& got, const TensorView& want) {
  double apart = 0, norm = 0;
  for (size_t at = 0; at < want.bytes.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, got.bytes.data() + at, sizeof(T)), std::memcpy(&b, want.bytes.data() + at, sizeof(T));
    apart += std::pow(static_cast<double>(a) - static_cast<double>(b), 2), norm += std::pow(static_cast<double>(b), 2);
  }
  return norm > 0 ? std::sqrt(apart / norm) : apart;
}

// Compares the states that two runs in f64 left, tensor by tensor.
inline void expect_near(const TrainResult& got, Io& a, const TrainResult& want, Io& b, double bound) {
  const CheckpointData is(a, got.checkpoint, 0), was(b, want.checkpoint, 0);
  ASSERT_EQ(is.tensors().size(), was.tensors().size());
  for (size_t i = 0; i < was.tensors().size(); ++i) {
    const TensorView one = was.tensors()[i];
    EXPECT_LE(difference<double>(is.tensors().get(one.name), one), bound) << one.name;
  }
}

// Runs of the same settings on one rank: one run for each number of sum groups that is asked for.
class RunsOfOneRank {
 public:
  explicit RunsOfOneRank(const TrainSettings& s) : settings(s) {}
  struct Run {
    MemoryIo io;
    TrainResult result;
  };
  Run& with_groups(int groups) {
    std::unique_ptr<Run>& run = runs_[groups];
    if (run) return *run;
    run = std::make_unique<Run>();
    TrainSettings s = settings;
    s.sum_order.groups = groups;
    run->result = train_on(s, 1, run->io);
    return *run;
  }
  const TrainSettings settings;

 private:
  std::map<int, std::unique_ptr<Run>> runs_;
};

// A run in the mesh leaves the bits of one rank's.
inline void expect_bits(RunsOfOneRank& one, const MeshCase& p) {
  const TrainSettings& s = one.settings;
  SCOPED_TRACE(fmt::format("{}, {}, {}", to_string(p), name_of(s.dtype), name_of(s.optimizer.rule)));
  RunsOfOneRank::Run& was = one.with_groups(p.data);
  const TrainResult& want = was.result;
  MemoryIo mesh;
  const TrainResult got = train_in_mesh(s, p, mesh);
  expect_whole(got);
  EXPECT_TRUE(bits_of(got, mesh) == bits_of(want, was.io));
  EXPECT_EQ(*got.loss, *want.loss);
  ASSERT_TRUE(got.evaluation && want.evaluation);
  EXPECT_EQ(got.evaluation->loss, want.evaluation->loss);
}

// A run in the mesh, in f64, is within 1e-12 of one rank's.
inline void expect_near(RunsOfOneRank& one, const MeshCase& p) {
  SCOPED_TRACE(to_string(p));
  RunsOfOneRank::Run& was = one.with_groups(p.data);
  const TrainResult& want = was.result;
  MemoryIo mesh;
  const TrainResult got = train_in_mesh(one.settings, p, mesh);
  expect_whole(got);
  EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, 1e-12);
  ASSERT_TRUE(got.evaluation && want.evaluation);
  EXPECT_LE(std::abs(got.evaluation->loss - want.evaluation->loss) / want.evaluation->loss, 1e-12);
  expect_near(got, mesh, want, was.io, 1e-12);
}

}  // namespace tern
