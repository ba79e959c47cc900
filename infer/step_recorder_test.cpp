// What steps did, beside their list: a model that streams, with its keys in memory or on a disk, does what its Program says, to the byte.
#include "infer/step_recorder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/clock.h"
#include "infer/engine.h"
#include "infer/run.h"
#include "infer/step_testing.h"
#include "program/validate.h"
#include "store/blocks_testing.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

TEST(StepRecorder, StepsThatStreamDoWhatTheirListSays) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const StepModel m(family);
    StepLoaded whole(m, nullptr);
    const RecordedRun want(m, whole, 0, kThreeSteps);
    ASSERT_EQ(want.recorder.steps().size(), 3u);
    expect_as_listed(recorded_steps(m.model.spec, want.recorder, want.pool), "all weights stay");
    int streamed = 0;
    for (const int64_t percent : {45, 70, 100})
      for (const int slots : {1, 2, 4})
        for (const int threads : {1, 3})
          for (const int64_t keys : {0, 2, 6}) {
            const auto plan = m.plan(percent, {.slots = slots, .threads = threads});
            if (!plan || plan->streamed_bytes == 0) continue;
            const std::string what =
                fmt::format("{}, {} %, {} slots, {} threads, {} layers", family, percent, slots, threads, keys);
            StepLoaded loaded(m, &*plan);
            const RecordedRun got(m, loaded, keys, kThreeSteps);
            EXPECT_EQ(got.logits, want.logits) << what;
            const RecordedSteps r = recorded_steps(m.model.spec, got.recorder, got.pool);
            expect_as_listed(r, what.c_str());
            expect_in_order(r);
            int64_t loads = 0, unknown = 0, stores = 0;
            for (size_t k = 0; k < r.events.size(); ++k) {
              const Instruction& i = r.program.instructions[k];
              loads += i.op == Opcode::load && i.part > 0, stores += i.op == Opcode::store;
              unknown += i.op != Opcode::forward && r.moved[k] < 0;
            }
            EXPECT_GT(loads, 0);
            EXPECT_EQ(stores, 3 * keys);
            if (loads > 3 * slots) { EXPECT_EQ(unknown, 0) << what; }
            EXPECT_EQ(r.notes.empty(), unknown == 0);
            ++streamed;
          }
    EXPECT_GT(streamed, 20);
  }
}

// In kThreeSteps the first part of a block begins behind all of its LOADs.
void expect_lent_whole(const RecordedSteps& r, const RingWindow& window) {
  std::vector<double> read;   // when each extent was there, in the order of use
  std::vector<double> begun;  // when its part began
  for (size_t k = 0; k < r.events.size(); ++k) {
    const Instruction& i = r.program.instructions[k];
    if (i.op == Opcode::load && i.part > 0) read.push_back(r.events[k].start_s + r.events[k].duration_s);
    if (i.op == Opcode::forward && std::ranges::count(i.reads, BufferKind::extent, &Buffer::kind) > 0)
      begun.push_back(r.events[k].start_s);
  }
  ASSERT_EQ(read.size(), begun.size());
  size_t at = 0;
  for (int step = 0; step < 3; ++step)
    for (size_t block = 0; block + (step == 0) < window.blocks.size(); ++block) {  // the first step has no head
      const auto extents = static_cast<size_t>(window.blocks[block]);
      for (size_t e = 0; e < extents; ++e)
        EXPECT_GE(begun[at], read[at + e] - 1e-9) << "step " << step << ", block " << block << ", extent " << e;
      at += extents;
    }
  EXPECT_EQ(at, begun.size());
}

// Through the windows of other systems too: every weight is read at every step, LOAD by LOAD.
TEST(StepRecorder, StepsThroughAWindowDoWhatTheirListSays) {
  for (const char* family : {"llama", "gemma3_text"}) {
    const StepModel m(family);
    StepLoaded whole(m, nullptr);
    const RecordedRun want(m, whole, 0, kThreeSteps);
    for (const StreamWindow& window : some_stream_windows())
      for (const int threads : {1, 3})
        for (const int64_t keys : {0, 2}) {
          const StreamPlan plan = m.plan(window, threads);
          EXPECT_EQ(plan.streamed_bytes, plan.pass_bytes);
          const std::string what =
              fmt::format("{}, {}, {} threads, {} layers", family, describe(window), threads, keys);
          StepLoaded loaded(m, &plan);
          const RecordedRun got(m, loaded, keys, kThreeSteps);
          EXPECT_EQ(got.logits, want.logits) << what;
          const RecordedSteps r = recorded_steps(m.model.spec, got.recorder, got.pool);
          expect_as_listed(r, what.c_str());
          expect_in_order(r);
          int64_t loads = 0, unknown = 0;
          for (size_t k = 0; k < r.events.size(); ++k) {
            const Instruction& i = r.program.instructions[k];
            loads += i.op == Opcode::load && i.part > 0;
            unknown += i.op == Opcode::load && r.moved[k] < 0;
          }
          const auto bands = std::ssize(plan.stays), head = std::ssize(plan.bands.matrices.back().bands);
          EXPECT_EQ(loads, 3 * bands - head) << what << ": the head of the first step does not run";
          EXPECT_LE(unknown, plan.ring.slots) << what;
          if (unknown == 0) expect_lent_whole(r, plan.ring.window);
        }
  }
}

