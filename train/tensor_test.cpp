// Training on ranks that share out matrices: the model of one rank, from beginnings, evaluations and checkpoints that know no ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "comm/ranks_testing.h"
#include "model/linear.h"
#include "model/model_files.h"
#include "spec/recompute.h"
#include "train/inputs.h"
#include "train/mesh_testing.h"
#include "train/rank_place.h"
#include "train/ranks_testing.h"
#include "train/state_tensors.h"
#include "train/tensor_state.h"
#include "train/train_state.h"

namespace tern {
namespace {

TrainResult train_in_parts(TrainSettings s, int tensor, int data, Io& io, const TrainHooks& hooks = {},
                           const std::atomic<bool>& stop = kNeverStops) {
  s.tensor = tensor, s.sum_order.groups = data;
  return train_on(s, tensor * data, io, hooks, stop);
}

TEST(TrainTensor, LeavesTheStateOfOneRank) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied);
    TrainSettings s = settings_of(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    for (const int data : {1, 2}) {
      SCOPED_TRACE(std::to_string(data) + (tied ? " replicas, tied" : " replicas"));
      MemoryIo one, parts;
      s.sum_order.groups = data;
      const TrainResult want = train_on(s, 1, one), got = train_in_parts(s, 2, data, parts);
      EXPECT_EQ(got.end, TrainEnd::finished);
      EXPECT_EQ(got.byte_mismatches, 0);
      EXPECT_EQ(got.counted_peak_bytes, got.predicted.tensors());
      EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, 1e-12);
      ASSERT_TRUE(got.evaluation && want.evaluation);
      EXPECT_LE(std::abs(got.evaluation->loss - want.evaluation->loss) / want.evaluation->loss, 1e-12);
      expect_near(got, parts, want, one, 1e-12);
    }
  }
}

TEST(TrainTensor, InEveryTypeWithEveryRuleThatRuns) {
  const RunInputs inputs(true);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::lion, UpdateRule::schedule_free}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::string(name_of(rule)));
      TrainSettings s = settings_of(inputs, dtype);
      s.optimizer = update_config(rule), s.schedule.total_steps = 4;
      MemoryIo one, parts;
      const TrainResult got = train_in_parts(s, 2, 2, parts);
      s.sum_order.groups = 2;
      const TrainResult want = train_on(s, 1, one);
      EXPECT_EQ(got.byte_mismatches, 0);
      EXPECT_EQ(got.counted_peak_bytes, got.predicted.tensors());
      EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, dtype == DType::f32 ? 1e-4 : 3e-2);
    }
}

// A checkpoint holds the whole: what is read into parts, and put together again, are its bits.
TEST(TrainTensor, ACheckpointOfAnyMeshIsReadInPartsToTheBit) {
  const RunInputs inputs(false);
  const TrainSettings one = settings_of(inputs, DType::bf16);
  MemoryIo io;
  const TrainResult saved = train_on(one, 1, io);
  TrainSettings s = one;
  s.tensor = 2, s.ranks = 4, s.sum_order.groups = 2;
  const TrainInputs in = load_inputs(s);
  const CheckpointData data(io, saved.checkpoint, 0);
  const Manifest manifest = read_manifest(io, saved.checkpoint);
  with_comms(4, {.baton = true}, [&](Comm& world) {
    Arena arena;
    const RankPlace place = rank_place(in.spec, s, world.rank());
    const TrainState state = load_state(s, in, io, saved.checkpoint, manifest, arena, shares_of(in.spec, s, place),
                                        place.elsewhere, place.tensor);
    int64_t own = 0, all = 0;
    for (const StateTensor& t : in_parts(state_tensors(s.optimizer, s.dtype, state.optimizer), in.spec, place.tensor)) {
      const Tensor whole = world.rank() == 0 ? arena.zeros(t.dtype, t.shape, MemoryClass::staging) : Tensor();
      gather_to_first(world, t, whole);
      own += t.own.bytes(), all += t.shape.count() * size_of(t.dtype);
      if (world.rank() > 0) continue;
      const std::span<const std::byte> want = data.tensors().get(t.name).bytes;
      EXPECT_EQ(std::memcmp(whole.data(), want.data(), want.size()), 0) << t.name;
    }
    EXPECT_LT(static_cast<double>(own), 0.6 * static_cast<double>(all));
  });
}

