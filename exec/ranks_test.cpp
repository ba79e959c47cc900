// Data parallelism: ranks as threads run the same Program on their share of the micro-batches. Under one order of sums any
// number of ranks has the same bits, and so has one rank that replays it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "comm/ranks_testing.h"
#include "exec/executor_testing.h"
#include "program/checksum.h"
#include "program/generate.h"
#include "program/link_bytes.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

constexpr int kDataParallelMicro = 8;

Placement placed(const ModelSpec& spec, const std::vector<CostQuery>& costs, int ranks, int groups) {
  Placement p = placement_of(spec, costs, Recompute::none);
  p.mesh.data = ranks, p.groups = groups;
  return p;
}

struct DataParallelResult {
  std::vector<std::byte> weights, state;
  double last_loss = 0;
};

std::vector<std::byte> bytes_of_state(const OptimizerState& state) {
  std::vector<std::byte> all;
  for (const auto& slot : state.slots)
    for (const Tensor& t : slot)
      all.insert(all.end(), static_cast<const std::byte*>(t.data()),
                 static_cast<const std::byte*>(t.data()) + t.bytes());
  return all;
}

// So many steps on each rank's share of the case's micro-batches; what every rank ends with.
DataParallelResult run_ranks_of(const Case& c, int ranks, int groups, int steps) {
  std::vector<DataParallelResult> all(static_cast<size_t>(ranks));
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    Bench run(c);
    const int64_t each = static_cast<int64_t>(c.micro.size()) / ranks;
    const RankShare share = keep_share(run, comm.rank(), ranks);
    const Program p = lower(run.spec, placed(run.spec, share.costs, ranks, groups / ranks), 0);
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    DataParallelResult& mine = all[static_cast<size_t>(comm.rank())];
    for (int step = 1; step <= steps; ++step) {
      run.update->step = step;
      const ExecuteResult r = execute(p, input_of(run, c, share, comm));
      ASSERT_EQ(describe_mismatches(r), "");
      ASSERT_EQ(r.losses.size(), static_cast<size_t>(each));
      LinkBytes want;
      for (const Instruction& i : p.instructions)
        want += link_bytes(i, size_of(run.state.master[0].dtype()), comm.rank(), ranks);
      EXPECT_EQ(r.links, want);
      EXPECT_EQ(r.links.sent > 0, ranks > 1);
      const std::vector<double> losses = comm.gather(r.losses);
      mine.last_loss = 0;
      for (const double loss : losses) mine.last_loss += loss;
    }
    mine.weights = bits(run.spec, run.weights);
    mine.state = bytes_of_state(run.state);
  });
  for (const DataParallelResult& r : all) {
    EXPECT_TRUE(r.weights == all[0].weights && r.state == all[0].state) << "ranks differ";
    EXPECT_EQ(r.last_loss, all[0].last_loss);
  }
  return all[0];
}

Case with_eight_micro(Case c) {
  c.micro = std::vector<int64_t>(kDataParallelMicro, 1);
  return c;
}

std::vector<Case> data_parallel_cases() {
  std::vector<Case> list;
  for (const Case& c : kCases)
    if (c.adapters <= 0) list.push_back(with_eight_micro(c));
  return list;
}

class DataParallel : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, DataParallel, testing::ValuesIn(data_parallel_cases()),
                         [](const auto& one) { return std::string(one.param.name); });

// Untied and tied tables, biases, experts, latent attention; f32, bf16, f64.
TEST_P(DataParallel, AnyNumberOfRanksHasTheBitsOfTheReplayOnOne) {
  const Case c = GetParam();
  constexpr int kSteps = 4;
  const DataParallelResult want = run_ranks_of(c, 1, kDataParallelMicro, kSteps);
  for (const int ranks : {2, 4, 8}) {
    const DataParallelResult got = run_ranks_of(c, ranks, kDataParallelMicro, kSteps);
    EXPECT_TRUE(got.weights == want.weights) << ranks << " ranks";
    EXPECT_TRUE(got.state == want.state) << ranks << " ranks";
    EXPECT_EQ(got.last_loss, want.last_loss) << ranks << " ranks";
  }
}

// Fifty steps, and other orders than one group to a micro-batch.
TEST(DataParallelSlow, FiftyStepsInEveryTypeTiedAndUntied) {
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const Case c = with_eight_micro({"fifty", dtype, Multiply::fast, tied, 32, 9, {}});
      for (const int groups : {2, 8}) {
        const DataParallelResult want = run_ranks_of(c, 1, groups, 50);
        for (int ranks = 2; ranks <= groups; ranks *= 2) {
          const DataParallelResult got = run_ranks_of(c, ranks, groups, 50);
          EXPECT_TRUE(got.weights == want.weights && got.state == want.state && got.last_loss == want.last_loss)
              << name_of(dtype) << (tied ? ", tied, " : ", ") << groups << " groups on " << ranks << " ranks";
        }
      }
    }
}

// Six groups on three ranks: a number of leaves that is no power of two.
TEST(DataParallelSteps, ThreeRanksReplayedOnOne) {
  Case c = with_eight_micro({"three", DType::f32, Multiply::exact, true, 32, 9, {}});
  c.micro.resize(6, 1);
  const DataParallelResult want = run_ranks_of(c, 1, 6, 5), got = run_ranks_of(c, 3, 6, 5);
  EXPECT_TRUE(got.weights == want.weights && got.state == want.state);
}