// Whole, and over limits, slots and keys on the disk. Returns how many of these runs streamed.
int expect_as_listed_streamed(const StepModel& m, int64_t samples, const std::string& model) {
  StepLoaded whole(m, nullptr);
  const RecordedRun want(m, whole, 0, kThreeSteps, samples);
  EXPECT_EQ(want.recorder.steps().size(), 3u);
  EXPECT_EQ(want.recorder.steps().back().batch.tokens, samples);
  expect_as_listed(recorded_steps(m.model.spec, want.recorder, want.pool), model.c_str());
  int streamed = 0;
  for (const int64_t percent : {15, 25, 45, 70, 100})
    for (const int slots : {1, 3})
      for (const int64_t keys : {0, 1}) {
        const auto plan = m.plan(percent, {.slots = slots, .threads = 2});
        if (!plan || plan->streamed_bytes == 0) continue;
        StepLoaded loaded(m, &*plan);
        const RecordedRun got(m, loaded, keys, kThreeSteps, samples);
        const std::string what = fmt::format("{}, {} %, {} slots, {} layers", model, percent, slots, keys);
        EXPECT_EQ(got.logits, want.logits) << what;
        expect_as_listed(recorded_steps(m.model.spec, got.recorder, got.pool), what.c_str());
        ++streamed;
      }
  return streamed;
}

// Bands that are decoded, types that are not packed, and steps of two sequences take other workspace.
TEST(StepRecorder, StepsOfOtherTypesDoWhatTheirListSays) {
  for (const auto& [stored, computed] :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::f32, DType::bf16}})
    EXPECT_GT(expect_as_listed_streamed(StepModel("llama", stored, computed), 1,
                                        fmt::format("{} in {}", name_of(stored), name_of(computed))),
              3);
}

// A model with an adapter, which stays in memory while the model's matrices stream.
TEST(StepRecorder, StepsWithAnAdapterDoWhatTheirListSays) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const StepModel plain("llama", dtype, dtype);
    StepModel adapted("llama", dtype, dtype);
    adapted.adapt({.targets = {.all_linear = true}, .rank = 3, .alpha = 6});
    StepLoaded one(plain, nullptr), other(adapted, nullptr);
    EXPECT_NE(RecordedRun(plain, one, 0).logits, RecordedRun(adapted, other, 0).logits);  // it does something
    for (const int64_t samples : {1, 2})
      EXPECT_GT(expect_as_listed_streamed(adapted, samples, fmt::format("adapter in {}", name_of(dtype))), 3);
  }
}

// Over limits, with all matrices and with the longer ones alone read in bands; returns how many runs of either kind streamed.
std::pair<int, int> expect_whole_weights_bits(const StepModel& m, const std::vector<double>& want,
                                              const std::string& model) {
  int all = 0, some = 0;
  for (int64_t percent = 10; percent < 100; percent += 2)
    for (const int64_t least : {1, 40 << 10}) {
      const auto plan = m.plan(percent, {.slots = 2, .threads = 2}, least);
      if (!plan || plan->streamed_bytes + plan->experts.count == 0) continue;
      const std::string what = fmt::format("{}, {} %, from {} bytes on", model, percent, least);
      StepLoaded loaded(m, &*plan);
      EXPECT_EQ(loaded.arena.current_total(), plan->fit.weights + plan->fit.ring) << what;
      const RecordedRun got(m, loaded, 0, kThreeSteps);
      EXPECT_EQ(got.logits, want) << what;
      EXPECT_LE(loaded.arena.peak_total(), plan->fit.tensors()) << what;
      expect_as_listed(recorded_steps(m.model.spec, got.recorder, got.pool), what.c_str());
      least == 1 ? ++all : ++some;
    }
  return {all, some};
}

