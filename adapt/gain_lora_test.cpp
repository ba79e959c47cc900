// GainLoRA's runs: gradients of gates through the whole model, bytes, and what a stream of them keeps.
#include "adapt/gain_lora.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "adapt/stream_testing.h"
#include "adapt/task_model.h"
#include "base/error.h"
#include "base/io.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/linear.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// A model of width 16 that a few steps have trained, texts unlike each other, and a stream whose first task is done.
class GainLora : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = testing::TempDir() + "tern-gain-XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    fill_stream_folder(root_, settings("base"));
  }
  static void TearDownTestSuite() { remove_all(real_io(), root_); }

  static TrainSettings settings(const std::string& output) {
    TrainSettings s = small_settings(root_, output);
    s.micro_batch = 1, s.checkpoint_every = 2;
    return s;
  }
  static StreamSettings stream(const std::string& output) {
    StreamSettings s{.train = settings(output), .tasks = small_tasks(root_, 2), .method = StreamMethod::gainlora};
    s.statistics_windows = 16, s.gate_width = 5, s.gate_tokens = 3;
    return s;
  }
  // The first task of the stream is learned.
  static void learn_first(const StreamSettings& s) {
    StreamHooks hooks;
    hooks.done = [](size_t, const StreamScores&) { throw std::runtime_error("enough"); };
    EXPECT_THROW(run_stream(s, hooks), std::runtime_error);
  }
  static inline std::string root_;
};

struct Step {
  double loss = 0;
  InputGate gradient;
};
// Loss and gate's gradient of two windows, by a gate that begins as `begin`.
Step step_of(const StreamSettings& s, TaskModel& model, const Feed& feed, const GateTask& like,
             const InputGate& begin) {
  GateTask task = like;
  task.begin = begin;
  GateTrainer trainer(std::move(task));
  const ModelSpec& spec = model.in.spec;
  Arena arena;
  trainer.allocate(spec, DType::f64, arena);
  trainer.join(model.weights);
  ModelWeights gradients = allocate_gradients(spec, DType::f64, arena);
  std::vector<Tensor> trained, sums;
  for (const Tensor* t : trained_tensors(spec, model.weights)) trained.push_back(*t);
  for (const Tensor* t : trained_tensors(spec, gradients)) sums.push_back(*t);
  std::vector<MicroBatch> windows;
  for (const int64_t w : {1, 5}) windows.push_back(feed.windows({&w, 1}, &*model.rope));
  trainer.choose_targets(windows);
  Step step;
  for (const MicroBatch& window : windows) {
    const CostQuery query{.tokens = s.train.seq,
                          .attended_pairs = attended_pairs_of(window, 0),
                          .dtype = DType::f64,
                          .scratch = scratch_bytes(Multiply::exact, DType::f64)};
    Program passes = training_program(spec, {&query, 1}, Recompute::none);
    passes.instructions.erase(std::ranges::find(passes.instructions, Opcode::norm, &Instruction::op),
                              passes.instructions.end());
    trainer.before(window);
    const ExecuteResult run = execute(passes, {.spec = spec,
                                               .weights = trainer.weights(),
                                               .gradients = &gradients,
                                               .micro_batches = {&window, 1},
                                               .compute = {arena, Multiply::exact}});
    EXPECT_TRUE(run.mismatches.empty()) << describe_mismatches(run);
    trainer.after(trained, sums);
    step.loss += run.loss_sum;
  }
  step.gradient = trainer.gradient();
  return step;
}

