// State, gradients and weights that ranks share out (ZeRO): the bits of ranks that keep a copy each, with every update rule, and
// the bytes that the Program says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/ranks_testing.h"
#include "exec/executor_testing.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"
#include "spec/sum_order.h"
#include "update/norm.h"
#include "update/update_unit.h"

namespace tern {
namespace {

constexpr int kZeroMicro = 4;

// This rank's part of a tensor into the whole one.
void put(NamedBits& whole, const std::string& name, const Tensor& own, int64_t begin, int64_t elements) {
  if (own.empty()) return;
  const int64_t size = size_of(own.dtype());
  std::vector<std::byte>& bytes = whole[name];
  bytes.resize(static_cast<size_t>(elements * size));
  std::memcpy(bytes.data() + begin * size, own.data(), static_cast<size_t>(own.bytes()));
}

void put_state(NamedBits& whole, const Bench& run) {
  const OptimizerState& o = run.state;
  for (size_t p = 0; p < o.infos.size(); ++p) {
    const ParameterForm& form = o.forms[p];
    const Interval mine = o.shares.mine(p, form.elements());
    put(whole, o.infos[p].name, o.master[p], mine.begin, form.elements());
    for (size_t s = 0; s < o.slots.size(); ++s) {
      const StateSlot& slot = row_of(run.config.rule).slots[s];
      put(whole, std::string(slot.name) + "." + o.infos[p].name, o.slots[s][p],
          slot_part(run.config, slot, form, mine).begin, slot_elements(run.config, slot, form));
    }
  }
}

// What all ranks together send, from the Program alone.
int64_t all_sent(const Program& p, int64_t ranks) {
  int64_t bytes = 0;
  for (const Instruction& i : p.instructions) {
    if (i.axis == MeshAxis::none) continue;
    const int64_t refusal = i.op == Opcode::norm ? 8 : 0;
    bytes += (ranks - 1) * ((i.op == Opcode::reduce ? 2 : 1) * (i.message_bytes - refusal) + ranks * refusal);
  }
  return bytes;
}

struct ZeroResult {
  NamedBits state;
  double loss = 0, norm = 0;
  int64_t state_bytes = 0, weight_bytes = 0;  // of all ranks, after the last step
};

ZeroResult run(const Case& c, const UpdateConfig& config, int zero, int ranks, int steps,
               Recompute recompute = Recompute::none) {
  ZeroResult ran;
  int64_t sent = 0, want_sent = 0;
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Bench run(c, config, zero, comm.rank(), ranks);
    const int64_t each = std::ssize(c.micro) / ranks;
    const RankShare share = keep_share(run, comm.rank(), ranks);
    Placement placed = placement_of(run.spec, share.costs, recompute);
    placed.mesh.data = ranks, placed.groups = zero >= 2 ? 1 : static_cast<int>(each), placed.update = config;
    for (PlacedLayer& l : placed.layers) l.strategy.zero = zero;
    const Program p = lower(run.spec, placed, 0);
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    put_weights_at(*run.update, WeightPoint::computing);
    for (int step = 1; step <= steps; ++step) {
      begin_step(*run.update, step, [](int64_t) { return 1e-2; });
      const ExecuteResult r = execute(p, input_of(run, c, share, comm));
      ASSERT_EQ(describe_mismatches(r), "");
      ran.norm = r.update->gradient_norm;
      const std::vector<double> losses = comm.gather(r.losses);
      if (comm.rank() > 0) continue;
      ran.loss = 0;
      for (const double loss : losses) ran.loss += loss;
    }
    sent += comm.bytes().sent;
    want_sent = steps * (all_sent(p, ranks) + int64_t{8} * (ranks - 1) * ranks * each);  // the losses too
    NamedBits own;
    put_state(own, run);
    if (zero == 0 && !ran.state.empty()) { EXPECT_TRUE(own == ran.state) << "copies differ on rank " << comm.rank(); }
    put_state(ran.state, run);
    const MemoryBytes now = run.arena.current();
    ran.state_bytes += now[static_cast<size_t>(MemoryClass::optimizer)];
    ran.weight_bytes += now[static_cast<size_t>(MemoryClass::weights)];
    EXPECT_EQ(now[static_cast<size_t>(MemoryClass::activations)], 0) << "what was gathered has ended";
  });
  EXPECT_EQ(sent, want_sent);
  return ran;
}

