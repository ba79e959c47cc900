// The commit protocol under faults: every operation × every fault, then simulated power losses, then flipped bits.
#include "train/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault_io.h"
#include "base/memory_io.h"
#include "base/rng.h"
#include "tensor/arena.h"
#include "train/checkpoint_writer.h"

namespace tern {
namespace {

const std::string kDirectory = "run/checkpoints";

// The state after `step` steps, as a function of the step: what a resumed run must find again.
struct Saved {
  std::vector<float> weights, moments;
  std::vector<TensorToWrite> tensors;
  Manifest manifest;
};
Saved state_of(int64_t step, int64_t size = 37) {
  Saved s;
  for (int64_t i = 0; i < size; ++i) {
    s.weights.push_back(static_cast<float>(random_normal({1, static_cast<uint64_t>(step)}, i)));
    s.moments.push_back(static_cast<float>(random_normal({2, static_cast<uint64_t>(step)}, i)));
  }
  s.tensors = {{.name = "model.a",
                .dtype = DType::f32,
                .shape = {size},
                .bytes = std::as_bytes(std::span(s.weights)),
                .produce = {}},
               {.name = "first.a",
                .dtype = DType::f32,
                .shape = {size},
                .bytes = std::as_bytes(std::span(s.moments)),
                .produce = {}}};
  s.manifest = {.step = step,
                .samples = static_cast<uint64_t>(step) * 8,
                .settings = {{"seq", "16"}, {"data", "é \"quoted\""}},
                .made_by = {{"threads", "2"}},
                .files = {}};
  return s;
}

void commit(Io& io, int64_t step, std::string_view id = "7") {
  const Saved s = state_of(step);
  commit_checkpoint(io, kDirectory, id, 0, s.manifest, s.tensors);
}

// The newest checkpoint is one of `allowed`, and holds exactly that step's bits.
testing::AssertionResult resumes_at(Io& io, std::vector<int64_t> allowed) {
  const CheckpointSearch search = find_checkpoint(io, kDirectory);
  const int64_t step = search.newest ? search.newest->manifest.step : -1;
  if (std::find(allowed.begin(), allowed.end(), step) == allowed.end())
    return testing::AssertionFailure() << "found step " << step;
  if (step < 0) return testing::AssertionSuccess();
  const Saved want = state_of(step);
  const CheckpointData data(io, search.newest->path, 0);
  for (const TensorToWrite& t : want.tensors) {
    const TensorView got = data.tensors().get(t.name);
    if (got.bytes.size() != t.bytes.size() || std::memcmp(got.bytes.data(), t.bytes.data(), t.bytes.size()) != 0)
      return testing::AssertionFailure() << "step " << step << ": other bits in " << t.name;
  }
  if (search.newest->manifest.samples != want.manifest.samples ||
      search.newest->manifest.settings != want.manifest.settings)
    return testing::AssertionFailure() << "step " << step << ": another manifest";
  return testing::AssertionSuccess();
}

TEST(Manifest, RoundTripsAndNoticesEveryFlippedBit) {
  Manifest m = state_of(12).manifest;
  m.files = {{"rank-0.safetensors", 123, 0xdeadbeef}};
  const std::string text = manifest_text(m);
  EXPECT_EQ(parse_manifest(text, "m"), m);
  int detected = 0;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    try {
      parse_manifest(bad, "m");
      ADD_FAILURE() << "bit " << bit << " went unnoticed";
    } catch (const Error& e) { detected += e.kind() == ErrorKind::bad_file; }
  }
  EXPECT_EQ(detected, static_cast<int>(text.size() * 8));
}

TEST(Manifest, RefusesFilesOutsideItsDirectory) {
  Manifest m = state_of(12).manifest;
  for (const char* name : {"../x", "/etc/passwd", ".hidden", ""}) {
    m.files = {{name, 1, 0}};
    EXPECT_THROW(parse_manifest(manifest_text(m), "m"), Error) << name;
  }
}

TEST(Manifest, RefusesAFileNamedTwiceAndMoreSamplesThanARunCounts) {
  Manifest m{.step = 1, .samples = uint64_t{1} << 53, .files = {{"rank-0.safetensors", 1, 1}}};
  EXPECT_NO_THROW(parse_manifest(manifest_text(m), "m"));
  m.samples = (uint64_t{1} << 53) + 1;
  EXPECT_THROW(parse_manifest(manifest_text(m), "m"), Error);
  m.samples = INT64_MAX;
  EXPECT_THROW(parse_manifest(manifest_text(m), "m"), Error);
  m.samples = 0;
  m.files.push_back(m.files.front());
  EXPECT_THROW(parse_manifest(manifest_text(m), "m"), Error) << "a hundred thousand of them would be read for hours";
}

TEST(CheckpointName, TakesOnlyCommittedNames) {
  EXPECT_EQ(checkpoint_step("step-40"), 40);
  for (const char* name : {"step-", "step-040", "step-4x", "step-40.tmp-7", "step-40.broken-1", "step--4", "latest",
                           "step-99999999999999999999"})
    EXPECT_FALSE(checkpoint_step(name)) << name;
}

TEST(Checkpoint, CommitsAndIsFoundAgain) {
  MemoryIo io;
  commit(io, 1);
  commit(io, 2);
  EXPECT_TRUE(resumes_at(io, {2}));
}

TEST(Checkpoint, CommittingTheSameBitsAgainChangesNothingOtherBitsAreRefused) {
  MemoryIo io;
  commit(io, 5);
  Saved same = state_of(5);
  EXPECT_EQ(commit_checkpoint(io, kDirectory, "8", 0, same.manifest, same.tensors), Committed::identical);
  EXPECT_EQ(io.list(kDirectory), std::vector<std::string>{"step-5"});
  same.weights[3] += 1;
  EXPECT_THROW(commit_checkpoint(io, kDirectory, "8", 0, same.manifest, same.tensors), Error);
  EXPECT_TRUE(resumes_at(io, {5}));
}

TEST(Checkpoint, ABrokenOneOfTheSameStepIsMovedAsideNotMerged) {
  MemoryIo io;
  commit(io, 5);
  io.remove(kDirectory + "/step-5/manifest.json");
  commit(io, 5);
  EXPECT_TRUE(resumes_at(io, {5}));
  EXPECT_TRUE(io.stat(kDirectory + "/step-5.broken-1"));
}

TEST(Checkpoint, BrokenNewerOnesAreNamedMovedAsideAndTheOlderTaken) {
  MemoryIo io;
  commit(io, 1);
  commit(io, 2);
  io.truncate(kDirectory + "/step-2/rank-0.safetensors", 100);
  const CheckpointSearch search = find_checkpoint(io, kDirectory);
  ASSERT_TRUE(search.newest);
  EXPECT_EQ(search.newest->manifest.step, 1);
  EXPECT_EQ(search.num_broken, 1);
  ASSERT_EQ(search.notes.size(), 2u);
  EXPECT_NE(search.notes[0].find("100 bytes, the manifest says"), std::string::npos) << search.notes[0];
  EXPECT_TRUE(io.stat(kDirectory + "/step-2.broken-1"));
}

// A disk that cannot be read now says nothing about the checkpoint: to take an older one, or to move this one aside,
// would lose steps for a loose cable.
TEST(Checkpoint, AReadErrorIsReportedAndNothingIsMovedForIt) {
  struct Unreadable : FaultIo {
    using FaultIo::FaultIo;
    std::string read(const std::string& path) override {
      if (path.find("step-20/") != std::string::npos) throw_io_error("read", path, EIO);
      return FaultIo::read(path);
    }
  };
  MemoryIo disk;
  commit(disk, 10);
  commit(disk, 20);
  Unreadable io(disk);
  try {
    find_checkpoint(io, kDirectory);
    FAIL() << "an older checkpoint was taken";
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("step-20"), std::string::npos) << e.what(); }
  EXPECT_THROW(retire_checkpoints(io, kDirectory, 1, "7"), Error);
  EXPECT_TRUE(resumes_at(disk, {20}));
}

