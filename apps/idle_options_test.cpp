#include "apps/idle_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

std::string idle_of(std::vector<std::string> words, const Environment& environment = {}) {
  words.insert(words.begin(), {"MODEL", "--dry-run"});
  const Options o = resolve_options(tern_options(), "train", words, environment, false);
  return fmt::format("{}", fmt::join(idle_words(o, environment, train_settings(o)), "\n"));
}

constexpr const char* kStart = "it is for ranks that are processes, which tern launch, srun, mpirun or torchrun start";

TEST(IdleOptions, OfProcessesAndOfSeveralRanksAreToldWhereTheyDoNothing) {
  EXPECT_EQ(idle_of({}), "");
  EXPECT_EQ(idle_of({"--ranks", "2", "--zero", "1"}), "");
  EXPECT_EQ(idle_of({"--zero", "0"}), "");
  EXPECT_EQ(idle_of({"--comm-timeout", "5s"}),
            fmt::format("--comm-timeout 5s: does nothing, as this run has one rank; {}", kStart));
  EXPECT_EQ(
      idle_of({"--comm-timeout", "30s", "--ranks", "2"}),
      fmt::format("--comm-timeout 30s: does nothing, as the ranks of this run are threads of one process; {}", kStart));
  EXPECT_EQ(idle_of({}, {{"TERN_COMM_TIMEOUT", "5s"}}), "");
  EXPECT_EQ(idle_of({"--zero", "3"}), "--zero 3: does nothing, as this run has one rank; give --ranks");
  EXPECT_EQ(idle_of({"--zero", "2", "--ranks", "2", "--tensor-parallel", "2"}),
            "--zero 2: does nothing, as no two ranks of this run have the same part of the model; give more --ranks");
  EXPECT_EQ(idle_of({}, {{"TERN_FAULT", "die@0@1"}}),
            fmt::format("TERN_FAULT=die@0@1: does nothing, as this run has one rank; {}", kStart));
  EXPECT_EQ(
      idle_of({"--ranks", "3", "--batch", "6"}, {{"TERN_FAULT", "die@0@1"}}),
      fmt::format("TERN_FAULT=die@0@1: does nothing, as the ranks of this run are threads of one process; {}", kStart));
}

}  // namespace
}  // namespace tern
