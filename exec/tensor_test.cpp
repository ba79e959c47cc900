// Steps of ranks that share out matrices, alone and with replicas: the weights of one rank, and the bytes that the Program says.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "comm/decorators.h"
#include "comm/ranks_testing.h"
#include "exec/tensor_testing.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"
#include "update/norm.h"

namespace tern {
namespace {

constexpr int kTensorMicro = 4;

struct Stepped {
  Arena arena;
  ModelWeights weights;
  double loss = 0, norm = 0;
};

Stepped on_one(const Case& c, const UpdateConfig& config, int steps) {
  Stepped one;
  Bench run(c, config);
  const Program p = training_program(run.spec, run.costs, Recompute::none, config);
  const RankShare share = keep_share(run, 0, 1);
  for (int step = 1; step <= steps; ++step) {
    begin_step(*run.update, step, [](int64_t) { return 1e-2; });
    const ExecuteResult r = run.execute_with(p, c.multiply, 1.0 / static_cast<double>(share.step_targets));
    one.loss = r.loss_sum, one.norm = r.update->gradient_norm;
  }
  one.weights = run.weights;
  return one;
}

// How the ranks of a mesh run.
struct MeshRun {
  bool beside = false;  // exchanges beside products
  bool baton = true;
  std::optional<int64_t> killed_at = {};  // rank 1 dies at this message of its own
};

Stepped on_mesh(const Case& c, const UpdateConfig& config, int steps, int ranks, int data, Recompute recompute,
                const MeshRun& how = {}) {
  Stepped all;
  std::mutex one_at_a_time;
  run_ranks(ranks * data, {.baton = how.baton}, [&](std::unique_ptr<Transport> transport) {
    if (how.killed_at && transport->rank() == 1)
      transport = faulty(std::move(transport), {TransportFaultKind::kill, *how.killed_at});
    Comm world(std::move(transport));
    TensorPart run(c, config, world, ranks, how.beside);
    RankShare share = keep_share(run.whole, world.rank() / ranks, data);
    for (CostQuery& q : share.costs) q.tensor = ranks;
    Placement placed = placement_of(run.whole.spec, share.costs, recompute, config);
    placed.mesh.tensor = ranks, placed.mesh.data = data;
    const Program p = lower(run.whole.spec, placed, 0);
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    double loss = 0, norm = 0;
    for (int step = 1; step <= steps; ++step) {
      begin_step(*run.update, step, [](int64_t) { return 1e-2; });
      const WeightSource source = run.weights;
      const ExecuteResult r =
          execute(p, {.spec = run.spec,
                      .weights = source,
                      .gradients = &run.gradients,
                      .micro_batches = run.whole.batches,
                      .loss_scale = 1.0 / static_cast<double>(share.step_targets),
                      .compute = {.arena = run.arena, .multiply = c.multiply, .tensor = &*run.group},
                      .update = &*run.update,
                      .world = &world,
                      .replicas = &*run.replicas,
                      .step_targets = share.step_targets});
      ASSERT_EQ(describe_mismatches(r), "");
      norm = r.update->gradient_norm, loss = 0;
      for (const double one : world.gather(r.losses)) loss += one;
    }
    const std::lock_guard lock(one_at_a_time);
    if (all.weights.units.empty())
      all.weights = allocate_weights(run.whole.spec, c.dtype, MemoryClass::weights, all.arena);
    all.loss = loss, all.norm = norm;
    const std::vector<ParameterInfo> infos = parameters(run.whole.spec);
    const std::vector<Tensor*> from = tensors(run.spec, run.weights), to = tensors(run.whole.spec, all.weights);
    for (size_t n = 0; n < infos.size(); ++n)
      put_part(tensor_holding(run.whole.spec, infos[n], world.rank() % ranks, ranks), *from[n], *to[n]);
  });
  return all;
}

template <class T>
double relative_difference(const Tensor& got, const Tensor& want) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    const auto a = static_cast<double>(got.span<T>()[static_cast<size_t>(i)]),
               b = static_cast<double>(want.span<T>()[static_cast<size_t>(i)]);
    difference += (a - b) * (a - b), norm += b * b;
  }
  return std::sqrt(difference / norm);
}
double difference(const Tensor& got, const Tensor& want) {
  return want.dtype() == DType::f64 ? relative_difference<double>(got, want) : relative_difference<float>(got, want);
}

void expect_weights_of_one(Case c, double bound, UpdateRule rule = UpdateRule::sgd) {
  c.micro.assign(kTensorMicro, 1);
  const UpdateConfig config = update_config(rule);
  const ModelSpec spec = spec_of(c);
  Stepped want = on_one(c, config, 2);
  for (const auto& [ranks, data] : {std::pair(2, 1), std::pair(4, 1), std::pair(2, 2), std::pair(4, 2)}) {
    const Recompute recompute = data == 2 ? Recompute::full : Recompute::none;
    SCOPED_TRACE(std::string(c.name) + " on " + std::to_string(ranks) + " × " + std::to_string(data));
    Stepped got = on_mesh(c, config, 2, ranks, data, recompute);
    EXPECT_LE(std::abs(got.loss - want.loss) / want.loss, bound);
    EXPECT_LE(std::abs(got.norm - want.norm) / want.norm, bound);
    const std::vector<Tensor*> is = tensors(spec, got.weights), was = tensors(spec, want.weights);
    const std::vector<ParameterInfo> infos = parameters(spec);
    for (size_t p = 0; p < infos.size(); ++p)
      if (was[p]->count() > 0) EXPECT_LE(difference(*is[p], *was[p]), bound) << infos[p].name;
  }
}

