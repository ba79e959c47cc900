#include "calibrate/run_price.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "calibrate/a100_testing.h"
#include "calibrate/constants.h"
#include "calibrate/ready_pipelines.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "program/pipeline_run.h"
#include "spec/recompute.h"

namespace tern {
namespace {

ReadyPipelines& kept() {
  static ReadyPipelines pipelines;
  return pipelines;
}
Machine machine(const Cluster& c, const RunPricer& p) { return machine_of(with_nodes(c, p.num_nodes()), 0); }

PublishedRun run(int64_t t, int64_t d, int p, int64_t b, int64_t batch, int64_t layers = 8, int64_t width = 1024) {
  PublishedRun r{.line = 1, .vocabulary = 51200, .width = width, .heads = 16, .layers = layers};
  r.job = {.batch = batch, .seq = 1024, .dtype = DType::f16, .gradients = DType::f16};
  r.choice = {.mesh = {.tensor = t, .data = d}, .num_stages = p, .micro_batch = b, .num_micro = batch / (b * d)};
  r.strategy.recompute = Recompute::full;
  return r;
}

// Any constants within their bounds, near the nominal ones.
Constants some_constants(uint64_t seed) {
  Constants c = nominal_constants();
  for (size_t k = 0; k < kNumConstants; ++k) {
    const ConstantSpec& s = constant_specs()[k];
    const double z = random_normal({seed, 1}, k);
    c[k] = std::clamp(s.ratio ? s.nominal * std::exp(s.spread * z) : s.nominal + s.spread * z, s.least, s.most);
  }
  return c;
}

std::vector<PublishedRun> runs_of_all_kinds() {
  std::vector<PublishedRun> runs{run(1, 1, 1, 1, 4),     run(2, 4, 1, 2, 16),   run(8, 2, 4, 2, 32),
                                 run(4, 2, 2, 1, 16, 7), run(2, 2, 4, 1, 8, 9), run(16, 1, 2, 1, 4)};
  for (const PipelineSchedule s : kPipelineSchedules) {
    PublishedRun r = run(2, 2, 4, 1, 16, 9);
    r.choice.schedule = s;
    r.choice.chunks_per_stage = least_chunks(s);
    runs.push_back(r);
  }
  for (const int zero : {1, 2, 3}) {
    runs.push_back(run(2, 4, 2, 1, 16, 9));
    runs.back().strategy = {.zero = zero, .recompute = Recompute::attention};
  }
  PublishedRun llama = run(4, 1, 4, 1, 8);
  llama.model = "llama-3-8b", llama.choice.mesh.context = 2, llama.job.dtype = DType::bf16, llama.product_rate = 2;
  runs.push_back(llama);
  PublishedRun mixture = run(2, 4, 2, 1, 8);
  mixture.model = "mixtral-8x7b", mixture.choice.mesh.expert = 4, mixture.job.dtype = DType::bf16;
  runs.push_back(mixture);
  return runs;
}

// One source of truth: a table's row takes what the stage model says of the same plan, layer by layer.
TEST(RunPricer, EqualsTheStageModelOfEveryLayer) {
  uint64_t seed = 0;
  for (const PublishedRun& r : runs_of_all_kinds()) {
    const RunPricer pricer(r, a100(), "t.csv", kept());
    const Machine m = machine(with_constants(a100(), r.job.dtype, some_constants(++seed)), pricer);
    const Instance in = pricer.full_instance(m);
    const Assignment a = pricer.full_assignment();
    const PipelineShape shape{in.schedule, in.num_stages, in.chunks_per_stage, in.num_micro};
    const PipelineTimes t = stage_times(in, a);
    EXPECT_EQ(pricer.step_ps(m), run_pipeline(shape, pipeline_order(shape, t), t).makespan) << to_string(r.choice);
  }
}

TEST(RunPricer, BlocksLieEvenlyFewerBesideEmbeddingAndHead) {
  const RunPricer pricer(run(1, 1, 4, 1, 8, 10), a100(), "t.csv", kept());
  EXPECT_EQ(pricer.full_assignment().stage, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
}

TEST(RunPricer, TimeNeverFallsWithMoreWork) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Cluster c = with_constants(a100(), DType::f16, some_constants(seed));
    const auto time = [&](const PublishedRun& r) {
      const RunPricer p(r, a100(), "t.csv", kept());
      return p.step_ps(machine(c, p));
    };
    for (const PublishedRun& base : {run(2, 2, 2, 2, 16), run(8, 1, 1, 1, 4), run(1, 8, 1, 2, 32)}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_string(base.choice));
      const int64_t before = time(base);
      PublishedRun more = base;
      more.layers += base.choice.num_stages;
      EXPECT_GT(time(more), before);
      more = base, more.job.batch *= 2, more.choice.num_micro *= 2;
      EXPECT_GT(time(more), before);
      more = base, more.job.seq += 1;
      EXPECT_GE(time(more), before);
      more = base, more.job.seq *= 2;
      EXPECT_GT(time(more), before);
    }
  }
}

