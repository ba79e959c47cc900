#include "apps/bench_rounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/outputs.h"
#include "base/error.h"
#include "base/system.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {
namespace {

// A task that returns the given rates in turn (the first is the warm-up's) and writes down when it ran.
BenchTask fake(const std::string& name, const std::string& against, std::vector<double> rates, std::string& order) {
  auto next = std::make_shared<size_t>(0);
  return {.name = name,
          .unit = "FLOP/s",
          .against = against,
          .what = "a fake",
          .intensity = against.empty() ? 0.0 : 8.0,
          .per_second = 0.5,
          .natural = against.empty() ? "" : "tokens/s",
          .once = [=, &order] {
            order += name.substr(0, 1);
            return rates[(*next)++ % rates.size()];
          }};
}

// Whether a mapping of at least so many bytes has asked for huge pages; true where the system has none.
bool asked_for_huge_pages(int64_t bytes) {
  std::ifstream maps("/proc/self/smaps");
  bool large = false, any = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
      large = static_cast<int64_t>(end - begin) >= bytes;
    else if (line.starts_with("VmFlags:")) {
      any = true;
      if (large && line.find(" hg") != std::string::npos) return true;
    }
  }
  return !any;
}

TEST(Bench, TasksTakeTurnsAndASharesRoundIsOneRound) {
  std::string order;
  const std::vector<BenchTask> tasks = {fake("limit", "", {1, 100, 200, 400}, order),
                                        fake("limit", "", {1, 50, 400, 100}, order),  // the better of the two counts
                                        fake("work", "limit", {1, 50, 200, 200}, order)};
  const auto results = run_rounds(tasks, 3, {});
  EXPECT_EQ(order, "llwllwllwllw");
  EXPECT_EQ(results[2].rates, (std::vector<double>{50, 200, 200}));
  EXPECT_EQ(results[2].shares, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_TRUE(results[0].shares.empty());
}

TEST(Bench, AStopKeepsTheRoundsThatWereRun) {
  std::string order;
  const std::vector<BenchTask> tasks = {fake("limit", "", {1, 2, 3, 4}, order)};
  EXPECT_EQ(run_rounds(tasks, 9, [](int round) { return round < 2; })[0].rates.size(), 2u);
  EXPECT_TRUE(run_rounds(tasks, 9, [](int) { return false; })[0].rates.empty());
  const std::vector<BenchTask> two = {fake("limit", "", {1, 2, 3, 4}, order), fake("limit", "", {1, 2, 3, 4}, order)};
  int asked = 0;  // before two warm-ups, the first round and the first task of the second, whose rate is dropped
  for (const BenchResult& r : run_rounds(two, 9, [&](int) { return ++asked <= 5; }))
    EXPECT_EQ(r.rates, std::vector<double>{2});
}

TEST(Bench, QuartilesLieBetweenNeighbours) {
  const RoundSpread s = spread({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(s.low, 1.75);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.high, 3.25);
  EXPECT_DOUBLE_EQ(s.best, 4);
  EXPECT_FALSE(s.conclusive());
  EXPECT_TRUE(spread({100, 101, 99, 100, 102}).conclusive());
  EXPECT_FALSE(spread({}).conclusive());
}

TEST(Bench, NoiseIsNotTurnedIntoAShare) {
  std::string order;
  const std::vector<BenchTask> tasks = {fake("limit", "", {1, 100, 100, 100}, order),
                                        fake("still", "limit", {1, 80, 81, 80}, order),
                                        fake("noisy", "limit", {1, 20, 50, 90}, order)};
  const auto results = run_rounds(tasks, 3, {});
  const Json json = bench_json(results);
  EXPECT_DOUBLE_EQ(json[1]["share"].get<double>(), 0.8);
  EXPECT_DOUBLE_EQ(json[1]["tokens/s"].get<double>(), 40);
  EXPECT_TRUE(json[2]["share"].is_null());
  const std::string text = bench_text(results);
  EXPECT_NE(text.find("80 %"), std::string::npos) << text;
  EXPECT_NE(text.find("noise: 35–70 %"), std::string::npos) << text;
  EXPECT_NE(text.find("No conclusion is drawn"), std::string::npos) << text;
}

// One figure has no spread, and two have none to speak of.
TEST(Bench, FewRoundsConcludeNothing) {
  for (const int rounds : {1, 2, 3}) {
    std::string order;
    const std::vector<BenchTask> tasks = {fake("limit", "", {1, 100, 100, 100}, order),
                                          fake("work", "limit", {1, 80, 80, 80}, order)};
    const auto results = run_rounds(tasks, rounds, {});
    const Json json = bench_json(results);
    EXPECT_EQ(json[0]["conclusive"], rounds >= 3);
    EXPECT_EQ(json[1]["share"].is_null(), rounds < 3);
    EXPECT_EQ(json[0]["rounds"], rounds);
    const std::string text = bench_text(results);
    EXPECT_EQ(text.find("tell no spread") != std::string::npos, rounds < 3) << text;
    EXPECT_EQ(text.find(" 80 % ") != std::string::npos, rounds >= 3) << text;
  }
}

TEST(Bench, WhereResultsCannotBeWrittenIsSaidBeforeMeasuring) {
  const std::string directory = testing::TempDir();
  EXPECT_THROW(check_writable(directory + "no-such-folder/x.svg", "--output"), Error);
  EXPECT_THROW(check_writable(directory, "--output"), Error);
  check_writable(directory + "x.svg", "--output");
  check_writable("x.svg", "--output");
  check_writable("", "--output");
}

TEST(Bench, TheRooflineHasARoofPerProductAndAPointPerWork) {
  std::string order;
  std::vector<BenchTask> tasks = {fake("matrix product f32", "", {1, 100e9}, order),
                                  fake("memory read", "", {1, 1e9}, order),
                                  fake("train step f32", "matrix product f32", {1, 60e9}, order)};
  tasks[1].unit = "B/s";
  const std::string picture = bench_roofline(run_rounds(tasks, 1, {}));
  for (const char* want : {"<svg", "matrix product f32", "train step f32", "FLOPs per byte"})
    EXPECT_NE(picture.find(want), std::string::npos) << want;
  tasks.pop_back();
  const std::string limits = bench_roofline(run_rounds(tasks, 1, {}));
  EXPECT_EQ(limits.find("work under them"), std::string::npos) << "there is none";
}

// Nothing is faster than its limit: a limit that was measured while a neighbour held a core is not one.
TEST(Bench, WorkAboveItsLimitIsSaid) {
  std::string order;
  const auto told = [&](double rate) {
    const std::vector<BenchTask> tasks = {fake("matrix units f32", "", {100e9, 100e9, 100e9, 100e9}, order),
                                          fake("product f32", "matrix units f32", {rate, rate, rate, rate}, order)};
    return bench_text(run_rounds(tasks, 3, {}));
  };
  EXPECT_NE(told(118e9).find("above: 118 %"), std::string::npos);
  EXPECT_NE(told(118e9).find("Work above its limit"), std::string::npos);
  EXPECT_EQ(told(104e9).find("above"), std::string::npos) << "within what rounds differ by";
}

TEST(Bench, WorkThatDoesNotFitIsLeftOutAndSaid) {
  std::vector<std::string> notes;
  EXPECT_TRUE(work_tasks({.memory_bytes = int64_t{64} << 20}, notes).empty());
  EXPECT_EQ(notes.size(), 4u);
}

TEST(Bench, LimitsArePositiveAndTheDiskFileIsRemoved) {
  const std::string directory = testing::TempDir() + "bench-disk";
  std::filesystem::create_directories(directory);
  {
    std::vector<std::string> notes;
    const auto tasks = limit_tasks({.disk = directory, .memory_bytes = int64_t{512} << 20}, notes);
    ASSERT_GE(tasks.size(), 7u);
    EXPECT_TRUE(asked_for_huge_pages(int64_t{128} << 20)) << "reads of small pages are no limit of the engine's";
    // A limit in registers for each type, and under it our product and oneDNN's where that has the type.
    for (const DType dtype : {DType::f32, DType::bf16}) {
      int limits = 0, own = 0, others = 0;
      for (const BenchTask& task : tasks) {
        const std::string units = fmt::format("matrix units {}", name_of(dtype));
        limits += task.name == units && task.against.empty();
        own += task.against == units && task.name.find("own kernels") != std::string::npos;
        others += task.against == units && task.name.find("oneDNN") != std::string::npos;
      }
      EXPECT_EQ(limits, 1);
      EXPECT_EQ(own, 1);
      EXPECT_EQ(others, onednn_can(dtype));
    }
    for (const BenchTask& task : tasks) EXPECT_GT(task.once(), 0) << task.name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST(Bench, AFullDiskLeavesNoFile) {
  std::string directory = testing::TempDir() + "tern-bench-full-disk-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 20 << 20;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::vector<std::string> notes;
  EXPECT_THROW(limit_tasks({.disk = directory, .memory_bytes = int64_t{512} << 20}, notes), Error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove_all(directory);
}

TEST(Bench, MemoryThatLooksLikeADiskIsToldAsMemory) {
  if (!std::filesystem::exists("/dev/shm") || read_disk_facts("/dev/shm").file_system != "tmpfs")
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  std::vector<std::string> notes;
  const auto tasks = limit_tasks({.disk = "/dev/shm", .memory_bytes = int64_t{512} << 20}, notes);
  for (const BenchTask& task : tasks)
    if (task.name.starts_with("disk")) { EXPECT_NE(task.what.find("memory, no disk"), std::string::npos) << task.what; }
  EXPECT_TRUE(std::any_of(notes.begin(), notes.end(),
                          [](const std::string& n) { return n.find("tmpfs") != std::string::npos; }));
}

}  // namespace
}  // namespace tern
