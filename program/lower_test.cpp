#include "program/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/bug.h"
#include "base/json.h"
#include "program/simulate_ranks.h"
#include "program/trace.h"
#include "program/validate_ranks.h"

namespace tern {
namespace {

using Int = int64_t;
using Ints = std::vector<int64_t>;

constexpr auto& kAll = kPipelineSchedules;

// Which parts of a cost vector a random instance has.
struct Parts {
  bool host = false, sync = false, step = true;
};

struct Draw {
  std::mt19937_64 random;
  Int up_to(Int n) { return static_cast<Int>(random() % static_cast<uint64_t>(n + 1)); }
  bool one_in(int n) { return up_to(n - 1) == 0; }
  // Often nothing: units without an input gradient, without weights, without recomputation are ordinary.
  Int maybe(Int n) { return one_in(3) ? 0 : up_to(n); }

  CostVector cost(const Parts& parts) {
    CostVector c{.forward = up_to(30), .backward = up_to(40), .weight = maybe(30), .recompute = maybe(20)};
    if (parts.host) c.host_forward = maybe(60), c.host_backward = maybe(90);
    c.entry_forward = maybe(15);
    c.entry_backward = maybe(15);
    if (parts.step) c.begin = maybe(20), c.update = maybe(40);
    if (parts.sync) c.sync = maybe(80);
    for (int tier = 0; tier < kTiers; ++tier) {
      c.persistent[tier] = maybe(1000);
      c.held[tier] = maybe(100);
    }
    c.held_weight = maybe(150);
    c.transient = maybe(300);
    return c;
  }

  std::vector<std::vector<EdgeCost>> edges(const Instance& in, Int most) {
    std::vector<std::vector<EdgeCost>> all;
    for (size_t u = 0; u + 1 < in.cost.size(); ++u) {
      std::vector<EdgeCost> row(in.cost[u].size() * in.cost[u + 1].size());
      for (EdgeCost& e : row) e = {maybe(most), maybe(most)};
      all.push_back(row);
    }
    return all;
  }

