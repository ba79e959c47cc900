#include "program/spread_head.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "program/checksum.h"
#include "program/faults_testing.h"
#include "program/passes.h"
#include "program/placement_testing.h"
#include "program/simulate.h"

namespace tern {
namespace {

struct SpreadCase {
  ModelSpec spec;
  Placement at;
};

// Equal stages of `blocks` blocks; the embedding is on the first device and the head on the last.
SpreadCase spread_case(int devices, int micros, int64_t vocab, const LayerStrategy& strategy = {}, int blocks = 2) {
  ModelSpec spec = small_spec(int64_t{devices} * blocks);
  spec.vocab = vocab;
  std::get<EmbedSpec>(spec.units.front().spec).vocab = vocab;
  std::get<HeadSpec>(spec.units.back().spec).vocab = vocab;
  Plan plan{.job = {.batch = micros, .seq = 16, .dtype = DType::f32}};
  plan.parameters = num_parameters(spec);
  plan.choice = {.num_stages = devices, .num_micro = micros};
  for (int d = 0, first = 0; d < devices; ++d) {
    const int count = blocks + (d == 0) + (d == devices - 1);
    plan.layers.push_back({.first = first, .count = count, .stage = d, .strategy = strategy});
    first += count;
  }
  return {spec, placement_of(spec, plan)};
}

int64_t total(const Program& p, int64_t Instruction::*amount) {
  int64_t sum = 0;
  for (const Instruction& i : p.instructions) sum += i.*amount;
  return sum;
}

// How many micro-batches each device holds at most, by the simulator's own count of buffers: of each micro-batch what one
// attention of the device saved counts 1, all else 0.
std::vector<int64_t> held_micro_batches(Program p) {
  std::vector<int> counted(static_cast<size_t>(p.num_ranks), -1);  // unit
  for (const Instruction& i : p.instructions)
    if (int& unit = counted[static_cast<size_t>(i.rank)]; unit < 0 && i.op == Opcode::forward && i.unit > 0)
      unit = i.unit;
  for (Instruction& i : p.instructions) {
    i.workspace_bytes = 0;
    for (BufferBytes& b : i.allocates)
      b.bytes = b.buffer.kind == BufferKind::saved && b.buffer.unit == counted[static_cast<size_t>(i.rank)];
  }
  p.resident.clear();
  std::vector<int64_t> held;
  for (const RankBytes& rank : simulate(p).ranks) held.push_back(rank.peak_buffers);
  return held;
}

// Passes take their FLOPs; a message its bytes at a rate at which the input of a layer takes `message`, ps.
std::vector<int64_t> spread_times(const Program& p, int64_t message) {
  std::vector<int64_t> ps;
  for (const Instruction& i : p.instructions)
    ps.push_back(i.op == Opcode::send                             ? message * i.message_bytes / (16 * 16 * 4)
                 : i.op == Opcode::update || i.op == Opcode::norm ? 0
                                                                  : 10 * i.flops);
  return ps;
}
int64_t makespan_of(const Program& p, int64_t message = 0) { return simulate(p, spread_times(p, message)).makespan; }

TEST(SpreadHead, IsSoundAndADeviceHoldsOneMicroBatchMore) {
  for (int p = 2; p <= 8; ++p)
    for (const int micros : {1, 2, p - 1, p, p + 1, p + 2, 2 * p, 3 * p + 1})
      for (const int64_t vocab : {5, 960, 20000}) {  // of 5 tokens some devices have none
        SCOPED_TRACE(std::to_string(p) + " devices, " + std::to_string(micros) + " micro-batches, vocabulary " +
                     std::to_string(vocab));
        const SpreadCase c = spread_case(p, micros, vocab);
        const Program plain = lower(c.spec, c.at), spread = spread_head(c.spec, c.at);
        ASSERT_EQ(validate(plain), std::vector<std::string>{});
        ASSERT_EQ(validate(spread), std::vector<std::string>{});
        const std::vector<int64_t> before = held_micro_batches(plain), after = held_micro_batches(spread);
        for (int d = 0; d < p; ++d) {
          ASSERT_EQ(before[static_cast<size_t>(d)], std::min(micros, p - d)) << d;
          ASSERT_EQ(after[static_cast<size_t>(d)], std::min(micros, p - d + 1)) << d;
        }
      }
}

// Stages of unlike sizes, a last device with the head alone, recomputation; and the early recomputation of it.
TEST(SpreadHead, IsSoundForAnyStages) {
  int cases = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    PlacedCase c = random_placed(PipelineSchedule::one_f_one_b, {.replicas = false, .late_tables = false}, 300 + seed);
    for (PlacedLayer& l : c.placement.layers) l.strategy.zero = 0;
    if (c.placement.shape.num_devices < 2 || c.placement.mesh.devices() > 1) continue;
    SCOPED_TRACE(to_string(c.plan.choice) + " seed " + std::to_string(seed));
    const Program plain = lower(c.spec, c.placement), spread = spread_head(c.spec, c.placement);
    ASSERT_EQ(validate(spread), std::vector<std::string>{});
    ASSERT_EQ(simulate(spread, spread_times(spread, 1000)).flops, simulate(plain).flops);
    const Program early = recompute_early(spread, 20000);
    ASSERT_EQ(validate(early), std::vector<std::string>{});
    ASSERT_LE(makespan_of(early), makespan_of(spread));
    ++cases;
  }
  EXPECT_GT(cases, 20);
}

TEST(SpreadHead, SharesOutWhatTheHeadTakesAndLosesNothing) {
  for (const int64_t vocab : {5, 41, 960}) {
    const SpreadCase c = spread_case(3, 4, vocab);
    const Program plain = lower(c.spec, c.at), spread = spread_head(c.spec, c.at);
    EXPECT_EQ(total(spread, &Instruction::flops), total(plain, &Instruction::flops)) << vocab;
    int64_t joining = 0;
    for (const Instruction& i : spread.instructions)
      if (i.op == Opcode::backward_input && i.unit == spread.num_units - 1) joining += i.bytes_moved;
    EXPECT_EQ(joining, 4 * 7 * 16 * 16 * 4) << "micro-batches; both summands of 3 parts and the sum; rows";
    EXPECT_EQ(total(spread, &Instruction::bytes_moved), total(plain, &Instruction::bytes_moved) + joining) << vocab;
    const Simulation before = simulate(plain), after = simulate(spread);
    int64_t were = 0, are = 0;
    for (size_t d = 0; d < 3; ++d) were += before.at_end[d][0], are += after.at_end[d][0];
    EXPECT_EQ(are, were) << "resident";
    // AdamW in f32: weights, gradients and two states of the part's rows. 41 rows: 14, 14, 13.
    if (vocab == 41) {
      EXPECT_EQ(after.at_end[0][0] - before.at_end[0][0], 14 * 16 * 16);
      EXPECT_EQ(after.at_end[1][0] - before.at_end[1][0], 14 * 16 * 16);
      EXPECT_EQ(after.at_end[2][0] - before.at_end[2][0], (13 - 41) * 16 * 16);
    }
  }
}

// A head that costs as much as four layers (blocks): the pipeline takes its fill and drain, and a round for each micro-batch.
TEST(SpreadHead, MakesAStepWithACostlyHeadShorter) {
  for (int p = 2; p <= 8; ++p)
    for (const int micros : {1, p, 4 * p}) {
      SCOPED_TRACE(std::to_string(p) + " devices, " + std::to_string(micros) + " micro-batches");
      const SpreadCase c = spread_case(p, micros, 480);
      const Program plain = lower(c.spec, c.at), spread = spread_head(c.spec, c.at);
      int64_t layers = 0, head = 0;  // of a micro-batch on the first device, which has two blocks; of the head
      for (const Instruction& i : plain.instructions) {
        if (i.micro != 0 || i.resource != Resource::compute) continue;
        if (i.rank == 0) layers += 10 * i.flops;
        if (i.unit == plain.num_units - 1) head += 10 * i.flops;
      }
      EXPECT_GT(head, 3 * layers / 2);
      const int64_t before = makespan_of(plain), after = makespan_of(spread);
      EXPECT_LT(after, before);
      const int64_t round = layers + head / p;
      EXPECT_LE(after, (p - 1) * layers + micros * round + round / 2);
      EXPECT_GE(before, (p - 1) * layers + micros * (layers + head) - p);
      if (p >= 4 && micros == 4 * p) EXPECT_LT(after, before * 3 / 4);
    }
}

// A head of a fifteenth of a layer: without time for messages no step is longer; where a layer's input takes a
// twentieth of a stage's forward, no step is 5 % longer.
TEST(SpreadHead, OfACheapHeadCostsAFewMessages) {
  for (int p = 2; p <= 8; ++p)
    for (const int micros : {1, 2, p, 2 * p, 4 * p}) {
      SCOPED_TRACE(std::to_string(p) + " devices, " + std::to_string(micros) + " micro-batches");
      const SpreadCase c = spread_case(p, micros, 8);
      const Program plain = lower(c.spec, c.at), spread = spread_head(c.spec, c.at);
      EXPECT_LE(makespan_of(spread), makespan_of(plain));
      int64_t forward = 0;
      for (const Instruction& i : plain.instructions)
        if (i.rank == 0 && i.micro == 0 && i.op == Opcode::forward) forward += 10 * i.flops;
      const int64_t before = makespan_of(plain, forward / 20);
      EXPECT_LE(makespan_of(spread, forward / 20), before + before / 20);
    }
}

// The last device gives up the head; the others take a part of it, the activations of one micro-batch more, and the
// buffers of two parts of it.
TEST(SpreadHead, TakesTheHeadsBytesOffTheLastDevice) {
  constexpr int kDevices = 4, kMicros = 8;
  constexpr int64_t kVocab = 4000, kRows = 16 * 16 * 4, kPartRows = kVocab / kDevices;
  const SpreadCase c = spread_case(kDevices, kMicros, kVocab);
  const Program plain = lower(c.spec, c.at), spread = spread_head(c.spec, c.at);
  const Simulation before = simulate(plain), after = simulate(spread);
  EXPECT_LT(after.peak.back()[0], before.peak.back()[0] / 2);
  int64_t workspace = 0, one_more = 0;  // of the head; of a micro-batch on the first device
  for (const Instruction& i : plain.instructions) {
    if (i.unit == plain.num_units - 1 && i.op == Opcode::forward) workspace = i.workspace_bytes;
    if (i.rank == 0 && i.micro == 0 && i.op == Opcode::forward)
      for (const BufferBytes& b : i.allocates) one_more += b.bytes;
  }
  const int64_t resident = kPartRows * 16 * 16, saved = 16 * kPartRows * 4 + 16 * 4, partial = 2 * kRows + 16 * 24,
                factors = 16 * 8;
  for (size_t d = 0; d + 1 < kDevices; ++d) {
    const int64_t more = after.peak[d][0] - before.peak[d][0];
    EXPECT_LE(more, resident + one_more + 2 * (saved + kRows + factors) + 2 * partial + workspace) << d;
    EXPECT_GE(more, resident) << d;
  }
}

TEST(SpreadHead, RefusesWhatItDoesNotSpread) {
  const auto refusal = [](const SpreadCase& c) {
    try {
      spread_head(c.spec, c.at);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const auto changed = [&](auto change) {
    SpreadCase c = spread_case(2, 4, 40);
    change(c);
    return refusal(c);
  };
  EXPECT_EQ(changed([](SpreadCase&) {}), "taken");
  const auto expect = [](const std::string& said, const std::string& reason) {
    EXPECT_NE(said.find(reason), std::string::npos) << said;
  };
  expect(changed([](SpreadCase& c) { std::get<HeadSpec>(c.spec.units.back().spec).tied = true; }),
         "the head's matrix is the embedding's table");
  expect(changed([](SpreadCase& c) { c.spec.units.back().frozen = true; }), "the head is frozen");
  expect(changed([](SpreadCase& c) { c.at.shape.schedule = PipelineSchedule::gpipe; }), "the schedule is not 1f1b");
  expect(changed([](SpreadCase& c) { c.at.mesh.data = 2; }), "a stage has several ranks");
  expect(changed([](SpreadCase& c) { c.at.mesh.tensor = 2; }), "a stage has several ranks");
  expect(changed([](SpreadCase& c) { c.at.layers[1].strategy.zero = 1; }), "a layer has ZeRO");
  expect(changed([](SpreadCase& c) { c.at.layers[1].strategy.activations = Tier::host; }),
         "activations off the device");
  expect(refusal(spread_case(1, 4, 40)), "there is one device");
}

// --- what the validator finds in a spread head ---

Program small_spread() {
  const SpreadCase c = spread_case(2, 2, 40, {}, 1);  // units: embedding, 2 · 2, norm (5), parts (6, 7)
  return spread_head(c.spec, c.at);
}
Instruction& instruction_at(Program& p, Opcode op, int unit, int micro) {
  const auto it = std::ranges::find_if(
      p.instructions, [&](const Instruction& i) { return i.op == op && i.unit == unit && i.micro == micro; });
  TERN_CHECK(it != p.instructions.end(), "no {} unit {} micro {}", name_of(op), unit, micro);
  return *it;
}

TEST(SpreadHead, TheValidatorFindsWhatIsNotJoined) {
  Program p = small_spread();
  EXPECT_EQ(validate(p), std::vector<std::string>{});
  std::erase(instruction_at(p, Opcode::backward_input, 7, 1).reads, Buffer{BufferKind::output, 6, 1});
  expect_fault(p, "BACKWARD_INPUT unit 7 micro 1: does not read output(unit 6, micro 1)");
  p = small_spread();
  instruction_at(p, Opcode::backward_input, 7, 0).unit = 6;
  expect_fault(p, "on rank 1; the unit began on rank 0");
  p = small_spread();
  std::swap(instruction_at(p, Opcode::backward_input, 7, 0), instruction_at(p, Opcode::backward_input, 5, 0));
  expect_fault(p, "BACKWARD_INPUT unit 5 micro 0: comes before BACKWARD_INPUT unit 7 micro 0");
  p = small_spread();
  std::erase(instruction_at(p, Opcode::forward, 6, 0).reads, Buffer{BufferKind::output, 5, 0});
  expect_fault(p, "FORWARD unit 6 micro 0: does not read output(unit 5, micro 0)");
  p = small_spread();
  std::erase(instruction_at(p, Opcode::backward_weight, 6, 1).reads, Buffer{BufferKind::gradient, 6, 1});
  expect_fault(p, "BACKWARD_WEIGHT unit 6 micro 1: does not read gradient(unit 6, micro 1)");
}

TEST(SpreadHead, TheValidatorFindsPartsThatAreMissingOrElsewhere) {
  Program p = small_spread();
  p.head_parts = 1;
  expect_fault(p, "a head in 1 parts on 2 ranks");
  p = small_spread();
  p.head_parts = 0;
  EXPECT_NE(validate(p), std::vector<std::string>{}) << "the same list without parts is no chain of units";
  p = small_spread();
  for (Instruction& i : p.instructions)
    if (i.unit >= 6) i.unit = 13 - i.unit;
  expect_fault(p, "part 0 of the head is on rank 1");
  p = small_spread();
  instruction_at(p, Opcode::backward_weight, 6, 1).op = Opcode::join;
  expect_fault(p, "no BACKWARD_WEIGHT unit 6 micro 1");
}

TEST(SpreadHead, HasItsOwnChecksum) {
  const Program p = small_spread();
  Program q = p;
  q.head_parts = 0;
  EXPECT_NE(checksum(p), checksum(q));
  EXPECT_EQ(recompute_early(p, 0).head_parts, 2);
}

}  // namespace
}  // namespace tern
