// Experts that are read as a router chooses them: steps read and compute what the list of the recorded routing says, to the byte, and their
// logits have the bits of weights that stay.
#include "infer/step_experts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "infer/step_testing.h"
#include "infer/stream_times.h"
#include "program/expert_rules.h"
#include "program/simulate.h"
#include "store/blocks_testing.h"
#include "store/uring_reads.h"

namespace tern {
namespace {

struct ExpertCounts {
  int64_t used = 0, loads = 0, bytes = 0, hits = 0, read_again = 0;
};
ExpertCounts counts_of(const Program& p) {
  ExpertCounts c;
  std::set<std::pair<int, int>> brought;
  for (const Instruction& i : p.instructions) {
    c.used += uses_expert(i);
    if (i.op != Opcode::load || i.allocates[0].buffer.kind != BufferKind::expert) continue;
    ++c.loads, c.bytes += i.message_bytes;
    c.read_again += !brought.emplace(i.unit, i.allocates[0].buffer.part).second;
  }
  c.hits = c.used - c.loads;
  return c;
}

// A read of an expert begins when the router has answered and, if a part of this step used its slot, behind that part.
void expect_experts_in_order(const RecordedSteps& r, const std::string& what) {
  for (size_t k = 0; k < r.events.size(); ++k) {
    const Instruction& i = r.program.instructions[k];
    if (i.op != Opcode::load || !is_expert(i.allocates[0].buffer)) continue;
    const Instruction& router = r.program.instructions[static_cast<size_t>(i.waits[0])];
    const TraceEvent& awaited = r.events[static_cast<size_t>(i.waits[0])];
    if (!uses_expert(router)) { EXPECT_GE(r.events[k].start_s, awaited.start_s + awaited.duration_s - 1e-9) << what; }
    EXPECT_GT(r.events[k].duration_s, 0) << what << ": " << to_string(i);
  }
}

// Where a kernel has no io_uring: threads.
std::unique_ptr<BlockFiles> open_reader(const std::vector<std::string>& paths, std::string_view name) {
  if (name == "io_uring")
    if (OpenedUring opened = open_uring_blocks(paths); opened.files) return std::move(opened.files);
  return open_blocks(paths, name == "buffered" ? ReadWay::buffered : ReadWay::direct).files;
}

// Every step from the first on, over memory limits, rings, threads, readers and keys.
TEST(StepExperts, StepsReadAndComputeWhatTheirListSays) {
  for (const auto& [family, stored] : {std::pair{"mixtral", DType::bf16},
                                       {"mixtral", DType::f32},  // experts are decoded
                                       {"qwen2_moe", DType::bf16},
                                       {"qwen3_moe", DType::bf16}}) {
    const StepModel m(family, stored, DType::bf16);
    StepLoaded whole(m, nullptr);
    const RecordedRun want(m, whole, 0, {.first = 0, .count = 100});
    int streamed = 0, beside_bands = 0;
    int64_t read_again = 0, hits = 0;
    std::set<int64_t> places;
    for (const int64_t percent : {20, 22, 25, 28, 30, 35, 40, 55, 70, 90, 110})
      for (const auto& [slots, threads, reader, keys] :
           {std::tuple{1, 1, "direct", 0}, {3, 2, "buffered", 2}, {2, 3, "io_uring", 0}}) {
        const auto plan = m.plan(percent, {.slots = slots, .threads = threads});
        if (!plan) continue;
        ASSERT_GT(plan->experts.count, 0);
        const std::string what = fmt::format("{}, {} %, {} slots, {} threads, {}, {} layers, {} experts", family,
                                             percent, slots, threads, reader, keys, plan->experts.slots);
        StepLoaded loaded(m, &*plan, open_reader(plan->bands.paths, reader));
        const RecordedRun got(m, loaded, keys, {.first = 0, .count = 100});
        EXPECT_EQ(got.logits, want.logits) << what;
        const RecordedSteps r = recorded_steps(m.model.spec, got.recorder, got.pool);
        ASSERT_EQ(got.recorder.steps().size(), 8u);
        expect_as_listed(r, what.c_str());
        expect_in_order(r);
        expect_experts_in_order(r, what);
        const ExpertCounts listed = counts_of(r.program);
        const CacheCounts counted = loaded.streamed.cache->counts();
        EXPECT_EQ(listed.used, counted.items.wanted) << what;
        EXPECT_EQ(listed.hits, counted.items.hits) << what;
        EXPECT_EQ(listed.bytes, counted.read_bytes) << what;
        read_again += listed.read_again, hits += listed.hits, ++streamed;
        beside_bands += plan->streamed_bytes > 0;
        places.insert(plan->experts.slots);
      }
    EXPECT_GT(streamed, 8) << family;
    EXPECT_GT(beside_bands, 3) << family;
    EXPECT_GT(places.size(), 2u) << family;
    EXPECT_GT(read_again, 100) << family;
    EXPECT_GT(hits, 100) << family;
  }
}

// Recording may begin behind steps that filled the cache: what they left is there.
TEST(StepExperts, ARecordingThatBeginsLaterKnowsWhatIsThere) {
  const StepModel m("mixtral");
  int streamed = 0;
  for (const int64_t percent : {50, 70, 90}) {
    const auto plan = m.plan(percent, {.slots = 2, .threads = 2});
    if (!plan) continue;
    StepLoaded loaded(m, &*plan);
    const RecordedRun got(m, loaded, 0, {.first = 2, .count = 3, .only_single_tokens = true});
    ASSERT_TRUE(got.recorder.complete());
    const RecordedSteps r = recorded_steps(m.model.spec, got.recorder, got.pool);
    expect_as_listed(r, "later");
    const auto there = std::ranges::count_if(r.program.resident[0],
                                             [](const BufferBytes& b) { return b.buffer.kind == BufferKind::expert; });
    EXPECT_GT(there, 0);
    EXPECT_LE(there, 2 * plan->experts.slots);
    ++streamed;
  }
  EXPECT_GT(streamed, 1);
}

// The prediction for the recorded routing has the same LOADs and parts; each LOAD takes its bytes' time.
TEST(StepExperts, PredictsTheInstructionsThatItRecorded) {
  for (const char* family : {"mixtral", "qwen2_moe"}) {
    const StepModel m(family);
    const auto plan = m.plan(60, {.slots = 2, .threads = 2});
    ASSERT_TRUE(plan);
    StepLoaded loaded(m, &*plan);
    const RecordedRun run(m, loaded, 3, {.first = 1, .count = 3, .only_single_tokens = true});
    const RecordedSteps measured = recorded_steps(m.model.spec, run.recorder, run.pool);
    const StreamRates rates{.disk = 1e9, .kept = 2e9, .coded = 1e9};
    const std::vector<TraceEvent> predicted = predicted_steps(m.model.spec, *plan, rates, run.recorder, run.pool);
    std::multiset<std::string> names, want;
    int experts = 0;
    for (const TraceEvent& e : predicted) {
      names.insert(fmt::format("{}: {}", e.name, e.message_bytes));
      if (e.op != Opcode::load || e.name.find(" expert(") == std::string::npos) continue;
      EXPECT_NEAR(e.duration_s, static_cast<double>(e.message_bytes) / rates.disk, 1e-12) << e.name;
      ++experts;
    }
    for (const TraceEvent& e : measured.events) want.insert(fmt::format("{}: {}", e.name, e.message_bytes));
    EXPECT_EQ(names, want) << family;
    EXPECT_GT(experts, 0) << family;
  }
}

// Before a router has chosen: as many bytes as the formula of stream_times says, of whole blocks, over all units.
TEST(StepExperts, ExpectsTheBytesOfTheFormula) {
  const StepModel m("mixtral");
  const auto plan = m.plan(60, {.slots = 2, .threads = 2});
  ASSERT_TRUE(plan);
  double blocks = 0;  // of an expert, in the mean of each unit, over units
  for (const FileExperts& unit : plan->bands.experts)
    for (const auto* matrices : {&unit.up, &unit.down})
      for (const FileMatrix& matrix : *matrices)
        for (const FileBand& band : matrix.bands)
          blocks +=
              static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes) / static_cast<double>(unit.up.size());
  const auto& first = plan->bands.experts.front();
  for (const int64_t tokens : {1, 2, 7})
    for (const double hits : {0.0, 0.25, 1.0}) {
      const StepBatch batch{.tokens = tokens, .experts = expected_expert_uses(m.model.spec, *plan, tokens, hits)};
      const StepWeights weights = step_weights(m.model.spec, m.model.dtype, *plan);
      const Program p = step_program(m.model.spec, weights, {&batch, 1}, nullptr);
      EXPECT_EQ(validate(p, ProgramKind::inference), std::vector<std::string>{});
      int64_t bytes = 0, loads = 0;
      for (const Instruction& i : p.instructions)
        if (i.op == Opcode::load && i.allocates[0].buffer.kind == BufferKind::expected_expert)
          bytes += i.message_bytes, ++loads;
      const double experts = distinct_experts(first, tokens);
      EXPECT_EQ(loads, 2 * std::ssize(plan->bands.experts) * static_cast<int64_t>(std::ceil(experts - 1e-9)));
      EXPECT_NEAR(static_cast<double>(bytes), (1 - hits) * experts * blocks, 0.5 * static_cast<double>(loads))
          << tokens;
      const double formula = expected_bytes(*plan, tokens, hits) - static_cast<double>(plan->streamed_bytes);
      EXPECT_GE(static_cast<double>(bytes) + 0.5 * static_cast<double>(loads), formula);
    }
}

// What a mixture computes beside its experts while they are read has a part behind the router's.
TEST(StepExperts, WhatIsComputedBesideThemHasAPartBehindTheRouter) {
  for (const auto& [family, parts] :
       {std::pair<const char*, std::vector<int64_t>>{"mixtral", {}}, {"qwen2_moe", {0}}}) {
    const StepModel m(family);
    const auto plan = m.plan(70, {});
    ASSERT_TRUE(plan && plan->streamed_bytes == 0) << family;
    int mixtures = 0;
    for (const InferenceUnit& unit : step_weights(m.model.spec, m.model.dtype, *plan).units) {
      if (!unit.router_part) continue;
      EXPECT_EQ(*unit.router_part, 0) << family;
      EXPECT_EQ(unit.parts, parts) << family;
      ++mixtures;
    }
    EXPECT_EQ(mixtures, 6) << family;
  }
}

// A step that throws leaves other experts than the steps before it did: with it they are forgotten.
TEST(StepExperts, AStepThatDidNotEndTakesTheStepsBeforeItAlong) {
  MemoryBlocks files({patterned_file(4000)}, kTestBlock);
  const std::vector<CacheItem> items{{{{0, 0, 100}}, 0}, {{{0, 700, 100}}, 1}, {{{0, 1500, 90}}, 0}};
  const std::vector<int> slots{1, 1};
  const int64_t bytes = ExtentCache::bytes_for(items, slots, kTestBlock);
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kTestBlock, static_cast<size_t>(bytes)),
                                                           &std::free);
  ExtentCache cache(files, items, {.slots = slots}, 1,
                    {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)});
  const StepWeights weights{.experts = {.cache = &cache, .items = {{1, 0}, {1, 1}, {1, 2}}}};
  Arena arena;
  StepRecorder recorder({.first = 0, .count = 2});
  const auto begin = [&] { recorder.begin_step({.tokens = 1}, true, weights, nullptr, arena); };
  const auto use = [&](int item) {
    cache.want(std::vector<int>{item});
    const ExtentLease lease(cache, item);
  };
  begin(), use(0), recorder.end_step();
  EXPECT_EQ(recorder.steps().size(), 1u);
  begin(), use(2);  // and throws
  begin(), use(2), recorder.end_step();
  ASSERT_EQ(recorder.steps().size(), 1u);
  EXPECT_TRUE(recorder.expert_reads().empty());  // it was there
  EXPECT_EQ(recorder.experts()->slot_of(2), 0);
  EXPECT_EQ(recorder.experts()->slot_of(0), -1);
  begin(), use(0), recorder.end_step();
  EXPECT_TRUE(recorder.complete());
  EXPECT_EQ(recorder.expert_reads().size(), 1u);
}

}  // namespace
}  // namespace tern
