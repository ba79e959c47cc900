// Simulated = predicted = counted bytes, instruction by instruction; recomputation changes no bit; micro-batches add
// up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bug.h"
#include "exec/executor_testing.h"
#include "model/visit_weights.h"
#include "model/weight_lender_testing.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Every instruction leases the weights of its unit and gives them back.
TEST(ExecutorWeights, ThatExistWhileTheyAreLeasedGiveTheBitsOfResidentOnes) {
  for (const Case& c : kCases) {
    if (c.dtype != DType::f32 || c.multiply != Multiply::exact) continue;
    SCOPED_TRACE(c.name);
    Bench resident(c), leased(c);
    const Program p = training_program(resident.spec, resident.costs, Recompute::attention);
    const double want = resident.add_gradients(p, c.multiply).loss_sum;
    CopyLender lender(leased.spec, leased.weights);
    leased.source = lender;
    EXPECT_EQ(leased.add_gradients(p, c.multiply).loss_sum, want);
    EXPECT_EQ(bits(leased.spec, leased.gradients), bits(resident.spec, resident.gradients));
    const auto has_lease = [](const Instruction& i) {
      return i.op == Opcode::forward || i.op == Opcode::recompute || i.op == Opcode::backward_input ||
             i.op == Opcode::backward_weight;
    };
    EXPECT_EQ(lender.num_leases, std::ranges::count_if(p.instructions, has_lease));
    EXPECT_EQ(lender.most_units, 1);
    EXPECT_TRUE(lender.all_released());
  }
}

TEST(ExecutorAdapters, AStepChangesTheAdaptersAndNothingElse) {
  for (const Case& c : kCases) {
    if (c.adapters < 0) continue;
    SCOPED_TRACE(c.name);
    Bench run(c);
    const auto bits_of = [](const std::vector<Tensor*>& all) {
      std::vector<std::vector<std::byte>> bits;
      for (const Tensor* t : all) {
        const auto* at = static_cast<const std::byte*>(t->data());
        bits.emplace_back(at, at + t->bytes());
      }
      return bits;
    };
    const auto frozen = bits_of(tensors(run.spec, run.weights));
    const auto trained = bits_of(trained_tensors(run.spec, run.weights));
    ASSERT_EQ(run.state.infos.size(), trained.size());
    const ExecuteResult result = run.execute_with(training_program(run.spec, run.costs, Recompute::none), c.multiply);
    ASSERT_TRUE(result.update);
    EXPECT_GT(result.update->gradient_norm, 0);
    EXPECT_EQ(bits_of(tensors(run.spec, run.weights)), frozen);
    const auto after = bits_of(trained_tensors(run.spec, run.weights));
    for (size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], trained[i]) << run.state.infos[i].name;
  }
}

class ExecutorBytes : public testing::TestWithParam<Case> {};

TEST_P(ExecutorBytes, CountedEqualPredictedAtEveryInstructionInEveryMode) {
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    Bench run(GetParam());
    const Program p = training_program(run.spec, run.costs, recompute);
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    const int64_t before = run.arena.current_total();
    const ExecuteResult result = run.execute_with(p, GetParam().multiply);
    EXPECT_EQ(describe_mismatches(result), "");
    const Simulation simulated = simulate(p);
    EXPECT_EQ(result.bytes.peak_bytes, simulated.ranks[0].peak_bytes);
    EXPECT_EQ(result.bytes.peak_buffers, simulated.ranks[0].peak_buffers);
    EXPECT_EQ(result.bytes.peak_workspace, simulated.ranks[0].peak_workspace);
    EXPECT_GT(result.bytes.peak_buffers, 0);
    EXPECT_EQ(run.arena.current_total(), before) << "something is still held";
    ASSERT_TRUE(result.update);
    EXPECT_GT(result.update->gradient_norm, 0);
    EXPECT_EQ(result.trace.size(), p.instructions.size());
  }
}

