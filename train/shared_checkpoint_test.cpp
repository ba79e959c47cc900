// Checkpoints that all ranks write: the bytes of the one that one rank writes, no memory beyond each rank's own state, and whole or
// not there after any fault.
#include "train/shared_checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/rng.h"
#include "comm/ranks_testing.h"
#include "train/checkpoint_writer.h"
#include "train/mesh_testing.h"
#include "train/rank_place.h"
#include "train/state_runs.h"
#include "train/tensor_state.h"
#include "train/train_state.h"

namespace tern {
namespace {

// Counts what is written, and what of it does not lie in the state.
class CountedFile final : public IoFile {
 public:
  CountedFile(IoFile& inner, const std::vector<StateTensor>& state) : inner_(inner), state_(state) {}
  void append(std::span<const std::byte> data) override { inner_.append(data); }
  void write_at(int64_t offset, std::span<const std::byte> data) override {
    const bool own = std::ranges::any_of(state_, [&](const StateTensor& t) {
      const auto* const begin = static_cast<const std::byte*>(t.own.data());
      return begin != nullptr && begin <= data.data() && data.data() + data.size() <= begin + t.own.bytes();
    });
    written += static_cast<int64_t>(data.size());
    if (!own) copied += static_cast<int64_t>(data.size());
    inner_.write_at(offset, data);
  }
  void sync() override { inner_.sync(); }
  int64_t size() const override { return inner_.size(); }
  void close() override { inner_.close(); }

  int64_t written = 0, copied = 0;