// A newer tern's checkpoint is whole: to move it aside and take an older one would undo its steps.
TEST(Checkpoint, OneOfAnotherVersionIsAnErrorAndStaysWhereItIs) {
  MemoryIo io;
  commit(io, 10);
  commit(io, 20);
  const std::string path = kDirectory + "/step-20/manifest.json";
  std::string text = io.read(path);
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  const std::string head = R"({"crc32c":")";
  text.replace(head.size(), 8, "00000000");
  text.replace(head.size(), 8, fmt::format("{:08x}", crc32c(text)));
  io.create(path)->append(text);
  try {
    find_checkpoint(io, kDirectory);
    FAIL() << "an older checkpoint was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("version 2, this tern reads version 1"), std::string::npos) << e.what();
  }
  EXPECT_THROW(retire_checkpoints(io, kDirectory, 1, "7"), Error);
  EXPECT_THROW(commit(io, 20), Error);
  for (const char* name : {"step-10", "step-20"}) EXPECT_TRUE(io.stat(kDirectory + "/" + name)) << name;
}

TEST(Checkpoint, IfNoneVerifiesTheyStayAndAreCounted) {
  MemoryIo io;
  commit(io, 1);
  io.remove(kDirectory + "/step-1/rank-0.safetensors");
  const CheckpointSearch search = find_checkpoint(io, kDirectory);
  EXPECT_FALSE(search.newest);
  EXPECT_EQ(search.num_broken, 1);
  EXPECT_TRUE(io.stat(kDirectory + "/step-1"));
}