// Codes multiplied in integers: what streams, what stays, and what is too small to stream have the bits of whole weights.
TEST(StepRecorder, StepsInIntegersDoWhatTheirListSays) {
  using enum WeightType;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const auto& [types, family, tied] : {std::tuple{std::vector{q4_0}, "llama", false},
                                              {{q4_0, q6_k, bf16}, "llama", false},
                                              {{q4_k, q8_0}, "llama", true},
                                              {{q4_0, q5_1}, "mixtral", false}}) {
      const std::string what = fmt::format("{}, {}, in {}", family, tied ? "tied" : "not tied", name_of(dtype));
      const StepModel kept(types, dtype, false, family, tied), m(types, dtype, true, family, tied);
      StepLoaded decoded(kept, nullptr), whole(m, nullptr);
      const RecordedRun want(m, whole, 0, kThreeSteps);
      EXPECT_NE(RecordedRun(kept, decoded, 0, kThreeSteps).logits, want.logits) << "x is rounded";
      const auto [all, some] = expect_whole_weights_bits(m, want.logits, what);
      EXPECT_GT(all, 0) << what;
      EXPECT_TRUE(some > 0 || m.model.spec.family == "mixtral") << what;
    }
}

// The same of a directory: learned tables, and the table of tokens in Q8_0.
TEST(StepRecorder, StepsInIntegersOfACodedDirectoryDoWhatTheirListSays) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const WeightType type : {WeightType::lc4, WeightType::lc2})
      for (const bool tied : {false, true}) {
        const std::string what =
            fmt::format("{}, {}, in {}", name_of(type), tied ? "tied" : "not tied", name_of(dtype));
        const StepModel m(type, dtype, tied);
        StepLoaded whole(m, nullptr);
        const RecordedRun want(m, whole, 0, kThreeSteps);
        const auto [all, some] = expect_whole_weights_bits(m, want.logits, what);
        EXPECT_GT(all + some, 0) << what;
      }
}

// f64 does not stream: what does not fit is refused, what fits stays whole.
TEST(StepRecorder, StepsInF64StayInMemoryOrAreRefused) {
  for (const char* family : {"llama", "mixtral"}) {
    const StepModel m(family, DType::f32, DType::f64);
    for (const int64_t percent : {25, 50, 75, 99}) EXPECT_FALSE(m.plan(percent, {})) << family << ", " << percent;
    StepLoaded whole(m, nullptr);
    const RecordedRun want(m, whole, 0, kThreeSteps);
    for (const int64_t percent : {200, 400}) {
      const auto plan = m.plan(percent, {.slots = 2, .threads = 2});
      ASSERT_TRUE(plan) << family << ", " << percent;
      EXPECT_EQ(plan->streamed_bytes, 0);
      EXPECT_EQ(plan->experts.count, 0);
      StepLoaded loaded(m, &*plan);
      const RecordedRun got(m, loaded, 1, kThreeSteps);
      EXPECT_EQ(got.logits, want.logits);
      const RecordedSteps r = recorded_steps(m.model.spec, got.recorder, got.pool);
      expect_as_listed(r, family);
      for (const Instruction& i : r.program.instructions) { EXPECT_FALSE(i.op == Opcode::load && i.part > 0); }
    }
  }
}
TEST(StepRecorder, StepsOfTwoSamplesDoWhatTheirListSays) {
  for (const DType dtype : {DType::bf16, DType::f32})
    EXPECT_GT(expect_as_listed_streamed(StepModel("llama", dtype, dtype), 2,
                                        fmt::format("two samples in {}", name_of(dtype))),
              3);
}
TEST(StepRecorder, StepsOfACodedFileDoWhatTheirListSays) {
  for (const DType dtype : {DType::bf16, DType::f32})
    EXPECT_GT(expect_as_listed_streamed(StepModel({WeightType::q4_0, WeightType::q6_k, WeightType::bf16}, dtype), 1,
                                        fmt::format("GGUF in {}", name_of(dtype))),
              1);
}

