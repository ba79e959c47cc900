// A checkpoint knows no ranks: saved under one mesh it is read under any other, by each rank its own part, and put together it is its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/ranks_testing.h"
#include "train/mesh_testing.h"
#include "train/rank_groups.h"
#include "train/rank_place.h"
#include "train/state_tensors.h"
#include "train/tensor_state.h"
#include "train/train_state.h"

namespace tern {
namespace {

const MeshCase kEightMeshes[] = {
    {},
    {.data = 4, .zero = 1},
    {.data = 4, .zero = 3},
    {.data = 2, .tensor = 2},
    {.data = 2, .zero = 2, .context = 2},
    {.schedule = PipelineSchedule::zb_h1, .stages = 2, .data = 2, .zero = 1},
    {.schedule = PipelineSchedule::interleaved, .stages = 2, .zero = 0},
    {.stages = 2, .data = 2, .tensor = 2, .zero = 3},
};

struct SavedInMesh {
  MemoryIo io;
  TrainResult result;
};

// What each rank of a mesh reads of a checkpoint, put together on the first one.
void expect_bits_under(const TrainSettings& run, const MeshCase& mesh, SavedInMesh& saved) {
  const TrainSettings s = settings_in_mesh(run, mesh);
  const TrainInputs in = load_inputs(s);
  const CheckpointData data(saved.io, saved.result.checkpoint, 0);
  const Manifest manifest = read_manifest(saved.io, saved.result.checkpoint);
  with_comms(mesh.ranks(), {.baton = true}, [&](Comm& world) {
    Arena arena;
    const RankPlace place = rank_place(in.spec, s, world.rank());
    const TrainState state = load_state(s, in, saved.io, saved.result.checkpoint, manifest, arena,
                                        shares_of(in.spec, s, place), place.elsewhere, place.tensor);
    EXPECT_EQ(state.step, saved.result.last_step);
    const std::vector<StateTensor> own = in_parts(state_tensors(s, state), in.spec, place.tensor);
    ASSERT_EQ(own.size(), data.tensors().size());
    int64_t largest = 0;
    for (const StateTensor& t : own) largest = std::max(largest, t.shape.count() * size_of(t.dtype));
    EXPECT_LE(arena.peak_total(), arena.current_total() + largest) << "the shard and one tensor";
    for (const StateTensor& t : own) {
      const Tensor whole = world.rank() == 0 ? arena.zeros(t.dtype, t.shape, MemoryClass::staging) : Tensor();
      gather_to_first(world, t, whole);
      if (world.rank() > 0) continue;
      const std::span<const std::byte> want = data.tensors().get(t.name).bytes;
      ASSERT_EQ(static_cast<size_t>(whole.bytes()), want.size()) << t.name;
      EXPECT_EQ(std::memcmp(whole.data(), want.data(), want.size()), 0) << t.name;
    }
  });
}

// Every `stride`-th pair.
void expect_all_pairs(size_t stride) {
  const RunInputs inputs(false, 4, 4, 4);
  TrainSettings s = settings_of(inputs, DType::bf16);
  s.schedule.total_steps = 1, s.eval_every = s.checkpoint_every = 0, s.valid_data.clear();
  size_t pair = 0;
  for (const MeshCase& before : kEightMeshes) {
    SCOPED_TRACE("saved under " + to_string(before));
    SavedInMesh saved;
    saved.result = train_in_mesh(s, before, saved.io);
    EXPECT_NO_THROW(verify_checkpoint(saved.io, saved.result.checkpoint));
    EXPECT_EQ(saved.result.predicted.staging == 0, before.ranks() > 1) << "no rank copies what others keep";
    for (const MeshCase& after : kEightMeshes) {
      if (pair++ % stride != 0) continue;
      SCOPED_TRACE("read under " + to_string(after));
      expect_bits_under(s, after, saved);
    }
  }
}

// Seven: each mesh saves once at least, and each reads once.
TEST(MeshResume, ASampleOfPairsReadsTheBitsThatWereSaved) { expect_all_pairs(7); }
TEST(MeshResumeSlow, EveryPairOfEightMeshesReadsTheBitsThatWereSaved) { expect_all_pairs(1); }

}  // namespace
}  // namespace tern