Case with_micro(Case c, int micros = kZeroMicro) {
  c.micro = std::vector<int64_t>(static_cast<size_t>(micros), 1);
  return c;
}

template <class T>
void add_to(const Tensor& from, const Tensor& to) {
  for (int64_t i = 0; i < to.count(); ++i) to.span<T>()[i] += from.span<T>()[i];
}
void add_to(const Tensor& from, const Tensor& to) {
  to.dtype() == DType::f64 ? add_to<double>(from, to) : add_to<float>(from, to);
}

// One rank, by plain loops: each micro-batch of all ranks as a tree of its own, added to the sum of those before.
ZeroResult replay_micro_major(const Case& c, const UpdateConfig& config, int ranks, int steps) {
  Bench run(c, config);
  ZeroResult ran;
  const int each = static_cast<int>(c.micro.size()) / ranks;
  int64_t targets = 0;
  for (const MicroBatch& b : run.batches) targets += b.num_targets();
  Placement one = placement_of(run.spec, {run.costs.data(), 1}, Recompute::none);
  one.update = config;
  Program p = lower(run.spec, one, 0);
  std::erase_if(p.instructions, [](const Instruction& i) { return i.op == Opcode::norm || i.op == Opcode::update; });
  const std::vector<Tensor>& gradients = run.update->gradients;
  Arena sums;
  const auto copied = [&] {
    std::vector<Tensor> copy;
    for (const Tensor& g : gradients) {
      copy.push_back(sums.allocate(g.dtype(), g.shape(), MemoryClass::gradients));
      std::memcpy(copy.back().data(), g.data(), static_cast<size_t>(g.bytes()));
      g.fill_zero();
    }
    return copy;
  };
  put_weights_at(*run.update, WeightPoint::computing);
  for (int step = 1; step <= steps; ++step) {
    std::vector<double> losses(c.micro.size());
    std::vector<Tensor> total = copied();  // zeros
    for (int m = 0; m < each; ++m) {
      std::vector<std::vector<Tensor>> leaves;
      for (int rank = 0; rank < ranks; ++rank) {
        const size_t k = static_cast<size_t>(rank * each + m);
        losses[k] = execute(p, {.spec = run.spec,
                                .weights = run.source,
                                .gradients = &run.gradients,
                                .micro_batches = {&run.batches[k], 1},
                                .loss_scale = 1.0 / static_cast<double>(targets),
                                .compute = {run.arena, c.multiply},
                                .update = &*run.update})
                        .losses[0];
        leaves.push_back(copied());
      }
      for (const TreePair& pair : tree_pairs(ranks))
        for (size_t t = 0; t < total.size(); ++t) add_to(leaves[pair.right][t], leaves[pair.left][t]);
      for (size_t t = 0; t < total.size(); ++t) add_to(leaves[0][t], total[t]);
    }
    for (size_t t = 0; t < total.size(); ++t)
      std::memcpy(gradients[t].data(), total[t].data(), static_cast<size_t>(total[t].bytes()));
    begin_step(*run.update, step, [](int64_t) { return 1e-2; });
    const UpdateNorm norm = gradient_norm(*run.update);
    for (int unit = 0; unit < static_cast<int>(run.spec.units.size()); ++unit)
      update_unit(*run.update, norm, unit, run.arena);
    ran.norm = norm.gradient_norm, ran.loss = 0;
    for (const double loss : losses) ran.loss += loss;
  }
  put_state(ran.state, run);
  return ran;
}

void expect_equal(const ZeroResult& got, const ZeroResult& want, const std::string& what) {
  EXPECT_EQ(got.loss, want.loss) << what;
  EXPECT_EQ(got.norm, want.norm) << what;
  EXPECT_EQ(got.state.size(), want.state.size()) << what;
  for (const auto& [name, bytes] : want.state)
    EXPECT_TRUE(got.state.contains(name) && got.state.at(name) == bytes) << what << ": " << name;
}

