#include "report/metrics_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/memory_io.h"
#include "report/tensorboard.h"

namespace tern {
namespace {

class MetricsLogFile : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "metrics_log_" + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string jsonl() const { return join_path(directory_, "metrics.jsonl"); }
  std::string events() const { return join_path(directory_, "events.out.tfevents.tern"); }
  EventFile read_events() const { return parse_events(real_io().read(events()), events()); }
  std::string directory_;
};

MetricRow row(int64_t step, double loss) {
  return {step, 1000.5 + static_cast<double>(step), {{"train/loss", loss}, {"train/lr", 1e-3}}};
}

TEST(MetricLine, HasTheShapeTheHeaderStates) {
  EXPECT_EQ(metric_line({10, 1795280000.25, {{"train/loss", 2.5}, {"a\"b", NAN}}}),
            "{\"step\":10,\"time\":1795280000.25,\"train/loss\":2.5,\"a\\\"b\":\"NaN\"}");
}

TEST(MetricLine, KeepsEveryBitOfEveryDouble) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 5000; ++trial) {
    const uint64_t bits = random();
    double value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof bits);
    const MetricRow back = parse_metric_line(metric_line({trial, 0, {{"x", value}}}), "test");
    ASSERT_EQ(back.values.size(), 1u);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(back.values[0].second));
    else
      ASSERT_EQ(std::memcmp(&back.values[0].second, &value, sizeof value), 0) << value;
  }
}

TEST(MetricLine, RefusesReservedAndRepeatedTags) {
  for (const auto& tags : {std::vector<std::string>{"step"}, {"time"}, {""}, {"a", "a"}}) {
    MetricRow bad;
    for (const auto& tag : tags) bad.values.emplace_back(tag, 1);
    EXPECT_ANY_THROW(metric_line(bad));
  }
}

TEST(MetricLine, NamesThePlaceOfAMalformedLine) {
  for (const char* line : {"", "[]", "{}", "{\"step\":1.5}", "{\"step\":\"1\"}", "{\"step\":1,\"x\":null}",
                           "{\"step\":1,\"x\":\"nan\"}", "{\"step\":1,\"x\":1,\"x\":2}", "{\"step\":1"}) {
    try {
      parse_metric_line(line, "log:7");
      ADD_FAILURE() << "accepted " << line;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      EXPECT_EQ(std::string(e.what()).find("log:7"), 0u) << e.what();
    }
  }
}

TEST_F(MetricsLogFile, WritesTheSameRowsToBothFiles) {
  {
    MetricsLog log(real_io(), directory_, -1);
    for (int step = 1; step <= 3; ++step) log.append(row(step, 4.0 / step));
  }
  const MetricsFile file = read_metrics(jsonl());
  const EventFile board = read_events();
  ASSERT_EQ(file.rows.size(), 3u);
  ASSERT_EQ(board.events.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.rows[i].step, board.events[i].step);
    EXPECT_EQ(file.rows[i].time_s, board.events[i].time_s);
    ASSERT_EQ(board.events[i].values.size(), 2u);
    EXPECT_EQ(static_cast<float>(file.rows[i].values[0].second), board.events[i].values[0].second);
    EXPECT_EQ(board.events[i].values[1].first, "train/lr");
  }
}

TEST_F(MetricsLogFile, FillsInThePresentTime) {
  MetricsLog(real_io(), directory_, -1).append({1, 0, {{"x", 1}}});
  EXPECT_GT(read_metrics(jsonl()).rows.at(0).time_s, 1.7e9);
}

TEST_F(MetricsLogFile, ResumingDropsRowsPastTheCheckpointAndTornTails) {
  {
    MetricsLog log(real_io(), directory_, -1);
    for (int step = 1; step <= 9; ++step) log.append(row(step, step));
  }
  real_io().truncate(jsonl(), real_io().stat(jsonl())->size_bytes - 3);
  real_io().truncate(events(), real_io().stat(events())->size_bytes - 3);
  EXPECT_TRUE(read_metrics(jsonl()).torn);
  EXPECT_TRUE(read_events().torn);
  EXPECT_EQ(read_metrics(jsonl()).rows.size(), 8u);
  {
    MetricsLog log(real_io(), directory_, 5);
    for (int step = 6; step <= 7; ++step) log.append(row(step, step));
  }
  const MetricsFile file = read_metrics(jsonl());
  const EventFile board = read_events();
  EXPECT_FALSE(file.torn || board.torn);
  ASSERT_EQ(file.rows.size(), 7u);
  ASSERT_EQ(board.events.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(metric_line(file.rows[i]), metric_line(row(static_cast<int64_t>(i) + 1, static_cast<double>(i) + 1)));
    EXPECT_EQ(board.events[i].step, static_cast<int64_t>(i) + 1);
  }
}

// Rows past the last sync may be lost, cut, or zeros with later rows behind them: none of it stands in the way of a
// resume at the step that was synced, and all rows up to it are there.
TEST(MetricsLogPowerLoss, WhatWasSyncedIsThereAndTheRestDoesNotBlockTheResume) {
  constexpr uint64_t kSeed = 20261122;
  int torn = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    MemoryIo disk;
    MetricsLog log(disk, "logs", -1);
    for (int step = 1; step <= 5; ++step) log.append(row(step, step));
    log.sync();
    for (int step = 6; step <= 12; ++step) log.append(row(step, step));
    const auto after = disk.state_after_crash(kSeed + i);
    torn += parse_sound_events(after->read("logs/events.out.tfevents.tern"), "events").torn;
    ASSERT_NO_THROW(MetricsLog(*after, "logs", 5).append(row(6, 6))) << "seed " << kSeed + i;
    const std::string text = after->read("logs/metrics.jsonl");
    std::string want;
    for (int step = 1; step <= 6; ++step) want += metric_line(row(step, step)) + "\n";
    ASSERT_EQ(text, want) << "seed " << kSeed + i;
    ASSERT_EQ(parse_events(after->read("logs/events.out.tfevents.tern"), "events").events.size(), 6u);
  }
  EXPECT_GT(torn, 100);
}

TEST_F(MetricsLogFile, BeginningAnewForgetsTheOldRun) {
  { MetricsLog(real_io(), directory_, -1).append(row(1, 1)); }
  { MetricsLog(real_io(), directory_, -1).append(row(0, 2)); }
  EXPECT_EQ(read_metrics(jsonl()).rows.size(), 1u);
  EXPECT_EQ(read_events().events.size(), 1u);
}

TEST_F(MetricsLogFile, DoesNotResumeOverAStrangersFile) {
  make_dirs(real_io(), directory_);
  real_io().create(jsonl())->append(std::string_view("hello\nworld\n"));
  EXPECT_THROW(MetricsLog(real_io(), directory_, 3), Error);
}

}  // namespace
}  // namespace tern
