// Steps without backward passes: two forwards at moved weights, and weights that come from a file unit by unit.
#include <gtest/gtest.h>

#include <cmath>

#include "base/bug.h"
#include "exec/executor_testing.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "program/two_forwards.h"
#include "program/validate.h"
#include "spec/recompute.h"
#include "store/scratch_testing.h"
#include "tensor/bytes_of.h"
#include "update/perturbed_weights.h"

namespace tern {
namespace {

UpdateConfig plain_sgd(double momentum = 0) {
  UpdateConfig config = update_config(UpdateRule::sgd, {{"momentum", momentum}, {"weight-decay", 0.1}});
  config.clip = 0;
  return config;
}

// Without gradients.
struct ZerothBench : Bench {
  ZerothBench(const Case& c, const UpdateConfig& rule) : Bench(c, rule) {
    gradients = empty_weights(spec);
    update.emplace(make_update_pass(spec, state, config, weights, gradients));
    update->weight_dtype = c.dtype;
  }
  std::vector<MicroBatch> batches_twice() const {
    std::vector<MicroBatch> twice;
    for (int pass = 0; pass < 2; ++pass)
      for (const MicroBatch& b : batches) twice.emplace_back(b.tokens, b.rows.starts, b.targets, b.rows.rope);
    return twice;
  }
};

// Its layers' weights, and all slots, lie in a file.
struct StreamedBench : ZerothBench {
  std::unique_ptr<StoredStates> states;
  StreamedBench(const Case& c, const UpdateConfig& rule) : ZerothBench(c, rule) {
    std::vector<bool> in_file;
    for (const ParameterInfo& info : state.infos)
      in_file.push_back(spec.units[static_cast<size_t>(info.unit)].layer >= 0);
    StoredLayout layout = stored_layout(state.forms, config, c.dtype, kUpdateBlock, in_file);
    OpenedScratch file{std::make_unique<MemoryScratch>(layout.file_bytes, kStoredAlignment), ReadWay::direct, ""};
    states = std::make_unique<StoredStates>(std::move(file), std::move(layout), StoredPassage{kUpdateBlock}, arena);
    const std::vector<Tensor*> resident = trained_tensors(spec, weights);
    std::vector<size_t> order;
    for (size_t p = 0; p < state.infos.size(); ++p) {
      if (!states->layout().parameters[p].fields.empty()) order.push_back(p);
      for (std::vector<Tensor>& slot : state.slots) slot[p] = {};
      if (!in_file[p]) continue;
      states->write(p, kMasterField, bytes_of(state.master[p]));
      state.master[p] = {}, *resident[p] = {}, update->weights[p] = {};
    }
    states->begin(order);
  }
};

struct Slope {
  double value;
  std::vector<double> losses;
};
Slope take_step(ZerothBench& run, const Case& c, PerturbedWeights& moved, int64_t step, double distance) {
  const std::vector<MicroBatch> all = run.batches_twice();
  const Program p = two_forwards(run.spec, run.costs);
  const auto micros = std::ssize(run.batches);
  moved.begin_pass(step, micros);
  const ExecuteResult r = execute(p, {.spec = run.spec,
                                      .weights = moved,
                                      .micro_batches = all,
                                      .compute = {.arena = run.arena, .multiply = c.multiply}});
  EXPECT_EQ(describe_mismatches(r), "");
  EXPECT_EQ(r.bytes.peak_bytes, simulate(p).ranks[0].peak_bytes);
  Slope slope{0, r.losses};
  for (std::ptrdiff_t m = 0; m < micros; ++m)
    slope.value += r.losses[static_cast<size_t>(m)] - r.losses[static_cast<size_t>(micros + m)];
  slope.value /= 2 * distance;
  begin_step(*run.update, step, [](int64_t n) { return 1e-5 * static_cast<double>(n); });
  moved.end_pass(slope.value);
  return slope;
}

// Every element by the direction's plain twin.
void move_all(Bench& run, const Direction& d, double scale) {
  const std::vector<Tensor*> weights = trained_tensors(run.spec, run.weights);
  for (size_t p = 0; p < weights.size(); ++p)
    for (int64_t i = 0; i < weights[p]->count(); ++i) {
      const double z = scale * direction_at(d, run.state.infos[p].name, i);
      const auto at = static_cast<size_t>(i);
      const Tensor& master = run.state.master[p];
      if (weights[p]->dtype() == DType::f64)
        weights[p]->span<double>()[at] += z;
      else if (weights[p]->dtype() == DType::f32)
        weights[p]->span<float>()[at] = static_cast<float>(weights[p]->span<float>()[at] + z);
      else
        weights[p]->span<bf16>()[at] = to_bf16(static_cast<float>(master.span<float>()[at] + z));
    }
}

TEST(ZerothOrder, ThePassesAreThoseOfWeightsThatWereMovedByHandInThePredictedBytes) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    constexpr double kDistance = 1e-2;
    ZerothBench run(c, plain_sgd());
    const Program p = two_forwards(run.spec, run.costs);
    EXPECT_EQ(validate(p, ProgramKind::forward), std::vector<std::string>{});
    const int64_t before = run.arena.current_total();
    PerturbedWeights moved(run.spec, run.weights, *run.update, {kDistance, 5}, nullptr, run.arena);
    EXPECT_EQ(run.arena.current_total() - before, perturbed_bytes(run.spec, c.dtype));
    const std::vector<std::byte> first = bits(run.spec, run.weights);
    const Slope slope = take_step(run, c, moved, 3, kDistance);
    EXPECT_TRUE(bits(run.spec, run.weights) == first) << "the passes moved the weights themselves";
    for (const double sign : {1.0, -1.0}) {
      Bench hand(c, plain_sgd());
      move_all(hand, {5, 3}, sign * kDistance);
      const ExecuteResult want =
          execute(forward_program(hand.spec, hand.costs), {.spec = hand.spec,
                                                           .weights = hand.weights,
                                                           .micro_batches = hand.batches,
                                                           .compute = {.arena = hand.arena, .multiply = c.multiply}});
      const size_t n = want.losses.size();
      for (size_t m = 0; m < n; ++m) EXPECT_EQ(slope.losses[sign > 0 ? m : n + m], want.losses[m]) << sign << " " << m;
    }
  }
}