class ZeroOf : public testing::TestWithParam<Case> {};
std::vector<Case> zero_cases() {
  std::vector<Case> list;
  for (const Case& c : kCases)
    if (c.adapters < 0) list.push_back(with_micro(c));
  return list;
}
INSTANTIATE_TEST_SUITE_P(Cases, ZeroOf, testing::ValuesIn(zero_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

// Tied and untied tables, biases, experts, latent attention; more ranks than some units have blocks.
TEST_P(ZeroOf, OneHasTheBitsOfACopyOnEachRank) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  const ZeroResult want = run(GetParam(), config, 0, 1, 3);
  for (const int ranks : {2, 4}) expect_equal(run(GetParam(), config, 1, ranks, 3), want, std::to_string(ranks));
}

// Gradients summed over ranks with each micro-batch: the bits of a plain loop in that order, and with one micro-batch to a
// rank those of a copy on each.
TEST_P(ZeroOf, TwoHasTheBitsOfItsReplayOnOneRank) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  expect_equal(run(GetParam(), config, 2, 2, 3), replay_micro_major(GetParam(), config, 2, 3), "2 ranks");
  expect_equal(run(GetParam(), config, 2, 4, 3), run(GetParam(), config, 0, 4, 3), "a copy on each");
}

// Weights that come together for each pass through a layer, and end with it: the bits of a copy on each rank, recomputed too.
TEST_P(ZeroOf, ThreeHasTheBitsOfTwoAndKeepsWeightsOnce) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  for (const int ranks : {2, 4}) {
    const ZeroResult want = run(GetParam(), config, 2, ranks, 3);
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const ZeroResult got = run(GetParam(), config, 3, ranks, 3, recompute);
      expect_equal(got, want, std::to_string(ranks));
      const MemoryBytes one = Bench(GetParam(), config).arena.current();
      const int64_t whole = one[static_cast<size_t>(MemoryClass::weights)];
      const int64_t fixed = num_fixed_numbers(spec_of(GetParam())) * 4 * (ranks - 1);
      EXPECT_EQ(got.weight_bytes, whole + fixed);
    }
  }
  expect_equal(run(GetParam(), config, 3, 4, 3), run(GetParam(), config, 0, 4, 3), "a copy on each");
}

class ZeroOfSlow : public ZeroOf {};
INSTANTIATE_TEST_SUITE_P(Cases, ZeroOfSlow, testing::ValuesIn(zero_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(ZeroOfSlow, ThreeHasTheBitsOfTwoOnEightRanks) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  const Case one_each = with_micro(GetParam(), 8), two_each = with_micro(GetParam(), 16);
  const ZeroResult copies = run(one_each, config, 0, 8, 2), want = run(two_each, config, 2, 8, 2);
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    expect_equal(run(one_each, config, 3, 8, 2, recompute), copies, "a copy on each");
    expect_equal(run(two_each, config, 3, 8, 2, recompute), want, "two micro-batches to a rank");
  }
}

TEST_P(ZeroOfSlow, TwoHasTheBitsOfItsReplayOnFourAndEightRanksWithSeveralMicroBatches) {
  const UpdateConfig config = update_config(UpdateRule::adamw);
  for (const auto& [ranks, each] : {std::pair(4, 2), std::pair(4, 3), std::pair(8, 2), std::pair(8, 3)}) {
    const Case c = with_micro(GetParam(), ranks * each);
    expect_equal(run(c, config, 2, ranks, 2), replay_micro_major(c, config, ranks, 2),
                 std::to_string(each) + " micro-batches on each of " + std::to_string(ranks));
  }
}

TEST(Zero, ThreeHasTheBitsOfTwoWithEveryRule) {
  const Case wide = with_micro({"wide", DType::bf16, Multiply::fast, true, 160, 3, {}});
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig config = update_config(rule);
    expect_equal(run(wide, config, 3, 2, 1), run(wide, config, 2, 2, 1), std::string(name_of(rule)));
  }
}

TEST(Zero, ThreeIsRefusedByNameWhereItCannotBe) {
  const auto refusal = [](const ModelSpec& spec, std::vector<int> zero) -> std::string {
    try {
      make_shares(spec, UpdateRule::adamw, zero, 0, 2);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return e.what();
    }
    return "";
  };
  const ModelSpec tied = spec_of(kCases[5]), frozen = spec_of(kCases[16]);
  ASSERT_TRUE(tied.head().tied && frozen.units[1].frozen);
  EXPECT_NE(refusal(tied, {3, 3, 3, 3, 3, 0}).find("not 3 and 0: choose --zero 3"), std::string::npos);
  EXPECT_NE(refusal(tied, {0, 3, 3, 3, 3, 3}).find("not 0 and 3"), std::string::npos);
  EXPECT_EQ(refusal(tied, {3, 0, 1, 2, 3, 3}), "");
  EXPECT_NE(refusal(frozen, {0, 3, 0, 0, 0, 0}).find("unit 1 is frozen"), std::string::npos);
}