// What an UPDATE needs beside the state, too.
TEST(ExecutorRules, CountedEqualPredictedWithEveryUpdateRule) {
  for (const UpdateRule rule : kUpdateRules)
    for (const Case& c : {kCases[0], kCases[4]}) {
      SCOPED_TRACE(std::string(name_of(rule)) + " " + c.name);
      Bench run(c, update_config(rule));
      const Program p = training_program(run.spec, run.costs, Recompute::full, run.config);
      const ExecuteResult result = run.execute_with(p, c.multiply);
      EXPECT_EQ(describe_mismatches(result), "");
      EXPECT_EQ(result.bytes.peak_bytes, simulate(p).ranks[0].peak_bytes);
    }
}

TEST_P(ExecutorBytes, ForwardProgramsCountExactlyAndGiveTheSameLoss) {
  Bench run(GetParam());
  const ExecuteResult trained =
      run.add_gradients(training_program(run.spec, run.costs, Recompute::none), GetParam().multiply);
  const Program p = forward_program(run.spec, run.costs);
  const ExecuteResult result = execute(p, {.spec = run.spec,
                                           .weights = run.weights,
                                           .micro_batches = run.batches,
                                           .compute = {run.arena, GetParam().multiply}});
  EXPECT_EQ(describe_mismatches(result), "");
  EXPECT_EQ(result.num_targets, trained.num_targets);
  // The losses of the same logits, in another loop: f32 logits of a 67-word vocabulary.
  EXPECT_NEAR(result.loss_sum, trained.loss_sum, 1e-5 * trained.loss_sum);
}

TEST_P(ExecutorBytes, RecomputationChangesNoBitAndIsReallyDone) {
  std::vector<std::byte> want;
  double loss = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    Bench run(GetParam());
    const ExecuteResult result =
        run.add_gradients(training_program(run.spec, run.costs, recompute), GetParam().multiply, 0.125);
    const auto remade = std::count_if(result.trace.begin(), result.trace.end(),
                                      [](const TraceEvent& e) { return e.op == Opcode::recompute; });
    EXPECT_EQ(remade, static_cast<int>(recompute) * 2 * static_cast<int>(GetParam().micro.size()));
    if (recompute == Recompute::none) {
      want = bits(run.spec, run.gradients);
      loss = result.loss_sum;
      continue;
    }
    EXPECT_EQ(std::memcmp(&loss, &result.loss_sum, sizeof loss), 0);
    const std::vector<std::byte> got = bits(run.spec, run.gradients);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0)
        << name_of(Opcode::recompute) << " " << static_cast<int>(recompute);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExecutorBytes, testing::ValuesIn(kCases),
                         [](const auto& one) { return one.param.name; });

// The same twelve sequences as one micro-batch, as 5 + 5 + 2 and one by one: the gradients of one sum.
double relative_difference(DType dtype, std::vector<int64_t> micro) {
  const auto gradients = [&](std::vector<int64_t> sizes) {
    Bench run({"", dtype, dtype == DType::f64 ? Multiply::exact : Multiply::fast, false, 32, 9, std::move(sizes)});
    run.add_gradients(training_program(run.spec, run.costs, Recompute::none), Multiply::fast, 1.0 / 96);
    std::vector<double> all;
    for (const Tensor* t : trained_tensors(run.spec, run.gradients))
      for (int64_t i = 0; i < t->count(); ++i)
        all.push_back(dtype == DType::f64 ? t->span<double>()[i] : static_cast<double>(t->span<float>()[i]));
    return all;
  };
  const std::vector<double> whole = gradients({12}), parts = gradients(micro);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < whole.size(); ++i) difference += std::pow(whole[i] - parts[i], 2), norm += whole[i] * whole[i];
  EXPECT_GT(norm, 0);
  return std::sqrt(difference / norm);
}