// In f64: the slope is the gradient's part along the direction, and the step is SGD's along it.
TEST(ZerothOrder, TheSlopeIsTheGradientAlongTheDirectionAndTheStepFollowsIt) {
  for (const Case& c : kCases) {
    if (c.dtype != DType::f64) continue;
    SCOPED_TRACE(c.name);
    constexpr double kDistance = 1e-5;
    Bench exact(c);
    exact.add_gradients(training_program(exact.spec, exact.costs, Recompute::none), c.multiply);
    ZerothBench run(c, plain_sgd());
    PerturbedWeights moved(run.spec, run.weights, *run.update, {kDistance, 5}, nullptr, run.arena);
    const double slope = take_step(run, c, moved, 1, kDistance).value;
    moved.settle(run.arena);
    const std::vector<Tensor*> gradients = trained_tensors(exact.spec, exact.gradients);
    const std::vector<Tensor*> first = trained_tensors(exact.spec, exact.weights);
    const std::vector<Tensor*> now = trained_tensors(run.spec, run.weights);
    double along = 0, length = 0;
    for (size_t p = 0; p < now.size(); ++p) {
      const ParameterInfo& info = run.state.infos[p];
      for (int64_t i = 0; i < now[p]->count(); ++i) {
        const auto at = static_cast<size_t>(i);
        const double z = direction_at({5, 1}, info.name, i), w = first[p]->span<double>()[at];
        along += gradients[p]->span<double>()[at] * z;
        length += std::abs(gradients[p]->span<double>()[at] * z);
        const double want = w - 1e-5 * (slope * z + (info.decay ? 0.1 : 0.0) * w);
        EXPECT_NEAR(now[p]->span<double>()[at], want, 1e-14 + 1e-13 * std::abs(w)) << info.name << " " << i;
      }
    }
    EXPECT_NEAR(slope, along, 1e-6 * length);
  }
}