TEST(Zero, TwoHasTheBitsOfItsReplayWithEveryRule) {
  const Case wide = with_micro({"wide", DType::bf16, Multiply::fast, true, 160, 3, {}});
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig config = update_config(rule);
    expect_equal(run(wide, config, 2, 2, 1), replay_micro_major(wide, config, 2, 1), std::string(name_of(rule)));
  }
}

// Parameters of several blocks, so that ranks share one: norms, sums over parameters and over the model come in pieces.
TEST(Zero, OneHasTheBitsOfACopyWithEveryRule) {
  const Case wide = with_micro({"wide", DType::bf16, Multiply::fast, true, 256, 5, {}});
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig config = update_config(rule);
    const ZeroResult want = run(wide, config, 0, 1, 2), got = run(wide, config, 1, 2, 2);
    expect_equal(got, want, std::string(name_of(rule)));
    EXPECT_EQ(got.state_bytes, want.state_bytes) << "shared out, nothing is kept twice";
  }
}

// Numbers of ranks that are no powers of two, and eight: the bits of one, and nothing is kept twice. Matrices of several blocks where a rule may cut
// them; rules that make bases are slow, and take two numbers alone.
TEST(ZeroSlow, OneToEightRanksHaveTheBitsOfACopyWithEveryRule) {
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig config = update_config(rule);
    const bool cuts = row_of(rule).grain({ParameterKind::matrix, 256, 516}) == UpdateGrain::interval;
    const bool bases = std::ranges::count(row_of(rule).options, std::string_view("basis-every"), &RuleOption::name) > 0;
    for (const int ranks : bases ? std::vector{3, 8} : std::vector{3, 5, 6, 7, 8}) {
      const bool large = cuts && (ranks == 3 || ranks == 8 || rule == UpdateRule::adamw);
      Case wide = with_micro({"wide", DType::f32, Multiply::fast, true, large ? 256 : 64, 3, {}}, ranks);
      wide.layers = 1;
      const int steps = large ? 1 : 2;
      const ZeroResult want = run(wide, config, 0, 1, steps), got = run(wide, config, 1, ranks, steps);
      expect_equal(got, want, std::string(name_of(rule)) + " on " + std::to_string(ranks));
      EXPECT_EQ(got.state_bytes, want.state_bytes) << name_of(rule) << " on " << ranks;
      // Without owners every rank makes the bases: the same ones.
      if (bases) expect_equal(run(wide, config, 0, ranks, steps), want, std::string(name_of(rule)) + ", copies");
    }
  }
}

TEST(ZeroSlow, RulesThatMakeBasesHaveTheBitsOfACopyOnFiveToSevenRanksToo) {
  for (const UpdateRule rule : kUpdateRules) {
    if (std::ranges::count(row_of(rule).options, std::string_view("basis-every"), &RuleOption::name) == 0) continue;
    const UpdateConfig config = update_config(rule);
    for (const int ranks : {5, 6, 7}) {
      Case narrow = with_micro({"narrow", DType::f32, Multiply::fast, true, 32, 3, {}}, ranks);
      narrow.layers = 1;
      const ZeroResult want = run(narrow, config, 0, 1, 2), got = run(narrow, config, 1, ranks, 2);
      expect_equal(got, want, std::string(name_of(rule)) + " on " + std::to_string(ranks));
      EXPECT_EQ(got.state_bytes, want.state_bytes) << name_of(rule) << " on " << ranks;
    }
  }
}

TEST(Zero, OneHasTheBitsOfACopyInEveryType) {
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Case wide = with_micro({"wide", dtype, Multiply::fast, tied, 160, 3, {}});
      for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::lamb}) {
        const UpdateConfig config = update_config(rule);
        expect_equal(run(wide, config, 1, 4, 1), run(wide, config, 0, 1, 1),
                     std::string(name_of(dtype)) + " " + std::string(name_of(rule)));
      }
    }
}

}  // namespace
}  // namespace tern