TEST(RunPricer, TimeNeverRisesWithMoreBandwidthOrRate) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Cluster c = with_constants(a100(), DType::f16, some_constants(seed));
    for (const PublishedRun& r : {run(2, 2, 2, 2, 16), run(8, 2, 2, 1, 16), run(16, 2, 1, 2, 32)}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_string(r.choice));
      const RunPricer p(r, a100(), "t.csv", kept());
      const int64_t before = p.step_ps(machine(c, p));
      const auto faster = [&](const auto& change) {
        Cluster other = c;
        change(other);
        return p.step_ps(machine(other, p));
      };
      EXPECT_LE(faster([](Cluster& x) { x.nodes[0].link.bandwidth *= 1.3; }), before);
      EXPECT_LE(faster([](Cluster& x) { x.nodes[0].network *= 1.3; }), before);
      EXPECT_LT(faster([](Cluster& x) { x.devices[0].memory_bandwidth *= 1.3; }), before);
      EXPECT_LE(faster([](Cluster& x) { x.devices[0].framework.issue_ps /= 2; }), before);
      EXPECT_LE(faster([](Cluster& x) { x.devices[0].framework.score_bytes /= 2; }), before);
    }
  }
}

// What a table keeps ready grows with its shapes of pipeline, not with its rows, and ends with an error.
TEST(RunPricer, RowsOfOneShapeShareAPipelineAndTheirOperationsAreBounded) {
  const PublishedRun one = run(1, 1, 4, 1, 8), wider = run(2, 1, 4, 1, 8, 12, 2048), longer = run(1, 1, 4, 1, 16);
  ReadyPipelines pipelines(3 * 4 * (8 + 16));
  const RunPricer a(one, a100(), "t.csv", pipelines);
  EXPECT_EQ(pipelines.operations(), 3 * 4 * 8);
  const RunPricer b(wider, a100(), "t.csv", pipelines);
  EXPECT_EQ(pipelines.operations(), 3 * 4 * 8);
  const Machine m = machine(a100(), a);
  const int64_t alone = a.step_ps(m);
  b.step_ps(m);
  EXPECT_EQ(a.step_ps(m), alone);  // whatever ran on the pipeline in between
  const RunPricer c(longer, a100(), "t.csv", pipelines);
  EXPECT_EQ(pipelines.operations(), 3 * 4 * (8 + 16));
  PublishedRun last = run(1, 1, 2, 1, 8);
  last.line = 9;
  try {
    RunPricer(last, a100(), "t.csv", pipelines);
    ADD_FAILURE() << "one pipeline too many is kept";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    EXPECT_NE(std::string(e.what()).find("t.csv:9: with the rows before it, pipelines of 336 operations"),
              std::string::npos)
        << e.what();
  }
}

TEST(RunPricer, RefusesWhatCannotBeRun) {
  const auto failure = [](const PublishedRun& r) {
    try {
      RunPricer(r, a100(), "t.csv", kept());
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return std::string(e.what());
    }
    return std::string("priced");
  };
  EXPECT_NE(failure(run(3, 1, 1, 1, 4)).find("t.csv:1: "), std::string::npos);  // 16 heads
  EXPECT_NE(failure(run(1, 1, 8, 1, 8, 4)).find("4 blocks for 8 stages"), std::string::npos);
  EXPECT_NE(failure(run(1, 1, 8, 1, 1 << 20)).find("operations"), std::string::npos);
  PublishedRun r = run(1, 1, 1, 1, 4);
  r.model = "llama-3-9b";
  EXPECT_NE(failure(r).find("did you mean 'llama-3-8b'"), std::string::npos);
  r.model = "t5-large";
  EXPECT_NE(failure(r).find("blocks of several kinds"), std::string::npos);
  r.model = "mixtral-8x7b", r.experts_stated = false;
  EXPECT_NE(failure(r).find("expert parallelism: missing; 'mixtral-8x7b' has 8 experts"), std::string::npos);
  r.experts_stated = true;
  EXPECT_EQ(failure(r), "priced");
  r.choice.mesh.expert = r.choice.mesh.data = 3, r.job.batch = 6, r.choice.num_micro = 2;
  EXPECT_NE(failure(r).find("expert 3: does not divide 8 experts"), std::string::npos);
  r = run(2, 1, 1, 1, 4), r.choice.mesh.expert = 2;
  EXPECT_NE(failure(r).find("the model has no experts"), std::string::npos);
  r = run(1, 1, 1, 1 << 20, 1 << 20), r.job.seq = 1 << 24;
  EXPECT_NE(failure(r).find("more work than is counted"), std::string::npos);
}

}  // namespace
}  // namespace tern