// Several steps, with rules that keep nothing and that keep much; a file's part is read and written once for each pass and for settle.
TEST(ZerothOrder, WeightsFromAFileGiveTheBitsOfWeightsInMemory) {
  std::vector<Case> cases;
  for (const Case& c : kCases)
    if (c.dtype != DType::bf16 && c.adapters < 0) cases.push_back(c);
  cases.push_back({"several_parts", DType::f32, Multiply::exact, false, 256, 5, {1}, false, false, false, -1, 1});
  UpdateConfig adamw = update_config(UpdateRule::adamw);
  adamw.clip = 0;
  for (const Case& c : cases)
    for (const UpdateConfig& rule : {plain_sgd(), plain_sgd(0.9), adamw}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::string(name_of(rule.rule)));
      constexpr double kDistance = 1e-3;
      constexpr int64_t kSteps = 3;
      ZerothBench memory(c, rule);
      StreamedBench file(c, rule);
      std::vector<bool> units;
      for (const Unit& unit : file.spec.units) units.push_back(unit.layer >= 0);
      PerturbedWeights kept(memory.spec, memory.weights, *memory.update, {kDistance, 5}, nullptr, memory.arena);
      const int64_t before = file.arena.current_total();
      PerturbedWeights lent(file.spec, file.weights, *file.update, {kDistance, 5}, file.states.get(), file.arena);
      EXPECT_EQ(file.arena.current_total() - before, perturbed_bytes(file.spec, c.dtype, units));
      for (int64_t step = 1; step <= kSteps; ++step) {
        const Slope want = take_step(memory, c, kept, step, kDistance), got = take_step(file, c, lent, step, kDistance);
        EXPECT_EQ(got.losses, want.losses) << "step " << step;
        kept.settle(memory.arena);
      }
      lent.settle(file.arena);
      EXPECT_EQ(file.states->counts().used_bytes, (kSteps + 1) * file.states->layout().state_bytes);
      const std::vector<Tensor*> all = trained_tensors(memory.spec, memory.weights);
      for (size_t p = 0; p < all.size(); ++p) {
        const bool stored = file.states->field(p, kMasterField) != nullptr;
        const Tensor got = stored ? lent.read(p) : file.state.master[p];
        ASSERT_EQ(got.bytes(), all[p]->bytes());
        EXPECT_EQ(std::memcmp(got.data(), all[p]->data(), static_cast<size_t>(got.bytes())), 0)
            << file.state.infos[p].name;
      }
      lent.begin_reading();
      const Program p = forward_program(memory.spec, memory.costs);
      const auto loss_of = [&](Bench& run, WeightSource weights) {
        return execute(p, {.spec = run.spec,
                           .weights = weights,
                           .micro_batches = run.batches,
                           .compute = {.arena = run.arena, .multiply = c.multiply}})
            .losses;
      };
      EXPECT_EQ(loss_of(file, lent), loss_of(memory, memory.weights)) << "as they are";
    }
}

TEST(ZerothOrder, UnitsComeInTheirOrderAndAsOftenAsWasSaid) {
  const Case& c = kCases[1];
  ZerothBench run(c, plain_sgd());
  PerturbedWeights moved(run.spec, run.weights, *run.update, {1e-3, 5}, nullptr, run.arena);
  moved.begin_pass(1, 1);
  EXPECT_THROW(moved.acquire(1), Bug);
  const auto lend = [&] {
    moved.acquire(0);
    moved.release(0);
  };
  lend();
  EXPECT_THROW(moved.acquire(1), Bug) << "the first unit was lent once";
  lend();
  EXPECT_THROW(moved.acquire(0), Bug);
  EXPECT_THROW(moved.end_pass(0.5), Bug);
}

}  // namespace
}  // namespace tern