  std::pair<Instance, Assignment> instance(PipelineSchedule s, const Parts& parts) {
    Instance in;
    in.schedule = s;
    in.num_stages = 1 + static_cast<int>(up_to(4));
    in.chunks_per_stage = s == PipelineSchedule::interleaved ? 1 + static_cast<int>(up_to(2)) : is_v_shaped(s) ? 2 : 1;
    in.num_micro = s == PipelineSchedule::interleaved ? in.num_stages * (1 + static_cast<int>(up_to(2)))
                                                      : 1 + static_cast<int>(up_to(9));
    const int stages = in.num_stages * in.chunks_per_stage;
    Assignment a;
    for (int stage = 0; stage < stages; ++stage)
      for (Int k = up_to(2); k >= 0; --k) {
        const int strategies = 1 + static_cast<int>(up_to(2));
        a.stage.push_back(stage);
        a.strategy.push_back(static_cast<int>(up_to(strategies - 1)));
        in.cost.emplace_back();
        for (int x = 0; x < strategies; ++x) in.cost.back().push_back(cost(parts));
      }
    in.within = edges(in, 10);
    in.across = edges(in, 50);
    in.capacity.assign(in.num_stages, TierBytes{});
    return {in, a};
  }
};

// The closed form: per device and tier, what persists and the order's peak.
std::vector<TierBytes> priced_peaks(const Instance& in, const Assignment& a) {
  const PipelineShape shape = shape_of(in);
  const PipelineOrder order = pipeline_order(shape, stage_times(in, a));
  std::vector<TierBytes> peak(in.num_stages, TierBytes{});
  for (int tier = 0; tier < kTiers; ++tier) {
    const int stages = shape.num_stages();
    Ints held(stages, 0), held_weight(stages, 0), transient(stages, 0);
    for (int u = 0; u < in.num_layers(); ++u) {
      const CostVector& c = in.cost[u][a.strategy[u]];
      const int s = a.stage[u];
      peak[device_of(shape, s)][tier] += c.persistent[tier];
      held[s] += c.held[tier];
      if (tier > 0) continue;
      if (splits_backward(in.schedule)) held_weight[s] += c.held_weight;
      transient[s] = std::max(transient[s], c.transient);
    }
    const Ints most = pipeline_peaks(shape, order, held, held_weight, transient);
    for (int d = 0; d < in.num_stages; ++d) peak[d][tier] += most[d];
  }
  return peak;
}

Int stage_grain(const Instance& in, const Assignment& a) {
  const PipelineTimes times = stage_times(in, a);
  return run_pipeline(shape_of(in), pipeline_order(shape_of(in), times), times).makespan;
}

std::string first_fault(const Program& p) {
  const std::vector<std::string> faults = validate_ranks(p);
  return faults.empty() ? "" : faults[0];
}

template <class Check>
void for_random(const Parts& parts, int each, uint64_t seed, Check check) {
  Draw draw{std::mt19937_64{seed}};
  for (int k = 0; k < each * 8; ++k) {
    const auto [in, a] = draw.instance(kAll[k % 8], parts);
    SCOPED_TRACE(std::string(name_of(in.schedule)) + " instance " + std::to_string(k) + " seed " +
                 std::to_string(seed));
    const Program p = lower(in, a);
    ASSERT_EQ(first_fault(p), "");
    check(in, a, p, simulate_ranks(p));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Lower, UnitByUnitEqualsTheStagesToThePicosecond) {
  const auto equal = [](const Instance& in, const Assignment& a, const Program&, const RanksSimulation& s) {
    ASSERT_EQ(s.makespan, stage_grain(in, a));
  };
  for_random({.host = false, .sync = false}, 50, 1, equal);
  for_random({.host = true, .sync = false}, 50, 2, equal);
  for_random({.host = false, .sync = true}, 50, 3,
             [&](const Instance& in, const Assignment& a, const Program& p, const RanksSimulation& s) {
               if (in.chunks_per_stage == 1) equal(in, a, p, s);
             });
}

// Where the gradient link has more time than the stages' formula sees, unit by unit is faster, never slower.
TEST(Lower, UnitByUnitIsNeverSlowerThanTheStages) {
  int faster = 0;
  for_random({.host = true, .sync = true}, 50, 4,
             [&](const Instance& in, const Assignment& a, const Program&, const RanksSimulation& s) {
               const Int stages = stage_grain(in, a);
               ASSERT_LE(s.makespan, stages);
               faster += s.makespan < stages;
             });
  EXPECT_GT(faster, 0);
}

TEST(Lower, ReplayedBytesEqualTheClosedFormOnEveryRankAndTier) {
  for_random({.host = true, .sync = true}, 100, 5,
             [](const Instance& in, const Assignment& a, const Program& p, const RanksSimulation& s) {
               const std::vector<TierBytes> want = priced_peaks(in, a);
               for (int rank = 0; rank < in.num_stages; ++rank)
                 for (int tier = 0; tier < kTiers; ++tier) {
                   ASSERT_EQ(s.peak[rank][tier], want[rank][tier]) << "rank " << rank << " tier " << tier;
                   Int persistent = 0;
                   for (const BufferBytes& b : p.resident[rank])
                     persistent += b.buffer.tier == static_cast<Tier>(tier) ? b.bytes : 0;
                   ASSERT_EQ(s.at_end[rank][tier], persistent);
                 }
             });
}

TEST(Lower, EqualStagesHoldWhatTheSheetSays) {
  // 1F1B, one layer a stage: persistent + in flight·held + transient, by hand.
  const int p = 4, m = 9;
  Instance in{.num_stages = p, .num_micro = m, .schedule = PipelineSchedule::one_f_one_b};
  const CostVector c{
      .forward = 3, .backward = 4, .weight = 2, .persistent = {1000, 50, 7}, .held = {10, 3, 0}, .transient = 5};
  in.cost.assign(p, {c});
  in.within = in.across = std::vector<std::vector<EdgeCost>>(p - 1, std::vector<EdgeCost>(1));
  const RanksSimulation s = simulate_ranks(lower(in, {{0, 1, 2, 3}, {0, 0, 0, 0}}));
  for (int i = 0; i < p; ++i) EXPECT_EQ(s.peak[i], (TierBytes{1000 + (p - i) * 10 + 5, 50 + (p - i) * 3, 7}));
  EXPECT_EQ(s.makespan, (m + p - 1) * 9);
}

// By hand: two stages, one micro-batch, everything once.
Instance small_instance() {
  Instance in{.num_stages = 2, .num_micro = 2, .schedule = PipelineSchedule::one_f_one_b};
  const CostVector c{.forward = 10,
                     .backward = 20,
                     .weight = 5,
                     .recompute = 10,
                     .sync = 7,
                     .update = 3,
                     .held = {10, 0, 0},
                     .transient = 2};
  in.cost.assign(4, {c});
  in.within = in.across = std::vector<std::vector<EdgeCost>>(3, std::vector<EdgeCost>(1, {1, 1}));
  return in;
}
Program small() { return lower(small_instance(), {{0, 0, 1, 1}, {0, 0, 0, 0}}); }

int find(const Program& p, const std::string& text, int rank) {
  for (size_t k = 0; k < p.instructions.size(); ++k)
    if (p.instructions[k].rank == rank && to_string(p.instructions[k]) == text) return static_cast<int>(k);
  ADD_FAILURE() << "no " << text << " on rank " << rank;
  return 0;
}

TEST(Lower, WritesTheStepOfASmallPipeline) {
  const Program p = small();
  std::string first, second;
  for (const Instruction& i : p.instructions) (i.rank == 0 ? first : second) += to_string(i) + "\n";
  EXPECT_EQ(
      second.substr(0, second.find("RECV output(unit 1, micro 1)")),
      "RECV output(unit 1, micro 0) from rank 0\nFORWARD unit 2 micro 0\nRESHARD unit 2 micro 0\n"
      "FORWARD unit 3 micro 0\nRECOMPUTE unit 3 micro 0\nBACKWARD_INPUT unit 3 micro 0\n"
      "BACKWARD_WEIGHT unit 3 micro 0\nRESHARD unit 2 micro 0\nRECOMPUTE unit 2 micro 0\n"
      "BACKWARD_INPUT unit 2 micro 0\nBACKWARD_WEIGHT unit 2 micro 0\nSEND gradient(unit 1, micro 0) to rank 0\n");
  EXPECT_NE(first.find("BACKWARD_WEIGHT unit 0 micro 1\nSCATTER unit 0 micro -1\nUPDATE\n"), std::string::npos)
      << first;
}

TEST(Lower, StoresWhatLiesOffTheDeviceBesideTheForwardAndLoadsItBack) {
  Instance in = small_instance();
  for (auto& row : in.cost) row[0].held = {10, 40, 0}, row[0].host_forward = 4, row[0].host_backward = 6;
  in.cost[3][0].held = {10, 0, 25};
  const Program p = lower(in, {{0, 0, 1, 1}, {0, 0, 0, 0}});
  ASSERT_EQ(first_fault(p), "");
  const int store = find(p, "STORE unit 3 micro 1", 1), load = find(p, "LOAD unit 3 micro 1", 1);
  const Buffer kept{BufferKind::held, 3, 1, Tier::disk};
  EXPECT_EQ(p.instructions[store].allocates[0].buffer, kept);
  EXPECT_EQ(p.instructions[store].allocates[0].bytes, 25);
  EXPECT_EQ(p.instructions[load].frees, std::vector{kept});
  EXPECT_EQ(p.instructions[load].resource, Resource::host_link);
  const RanksSimulation s = simulate_ranks(p);
  EXPECT_EQ(s.start[store], s.start[find(p, "FORWARD unit 2 micro 1", 1)] + 4);  // beside it, after unit 2's
  EXPECT_EQ(s.peak[0], (TierBytes{42, 160, 0}));
  EXPECT_EQ(s.peak[1], (TierBytes{22, 40, 25}));
}

TEST(Lower, TracesEveryRankOnItsOwnClocks) {
  Instance in = small_instance();
  for (auto& row : in.cost) row[0].host_forward = 4;
  const Program p = lower(in, {{0, 0, 1, 1}, {0, 0, 0, 0}});
  const RanksSimulation s = simulate_ranks(p);
  const Json json = parse_json(chrome_trace(trace_of(p, s), "predicted"), "trace");
  std::map<std::pair<int, int>, std::string> names;
  std::map<std::pair<int, int>, double> busy_until;
  size_t events = 0;
  for (const Json& e : json["traceEvents"]) {
    if (e["ph"] == "M" && e["name"] == "thread_name") names[{e["pid"], e["tid"]}] = e["args"]["name"];
    if (e["ph"] == "X") ++events;
  }
  EXPECT_EQ(events, p.instructions.size());
  const auto named = [&](const std::string& name) {
    return std::count_if(names.begin(), names.end(), [&](const auto& n) { return n.second == name; });
  };
  for (const char* name : {"compute", "host link", "gradient link"}) EXPECT_EQ(named(name), 2) << name;
  for (const char* name : {"link to rank 0", "link from rank 0", "link to rank 1", "link from rank 1"})
    EXPECT_EQ(named(name), 1) << name;
  Int most = 0;
  for (const TraceEvent& e : trace_of(p, s))
    if (e.rank == 0) most = std::max(most, e.peak_bytes);
  EXPECT_EQ(most, s.peak[0][0]);
}

// Mutations: each must be found, and by its sentence.
void expect_fault(const Program& p, const std::string& sentence) {
  const std::vector<std::string> faults = validate_ranks(p);
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [&](const std::string& f) { return f.find(sentence) != std::string::npos; }))
      << "wanted '" << sentence << "' among " << faults.size()
      << " faults, first: " << (faults.empty() ? "-" : faults[0]);
}
// Takes an instruction out; places in `waits` move with it.
void erase(Program& p, int place) {
  p.instructions.erase(p.instructions.begin() + place);
  for (Instruction& i : p.instructions) {
    std::erase(i.waits, place);
    for (int& w : i.waits) w -= w > place;
  }
}

TEST(ValidateRanks, FindsMessagesWithoutPartner) {
  Program p = small();
  erase(p, find(p, "SEND output(unit 1, micro 1) to rank 1", 0));
  expect_fault(p, "RECV output(unit 1, micro 1) from rank 0: no SEND for it");
  p = small();
  const int recv = find(p, "RECV gradient(unit 1, micro 0) from rank 1", 0);
  p.instructions[recv].allocates[0].buffer.micro = 1;
  expect_fault(p, "SEND gradient(unit 1, micro 0) to rank 0: no RECV for it");
  p = small();
  p.instructions[find(p, "SEND output(unit 1, micro 1) to rank 1", 0)].peer = 0;
  expect_fault(p, "peer 0 of 2 ranks");
}

TEST(ValidateRanks, FindsADeadlockAndNamesItsParties) {
  Program p = small();
  const int wait_on = find(p, "BACKWARD_WEIGHT unit 3 micro 1", 1);
  p.instructions[find(p, "FORWARD unit 1 micro 1", 0)].waits.push_back(wait_on);
  expect_fault(p, "deadlock: rank 0 at [");
  expect_fault(p, "FORWARD unit 1 micro 1, which waits for [" + std::to_string(wait_on) + "] BACKWARD_WEIGHT unit 3");
  expect_fault(p, "; rank 1 at [");
}

TEST(ValidateRanks, FindsBrokenLives) {
  Program p = small();
  const int last = find(p, "BACKWARD_WEIGHT unit 2 micro 0", 1);
  p.instructions[last].frees.clear();
  expect_fault(p, "held(unit 2, micro 0) is still alive at the end (rank 1)");
  p = small();
  p.instructions[last].frees.push_back(p.instructions[last].frees[0]);
  expect_fault(p, "frees held(unit 2, micro 0), which is not alive");
  p = small();
  p.instructions[last].allocates.push_back({{BufferKind::held, 2, 0}, 1});
  expect_fault(p, "allocates held(unit 2, micro 0), which is alive");
  p = small();
  p.instructions[find(p, "FORWARD unit 3 micro 0", 1)].reads.push_back({BufferKind::held, 2, 1});
  expect_fault(p, "reads held(unit 2, micro 1), which is not alive");
  p = small();
  p.instructions[last].frees.push_back({BufferKind::persistent, 2, -1});
  expect_fault(p, "frees persistent(unit 2, micro -1), which is not alive");
}

TEST(ValidateRanks, FindsAFreeBesideAReaderOnAnotherClock) {
  Program p = small();
  const int send = find(p, "SEND gradient(unit 1, micro 0) to rank 0", 1);
  p.instructions[send].frees.clear();
  const int next = find(p, "FORWARD unit 2 micro 1", 1);
  p.instructions[next].frees.push_back({BufferKind::gradient, 1, 0});
  expect_fault(p, "frees gradient(unit 1, micro 0), which [" + std::to_string(send) + "] may still read");
}

TEST(ValidateRanks, FindsWrongOrder) {
  const auto swapped = [](const std::string& a, const std::string& b, int rank) {
    Program p = small();
    std::swap(p.instructions[find(p, a, rank)], p.instructions[find(p, b, rank)]);
    return p;
  };
  expect_fault(swapped("FORWARD unit 2 micro 0", "FORWARD unit 3 micro 0", 1), "comes before FORWARD unit 2 micro 0");
  expect_fault(swapped("BACKWARD_INPUT unit 2 micro 0", "BACKWARD_INPUT unit 3 micro 0", 1),
               "comes before BACKWARD_INPUT unit 3 micro 0");
  expect_fault(swapped("RECOMPUTE unit 2 micro 0", "BACKWARD_INPUT unit 2 micro 0", 1),
               "comes after its BACKWARD_INPUT");
  expect_fault(swapped("BACKWARD_WEIGHT unit 3 micro 0", "BACKWARD_WEIGHT unit 3 micro 1", 1),
               "comes before BACKWARD_WEIGHT unit 3 micro 0");
  Program p = small();
  p.instructions[find(p, "FORWARD unit 2 micro 1", 1)].reads.clear();
  expect_fault(p, "does not read output(unit 1, micro 1), and its maker is on another rank");
  p = small();
  p.instructions[find(p, "BACKWARD_INPUT unit 1 micro 1", 0)].reads.clear();
  expect_fault(p, "does not read gradient(unit 1, micro 1), and its maker is on another rank");
}

TEST(ValidateRanks, FindsWhatIsMissingOrTwice) {
  Program p = small();
  erase(p, find(p, "BACKWARD_WEIGHT unit 3 micro 0", 1));
  expect_fault(p, "no BACKWARD_WEIGHT unit 3 micro 0");
  p = small();
  p.instructions[find(p, "RESHARD unit 2 micro 0", 1)] = p.instructions[find(p, "FORWARD unit 3 micro 1", 1)];
  expect_fault(p, "FORWARD unit 3 micro 1: a second time; first at [");
  p = small();
  erase(p, find(p, "UPDATE", 0));
  expect_fault(p, "no UPDATE on rank 0");
  p = small();
  p.instructions[find(p, "FORWARD unit 3 micro 1", 1)].rank = 0;
  expect_fault(p, "on rank 0; the unit began on rank 1");
}

TEST(ValidateRanks, FindsAStepThatEndsTooEarly) {
  Program p = small();
  p.instructions[find(p, "SCATTER unit 2 micro -1", 1)].waits.clear();
  expect_fault(p, "does not wait for BACKWARD_WEIGHT unit 2 micro 1");
  p = small();
  p.instructions[find(p, "UPDATE", 1)].waits.clear();
  expect_fault(p, "does not wait for the last SCATTER of rank 1");
  p = small();
  std::swap(p.instructions[find(p, "UPDATE", 0)], p.instructions[find(p, "SCATTER unit 0 micro -1", 0)]);
  expect_fault(p, "is not the last instruction of rank 0");
}

TEST(ValidateRanks, FindsFieldsOutOfRange) {
  const auto changed = [](auto change, const std::string& sentence) {
    Program p = small();
    change(p.instructions[find(p, "FORWARD unit 3 micro 0", 1)]);
    expect_fault(p, sentence);
  };
  changed([](Instruction& i) { i.unit = 4; }, "unit 4 of 4");
  changed([](Instruction& i) { i.micro = -1; }, "micro-batch -1 of 2");
  changed([](Instruction& i) { i.rank = 2; }, "rank 2 of 2");
  changed([](Instruction& i) { i.picoseconds = -1; }, "a negative cost");
  changed([](Instruction& i) { i.allocates.push_back({{BufferKind::saved, 3, 0}, -5}); }, "has -5 bytes");
  changed([](Instruction& i) { i.waits.push_back(1000); }, "waits for [1000], which is not there");
  Program p = small();
  p.resident.pop_back();
  expect_fault(p, "resident buffers of 1 ranks");
}

// By hand: what ends while something else begins. Compute 0–10, 10–30; the host link 10–15 beside it.
TEST(SimulateRanks, CountsWhatAnInstructionFreesUntilItsEnd) {
  Program p{.num_ranks = 1, .num_units = 1, .num_micro = 1};
  const Buffer x{BufferKind::held, 0, 0}, y{BufferKind::left, 0, 0}, kept{BufferKind::held, 0, 0, Tier::host};
  p.instructions = {
      {.op = Opcode::forward, .allocates = {{x, 100}}, .picoseconds = 10},
      {.op = Opcode::store, .resource = Resource::host_link, .reads = {x}, .allocates = {{kept, 60}}, .picoseconds = 5},
      {.op = Opcode::backward_input,
       .reads = {x},
       .allocates = {{y, 20}},
       .frees = {x},
       .workspace_bytes = 7,
       .picoseconds = 20,
       .waits = {1}},
      {.op = Opcode::backward_weight, .frees = {y, kept}, .workspace_bytes = 9, .picoseconds = 5},
      {.op = Opcode::update, .unit = -1, .micro = -1}};
  p.resident = {{{{BufferKind::persistent, 0, -1}, 1000}}};
  ASSERT_EQ(validate_ranks(p), std::vector<std::string>{});
  const RanksSimulation s = simulate_ranks(p);
  EXPECT_EQ(s.start, (Ints{0, 10, 15, 35, 40}));
  EXPECT_EQ(s.makespan, 40);
  EXPECT_EQ(s.peak[0], (TierBytes{1127, 60, 0}));
  EXPECT_EQ(s.at_end[0], (TierBytes{1000, 0, 0}));
}

TEST(SimulateRanks, RefusesWhatCannotRun) {
  Program p = small();
  p.instructions[0].waits.push_back(static_cast<int>(p.instructions.size()) - 1);
  EXPECT_THROW(simulate_ranks(p), Bug);
}

}  // namespace
}  // namespace tern