TEST(TrainTensor, AStoppedRunGoesOnUnderAnyMesh) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  s.micro_batch = 4;
  const std::pair<int, int> meshes[] = {{1, 1}, {2, 1}, {2, 2}};
  MemoryIo whole;
  s.sum_order.groups = 1;
  const TrainResult want = train_on(s, 1, whole);
  for (const auto& before : meshes)
    for (const auto& after : meshes) {
      SCOPED_TRACE(fmt::format("{} × {}, then {} × {}", before.first, before.second, after.first, after.second));
      MemoryIo io;
      std::atomic<bool> stop = false;
      const TrainHooks hooks{.step = [&](const StepReport& r) { stop = stop || r.step == 3; }};
      EXPECT_EQ(train_in_parts(s, before.first, before.second, io, hooks, stop).end, TrainEnd::interrupted);
      const TrainResult r = train_in_parts(s, after.first, after.second, io);
      EXPECT_GE(r.first_step, 3);
      expect_near(r, io, want, whole, 1e-12);
    }
}

// Alone, with replicas that share out the state, and in stages, of which the middle one sums nothing but halves. Five rows to a rank.
TEST(TrainTensor, BesideProductsARunHasTheSameBitsInTheMemoryThatWasPredicted) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 3);
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      TrainSettings s = settings_of(inputs, dtype);
      s.multiply = Multiply::exact, s.seq = 10, s.schedule.total_steps = 3;
      for (const MeshCase& p : {MeshCase{.tensor = 2}, MeshCase{.data = 2, .tensor = 2, .zero = 1},
                                MeshCase{.stages = 3, .tensor = 2, .recompute = Recompute::full}}) {
        SCOPED_TRACE(fmt::format("{}, {}", to_string(p), name_of(dtype)));
        MemoryIo in_place, beside;
        s.tensor_overlap = false;
        const TrainResult want = train_in_mesh(s, p, in_place);
        expect_whole(want);
        s.tensor_overlap = true;
        const TrainResult got = train_in_mesh(s, p, beside);
        expect_whole(got);
        EXPECT_TRUE(bits_of(got, beside) == bits_of(want, in_place));
        EXPECT_EQ(*got.loss, *want.loss);
        EXPECT_EQ(got.predicted.messages < want.predicted.messages, p.stages == 3) << "halves wait to be summed";
      }
    }
  }
}

TEST(TrainTensor, ARankThatDiesWhileRowsPassBesideProductsEndsTheRun) {
  const RunInputs inputs(false);
  TrainSettings s = settings_of(inputs, DType::f64);
  s.tensor = 2, s.sum_order.groups = 1, s.tensor_overlap = true;
  std::atomic<int64_t> sends = 0;
  {
    MemoryIo io;
    train_on(s, 2, io, {}, kNeverStops, counts_sends_of(1, sends));
  }
  for (const int64_t part : {3, 5, 8}) {
    MemoryIo io;
    try {
      train_on(s, 2, io, {}, kNeverStops, kills(1, sends * part / 10));
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1: killed on purpose at"), std::string::npos) << e.what();
    }
  }
}

TEST(TrainTensor, WhatIsNotRunIsRefusedByNameBeforeAnythingIsWritten) {
  const RunInputs inputs(true);
  const auto refusal = [&](const std::function<void(TrainSettings&)>& change, int tensor = 2,
                           int data = 1) -> std::string {
    TrainSettings s = settings_of(inputs, DType::f32);
    change(s);
    MemoryIo io;
    try {
      train_in_parts(s, tensor, data, io);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_FALSE(io.stat("run"));
      return e.what();
    }
    return "run";
  };
  EXPECT_NE(refusal([](TrainSettings&) {}, 4)
                .find("--tensor-parallel 4: unit 1 has 2 heads, which 4 ranks cannot share out; choose 2"),
            std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.seq = 7; }).find("7 tokens cannot be shared out"), std::string::npos);
  const bool cuts = multiplies_rows_alone(Multiply::fast, DType::f32, ProductKind::forward) ||
                    multiplies_rows_alone(Multiply::fast, DType::f32, ProductKind::input_gradient);
  const std::string uncut = refusal([](TrainSettings& s) { s.tensor_overlap = true; });
  EXPECT_EQ(uncut.find("--tp-comm-overlap: oneDNN makes the products of f32 here"), cuts ? std::string::npos : 0)
      << uncut;
  for (const UpdateRule rule : {UpdateRule::muon, UpdateRule::lamb, UpdateRule::adafactor, UpdateRule::adamw8bit})
    EXPECT_NE(refusal([&](TrainSettings& s) {
                s.optimizer = update_config(rule);
              }).find("needs whole matrices or sums over the model"),
              std::string::npos);
}

}  // namespace
}  // namespace tern
