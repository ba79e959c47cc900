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
  for (const PartRecompute part : kPartRecomputes) {
    runs.push_back(run(2, 2, 2, 1, 8));
    runs.back().strategy.recompute = Recompute::none, runs.back().part = part, runs.back().kv_heads = 4;
    runs.back().sums = part == PartRecompute::scores ? GradientSums::apart : GradientSums::in_products;
    runs.back().whole_norms = runs.back().reduces_beside = part != PartRecompute::operations;
  }
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

// A block's prices under one change of the row and of the constants.
CostVector block_of(const PublishedRun& r, const Constants& c = nominal_constants()) {
  const RunPricer p(r, a100(), "t.csv", kept());
  return p.prices_on(machine(with_constants(a100(), r.job.dtype, c), p)).layers[1];
}
Constants with(size_t constant, double value) {
  Constants c = nominal_constants();
  c[constant] = value;
  return c;
}
constexpr size_t kTop = 0, kAttention = 3, kPasses = 5, kIssue = 6;  // places in constant_specs()

TEST(RunPricer, PartsOfABlockAreMadeAgain) {
  PublishedRun r = run(2, 1, 1, 16, 16, 2, 2048);
  const auto again = [&](PartRecompute part, Recompute whole, Constants c = nominal_constants()) {
    r.part = part, r.strategy.recompute = whole;
    c[kIssue] = 0;
    return static_cast<double>(block_of(r, c).recompute);
  };
  const double full = again(PartRecompute::none, Recompute::full);
  EXPECT_EQ(again(PartRecompute::none, Recompute::none), 0);
  EXPECT_NEAR(again(PartRecompute::second_blocks, Recompute::none), full / 2, 1);
  const double scores = again(PartRecompute::scores, Recompute::none);
  EXPECT_GT(scores, 0);
  EXPECT_EQ(again(PartRecompute::scores, Recompute::none, with(kTop, 0.4)), scores);
  EXPECT_EQ(again(PartRecompute::scores, Recompute::none, with(kPasses, 4)), scores);
  EXPECT_NEAR(again(PartRecompute::scores, Recompute::none, with(kAttention, 0.275)), 2 * scores, 0.02 * scores);
  // Of the products keys, the output and, without a gate, the second of two: as many multiply-adds as half of them.
  const double operations = again(PartRecompute::operations, Recompute::none);
  EXPECT_GT(operations, scores);
  EXPECT_LT(operations, full - scores);
  EXPECT_EQ(again(PartRecompute::operations, Recompute::none, with(kAttention, 0.275)), operations);
  const double slower = again(PartRecompute::operations, Recompute::none, with(kTop, 0.425)) - operations;
  const double all_slower = again(PartRecompute::none, Recompute::full, with(kTop, 0.425)) - full;
  EXPECT_NEAR(slower, all_slower / 2, 0.03 * all_slower);
}

TEST(RunPricer, GradientsJoinTheirSumsOnceOrWithinTheProduct) {
  PublishedRun r = run(2, 1, 1, 2, 16, 2, 4096);
  const auto weight = [&](GradientSums sums, double passes) {
    r.sums = sums;
    return block_of(r, with(kPasses, passes)).weight;
  };
  const int64_t apart = weight(GradientSums::apart, 1), within = weight(GradientSums::in_products, 1);
  // Read the gradient, read the sum, write it, at two bytes each: 12·4096²/2 elements and four times a launch.
  const Machine m = machine_of(a100(), 0);
  const double bytes = 6.0 * 12 * 4096 * 4096 / 2;
  EXPECT_NEAR(static_cast<double>(apart - within),
              bytes / m.device.memory_bandwidth * 1e12 + 4.0 * static_cast<double>(m.device.launch_ps),
              0.02 * static_cast<double>(apart - within));
  EXPECT_EQ(weight(GradientSums::apart, 5) - weight(GradientSums::in_products, 5), apart - within);
  EXPECT_GT(weight(GradientSums::passes, 5) - weight(GradientSums::in_products, 5), apart - within);
  r.job.gradients = DType::f32;
  EXPECT_GT(weight(GradientSums::apart, 1), apart);
}

TEST(RunPricer, OperandsOf8BitProductsAreNarrowedAndTheHeadStaysIn16) {
  PublishedRun r = run(1, 1, 1, 4, 16, 2, 4096);
  const auto prices = [&](double rate, double top) {
    r.product_rate = rate;
    const RunPricer p(r, a100(), "t.csv", kept());
    return p.prices_on(machine(with_constants(a100(), r.job.dtype, with(kTop, top)), p)).layers;
  };
  // At twice the rate half the share of the peak takes as long, so what is left is the operands': x and the weights forward, dy backward.
  const auto wide = prices(1, 1), narrow = prices(2, 0.5);
  const Machine m = machine_of(a100(), 0);
  const auto took = [&](double elements, int64_t products) {
    return elements * 6 / m.device.memory_bandwidth * 1e12 + 2.0 * static_cast<double>(products * m.device.launch_ps);
  };
  const double T = 4096, D = 4096;
  EXPECT_NEAR(static_cast<double>(narrow[1].forward - wide[1].forward), took(T * D * (3 + 4) + 12 * D * D, 4), 10);
  EXPECT_NEAR(static_cast<double>(narrow[1].backward - wide[1].backward), took(T * D * (3 + 1 + 4 + 1), 4), 10);
  EXPECT_EQ(narrow[1].weight, wide[1].weight);
  EXPECT_EQ(prices(2, 0.5)[2].forward, prices(1, 0.5)[2].forward);
}

TEST(RunPricer, TensorRanksShareNormsAndHideReductionsAsTheRowSays) {
  for (const int64_t ranks : {1, 2, 8}) {
    PublishedRun r = run(ranks, 1, 1, 4, 16, 2, 4096);
    const CostVector own = block_of(r);
    r.whole_norms = true;
    const CostVector whole = block_of(r);
    r.whole_norms = false, r.reduces_beside = true;
    const CostVector beside = block_of(r);
    EXPECT_EQ(beside.forward, own.forward);
    EXPECT_EQ(beside.weight, own.weight);
    if (ranks == 1) {
      EXPECT_EQ(whole.forward, own.forward);
      EXPECT_EQ(beside.backward, own.backward);
    } else {
      EXPECT_GT(whole.forward, own.forward);
      EXPECT_GT(whole.backward, own.backward);
      EXPECT_LT(beside.backward, own.backward);
    }
  }
}

TEST(RunPricer, FewerKeyHeadsTakeLessTimeAndRowsShareOnlyWhatIsAlike) {
  PublishedRun r = run(2, 1, 1, 4, 16, 2, 2048);
  const CostVector all = block_of(r);
  r.kv_heads = 16;
  EXPECT_EQ(block_of(r).forward, all.forward);
  r.kv_heads = 4;
  EXPECT_LT(block_of(r).forward, all.forward);
  const RunPricer pricer(r, a100(), "t.csv", kept());
  EXPECT_TRUE(pricer.shares_prices_with(RunPricer(r, a100(), "t.csv", kept())));
  const auto shared = [&](const auto& change) {
    PublishedRun other = r;
    change(other);
    return pricer.shares_prices_with(RunPricer(other, a100(), "t.csv", kept()));
  };
  EXPECT_FALSE(shared([](PublishedRun& x) { x.part = PartRecompute::scores; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.sums = GradientSums::apart; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.whole_norms = true; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.reduces_beside = true; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.kv_heads = 8; }));
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
