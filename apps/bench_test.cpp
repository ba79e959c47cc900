#include "apps/bench.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

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
}

TEST(Bench, QuartilesLieBetweenNeighbours) {
  const Spread s = spread({4, 1, 3, 2});
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

TEST(Bench, TheRooflineHasARoofPerProductAndAPointPerWork) {
  std::string order;
  std::vector<BenchTask> tasks = {fake("matrix product f32", "", {1, 100e9}, order),
                                  fake("memory read", "", {1, 1e9}, order),
                                  fake("train step f32", "matrix product f32", {1, 60e9}, order)};
  tasks[1].unit = "B/s";
  const std::string picture = bench_roofline(run_rounds(tasks, 1, {}));
  for (const char* want : {"<svg", "matrix product f32", "train step f32", "FLOPs per byte"})
    EXPECT_NE(picture.find(want), std::string::npos) << want;
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
    const auto tasks = limit_tasks({.disk = directory, .memory_bytes = int64_t{512} << 20});
    ASSERT_GE(tasks.size(), 7u);
    for (const BenchTask& task : tasks) EXPECT_GT(task.once(), 0) << task.name;
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace tern