TEST(Executor, MicroBatchesAddUp) {
  for (const auto& micro : {std::vector<int64_t>{5, 5, 2}, std::vector<int64_t>(12, 1)}) {
    EXPECT_LE(relative_difference(DType::f64, micro), 1e-12);
    EXPECT_LE(relative_difference(DType::f32, micro), 1e-5);
  }
}

TEST(Executor, AStepWithoutTargetsChangesNothing) {
  Bench run(kCases[0]);
  for (MicroBatch& batch : run.batches) std::fill(batch.targets.begin(), batch.targets.end(), -1);
  const std::vector<std::byte> before = bits(run.spec, run.weights);
  const ExecuteResult result =
      run.execute_with(training_program(run.spec, run.costs, Recompute::none), Multiply::fast, 0.0);
  EXPECT_EQ(result.num_targets, 0);
  EXPECT_FALSE(result.update);
  EXPECT_TRUE(bits(run.spec, run.weights) == before);
}

TEST(Executor, CallsOnTheWayComeInOrderAndSeeTheGradients) {
  for (const Case& c : {kCases[1], kCases[5]}) {  // with a tied table, too
    Bench run(c), plain(c);
    const Program p = training_program(run.spec, run.costs, Recompute::none);
    const std::vector<std::byte> zeros = bits(run.spec, run.gradients);
    std::string order;
    std::vector<std::byte> after, between;
    const StepCalls calls{.before = [&](size_t micro) { order += fmt::format("b{} ", micro); },
                          .after =
                              [&](size_t micro) {
                                order += fmt::format("a{} ", micro);
                                after = bits(run.spec, run.gradients);
                              },
                          .between = [&] { order += "n", between = bits(run.spec, run.gradients); }};
    run.execute_with(p, c.multiply, 1.0, &calls);
    std::string want;
    for (int m = 0; m < p.num_micro; ++m) want += fmt::format("b{} a{} ", m, m);
    EXPECT_EQ(order, want + "n");
    EXPECT_NE(after, zeros);
    EXPECT_EQ(after, between);
    plain.execute_with(p, c.multiply);
    EXPECT_EQ(bits(run.spec, run.weights), bits(plain.spec, plain.weights));
    EXPECT_THROW(
        {
          Program q = p;
          std::erase_if(q.instructions, [](const Instruction& i) { return i.op == Opcode::norm; });
          run.execute_with(q, c.multiply, 1.0, &calls);
        },
        Bug);
    ASSERT_GT(p.num_micro, 1);
    Program forwards_first = p;
    std::ranges::stable_partition(forwards_first.instructions,
                                  [](const Instruction& i) { return i.op == Opcode::forward; });
    EXPECT_THROW(run.execute_with(forwards_first, c.multiply, 1.0, &calls), Bug);
  }
}

TEST(Executor, RefusesATiedTableThatIsNotJoined) {
  Bench run(kCases[5]);
  ASSERT_TRUE(run.spec.head().tied);
  Program p = training_program(run.spec, run.costs, Recompute::none);
  std::erase_if(p.instructions, [](const Instruction& i) { return i.op == Opcode::reduce; });
  EXPECT_THROW(run.execute_with(p, Multiply::fast), Bug);
}

TEST(Executor, ReportsBytesThatAreNotAsTheProgramSays) {
#ifdef NDEBUG
  Bench run(kCases[0]);
  Program p = training_program(run.spec, run.costs, Recompute::none);
  p.instructions[2].allocates[0].bytes += 4;
  const ExecuteResult result = run.execute_with(p, Multiply::fast);
  ASSERT_FALSE(result.mismatches.empty());
  EXPECT_EQ(result.mismatches[0].place, 2u);
  EXPECT_NE(describe_mismatches(result).find("[2] FORWARD unit 2 micro 0"), std::string::npos)
      << describe_mismatches(result);
#else
  GTEST_SKIP() << "debug builds stop at a mismatch";
#endif
}

}  // namespace
}  // namespace tern