// The order is another than the plain chain's: the bits show it, the values do not.
TEST(DataParallelSteps, GroupsAreTheSameSumInAnotherOrder) {
  const Case f32 = with_eight_micro({"order", DType::f32, Multiply::exact, true, 32, 9, {}});
  EXPECT_FALSE(run_ranks_of(f32, 1, 8, 3).weights == run_ranks_of(f32, 1, 1, 3).weights);
  const Case f64 = with_eight_micro({"order", DType::f64, Multiply::exact, false, 32, 9, {}});
  const auto gradients = [&](int groups) {
    Bench run(f64);
    run.add_gradients(lower(run.spec, placed(run.spec, run.costs, 1, groups), 0), f64.multiply);
    std::vector<double> all;
    for (const Tensor& t : run.update->gradients)
      all.insert(all.end(), t.span<double>().begin(), t.span<double>().end());
    return all;
  };
  const std::vector<double> chain = gradients(1);
  double norm = 0;
  for (const double x : chain) norm += x * x;
  for (const int groups : {2, 4, 8}) {
    double difference = 0;
    const std::vector<double> tree = gradients(groups);
    for (size_t i = 0; i < chain.size(); ++i) difference += std::pow(tree[i] - chain[i], 2);
    EXPECT_LE(std::sqrt(difference / norm), 1e-12) << groups;
    EXPECT_GT(difference, 0) << groups;
  }
}

TEST(DataParallelSteps, OneGroupOnOneRankIsThePlainProgram) {
  Bench run(kCases[1]);
  const Program plain = training_program(run.spec, run.costs, Recompute::none);
  EXPECT_EQ(checksum(lower(run.spec, placed(run.spec, run.costs, 1, 1), 0)), checksum(plain));
}

// A rank whose gradients alone are not finite: all refuse, and no weight changes anywhere.
TEST(DataParallelSteps, ARefusalOfOneRankIsAllRanks) {
  for (const bool spoiled_only_locally : {false, true}) {
    const Case c = with_eight_micro({"refusal", DType::f32, Multiply::fast, false, 32, 9, {}});
    std::vector<std::string> said(2);
    with_comms(2, {}, [&](Comm& comm) {
      Bench run(c);
      run.batches.resize(4);
      run.costs.resize(4);
      Program p = lower(run.spec, placed(run.spec, run.costs, 2, 1), 0);
      // What a faulty machine does: its gradients are wrong after the sum, so that only it can see it.
      if (spoiled_only_locally)
        std::erase_if(p.instructions, [](const Instruction& i) { return i.op == Opcode::reduce; });
      if (comm.rank() == 1) run.update->gradients[2].span<float>()[1] = NAN;
      const std::vector<std::byte> before = bits(run.spec, run.weights);
      try {
        execute(p, {.spec = run.spec,
                    .weights = run.source,
                    .gradients = &run.gradients,
                    .micro_batches = run.batches,
                    .compute = {run.arena, c.multiply},
                    .update = &*run.update,
                    .world = &comm});
        ADD_FAILURE() << "no error";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::diverged);
        said[static_cast<size_t>(comm.rank())] = e.what();
      }
      EXPECT_TRUE(bits(run.spec, run.weights) == before);
    });
    EXPECT_NE(said[1].find("is not finite"), std::string::npos) << said[1];
    EXPECT_NE(said[0].find(spoiled_only_locally ? "another rank's gradients" : "is not finite"), std::string::npos);
  }
}

// A rank none of whose own tokens has a loss takes part in the step of the others.
TEST(DataParallelSteps, ARankWithoutTargetsUpdatesWithTheOthers) {
  const Case c = with_eight_micro({"idle", DType::f32, Multiply::fast, false, 32, 9, {}});
  with_comms(2, {}, [&](Comm& comm) {
    Bench run(c);
    run.batches.resize(1), run.costs.resize(1);
    if (comm.rank() == 1) std::ranges::fill(run.batches[0].targets, -1);
    int64_t targets = run.batches[0].num_targets();
    comm.all_reduce({&targets, 1}, Combine::sum);
    const Program p = lower(run.spec, placed(run.spec, run.costs, 2, 1), 0);
    const std::vector<std::byte> before = bits(run.spec, run.weights);
    const auto step = [&](int64_t of_all) {
      return execute(p, {.spec = run.spec,
                         .weights = run.source,
                         .gradients = &run.gradients,
                         .micro_batches = run.batches,
                         .compute = {run.arena, c.multiply},
                         .update = &*run.update,
                         .world = &comm,
                         .step_targets = of_all});
    };
    EXPECT_FALSE(step(0).update) << "nobody has a target";
    EXPECT_TRUE(bits(run.spec, run.weights) == before);
    EXPECT_TRUE(step(targets).update);
    EXPECT_FALSE(bits(run.spec, run.weights) == before);
  });
}

TEST(DataParallelSteps, AStepForMoreRanksThanThereAreIsRefused) {
  const Case c = with_eight_micro({"refused", DType::f32, Multiply::fast, false, 32, 9, {}});
  Bench run(c);
  EXPECT_THROW(require_executable(lower(run.spec, placed(run.spec, run.costs, 4, 1), 0), 2), Error);
  EXPECT_NO_THROW(require_executable(lower(run.spec, placed(run.spec, run.costs, 2, 1), 0), 2));
}

}  // namespace
}  // namespace tern
