// Steps of inference as a Program: its times are those of the rings' clocks, its parts those of the weights, planned and loaded alike.
#include "infer/step_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "formats/format_test_support.h"
#include "infer/step_testing.h"
#include "model/model_testing.h"
#include "program/simulate.h"
#include "program/validate.h"
#include "store/image_pass_time.h"

namespace tern {
namespace {

using PartOfStep = std::tuple<int, int, int>;  // micro, unit, part

ModelSpec spec_of_layers(int64_t layers) {
  HfConfig config = tiny_config("llama");
  config.num_hidden_layers = layers;
  return model_spec(config);
}

// Units cut into random parts, and the same as the steps of a ring's pass.
struct RandomPass {
  InferenceInput in;
  std::vector<PassStep> steps;
  std::vector<std::pair<int, int>> places;  // unit and part of each of `steps`
};
RandomPass random_pass(const ModelSpec& spec, int slots, int passes, std::mt19937& random) {
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  RandomPass r{.in = {.extent_slots = slots, .extent_slot_bytes = 1}};
  const uint32_t loads = 1 + static_cast<uint32_t>(draw(40)), products = 1 + static_cast<uint32_t>(draw(40));
  const int64_t most = draw(5), streamed = 1 + draw(4);
  for (size_t u = 0; u < spec.units.size(); ++u) {
    r.in.units.emplace_back();
    const int64_t parts = draw(static_cast<uint32_t>(most) + 1);
    for (int64_t p = 0; p <= parts; ++p) {
      const bool streams = p > 0 && draw(4) < streamed;
      if (p > 0) r.in.units.back().parts.push_back(streams ? 100 : 0);
      r.steps.push_back({.load_ps = streams ? 1 + draw(loads) : 0, .forward_ps = draw(products)});
      r.places.emplace_back(static_cast<int>(u), static_cast<int>(p));
    }
  }
  for (int m = 0; m < passes; ++m) r.in.steps.push_back({.query = {.tokens = 1}, .logit_rows = 1});
  return r;
}

// A window over the extents of a pass, cut into blocks at random; every fourth time over single ones.
RingWindow random_window(const RandomPass& r, int slots, std::mt19937& random) {
  const auto extents =
      static_cast<int>(std::ranges::count_if(r.steps, [](const PassStep& s) { return s.load_ps > 0; }));
  if (extents == 0 || random() % 4 == 0) return {.blocks = {}, .resident = slots};
  RingWindow w{.blocks = {}, .resident = 0};
  for (int left = extents; left > 0; left -= w.blocks.back())
    w.blocks.push_back(1 + static_cast<int>(random() % static_cast<uint32_t>(std::min(left, 4))));
  w.resident = 1 + static_cast<int>(random() % w.blocks.size());
  w.step = 1 + static_cast<int>(random() % static_cast<uint32_t>(w.resident));
  return w;
}

// The Program on the simulator's clock, and the ring on its own, are one: every LOAD and every part ends at the same picosecond.
TEST(StepProgram, TakesThePassTimesOfTheRingToThePicosecond) {
  std::mt19937 random(21);
  const ModelSpec spec = spec_of_layers(2);
  for (int round = 0; round < 600; ++round) {
    const int slots = 1 + round % 5, passes = 1 + round / 5 % 4;
    RandomPass r = random_pass(spec, slots, passes, random);
    const RingWindow window = random_window(r, slots, random);
    r.in.extent_window = window, r.in.extent_slots = slots_for(window);
    const Program p = lower_inference(spec, r.in);
    ASSERT_EQ(validate(p, ProgramKind::inference), std::vector<std::string>{});
    std::map<std::pair<int, int>, size_t> step_at;
    for (size_t i = 0; i < r.places.size(); ++i) step_at[r.places[i]] = i;
    std::vector<int64_t> ps;
    for (const Instruction& i : p.instructions) {
      const PassStep& step = r.steps[step_at.at({i.unit, i.part})];
      ps.push_back(i.op == Opcode::load ? step.load_ps : step.forward_ps);
    }
    const Simulation s = simulate(p, ps);
    const PassTimes want = pass_times(r.steps, window, passes);
    for (size_t k = 0; k < p.instructions.size(); ++k) {
      const Instruction& i = p.instructions[k];
      const size_t at = static_cast<size_t>(i.micro) * r.steps.size() + step_at.at({i.unit, i.part});
      ASSERT_EQ(s.end[k], i.op == Opcode::load ? want.load_end_ps[at] : want.forward_end_ps[at])
          << to_string(i) << ", round " << round << ", " << slots << " slots, " << passes << " passes, a window of "
          << window.resident << " of " << window.blocks.size() << " blocks, " << window.step << " at a time";
    }
    EXPECT_EQ(s.makespan, want.end_ps);
  }
}

TEST(StepProgram, OfEqualExtentsItTakesTheClosedForm) {
  const ModelSpec spec = spec_of_layers(1);
  for (const int64_t n : {1, 2, 7, 33})
    for (const auto& [load, forward] : {std::pair<int64_t, int64_t>{9, 4}, {4, 9}, {5, 5}, {1, 0}})
      for (const int slots : {1, 2, 3, 40}) {
        InferenceInput in{.steps = {{.query = {.tokens = 1}, .logit_rows = 1}}, .extent_slots = slots};
        in.units.resize(spec.units.size());
        in.units[1].parts.assign(static_cast<size_t>(n), 512);
        const Program p = lower_inference(spec, in);
        std::vector<int64_t> ps;
        for (const Instruction& i : p.instructions)
          ps.push_back(i.op == Opcode::load ? load : i.part > 0 ? forward : 0);
        const int64_t want = slots == 1 ? n * (load + forward) : load + (n - 1) * std::max(load, forward) + forward;
        EXPECT_EQ(simulate(p, ps).makespan, want) << n << " extents, " << slots << " slots";
      }
}

// Keys alone. image_pass_times lets a write go before a read that is under way; the Program's disk does one thing after the other, in the order of
// its list. So the two are one where nothing is written, and where one slot leaves nothing to be read meanwhile.
TEST(StepProgram, TakesTheImagePassTimesOfKeysThatAreOnlyReadOrHaveOneSlot) {
  std::mt19937 random(22);
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 400; ++round) {
    const ModelSpec spec = spec_of_layers(1 + round % 6);
    const int slots = 1 + static_cast<int>(draw(4));
    const uint32_t writes = slots == 1 ? 12 : 1;
    InferenceInput in{.steps = {{.query = {.tokens = 1}, .logit_rows = 1}}, .keys_slots = slots, .keys_slot_bytes = 1};
    in.steps[0].keys.resize(spec.units.size());
    std::vector<ImageStep> images;
    std::vector<int64_t> forward_ps;
    int64_t between = 0;
    for (size_t u = 0; u < spec.units.size(); ++u) {
      forward_ps.push_back(draw(15));
      if (kv_layer_of(spec.units[u]) >= 0 && draw(3) > 0) {
        in.steps[0].keys[u] = KvMoved{.read = draw(20), .written = draw(writes)};
        images.push_back({.read_ps = in.steps[0].keys[u]->read,
                          .write_ps = in.steps[0].keys[u]->written,
                          .before_ps = std::exchange(between, 0),
                          .held_ps = forward_ps.back()});
      } else {
        between += forward_ps.back();
      }
    }
    const Program p = lower_inference(spec, in);
    ASSERT_EQ(validate(p, ProgramKind::inference), std::vector<std::string>{});
    std::vector<int64_t> ps;
    for (const Instruction& i : p.instructions)
      ps.push_back(i.op == Opcode::forward ? forward_ps[static_cast<size_t>(i.unit)] : i.message_bytes);
    const Simulation s = simulate(p, ps);
    const ImagePassTimes want = image_pass_times(images, between, slots);
    EXPECT_EQ(s.makespan, want.end_ps) << "round " << round << ", " << images.size() << " images, " << slots
                                       << " slots";
    size_t image = 0;
    for (size_t k = 0; k < p.instructions.size(); ++k)
      if (const Instruction& i = p.instructions[k];
          i.op == Opcode::forward && in.steps[0].keys[static_cast<size_t>(i.unit)]) {
        EXPECT_EQ(s.start[k], want.acquired_ps[image]);
        EXPECT_EQ(s.end[k], want.released_ps[image++]);
      }
  }
}

// Its keys are read when the step before has ended, and no sooner: its head, or its last write if that takes longer.
TEST(StepProgram, AStepReadsItsKeysWhenTheStepBeforeHasEnded) {
  const ModelSpec spec = spec_of_layers(3);
  for (const int64_t written : {1, 20}) {
    InferenceInput in{.keys_slots = 2, .keys_slot_bytes = 1};
    for (int m = 0; m < 3; ++m) {
      in.steps.push_back({.query = {.tokens = 1}, .logit_rows = 1});
      for (const Unit& unit : spec.units)
        in.steps.back().keys.push_back(kv_layer_of(unit) >= 0 ? std::optional(KvMoved{7, written}) : std::nullopt);
    }
    const Program p = lower_inference(spec, in);
    std::vector<int64_t> ps;
    for (const Instruction& i : p.instructions) ps.push_back(i.op == Opcode::forward ? 2 : i.message_bytes);
    const Simulation s = simulate(p, ps);
    std::vector<int64_t> end(3, 0), begin(3, INT64_MAX);
    for (size_t k = 0; k < p.instructions.size(); ++k) {
      const auto m = static_cast<size_t>(p.instructions[k].micro);
      end[m] = std::max(end[m], s.end[k]), begin[m] = std::min(begin[m], s.start[k]);
    }
    EXPECT_EQ(begin[1], end[0]) << written;
    EXPECT_EQ(begin[2], end[1]) << written;
  }
}

// Planned or loaded: the same parts in the same order, in the same slots.
TEST(StepProgram, LoadedWeightsHaveThePartsOfTheirPlan) {
  for (const char* family : {"llama", "gemma3_text", "mixtral", "qwen2_moe"}) {
    const StepModel m(family);
    int streamed = 0;
    for (const int64_t percent : {20, 22, 25, 28, 30, 35, 45, 60, 80, 100, 150}) {
      const auto plan = m.plan(percent, {.slots = 3, .threads = 2});
      if (!plan) continue;
      SCOPED_TRACE(testing::Message() << family << ", " << percent << " %");
      StepLoaded loaded(m, &*plan);
      const StepWeights planned = step_weights(m.model.spec, m.model.dtype, *plan),
                        there = step_weights(m.model.spec, loaded.weights());
      ASSERT_EQ(planned.units.size(), there.units.size());
      int64_t bytes = 0;
      for (size_t u = 0; u < planned.units.size(); ++u) {
        EXPECT_EQ(planned.units[u].parts, there.units[u].parts) << "unit " << u;
        EXPECT_EQ(planned.units[u].router_part, there.units[u].router_part) << "unit " << u;
        EXPECT_EQ(planned.units[u].table_row_bytes, there.units[u].table_row_bytes);
        for (const int64_t part : planned.units[u].parts) bytes += part;
      }
      EXPECT_EQ(planned.dtype, there.dtype);
      EXPECT_EQ(planned.slots, there.slots);
      EXPECT_EQ(planned.slot_bytes, there.slot_bytes);
      EXPECT_EQ(planned.experts.items, there.experts.items);
      EXPECT_EQ(planned.experts.item_bytes, there.experts.item_bytes);
      EXPECT_EQ(planned.experts.slot_bytes, there.experts.slot_bytes);
      EXPECT_EQ(std::ssize(there.experts.items), 2 * plan->experts.count);
      EXPECT_GE(bytes, plan->streamed_bytes);
      EXPECT_EQ(bytes > 0, plan->streamed_bytes > 0);
      streamed += plan->streamed_bytes > 0;
    }
    EXPECT_GT(streamed, 1);
  }
}

TEST(StepProgram, LoadedWeightsHaveTheWindowOfTheirPlan) {
  const StepModel m("llama");
  for (const StreamWindow& window : some_stream_windows()) {
    const StreamPlan plan = m.plan(window, 2);
    StepLoaded loaded(m, &plan);
    const StepWeights planned = step_weights(m.model.spec, m.model.dtype, plan),
                      there = step_weights(m.model.spec, loaded.weights());
    EXPECT_EQ(planned.window, there.window);
    EXPECT_EQ(planned.window.blocks.size(), window.of == WindowOf::block ? 13u : 7u);  // with the head
    EXPECT_EQ(planned.slots, there.slots);
    EXPECT_EQ(planned.slot_bytes, there.slot_bytes);
    for (size_t u = 0; u < planned.units.size(); ++u) EXPECT_EQ(planned.units[u].parts, there.units[u].parts);
  }
}

// Of a dense model: once the ring has filled, a step takes what stream_times says.
TEST(StepProgram, TakesTheStepOfStreamTimes) {
  const StepModel m("llama");
  int streamed = 0;
  for (const int slots : {1, 2, 4})
    for (const int64_t percent : {45, 60, 80, 100})
      for (const double disk : {2e8, 1e9, 3e9, 2e10}) {
        const auto plan = m.plan(percent, {.slots = slots, .threads = 2});
        if (!plan || plan->streamed_bytes == 0) continue;
        ++streamed;
        const StreamRates rates{
            .disk = disk, .kept = 2e9, .coded = 1e9, .disk_beside = 0.7 * disk, .slowed = slots == 4 ? 0.3 : 0};
        const std::vector<StepBatch> batches(12, {.tokens = 1, .logit_rows = 1});
        const Program p =
            step_program(m.model.spec, step_weights(m.model.spec, m.model.dtype, *plan), batches, nullptr);
        const Simulation s = simulate(p, step_times(p, m.model.spec, *plan, rates));
        std::vector<int64_t> end(batches.size(), 0);
        for (size_t k = 0; k < p.instructions.size(); ++k)
          if (p.instructions[k].op == Opcode::forward) end[static_cast<size_t>(p.instructions[k].micro)] = s.end[k];
        const double pass_s = stream_times(*plan, rates).pass_s;
        EXPECT_EQ(1e-12 * static_cast<double>(end[11] - end[10]), pass_s)
            << percent << " %, " << slots << " slots, " << disk;
      }
  EXPECT_GT(streamed, 12);
}

TEST(StepProgram, TakesTheStepOfStreamTimesThroughAWindow) {
  const StepModel m("llama");
  for (const StreamWindow& window : some_stream_windows())
    for (const double disk : {2e8, 1e9, 2e10}) {
      const StreamPlan plan = m.plan(window, 2);
      const StreamRates rates{.disk = disk, .kept = 2e9, .coded = 1e9};
      const std::vector<StepBatch> batches(12, {.tokens = 1, .logit_rows = 1});
      const Program p = step_program(m.model.spec, step_weights(m.model.spec, m.model.dtype, plan), batches, nullptr);
      ASSERT_EQ(validate(p, ProgramKind::inference), std::vector<std::string>{}) << describe(window);
      const Simulation s = simulate(p, step_times(p, m.model.spec, plan, rates));
      std::vector<int64_t> end(batches.size(), 0);
      for (size_t k = 0; k < p.instructions.size(); ++k)
        if (p.instructions[k].op == Opcode::forward) end[static_cast<size_t>(p.instructions[k].micro)] = s.end[k];
      const StreamTimes times = stream_times(plan, rates);
      EXPECT_EQ(1e-12 * static_cast<double>(end[11] - end[10]), times.pass_s) << describe(window) << ", " << disk;
      EXPECT_GE(times.pass_s, times.bound_s() * 0.999999);
    }
}

}  // namespace
}  // namespace tern