TEST(Checkpoint, ARenamedDirectoryDoesNotPassForAnotherStep) {
  MemoryIo io;
  commit(io, 1);
  io.rename(kDirectory + "/step-1", kDirectory + "/step-9");
  EXPECT_FALSE(find_checkpoint(io, kDirectory).newest);
}

TEST(Checkpoint, RetiringKeepsTheNewestAndNothingGoesBelowABrokenOne) {
  MemoryIo io;
  for (const int64_t step : {1, 2, 3, 10}) commit(io, step);
  retire_checkpoints(io, kDirectory, 2, "7");
  EXPECT_EQ(io.list(kDirectory), (std::vector<std::string>{"step-10", "step-3"}));
  io.remove(kDirectory + "/step-10/manifest.json");
  retire_checkpoints(io, kDirectory, 1, "7");
  EXPECT_TRUE(resumes_at(io, {3}));
}

TEST(Checkpoint, TheSweepTakesWhatTheDeadLeftAndLeavesTheLiving) {
  MemoryIo io;
  const auto begin_one = [&](const std::string& id) {
    io.make_dir(kDirectory + "/step-3.tmp-" + id);
    io.make_dir(kDirectory + "/step-1.tmp-old-" + id);
    io.create(kDirectory + "/step-3.tmp-" + id + "/rank-0.safetensors")->append("half");
  };
  commit(io, 2);
  const WriterLock living(io, kDirectory, "5-living");
  EXPECT_THROW(WriterLock(io, kDirectory, "5-living"), Error) << "an id is one writer's";
  for (const char* id : {"5-living", "5-dead", "6-dead"}) begin_one(id);
  io.create(kDirectory + "/writer-6-dead.lock");  // nobody holds it
  EXPECT_EQ(find_checkpoint(io, kDirectory).notes.size(), 4U);
  EXPECT_EQ(io.list(kDirectory), (std::vector<std::string>{"step-1.tmp-old-5-living", "step-2", "step-3.tmp-5-living",
                                                           "writer-5-living.lock"}));
}

TEST(Checkpoint, AWriterThatEndsLeavesNoLock) {
  MemoryIo io;
  { const WriterLock lock(io, kDirectory, "9"); }
  EXPECT_TRUE(io.list(kDirectory).empty());
}

TEST(Checkpoint, EachRankHasItsOwnFile) {
  MemoryIo io;
  const Saved s = state_of(4);
  commit_checkpoint(io, kDirectory, "7", 3, s.manifest, s.tensors);
  const CheckpointSearch search = find_checkpoint(io, kDirectory);
  ASSERT_TRUE(search.newest);
  EXPECT_EQ(search.newest->manifest.files.at(0).name, "rank-3.safetensors");
  EXPECT_EQ(CheckpointData(io, search.newest->path, 3).tensors().size(), 2U);
}

TEST(Checkpoint, FiveHundredFlippedBitsOfTheDataAreAllNoticed) {
  MemoryIo io;
  commit(io, 1);
  const std::string path = kDirectory + "/step-1/" + rank_file(0), good = io.read(path);
  int detected = 0;
  for (int i = 0; i < 500; ++i) {
    const uint64_t bit = random_u64({3, 3}, i) % (good.size() * 8);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    io.create(path)->append(bad);
    try {
      verify_checkpoint(io, kDirectory + "/step-1");
      ADD_FAILURE() << "bit " << bit;
    } catch (const Error&) { ++detected; }
  }
  EXPECT_EQ(detected, 500);
}

// A save, a second one, the first retired: each operation fails in each way. Afterwards the newest valid checkpoint is
// the last one reported committed, or the one being written, never a mixture, and the next process can go on.
struct Episode {
  int64_t reported = -1;  // highest step whose commit returned
};
Episode run_episode(Io& io) {
  Episode e;
  try {
    for (const int64_t step : {1, 2, 3}) {
      commit(io, step);
      e.reported = step;
      retire_checkpoints(io, kDirectory, 1, "7");
    }
  } catch (const Error&) {
  } catch (const SimulatedKill&) {}
  return e;
}