// Two steps of one token, of which the second is recorded: each unit takes what the list says of it, and unit 1 keeps `more` bytes beside it.
RecordedSteps play_list(const ModelSpec& spec, const StepWeights& weights, int64_t more) {
  Arena arena;
  const KvPool pool(kv_shape(spec, 4, DType::f32), 1, arena, nullptr);
  const StepBatch batch{.tokens = 1, .logit_rows = 1};
  const Program list = step_program(spec, weights, {&batch, 1}, &pool);
  StepRecorder recorder({.first = 1, .count = 1});
  int turn = 0;
  for (int step = 0; step < 2; ++step) {
    recorder.begin_step(batch, true, weights, nullptr, arena);
    Tensor x, y, kept;
    for (const Instruction& i : list.instructions) {
      if (i.op != Opcode::forward) continue;
      if (i.part == 0) {
        recorder.begin_unit(i.unit);
        y = arena.bytes(i.allocates[0].bytes, MemoryClass::activations);
        const Tensor temporaries = arena.bytes(i.workspace_bytes, MemoryClass::workspace);
        if (i.unit == 1 && more > 0) kept = arena.bytes(more, MemoryClass::activations);
      } else {
        const ExtentLease lease(*weights.ring, turn++ % weights.ring->num_places());
      }
      const auto parts = static_cast<int>(weights.units[static_cast<size_t>(i.unit)].parts.size());
      if (i.part < parts) continue;
      x = std::move(y);
      recorder.end_unit(i.unit + 1 == list.num_units ? x.bytes() : 0);
    }
    recorder.end_step();
  }
  return recorded_steps(spec, recorder, pool);
}

TEST(StepRecorder, NamesABufferThatTheListDoesNotHave) {
  const ModelSpec spec = model_spec(tiny_config("llama"));
  StepWeights weights;
  weights.units.resize(spec.units.size());
  EXPECT_EQ(play_list(spec, weights, 0).mismatches, std::vector<std::string>{});
  const std::vector<std::string> found = play_list(spec, weights, 64).mismatches;
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].find("FORWARD unit 1 micro 0: "), std::string::npos) << found[0];
  for (const std::string& one : found) EXPECT_EQ(one.find("in temporaries"), std::string::npos) << one;
}

TEST(StepRecorder, NamesAReadOfOneBlockTooMany) {
  const ModelSpec spec = model_spec(tiny_config("llama"));
  MemoryBlocks files({patterned_file(4000)}, kTestBlock);
  const std::vector<Extent> order{{0, 0, 100}, {0, 500, 200}, {0, 1000, 300}};
  const int64_t bytes = CyclicRing::bytes_for(order, 1, kTestBlock);
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kTestBlock, static_cast<size_t>(bytes)),
                                                           &std::free);
  for (const int64_t too_many : {int64_t{0}, kTestBlock}) {
    CyclicRing ring(files, order, {.slots = 1, .threads = 1},
                    {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)});
    StepWeights weights{.ring = &ring, .slots = 1, .slot_bytes = ring.slot_bytes()};
    weights.units.resize(spec.units.size());
    weights.units[1].parts = {ring.block_bytes(0), ring.block_bytes(1) - too_many};
    weights.units[3].parts = {ring.block_bytes(2)};
    const RecordedSteps r = play_list(spec, weights, 0);
    ASSERT_EQ(r.mismatches.size(), too_many > 0 ? 1u : 0u);
    if (too_many > 0) {
      EXPECT_NE(r.mismatches[0].find("LOAD extent(unit 1, micro 0, part 2): "), std::string::npos) << r.mismatches[0];
    }
  }
}

// A step that throws is begun again: it counts once.
TEST(StepRecorder, AStepThatDidNotEndIsNotCounted) {
  Arena arena;
  StepRecorder recorder({.first = 1, .count = 1});
  const auto begin = [&] { recorder.begin_step({.tokens = 1}, true, {}, nullptr, arena); };
  begin();
  begin();
  recorder.end_step();
  EXPECT_TRUE(recorder.steps().empty());
  begin();
  recorder.end_step();
  EXPECT_EQ(recorder.steps().size(), 1u);
}

// What it keeps does not grow with the steps that it leaves out: of their reads it drops those that they used.
TEST(StepRecorder, KeepsNoReadsOfStepsThatItLeavesOut) {
  const StepModel m("llama");
  const auto plan = m.plan(60, {.slots = 3, .threads = 2});
  ASSERT_TRUE(plan && plan->streamed_bytes > 0);
  StepLoaded loaded(m, &*plan);
  const RecordedRun run(m, loaded, 0, {.first = 6, .count = 2});
  ASSERT_TRUE(run.recorder.complete());
  const int64_t first = run.recorder.steps().front().leases.front().turn;
  ASSERT_GT(first, 10);
  EXPECT_FALSE(run.recorder.reads().empty());
  for (const RingRead& read : run.recorder.reads()) EXPECT_GE(read.turn, first);
}

