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
#include "hardware/rates.h"
#include "plan/comm_cost.h"
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
  llama.model = "llama-3-8b", llama.choice.mesh.context = 2, llama.job.dtype = DType::bf16,
  llama.traits.product_rate = 2;
  runs.push_back(llama);
  for (const PartRecompute part : kPartRecomputes) {
    runs.push_back(run(2, 2, 2, 1, 8));
    runs.back().strategy.recompute = Recompute::none, runs.back().part = part, runs.back().kv_heads = 4;
    runs.back().traits.sums = part == PartRecompute::scores ? GradientSums::apart : GradientSums::in_products;
    runs.back().traits.sequence_parallel = part == PartRecompute::operations;
    runs.back().traits.hides_input_gradient_sums = part != PartRecompute::operations;
  }
  PublishedRun gathering = llama;
  gathering.traits.gathers_context = gathering.traits.gathers_weights_beside = true, gathering.strategy.zero = 1;
  runs.push_back(gathering);
  for (const int64_t layers : {6, 7}) {  // the embedding alone, the head alone
    runs.push_back(run(2, 2, 4, 1, 16, layers));
    runs.back().choice.schedule = PipelineSchedule::interleaved, runs.back().choice.chunks_per_stage = 2;
    runs.back().strategy.zero = 3;
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
size_t place_of(std::string_view constant) {
  for (size_t k = 0; k < kNumConstants; ++k)
    if (constant_specs()[k].name == constant) return k;
  ADD_FAILURE() << constant << " is no constant";
  return 0;
}
Constants with(std::string_view constant, double value) {
  Constants c = nominal_constants();
  c[place_of(constant)] = value;
  return c;
}

TEST(RunPricer, PartsOfABlockAreMadeAgain) {
  PublishedRun r = run(2, 1, 1, 16, 16, 2, 2048);
  const auto again = [&](PartRecompute part, Recompute whole, Constants c = nominal_constants()) {
    r.part = part, r.strategy.recompute = whole;
    c[place_of("issue")] = 0;
    return static_cast<double>(block_of(r, c).recompute);
  };
  const double full = again(PartRecompute::none, Recompute::full);
  EXPECT_EQ(again(PartRecompute::none, Recompute::none), 0);
  EXPECT_NEAR(again(PartRecompute::second_blocks, Recompute::none), full / 2, 1);
  const double scores = again(PartRecompute::scores, Recompute::none);
  EXPECT_GT(scores, 0);
  EXPECT_EQ(again(PartRecompute::scores, Recompute::none, with("top", 0.4)), scores);
  EXPECT_EQ(again(PartRecompute::scores, Recompute::none, with("passes", 4)), scores);
  EXPECT_NEAR(again(PartRecompute::scores, Recompute::none, with("attention", 0.275)), 2 * scores, 0.02 * scores);
  // Of the products keys, the output and, without a gate, the second of two: as many multiply-adds as half of them.
  const double operations = again(PartRecompute::operations, Recompute::none);
  EXPECT_GT(operations, scores);
  EXPECT_LT(operations, full - scores);
  EXPECT_EQ(again(PartRecompute::operations, Recompute::none, with("attention", 0.275)), operations);
  const double slower = again(PartRecompute::operations, Recompute::none, with("top", 0.425)) - operations;
  const double all_slower = again(PartRecompute::none, Recompute::full, with("top", 0.425)) - full;
  EXPECT_NEAR(slower, all_slower / 2, 0.03 * all_slower);
}

TEST(RunPricer, GradientsJoinTheirSumsOnceOrWithinTheProduct) {
  PublishedRun r = run(2, 1, 1, 2, 16, 2, 4096);
  const auto weight = [&](GradientSums sums, double passes) {
    r.traits.sums = sums;
    return block_of(r, with("passes", passes)).weight;
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
    r.traits.product_rate = rate;
    const RunPricer p(r, a100(), "t.csv", kept());
    return p.prices_on(machine(with_constants(a100(), r.job.dtype, with("top", top)), p)).layers;
  };
  // At twice the rate half the share of the peak takes as long, so what is left is the operands': x forward, dy backward.
  const Machine m = machine_of(a100(), 0);
  const auto took = [&](double elements, int64_t products) {
    return elements * 6 / m.device.memory_bandwidth * 1e12 + 2.0 * static_cast<double>(products * m.device.launch_ps);
  };
  constexpr double kRounded = 16;  // ps: of as many kernels and operands each time is rounded up
  const double T = 4096, D = 4096, weights = took(12 * D * D, 4);
  for (const int zero : {0, 1, 3}) {
    r.strategy.zero = zero;
    const auto wide = prices(1, 1), narrow = prices(2, 0.5);
    const auto more = [&](int64_t CostVector::*part) { return static_cast<double>(narrow[1].*part - wide[1].*part); };
    // Weights once a step; with ZeRO 3 behind each gather.
    const double each = zero == 3 ? weights : 0, once = zero == 3 ? 0 : weights;
    EXPECT_NEAR(more(&CostVector::forward), took(T * D * (1 + 1 + 1 + 4), 4) + each, kRounded) << zero;
    EXPECT_NEAR(more(&CostVector::recompute), took(T * D * (1 + 1 + 1 + 4), 4), kRounded) << zero;
    EXPECT_NEAR(more(&CostVector::backward), took(T * D * (3 + 1 + 4 + 1), 4) + each, kRounded) << zero;
    EXPECT_NEAR(more(&CostVector::begin), once, kRounded) << zero;
    EXPECT_EQ(narrow[1].weight, wide[1].weight);
  }
  EXPECT_EQ(prices(2, 0.5)[2].forward, prices(1, 0.5)[2].forward);
}

// Of what TorchTitan's "op" makes again: not what a tensor group summed by a reduce-scatter.
TEST(RunPricer, OperationsKeepTheReduceScatter) {
  for (const int64_t ranks : {1, 2, 8})
    for (const bool split : {true, false}) {
      PublishedRun r = run(ranks, 1, 1, 7, 7, 2, 4096);
      r.strategy.recompute = Recompute::none, r.part = PartRecompute::operations;
      r.traits.sequence_parallel = split;
      const RunPricer p(r, a100(), "t.csv", kept());
      Cluster c = with_constants(a100(), r.job.dtype, with("issue", 0));
      const Machine m = machine(c, p);
      c.nodes[0].link.bandwidth = 1e18, c.nodes[0].link.latency_ps = 0;
      const Machine quick = machine(c, p);
      const int64_t exchanged = p.prices_on(m).layers[1].recompute - p.prices_on(quick).layers[1].recompute;
      const int64_t bytes = 7 * 1024 * 4096 * 2;
      const RankGroup group{ranks, 1};
      const auto each = [&](const Machine& x) {
        return split ? all_gather_ps(x, group, bytes) : all_reduce_ps(x, group, bytes);
      };
      EXPECT_EQ(exchanged, ranks == 1 ? 0 : 2 * (each(m) - each(quick))) << ranks << ", " << split;
    }
}

TEST(RunPricer, OperationsKeepTheLargestMagnitudes) {
  PublishedRun r = run(1, 1, 1, 7, 7, 2, 4096);
  r.strategy.recompute = Recompute::none, r.part = PartRecompute::operations;
  const auto again = [&](double rate, double top) {
    r.traits.product_rate = rate;
    Constants c = with("issue", 0);
    c[place_of("top")] = top;
    return static_cast<double>(block_of(r, c).recompute);
  };
  // x of four products, 7 widths in all, is read again and written in two layouts: four bytes each.
  const Machine m = machine_of(a100(), 0);
  EXPECT_NEAR(
      again(2, 0.5) - again(1, 1),
      7.0 * 1024 * 4096 * 7 * 4 / m.device.memory_bandwidth * 1e12 + 4.0 * static_cast<double>(m.device.launch_ps), 10);
}

// Without sequence parallelism a rank's norms have all rows: 3, 3 and 4 widths of the others' rows more.
TEST(RunPricer, TensorRanksShareNormsAsTheRowSays) {
  for (const int64_t ranks : {1, 2, 8}) {
    PublishedRun r = run(ranks, 1, 1, 4, 16, 2, 4096);
    const CostVector own = block_of(r);
    r.traits.sequence_parallel = false;
    const CostVector whole = block_of(r);
    const double T = 4096, passes = nominal_constants()[place_of("passes")];
    const double row =
        passes * (T - T / static_cast<double>(ranks)) * 4096 * 2 / machine_of(a100(), 0).device.memory_bandwidth * 1e12;
    // An attention and an MLP.
    EXPECT_NEAR(static_cast<double>(whole.forward - own.forward), 2 * 3 * row, 10) << ranks;
    EXPECT_NEAR(static_cast<double>(whole.backward - own.backward), 2 * 3 * row, 10) << ranks;
    EXPECT_NEAR(static_cast<double>(whole.weight - own.weight), 2 * 4 * row, 10) << ranks;
  }
}

// Megatron-LM hides the sum of a matrix's input gradients behind its weight gradient alone: of qkv (3·D/n columns) and of up (4·D/n).
TEST(RunPricer, SumsOfInputGradientsPassBesideTheirOwnWeightGradient) {
  for (const bool split : {true, false})
    for (const double share : {1.0, 0.05})  // a quick link, whose sums are hidden whole, and a slow one
      for (const int64_t ranks : {1, 2, 8}) {
        PublishedRun r = run(ranks, 1, 1, 4, 16, 2, 4096);
        r.traits.sequence_parallel = split, r.traits.sums = GradientSums::apart;
        const Constants c = with("link_share", share);
        const CostVector open = block_of(r, c);
        r.traits.hides_input_gradient_sums = true;
        const CostVector beside = block_of(r, c);
        EXPECT_EQ(beside.forward, open.forward);
        EXPECT_EQ(beside.weight, open.weight);
        const Machine m = machine_of(with_constants(a100(), r.job.dtype, c), 0);
        const int64_t T = 4096, D = 4096, bytes = T * D * 2;
        const RankGroup group{ranks, 1};
        const int64_t sum =
            ranks == 1 ? 0 : reduce_scatter_ps(m, group, bytes) + (split ? 0 : all_gather_ps(m, group, bytes));
        const auto product = [&](int64_t rows) {
          return matmul_ps(m.device, r.job.dtype, rows, D, T, ProductUse::weight_gradient) + m.device.launch_ps;
        };
        const int64_t hidden = std::min(sum, product(3 * D / ranks)) + std::min(sum, product(4 * D / ranks));
        EXPECT_EQ(open.backward - beside.backward, hidden) << ranks << ", " << share << ", " << split;
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
  EXPECT_FALSE(shared([](PublishedRun& x) { x.traits.sums = GradientSums::apart; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.traits.sequence_parallel = false; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.traits.hides_input_gradient_sums = true; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.traits.gathers_weights_beside = true; }));
  EXPECT_FALSE(shared([](PublishedRun& x) { x.kv_heads = 8; }));
}

TEST(RunPricer, BlocksLieEvenlyFewerBesideEmbeddingAndHead) {
  const RunPricer pricer(run(1, 1, 4, 1, 8, 10), a100(), "t.csv", kept());
  EXPECT_EQ(pricer.full_assignment().stage, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  const RunPricer alone(run(1, 1, 4, 1, 8, 2), a100(), "t.csv", kept());
  EXPECT_EQ(alone.full_assignment().stage, (std::vector<int>{0, 1, 2, 3})) << "embedding, two blocks, head";
}

// Megatron-LM's --overlap-param-gather: what the forward pass does not cover is waited for.
TEST(RunPricer, WeightsAreGatheredBesideTheForwardPass) {
  for (const double share : {1.0, 0.02})  // a quick network, whose gathers are covered, and a slow one
    for (const int zero : {1, 2, 3}) {
      PublishedRun r = run(8, 4, 1, 4, 16, 2, 4096);
      r.strategy.zero = zero;
      const Constants c = with("network_share", share);
      const CostVector before = block_of(r, c);
      r.traits.gathers_weights_beside = true;
      const CostVector beside = block_of(r, c);
      EXPECT_EQ(beside.forward, before.forward);
      EXPECT_EQ(beside.begin, zero == 3 ? before.begin : std::max<int64_t>(0, before.begin - before.forward));
      if (zero < 3) { EXPECT_EQ(beside.begin == 0, share == 1.0); }
    }
}

// Chu et al. 2025: keys and values of all context ranks are gathered in the open, and their gradients are summed to the ranks.
TEST(RunPricer, ContextRanksGatherKeysAndValues) {
  PublishedRun r = run(4, 1, 1, 1, 4);
  r.model = "llama-3-8b", r.choice.mesh.context = 2, r.job.dtype = DType::bf16, r.job.seq = 8192;
  Constants c = nominal_constants();
  c[place_of("issue")] = 0;
  const auto alone = [&] {  // a ring over the quickest of links: nothing of it is in the open
    Constants quick = c;
    quick[place_of("link_latency")] = 0.5, quick[place_of("link_share")] = 1;
    return quick;
  }();
  const CostVector ring = block_of(r, alone);
  r.traits.gathers_context = true;
  const CostVector gather = block_of(r, alone);
  const Machine m = machine_of(with_constants(a100(), DType::bf16, alone), 0);
  const int64_t bytes = 8192 * 2 * (8 / 4) * 128 * 2;  // keys and values of 2 of 8 heads
  const int64_t once = all_gather_ps(m, {2, 4}, bytes), launch = m.device.launch_ps;
  EXPECT_EQ(gather.forward - ring.forward, once - launch);  // a ring of two launches two kernels
  EXPECT_EQ(gather.backward - ring.backward, once - launch);
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
  EXPECT_NE(failure(run(1, 1, 8, 1, 8, 4)).find("4 blocks, the embedding and the head for 8 stages"),
            std::string::npos);
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
  r = run(2, 1, 1, 1, 4), r.model = "mixtral-8x7b", r.strategy.recompute = Recompute::none;
  r.part = PartRecompute::operations;
  EXPECT_NE(failure(r).find("recompute: 'operations' says nothing of the products of experts"), std::string::npos);
  r.part = PartRecompute::scores;
  EXPECT_EQ(failure(r), "priced");
  r.traits.sequence_parallel = false;
  EXPECT_NE(failure(r).find("sequence parallelism: off, but 'mixtral-8x7b' has experts"), std::string::npos);
  r = run(2, 1, 1, 1, 4), r.choice.mesh.expert = 2;
  EXPECT_NE(failure(r).find("the model has no experts"), std::string::npos);
  r = run(1, 1, 1, 1 << 20, 1 << 20), r.job.seq = 1 << 24;
  EXPECT_NE(failure(r).find("more work than is counted"), std::string::npos);
}

}  // namespace
}  // namespace tern