 private:
  IoFile& inner_;
  const std::vector<StateTensor>& state_;
};

// A model whose table is cut into blocks under ZeRO, and into parts that are not equal on 2 and on 4 ranks.
constexpr int kVocabulary = 9001;

void widen_vocabulary(const RunInputs& inputs) {
  const std::string path = inputs.path + "/config.json", key = "\"vocab_size\": ";
  std::string text = real_io().read(path);
  const size_t begin = text.find(key) + key.size(), end = text.find(',', begin);
  text.replace(begin, end - begin, std::to_string(kVocabulary));
  write_file_atomically(real_io(), path, text);
}

struct Reference {
  std::string checkpoint, bytes;
  int64_t largest = 0, all = 0;  // bytes: of the largest tensor; of all tensors
};

// A checkpoint of one rank in which no two numbers of a tensor are alike.
Reference save_on_one_rank(const TrainSettings& s, const TrainInputs& in, Io& io, const std::string& folder) {
  Arena arena;
  const TrainState state = fresh_state(s, in, arena);
  std::vector<NamedTensor> named;
  Reference saved;
  for (const StateTensor& t : state_tensors(s, state)) {
    EXPECT_EQ(t.own.dtype(), DType::f32) << t.name;
    const std::span<float> numbers = t.own.span<float>();
    const float of_tensor = static_cast<float>(named.size() % 64) / 64;
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + of_tensor;
    named.push_back({t.name, t.own});
    saved.largest = std::max(saved.largest, t.own.bytes()), saved.all += t.own.bytes();
  }
  CheckpointWriter writer(io, arena, {.checkpoints = folder, .id = "one"});
  writer.save({.step = 1, .samples = 8, .settings = {}, .made_by = {}, .files = {}}, named);
  writer.wait();
  saved.checkpoint = join_path(folder, checkpoint_name(1));
  saved.bytes = io.read(join_path(saved.checkpoint, rank_file(0)));
  return saved;
}

// Reads it on the ranks of a mesh, and writes it again under step 2: on each rank within its own state.
void expect_same_file(const TrainSettings& run, const MeshCase& mesh, Io& io, const Reference& saved,
                      const std::string& folder) {
  SCOPED_TRACE(to_string(mesh));
  const TrainSettings s = settings_in_mesh(run, mesh);
  const TrainInputs in = load_inputs(s);
  const Manifest manifest = read_manifest(io, saved.checkpoint);
  const SharedPlace place{.checkpoints = folder, .id = "all"};
  with_comms(mesh.ranks(), {.baton = true}, [&](Comm& world) {
    Arena arena;
    const RankPlace at = rank_place(in.spec, s, world.rank());
    const TrainState state =
        load_state(s, in, io, saved.checkpoint, manifest, arena, shares_of(in.spec, s, at), at.elsewhere, at.tensor);
    EXPECT_LE(arena.peak_total(), arena.current_total() + saved.largest) << "reading: the shard and one tensor";
    const std::vector<StateTensor> own = in_parts(state_tensors(s, state), in.spec, at.tensor);
    int64_t kept = 0;
    for (const StateTensor& t : own) kept += t.own.empty() ? 0 : t.own.bytes();

    const int64_t allocations = arena.num_allocations();
    const SafetensorsLayout layout = layout_of_state(own);
    EXPECT_EQ(layout.file_bytes, std::ssize(saved.bytes));
    std::unique_ptr<IoFile> file = world.rank() == 0 ? begin_shared(io, place, 2, layout) : nullptr;
    world.barrier();
    if (!file) file = io.open_append(shared_path(place, 2));
    CountedFile counted(*file, own);
    const WrittenShare share = write_share(counted, layout, own, world.rank(), at.tensor);
    file->sync();
    file->close();
    const WrittenShare all = join_shares(world, share);
    EXPECT_EQ(arena.num_allocations(), allocations) << "writing: nothing but the shard";
    EXPECT_EQ(counted.copied, 0);
    EXPECT_EQ(counted.written, share.bytes - (world.rank() == 0 ? std::ssize(layout.header) : 0));
    EXPECT_LE(counted.written, kept);
    EXPECT_EQ(all.bytes, layout.file_bytes);
    if (world.rank() > 0) return;
    Manifest again{.step = 2, .samples = 8, .settings = {}, .made_by = {}, .files = {file_of_shares(layout, all)}};
    EXPECT_EQ(end_checkpoint(io, place.checkpoints, place.id, again), Committed::written);
  });
  const std::string second = join_path(folder, checkpoint_name(2));
  EXPECT_TRUE(io.read(join_path(second, rank_file(0))) == saved.bytes);
  EXPECT_EQ(verify_checkpoint(io, second).files, manifest.files);
  remove_all(io, second);
}

const MeshCase kSharingMeshes[] = {
    {.data = 2, .zero = 1},
    {.data = 3, .zero = 3},
    {.data = 7, .zero = 2},
    {.tensor = 2},
    {.tensor = 4},
    {.data = 2, .tensor = 4, .zero = 1},
    {.data = 3, .tensor = 2, .zero = 3},
    {.stages = 2},
    {.schedule = PipelineSchedule::interleaved, .stages = 2, .data = 2},
    {.schedule = PipelineSchedule::zb_h1, .stages = 2, .data = 3, .zero = 1},
    {.data = 2, .zero = 2, .context = 2},
    {.stages = 2, .data = 2, .tensor = 2, .zero = 3},
    {.stages = 4, .tensor = 2, .zero = 0},
};

void expect_same_files(bool tied, size_t stride) {
  const RunInputs inputs(tied, 4, 4, 2);
  widen_vocabulary(inputs);
  const TrainSettings s = settings_of(inputs, DType::bf16);
  const TrainInputs in = load_inputs(s);
  MemoryIo io;
  const Reference saved = save_on_one_rank(s, in, io, "run/checkpoints");
  for (size_t m = tied; m < std::size(kSharingMeshes); m += stride)
    expect_same_file(s, kSharingMeshes[m], io, saved, "run/checkpoints");
}

TEST(SharedCheckpoint, IsTheFileOfOneRankAndTakesNoMemory) {
  for (const bool tied : {false, true}) expect_same_files(tied, 2);
}
TEST(SharedCheckpointSlow, UnderEveryMeshTiedAndNot) {
  for (const bool tied : {false, true}) expect_same_files(tied, 1);
}

TEST(SharedCheckpoint, OnARealDisk) {
  const RunInputs inputs(false, 4, 4, 2);
  widen_vocabulary(inputs);
  const TrainSettings s = settings_of(inputs, DType::bf16);
  const TrainInputs in = load_inputs(s);
  const std::string folder = inputs.path + "/checkpoints";
  const Reference saved = save_on_one_rank(s, in, real_io(), folder);
  for (const MeshCase& mesh : {MeshCase{.data = 4, .zero = 3}, MeshCase{.data = 2, .tensor = 4, .zero = 1}})
    expect_same_file(s, mesh, real_io(), saved, folder);
}

// Each element is written by one rank, whatever the numbers of heads and ranks.
TEST(SharedCheckpoint, RanksOfATensorGroupWriteEachElementOnce) {
  for (const auto& [heads, kv_heads] : {std::pair(8, 1), std::pair(8, 2), std::pair(8, 8)})
    for (const int ranks : {1, 2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} heads, {} of keys, {} ranks", heads, kv_heads, ranks));
      const RunInputs inputs(false, 1, heads, kv_heads);
      const TrainInputs in = load_inputs(settings_of(inputs, DType::f32));
      std::vector<std::byte> memory(size_t{1} << 20);  // of no part is more
      for (const ParameterInfo& info : trained_parameters(in.spec)) {
        std::vector<int> writers(static_cast<size_t>(info.shape.count()));
        StateTensor t{.name = info.name, .dtype = DType::f32, .shape = info.shape, .own = {}};
        for (int r = 0; ranks > 1 && r < ranks; ++r) t.parts.push_back(tensor_holding(in.spec, info, r, ranks));
        for (int r = 0; r < ranks; ++r) {
          t.part_elements = t.parts.empty() ? info.shape.count() : local_count(t.parts[static_cast<size_t>(r)]);
          t.own = Tensor::borrow(DType::f32, {t.part_elements}, memory.data());
          t.owners = {{r, {0, t.part_elements}}};
          for_each_written_run(t, r, {r, ranks}, [&](const StateRun& run) {
            for (int64_t i = 0; i < run.count; ++i) ++writers[static_cast<size_t>(run.whole + i)];
          });
        }
        EXPECT_TRUE(std::ranges::all_of(writers, [](int n) { return n == 1; })) << info.name;
      }
    }
}

// --- the commit under faults, by two ranks one after the other ---

const std::string kPlace = "run/checkpoints";

// The numbers after `step` steps: of the first tensor the ranks keep parts, the second is the last rank's, the third is on both.
struct NumbersOfStep {
  std::vector<std::vector<float>> tensors;
  explicit NumbersOfStep(int64_t step) {
    for (const size_t size : {37, 5, 3}) {
      std::vector<float>& numbers = tensors.emplace_back();
      for (size_t i = 0; i < size; ++i)
        numbers.push_back(static_cast<float>(random_normal({tensors.size(), static_cast<uint64_t>(step)}, i)));
    }
  }
  std::vector<StateTensor> of_rank(int rank) {
    const auto own = [&](size_t t, int64_t begin, int64_t end) {
      return Tensor::borrow(DType::f32, {end - begin}, tensors[t].data() + begin);
    };
    StateTensor cut{"model.a", DType::f32, {37}, rank == 0 ? own(0, 0, 11) : own(0, 11, 37)};
    cut.owners = {{0, {0, 11}}, {1, {11, 37}}}, cut.begin = rank == 0 ? 0 : 11;
    StateTensor last{"first.a", DType::f32, {5}, rank == 0 ? Tensor() : own(1, 0, 5)};
    last.owners = {{1, {0, 5}}};
    return {cut, last, {"model.fixed", DType::f32, {3}, own(2, 0, 3)}};
  }
};

void save_on_two(Io& io, CheckpointWriter& writer, const std::string& id, int64_t step) {
  const SharedPlace place{.checkpoints = kPlace, .id = id};
  NumbersOfStep numbers(step);
  const SafetensorsLayout layout = layout_of_state(numbers.of_rank(0));
  std::unique_ptr<IoFile> data = begin_shared(io, place, step, layout);
  WrittenShare all;
  for (const int rank : {1, 0}) {
    const std::unique_ptr<IoFile> other = rank > 0 ? io.open_append(shared_path(place, step)) : nullptr;
    const WrittenShare share = write_share(other ? *other : *data, layout, numbers.of_rank(rank), rank, {});
    if (other) other->close();
    all.bytes += share.bytes, all.crc32c ^= share.crc32c;
  }
  const auto samples = static_cast<uint64_t>(step);
  writer.start(
      {.step = step, .samples = samples, .settings = {}, .made_by = {}, .files = {file_of_shares(layout, all)}},
      std::move(data));
  writer.wait();
}

// The newest checkpoint is of one of these steps, with its bits; −1: there may be none.
bool goes_on_at(Io& io, const std::vector<int64_t>& allowed) {
  const CheckpointSearch search = find_checkpoint(io, kPlace);
  const int64_t step = search.newest ? search.newest->manifest.step : -1;
  if (std::ranges::find(allowed, step) == allowed.end()) return false;
  if (step < 0) return true;
  const CheckpointData data(io, search.newest->path, 0);
  const NumbersOfStep want(step);
  const std::string_view names[] = {"model.a", "first.a", "model.fixed"};
  for (size_t t = 0; t < std::size(names); ++t) {
    const std::span<const std::byte> bytes = data.tensors().get(names[t]).bytes;
    if (bytes.size() != want.tensors[t].size() * sizeof(float)) return false;
    if (std::memcmp(bytes.data(), want.tensors[t].data(), bytes.size()) != 0) return false;
  }
  return true;
}

// Saves steps 1 to 3 and keeps one; the highest step that is known to be committed, −1 if none is.
int64_t save_three(Io& io) {
  int64_t committed = -1;
  try {
    Arena arena;
    CheckpointWriter writer(io, arena, {.checkpoints = kPlace, .id = "7", .keep = 1});
    for (const int64_t step : {1, 2, 3}) {
      save_on_two(io, writer, "7", step);
      committed = step;
    }
  } catch (const Error&) {
  } catch (const SimulatedKill&) {}
  return committed;
}

void expect_next_process_goes_on(Io& io) {
  Arena arena;
  CheckpointWriter writer(io, arena, {.checkpoints = kPlace, .id = "8", .keep = 1});
  save_on_two(io, writer, "8", 4);
  EXPECT_TRUE(goes_on_at(io, {4}));
}

TEST(SharedCheckpointFaults, EveryOperationTimesEveryFaultLeavesTheNewestOrTheOneBefore) {
  MemoryIo plain;
  FaultIo counter(plain);
  ASSERT_EQ(save_three(counter), 3);
  const int64_t operations = counter.num_operations();
  ASSERT_GE(operations, 30);
  for (const FaultKind kind : {FaultKind::kill_before, FaultKind::kill_after, FaultKind::short_write,
                               FaultKind::no_space, FaultKind::io_error, FaultKind::sync_error})
    for (int64_t at = 0; at < operations; ++at) {
      SCOPED_TRACE(fmt::format("fault {} at operation {} of {}", static_cast<int>(kind), at, operations));
      MemoryIo disk;
      FaultIo faulty(disk, {.at = at, .kind = kind});
      const int64_t committed = save_three(faulty);
      ASSERT_TRUE(goes_on_at(disk, {committed, committed < 0 ? 1 : std::min<int64_t>(committed + 1, 3)}));
      expect_next_process_goes_on(disk);
    }
}

// On a disk that loses and reorders what was not synced, all that any rank wrote is there before the checkpoint has its name.
TEST(SharedCheckpointFaults, APowerLossLeavesTheReportedStepOrALaterOne) {
  constexpr uint64_t kSeed = 20261126;
  MemoryIo plain;
  FaultIo counter(plain);
  save_three(counter);
  for (int64_t at = 0; at <= counter.num_operations(); ++at) {
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    const int64_t committed = save_three(faulty);
    for (uint64_t draw = 0; draw < 20; ++draw) {
      const uint64_t seed = kSeed + static_cast<uint64_t>(at) * 100 + draw;
      SCOPED_TRACE(fmt::format("power lost before operation {}, seed {}, reported {}", at, seed, committed));
      const auto after = disk.state_after_crash(seed);
      ASSERT_TRUE(goes_on_at(*after, {committed, committed < 0 ? 1 : std::min<int64_t>(committed + 1, 3)}));
      expect_next_process_goes_on(*after);
    }
  }
}

// --- whole runs ---

// Counted = predicted without a copy for checkpoints, and the same file as replicas write that keep the whole state each.
TEST(TrainShared, NoRankHasACopyOfTheState) {
  const RunInputs inputs(true);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int zero : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} zero {}", name_of(dtype), zero));
      TrainSettings s = settings_of(inputs, dtype);
      s.zero = zero;
      MemoryIo io;
      const TrainResult r = train_on(s, 4, io);
      EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
      EXPECT_EQ(r.predicted.staging > 0, zero == 0);
      EXPECT_LE(r.predicted.checkpoint, std::ssize(io.read(r.checkpoint + "/" + rank_file(0))));
      EXPECT_GT(r.predicted.checkpoint, 0);
    }
}