// Who asks for nothing is told nothing, and computes the same.
TEST(StepRecorder, RecordsAsManyStepsAsItWasAskedFor) {
  const StepModel m("llama");
  StepLoaded whole(m, nullptr);
  for (const auto& [settings, steps, tokens] :
       {std::tuple<RecorderSettings, size_t, int64_t>{{.first = 0, .count = 2}, 2, 7},
        {{.first = 2, .count = 3, .only_single_tokens = true}, 3, 1},
        {{.first = 4, .count = 3, .only_single_tokens = true}, 1, 1},
        {{.first = 3, .count = 100}, 5, 1}}) {
    const RecordedRun run(m, whole, 0, settings);
    EXPECT_EQ(run.recorder.steps().size(), steps);
    EXPECT_EQ(run.recorder.complete(), static_cast<int64_t>(steps) == settings.count);
    EXPECT_EQ(run.recorder.steps().front().batch.tokens, tokens);
  }
}

TEST(StepRecorder, PredictsTheInstructionsThatItRecorded) {
  const StepModel m("llama");
  const auto plan = m.plan(70, {.slots = 2, .threads = 2});
  ASSERT_TRUE(plan && plan->streamed_bytes > 0);
  StepLoaded loaded(m, &*plan);
  const RecordedRun run(m, loaded, 3, {.first = 1, .count = 3, .only_single_tokens = true});
  RecordedSteps measured = recorded_steps(m.model.spec, run.recorder, run.pool);
  const StreamRates rates{.disk = 1e9, .kept = 2e9, .coded = 1e9};
  std::vector<TraceEvent> predicted = predicted_steps(m.model.spec, *plan, rates, run.recorder, run.pool);
  std::multiset<std::string> names, want;
  for (const TraceEvent& e : predicted) names.insert(fmt::format("{}: {}", e.name, e.message_bytes));
  for (const TraceEvent& e : measured.events) want.insert(fmt::format("{}: {}", e.name, e.message_bytes));
  EXPECT_EQ(names, want);
  begin_at_zero(predicted, measured.events);
  double first = 1e9;
  for (const auto* events : {&predicted, &measured.events})
    for (const TraceEvent& e : *events) first = std::min(first, e.start_s);
  EXPECT_NEAR(first, 0, 1e-12);
}

// Files that a test owns, read at a disk's pace.
class PacedFiles final : public BlockFiles {
 public:
  PacedFiles(std::unique_ptr<BlockFiles> inner, double seconds_per_byte)
      : inner_(std::move(inner)), paced_(*inner_, seconds_per_byte) {}
  int64_t alignment() const override { return inner_->alignment(); }
  const std::string& path(int file) const override { return inner_->path(file); }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override { return paced_.read(file, offset, into); }

 private:
  std::unique_ptr<BlockFiles> inner_;
  PacedBlocks paced_;
};

// A busy machine may be slower, but no record is faster than the disk.
TEST(StepRecorder, NoRecordIsFasterThanAPacedDisk) {
  constexpr double kSecondsPerByte = 2e-8;
  const StepModel m("llama");
  const auto plan = m.plan(60, {.slots = 3, .threads = 2});
  ASSERT_TRUE(plan && plan->streamed_bytes > 0);
  StepLoaded loaded(m, &*plan, std::make_unique<PacedFiles>(open_blocks(plan->bands.paths).files, kSecondsPerByte));
  const RecordedRun run(m, loaded, 0, kThreeSteps);
  const RecordedSteps r = recorded_steps(m.model.spec, run.recorder, run.pool);
  expect_as_listed(r, "paced");
  int64_t bytes = 0, largest = 0;
  double first = 1e9, last = 0;
  for (size_t k = 0; k < r.events.size(); ++k) {
    if (r.program.instructions[k].op != Opcode::load || r.moved[k] < 0) continue;
    const TraceEvent& e = r.events[k];
    EXPECT_GE(e.duration_s, 0.9 * kSecondsPerByte * static_cast<double>(r.moved[k])) << e.name;
    bytes += r.moved[k], largest = std::max(largest, r.moved[k]);
    first = std::min(first, e.start_s), last = std::max(last, e.start_s + e.duration_s);
  }
  // At its begin another read may have been under way for each thread.
  EXPECT_GE(last - first, 0.9 * kSecondsPerByte * static_cast<double>(bytes - 2 * largest));
  EXPECT_GT(bytes, 0);
}

}  // namespace
}  // namespace tern
