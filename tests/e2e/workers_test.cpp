// Eight trainers as threads of one process give the bits of eight `tern train` processes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "apps/options.h"
#include "base/options.h"
#include "base/threads_testing.h"
#include "tests/e2e/train_process.h"
#include "train/trainer.h"

namespace tern {
namespace {

constexpr int kWorkers = 8;

// Unlike runs: seeds, and teams of one to three threads.
std::vector<std::string> words(const TinyRun& tiny, const std::string& out, int worker) {
  return tiny.command(out, {"--seed", fmt::format("{}", worker + 1), "--threads", fmt::format("{}", 1 + worker % 3)});
}

TEST(WorkersProcess, EightThreadsOfOneProcessHaveTheBitsOfEightProcesses) {
  const TinyRun tiny;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(100)), tiny.root()), 0);  // fills the cache
  std::vector<std::unique_ptr<Child>> processes;
  for (int w = 0; w < kWorkers; ++w)
    processes.push_back(
        std::make_unique<Child>(words(tiny, tiny.out(w), w), fmt::format("{}/errors-{}", tiny.root(), w)));
  for (const auto& process : processes) EXPECT_EQ(process->wait(), 0);
  {
    std::vector<std::jthread> threads;
    for (int w = 0; w < kWorkers; ++w)
      threads.emplace_back([&, w] {
        const std::vector<std::string> all = words(tiny, tiny.out(kWorkers + w), w);
        const Options options = resolve_options(tern_options(), "train", {all.begin() + 2, all.end()}, {});
        const TrainSettings settings = train_settings(options);
        with_threads(1 + w % 3, [&] { EXPECT_EQ(train(settings).end, TrainEnd::finished); });
      });
  }
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_TRUE(final_bits(tiny.out(w)) == final_bits(tiny.out(kWorkers + w))) << "worker " << w;
    if (w > 0) { EXPECT_FALSE(final_bits(tiny.out(w)) == final_bits(tiny.out(w - 1))) << "two runs are the same"; }
  }
}

}  // namespace
}  // namespace tern
