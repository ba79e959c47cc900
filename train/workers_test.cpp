// Eight trainers in one process, each on a thread and with a team of its own: their bits are those of each alone.
// ./test runs this under ThreadSanitizer; tests/e2e/workers_test.cpp compares with eight processes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "train/ranks_testing.h"

namespace tern {
namespace {

constexpr int kWorkers = 8;

// What the runs read: a text each, one tokenizer, one model's configuration; and the cache of the machine's peak.
struct Inputs {
  std::string path = testing::TempDir() + "tern-workers-XXXXXX";
  Inputs() {
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", path.c_str(), 1);
    for (int worker = 0; worker < kWorkers; ++worker) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += fmt::format("line {} of {}\n", i, i * i % (5 + worker));
      write_file_atomically(real_io(), data(worker), text);
    }
    write_tiny_config(path, 1, true);
  }
  ~Inputs() { remove_all(real_io(), path); }
  Inputs(const Inputs&) = delete;
  std::string data(int worker) const { return fmt::format("{}/text-{}.txt", path, worker); }
};

TrainSettings settings_of(const Inputs& inputs, int worker) {
  TrainSettings s = tiny_run(inputs.path, inputs.data(worker));
  s.seed = static_cast<uint64_t>(worker + 1);
  s.batch = 4, s.micro_batch = 2, s.schedule.total_steps = 4;
  s.dtype = worker % 2 == 0 ? DType::f32 : DType::bf16;
  return s;
}

// The weights and the optimizer's state that a run leaves.
std::string bits_of(const TrainSettings& s, int team) {
  MemoryIo io;
  TrainResult result;
  with_threads(team, [&] { result = train(s, {}, io); });
  EXPECT_EQ(result.end, TrainEnd::finished);
  EXPECT_EQ(result.byte_mismatches, 0);
  EXPECT_TRUE(result.evaluation);
  return io.read(result.model + "/model.safetensors") + io.read(result.checkpoint + "/" + rank_file(0));
}

void expect_each_as_alone(int (*team)(int worker)) {
  const Inputs inputs;
  std::vector<std::string> alone, together(kWorkers);
  for (int w = 0; w < kWorkers; ++w) alone.push_back(bits_of(settings_of(inputs, w), team(w)));
  {
    std::vector<std::jthread> threads;
    for (int w = 0; w < kWorkers; ++w)
      threads.emplace_back([&, w] { together[static_cast<size_t>(w)] = bits_of(settings_of(inputs, w), team(w)); });
  }
  for (size_t w = 0; w < kWorkers; ++w) {
    EXPECT_TRUE(together[w] == alone[w]) << "worker " << w;
    if (w > 0) { EXPECT_NE(alone[w], alone[w - 1]) << "two runs are the same: nothing was tested"; }
  }
}

TEST(Workers, EightTrainersOfOneProcessHaveTheBitsOfEachAlone) {
  expect_each_as_alone([](int) { return 1; });
}

TEST(Workers, TeamsOfUnlikeSizesDoNotDisturbEachOther) {
  expect_each_as_alone([](int worker) { return 1 + worker % 3; });
}

// One is stopped, the other goes on.
TEST(Workers, AStopIsOneWorkers) {
  const Inputs inputs;
  std::atomic<bool> stop = false;
  TrainResult stopped, other;
  {
    const auto run = [&](int worker, const std::atomic<bool>& flag, TrainResult& result) {
      MemoryIo io;
      const TrainHooks hooks = {.step = [&, worker](const StepReport& s) {
        if (worker == 0 && s.step == 2) stop = true;
      }};
      with_threads(1, [&] { result = train(settings_of(inputs, worker), hooks, io, {.stop = flag}); });
    };
    std::jthread first([&] { run(0, stop, stopped); });
    std::jthread second([&] { run(1, kNeverStops, other); });
  }
  EXPECT_EQ(stopped.end, TrainEnd::interrupted);
  EXPECT_EQ(stopped.last_step, 2);
  EXPECT_EQ(other.end, TrainEnd::finished);
  EXPECT_EQ(other.last_step, 4);
}

}  // namespace
}  // namespace tern