TEST_F(GainLora, AGatesGradientThroughTheModelIsThatOfDifferences) {
  StreamSettings s = stream("differences");
  learn_first(s);
  begin_gated_task(s, 1, real_io());
  TrainSettings run = task_settings(s, 1);
  TaskModel model;
  read_task_model(run, DType::f64, model);
  std::mt19937 random(4);
  std::normal_distribution<double> number;
  for_each_adapter(model.in.spec, model.weights, [&](const ParameterInfo& info, Tensor& t) {
    if (info.name.ends_with(".b"))
      for (double& x : t.span<double>()) x = number(random);
  });
  const Feed feed = feed_of(run, model, s.tasks[1].data, StreamPlaces{s}.of_stream("data"), real_io());
  GateTask task{.earlier = read_gated_adapter(gated_directory(s, 0)), .begin = {}, .memory = no_gate_memory(16, 5)};
  const InputGate begin = gate_trainer(s, 1)->gate();
  InputGate direction = begin;
  for_each_list(direction, [&](const char*, std::vector<double>& list) {
    for (double& x : list) x = number(random);
  });
  const Step here = step_of(s, model, feed, task, begin);
  double along = 0;
  const auto moved = [&](double step) {
    InputGate to = begin;
    const auto move = [&](std::vector<double>& list, const std::vector<double>& by) {
      for (size_t i = 0; i < list.size(); ++i) list[i] += step * by[i];
    };
    move(to.first, direction.first), move(to.second, direction.second), move(to.key, direction.key);
    return step_of(s, model, feed, task, to).loss;
  };
  const auto add = [&](const std::vector<double>& g, const std::vector<double>& d) {
    for (size_t i = 0; i < g.size(); ++i) along += g[i] * d[i];
  };
  add(here.gradient.first, direction.first), add(here.gradient.second, direction.second);
  add(here.gradient.key, direction.key);
  const double h = 1e-6, difference = (moved(h) - moved(-h)) / (2 * h);
  EXPECT_GT(std::abs(difference), 1e-3);
  EXPECT_NEAR(along, difference, 1e-6 * std::abs(difference));
}

TEST_F(GainLora, CountedBytesAreThePredictedOnesWithEarlierBranchesToo) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    StreamSettings s = stream(fmt::format("bytes-{}", name_of(dtype)));
    s.train.dtype = dtype;
    learn_first(s);
    begin_gated_task(s, 1, real_io());
    const std::unique_ptr<GateTrainer> gates = gate_trainer(s, 1);
    TrainHooks hooks;
    hooks.companion = gates.get();
    const TrainResult r = train(task_settings(s, 1), hooks);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors()) << name_of(dtype);
    EXPECT_EQ(r.byte_mismatches, 0);
    StreamSettings whole = s;
    EXPECT_GE(forecast_stream(whole).predicted.tensors(), r.predicted.tensors()) << "the forecast is of the last task";
  }
}

TEST_F(GainLora, TheFirstTaskWithItsGateOpenIsInfloras) {
  StreamSettings inflora = stream("inflora");
  inflora.method = StreamMethod::inflora;
  before_task(inflora, 0, real_io());
  train(task_settings(inflora, 0));
  StreamSettings s = stream("open");
  s.gate_tokens = 1;  // no loss is hidden
  begin_gated_task(s, 0, real_io());
  GateTask task{.earlier = {.prompt_tokens = 1, .gates = {}, .branches = {}},
                .begin = gate_trainer(s, 0)->gate(),
                .memory = no_gate_memory(16, 5),
                .forced = 1};
  GateTrainer open(std::move(task));
  TrainHooks hooks;
  hooks.companion = &open;
  train(task_settings(s, 0), hooks);
  const auto adapter = [](const StreamSettings& of) {
    return real_io().read(peft_weights_file(StreamPlaces{of}.adapter(0)));
  };
  EXPECT_EQ(adapter(s), adapter(inflora));
}

TEST_F(GainLora, AStreamKeepsItsBranchesAndTellsWhatTheyCost) {
  StreamSettings s = stream("whole");
  const StreamResult r = run_stream(s);
  ASSERT_EQ(r.scores.rows.size(), 2u);
  for (size_t t = 0; t < 2; ++t) EXPECT_LT(r.scores.rows[t][t], r.scores.before[t]) << "something is learned";
  const GatedAdapter gated = read_gated_adapter(r.product);
  ASSERT_EQ(gated.branches.size(), 2u);
  EXPECT_EQ(file_name(gated.branches[1]), "1-t1");
  EXPECT_EQ(gated.prompt_tokens, 3);
  EXPECT_FALSE(real_io().stat(gated_directory(s, 0))) << "the last one holds it all";
  // B of q, k, v, o, gate, up, down in two layers at rank 2, and a gate of 5.
  EXPECT_EQ(r.costs[1].trained, 2 * 2 * (16 + 8 + 8 + 16 + 24 + 24 + 16) + 16 * 5 + 5 * 16 + 16);
  EXPECT_GT(r.costs[1].kept_bytes, r.costs[0].kept_bytes);
  // A is orthogonal to what the first task's inputs were, so its branch is nothing there; the gate is closed besides.
  const GateMemory memory = gate_memory_of(read_memories(StreamPlaces{s}.in(1, kStreamMemory)));
  EXPECT_GT(memory[2].protected_dim(), 0);
}

}  // namespace
}  // namespace tern