// All ranks' process ends at an operation of the disk drawn by the seed, and the machine loses power: the same command ends with the
// bits of the run that was never disturbed.
void expect_mesh_bits_after_kills(const MeshCase& mesh, int cases) {
  constexpr uint64_t kSeed = 20261127;
  SCOPED_TRACE(to_string(mesh));
  const RunInputs inputs(true, 4);
  TrainSettings s = settings_of(inputs, DType::f32);
  s.schedule.total_steps = 4, s.checkpoint_every = 1, s.eval_every = 0, s.valid_data.clear();
  MemoryIo whole;
  FaultIo counter(whole);
  const std::string want = bits_of(train_in_mesh(s, mesh, counter), whole);
  const int64_t operations = counter.num_operations();
  const auto part = static_cast<uint64_t>((operations - 1) / cases);  // the last removes a lock
  ASSERT_GT(part, 0U);
  int resumed = 0;
  for (int i = 0; i < cases; ++i) {
    const int64_t at =
        static_cast<int64_t>(random_u64({kSeed, 1}, static_cast<uint64_t>(i)) % part) + i * static_cast<int64_t>(part);
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    EXPECT_THROW(train_in_mesh(s, mesh, faulty), SimulatedKill) << at << " of " << operations;
    const auto after = disk.state_after_crash(kSeed + static_cast<uint64_t>(i));
    const TrainResult r = train_in_mesh(s, mesh, *after);
    resumed += r.first_step > 0;
    EXPECT_TRUE(bits_of(r, *after) == want) << "killed before operation " << at << " of " << operations;
  }
  EXPECT_GT(resumed, cases / 3);
}

TEST(TrainShared, WhatGoesOnAfterAKillAtAWriteHasTheSameBits) {
  expect_mesh_bits_after_kills({.data = 4, .zero = 1}, 4);
  expect_mesh_bits_after_kills({.stages = 2, .tensor = 2}, 4);
}
TEST(TrainSharedSlow, AfterKillsInMoreMeshes) {
  for (const MeshCase& mesh : {MeshCase{.data = 4, .zero = 1}, MeshCase{.data = 2, .zero = 3},
                               MeshCase{.stages = 2, .data = 2, .tensor = 2, .zero = 3}})
    expect_mesh_bits_after_kills(mesh, 12);
}

}  // namespace
}  // namespace tern