const Case kLlama{"llama", DType::f64, Multiply::exact, false, 32, 8, {}};
const Case kGpt2{"gpt2", DType::f64, Multiply::exact, true, 32, 8, {}};

TEST(ExecuteTensor, StepsLeaveTheWeightsOfOneRankAndCountThePlannedBytes) {
  expect_weights_of_one(kLlama, 1e-12);
  expect_weights_of_one(kGpt2, 1e-12);
}

// Of f32 sums of at most 68 products in another order, through two layers and two steps.
TEST(ExecuteTensor, InF32WithinRounding) {
  for (Case c : {kLlama, kGpt2})
    for (const Multiply multiply : {Multiply::exact, Multiply::fast}) {
      c.dtype = DType::f32, c.multiply = multiply;
      expect_weights_of_one(c, 1e-5);
    }
}

// Sums over replicas pass beside the compute too, but never while rows are exchanged. A rank has an odd number of rows: 3 of 6, or 5 of 20.
TEST(ExecuteTensor, BesideProductsStepsHaveTheSameBitsAndCountThePlannedBytes) {
  for (Case c : {kLlama, kGpt2})
    for (const DType dtype : {DType::f64, DType::f32})
      for (const Multiply multiply : {Multiply::exact, Multiply::fast})
        for (const auto& [ranks, data] : {std::pair(2, 1), std::pair(4, 1), std::pair(2, 2)}) {
          c.dtype = dtype, c.multiply = multiply, c.seq = ranks == 4 ? 20 : 6;
          c.micro.assign(kTensorMicro, 1);
          SCOPED_TRACE(std::string(c.name) + " in " + std::string(name_of(dtype)) + " on " + std::to_string(ranks));
          const Recompute recompute = data == 2 ? Recompute::full : Recompute::none;
          const UpdateConfig config = update_config(UpdateRule::sgd);
          Stepped want = on_mesh(c, config, 2, ranks, data, recompute);
          for (const bool baton : {false, true}) {
            Stepped got = on_mesh(c, config, 2, ranks, data, recompute, {.beside = true, .baton = baton});
            EXPECT_EQ(got.loss, want.loss);
            EXPECT_EQ(got.norm, want.norm);
            const ModelSpec spec = spec_of(c);
            EXPECT_TRUE(bits(spec, got.weights) == bits(spec, want.weights));
          }
        }
}

// A rank that dies at one of its first messages, most of which pass beside products.
TEST(ExecuteTensor, ARankThatDiesWhileRowsPassBesideProductsEndsTheStepOfAll) {
  Case c = kLlama;
  c.micro.assign(kTensorMicro, 1);
  for (int64_t at = 0; at < 24; at += 5) {
    std::string said = "no error";
    try {
      on_mesh(c, update_config(UpdateRule::sgd), 1, 2, 1, Recompute::none,
              {.beside = true, .baton = false, .killed_at = at});
    } catch (const Error& e) { said = e.what(); }
    EXPECT_NE(said.find("rank 1: killed on purpose at"), std::string::npos) << at << ": " << said;
  }
}

TEST(ExecuteTensor, RowsThatRanksDoNotDivideAreRefusedByName) {
  Case c = kLlama;
  c.seq = 7, c.micro = {1, 1};
  try {
    on_mesh(c, update_config(UpdateRule::sgd), 1, 2, 1, Recompute::none);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("micro-batch of 7 tokens cannot be shared out to 2 ranks"), std::string::npos)
        << e.what();
  }
}

// Both ranks refuse; the one whose part is in order does not blame a tensor of its own.
TEST(TensorSteps, ARankNamesATensorOnlyIfItsOwnPartIsNotFinite) {
  Case c = kCases[1];
  c.micro.assign(kTensorMicro, 1);
  std::vector<std::string> said(2);
  with_comms(2, {}, [&](Comm& world) {
    TensorPart run(c, update_config(UpdateRule::sgd), world, 2);
    for (Tensor& t : run.update->gradients) t.fill_zero();
    if (world.rank() == 1) run.update->gradients[2].span<float>()[0] = INFINITY;
    try {
      gradient_norm(*run.update, &world);
    } catch (const NotFiniteGradient& e) { said[static_cast<size_t>(world.rank())] = e.fact(); }
  });
  EXPECT_NE(said[0].find("another rank's gradients are not finite"), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("' is not finite (1 of "), std::string::npos) << said[1];
}

}  // namespace
}  // namespace tern