TEST(CheckpointFaults, EveryOperationTimesEveryFaultLeavesTheNewestOrTheOneBefore) {
  MemoryIo plain;
  FaultIo counter(plain);
  run_episode(counter);
  const int64_t operations = counter.num_operations();
  ASSERT_GE(operations, 30);
  int runs = 0;
  for (const FaultKind kind : {FaultKind::kill_before, FaultKind::kill_after, FaultKind::short_write,
                               FaultKind::no_space, FaultKind::io_error, FaultKind::sync_error})
    for (int64_t at = 0; at < operations; ++at, ++runs) {
      MemoryIo disk;
      FaultIo faulty(disk, {.at = at, .kind = kind});
      const Episode e = run_episode(faulty);
      const std::vector<int64_t> allowed = {e.reported, e.reported < 0 ? 1 : std::min<int64_t>(e.reported + 1, 3)};
      ASSERT_TRUE(resumes_at(disk, allowed))
          << "fault " << static_cast<int>(kind) << " at operation " << at << " of " << operations;
      commit(disk, 4, "8");  // the next process goes on
      ASSERT_TRUE(resumes_at(disk, {4})) << "fault " << static_cast<int>(kind) << " at operation " << at;
    }
  RecordProperty("runs", runs);
  fmt::print("{} operations x 6 faults = {} runs\n", operations, runs);
}

TEST(CheckpointFaults, FiveThousandPowerLossesLeaveTheReportedStepOrALaterOne) {
  constexpr uint64_t kSeed = 20261121;
  fmt::print("seed {}\n", kSeed);
  MemoryIo plain;
  FaultIo counter(plain);
  run_episode(counter);
  const int64_t operations = counter.num_operations();
  int states = 0;
  for (int64_t at = 0; at <= operations; ++at) {
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    const Episode e = run_episode(faulty);
    for (int i = 0; i < 5000 / static_cast<int>(operations) + 2; ++i, ++states) {
      const uint64_t seed = kSeed + static_cast<uint64_t>(at) * 100000 + static_cast<uint64_t>(i);
      const auto after = disk.state_after_crash(seed);
      std::vector<int64_t> allowed;
      for (int64_t step = e.reported; step <= std::min<int64_t>(e.reported < 0 ? 1 : e.reported + 1, 3); ++step)
        if (step != 0) allowed.push_back(step);
      ASSERT_TRUE(resumes_at(*after, allowed))
          << "power lost before operation " << at << ", seed " << seed << ", reported " << e.reported;
      commit(*after, 4, "8");
      ASSERT_TRUE(resumes_at(*after, {4})) << "seed " << seed;
    }
  }
  EXPECT_GE(states, 5000);
  fmt::print("{} post-crash states\n", states);
}

TEST(CheckpointWriter, WritesACopyWhileTheStateChangesAndFreesItsStaging) {
  MemoryIo io;
  Arena arena;
  CheckpointWriter writer(io, arena, {kDirectory, "7", 2});
  Saved s = state_of(1);
  const std::vector<NamedTensor> state = {{"model.a", Tensor::borrow(DType::f32, {37}, s.weights.data())},
                                          {"first.a", Tensor::borrow(DType::f32, {37}, s.moments.data())}};
  writer.save(s.manifest, state);
  s.weights.assign(37, 0.0f);  // the next step
  writer.wait();
  EXPECT_EQ(writer.committed_step(), 1);
  EXPECT_TRUE(resumes_at(io, {1}));
  EXPECT_EQ(arena.current_total(), 0);
  EXPECT_EQ(arena.peak()[static_cast<size_t>(MemoryClass::staging)], 2 * 37 * 4);
}

TEST(CheckpointWriter, AFullDiskIsReportedOnce) {
  MemoryIo io;
  io.capacity_bytes = 100;
  Arena arena;
  CheckpointWriter writer(io, arena, {kDirectory, "7", 2});
  Saved s = state_of(1);
  writer.save(s.manifest, {{"model.a", Tensor::borrow(DType::f32, {37}, s.weights.data())}});
  try {
    writer.wait();
    FAIL() << "no error";
  } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::does_not_fit) << e.what(); }
  EXPECT_NO_THROW(writer.wait());
  EXPECT_EQ(writer.committed_step(), -1);
}

TEST(CheckpointOnDisk, SavingOverAnOpenMappingKeepsTheMappingsBytes) {
  const std::string root =
      (std::filesystem::temp_directory_path() / fmt::format("tern-checkpoint-{}", real_clock().wall_ns())).string();
  const std::string checkpoints = root + "/checkpoints";
  const Saved s = state_of(1);
  commit_checkpoint(real_io(), checkpoints, "7", 0, s.manifest, s.tensors);
  {
    const CheckpointData open(real_io(), checkpoints + "/step-1", 0);
    Saved other = state_of(2);
    commit_checkpoint(real_io(), checkpoints, "7", 0, other.manifest, other.tensors);
    retire_checkpoints(real_io(), checkpoints, 1, "7");
    EXPECT_FALSE(real_io().stat(checkpoints + "/step-1"));
    EXPECT_EQ(std::memcmp(open.tensors().get("model.a").bytes.data(), s.weights.data(), 37 * 4), 0);
  }
  remove_all(real_io(), root);
}

}  // namespace
}  // namespace tern
