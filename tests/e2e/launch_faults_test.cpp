// How `tern launch` ends when a rank does not: killed, stopped, cut off, with bits flipped on their way.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

TEST(Launch, AKilledRankEndsTheOthersWithItsNameOperationAndStep) {
  for (const int victim : {0, 2}) {
    EndlessRun run(4);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(run.rank(victim), SIGKILL), 0) << run.text();
    EXPECT_EQ(run.child.wait(), 5) << run.text();
    EXPECT_LT(seconds_since(begin), 5) << "the system tells it at once";
    EXPECT_NE(run.text().find(fmt::format("rank {} was killed by signal 9", victim)), std::string::npos) << run.text();
    EXPECT_NE(run.text().find("tern: step "), std::string::npos) << run.text();
    EXPECT_TRUE(std::regex_search(run.text(), std::regex("; rank [0-3] (was at|waited for) "))) << run.text();
    EXPECT_TRUE(none_left(run.out, 1));
  }
}

// Also before the first checkpoint: then there is none to go on from, which is not claimed.
TEST(Launch, AFaultDoesNotComeBackInARestart) {
  const TinyRun tiny;
  std::string errors;
  const auto run = [&](int out, const Words& options) {
    Words words = launched(2, tiny.command(tiny.out(out), {"--micro-batch", "1"}), options);
    words.insert(words.begin(), {"/usr/bin/env", "TERN_FAULT=die@1@20"});
    return run_to_end(words, tiny.root(), &errors);
  };
  EXPECT_EQ(run(1, {}), 5) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(1) + "/checkpoints/step-1"));
  EXPECT_NE(errors.find("goes on from the last checkpoint, or begins anew without one"), std::string::npos) << errors;
  EXPECT_EQ(run(2, {"--max-restarts", "1"}), 0) << errors;
  EXPECT_NE(errors.find("starting again with 2 ranks, from the last checkpoint if there is one (restart 1 of 1)"),
            std::string::npos)
      << errors;
}

TEST(LaunchSlow, AStoppedRankIsLostAfterTheTimeoutAndNoneIsLeft) {
  EndlessRun run(2);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(run.rank(1), SIGSTOP), 0) << run.text();
  EXPECT_EQ(run.child.wait(), 5) << run.text();
  EXPECT_LT(seconds_since(begin), 2 + 5);
  EXPECT_NE(run.text().find("rank 1 was lost: no sign of life for 2 s (--comm-timeout)"), std::string::npos)
      << run.text();
  EXPECT_TRUE(none_left(run.out, 1));
}

TEST(Launch, NoRankOutlivesAKilledLauncher) {
  EndlessRun run(4);
  ASSERT_EQ(processes_of(run.out).size(), 5u) << run.text();
  run.child.signal(SIGKILL);
  EXPECT_EQ(run.child.wait(), 128 + SIGKILL);
  EXPECT_TRUE(none_left(run.out, 5));
}

TEST(LaunchSlow, AfterALossAllStartAgainAndTheBitsAreThoseOfNoLoss) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out, const char* ranks) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "4", "--steps", "200", "--ranks", ranks});
  };
  const auto bits = [&](int out) {
    return real_io().read(tiny.out(out) + "/model/model.safetensors") +
           real_io().read(tiny.out(out) + "/checkpoints/step-200/rank-0.safetensors");
  };
  ASSERT_EQ(run_to_end(command(0, "1"), tiny.root(), &errors), 0) << errors;
  const std::string said = tiny.root() + "/said";
  // Without --ranks: fewer come back.
  Words words = command(1, "4");
  words.erase(words.end() - 2, words.end());
  Child child(launched(4, words, {"--max-restarts", "1", "--min-ranks", "2"}), said);
  while (child.running() && !real_io().stat(tiny.out(1) + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
  const std::vector<pid_t> victims = processes_of(tiny.out(1), "3");
  ASSERT_EQ(victims.size(), 1u) << real_io().read(said);
  ::kill(victims.front(), SIGKILL);
  EXPECT_EQ(child.wait(), 0) << real_io().read(said);
  EXPECT_NE(real_io().read(said).find(
                "starting again with 2 ranks, from the last checkpoint if there is one (restart 1 of 1)"),
            std::string::npos)
      << real_io().read(said);
  EXPECT_EQ(bits(1) == bits(0), true);
}

// Faults of every kind at messages drawn by chance: each ends as it should, soon, by name, and leaves nobody behind.
TEST(LaunchSlow, SixtyFourFaultsAtRandomMessagesEndByName) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "4", "--steps", "12"});
  };
  ASSERT_EQ(run_to_end(command(0), tiny.root(), &errors), 0) << errors;
  const auto bits = [&](int out) { return real_io().read(tiny.out(out) + "/model/model.safetensors"); };
  const char* given = std::getenv("TERN_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  for (int number = 0; number < 64; ++number) {
    const auto draw = [&](uint64_t what, int below) {
      return static_cast<int>(below * random_uniform({seed, what}, static_cast<uint64_t>(number)));
    };
    const char* kinds[] = {"die", "die", "die", "die", "die", "stop", "partition", "slow"};
    const std::string kind = kinds[number % 8];
    const int ranks = 2 << draw(1, 2), victim = draw(2, ranks), out = number + 1;
    // Of some 200 messages that a rank sends to each other.
    const int amount = kind == "slow" ? 2'000'000 : draw(3, 110 * (ranks - 1));
    Words words = command(out);
    words.insert(words.end(), {"--zero", std::to_string(draw(6, 2))});
    words = launched(ranks, words);
    words.insert(words.begin(), {"/usr/bin/env", fmt::format("TERN_FAULT={}@{}@{}", kind, victim, amount)});
    SCOPED_TRACE(testing::Message() << kind << " of rank " << victim << " of " << ranks << " at " << amount << ", seed "
                                    << seed);
    const auto begin = std::chrono::steady_clock::now();
    const int code = run_to_end(words, tiny.root(), &errors);
    EXPECT_TRUE(none_left(tiny.out(out), 1));
    if (code == 0) {
      EXPECT_EQ(kind, "slow") << errors;
      EXPECT_EQ(bits(out) == bits(0), true);
      continue;
    }
    EXPECT_EQ(code, 5) << errors;
    EXPECT_LT(seconds_since(begin), 2 + 2 + 5) << "two seconds are the timeout, two the steps";
    const std::string named = kind == "die"    ? fmt::format("rank {} was killed by signal 9", victim)
                              : kind == "stop" ? fmt::format("rank {} was lost: no sign of life for 2 s", victim)
                                               : fmt::format("of rank {}", victim);
    EXPECT_NE(errors.find(named), std::string::npos) << errors;
    // Whoever goes on, as threads, has the bits of a run that nothing befell.
    Words rest = command(out);
    rest.insert(rest.end(), {"--ranks", std::to_string(1 << draw(4, 3)), "--zero", std::to_string(draw(5, 2))});
    ASSERT_EQ(run_to_end(rest, tiny.root(), &errors), 0) << errors;
    EXPECT_EQ(bits(out) == bits(0), true);
  }
}

// Bits flipped between processes. Once: the step is done again, to the bits of a run where none was. In each message from then on: its
// second time too, so the run ends with 5, and the same command goes on from the last checkpoint to the same bits.
TEST(Launch, AChangedBitIsAStepDoneAgainAndTheSecondTimeEndsWithFive) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "2", "--zero", "1"});
  };
  const auto launched_with = [&](int out, const std::string& fault) {
    Words words = launched(2, command(out));
    words.insert(words.begin(), {"/usr/bin/env", "TERN_FAULT=" + fault});
    return run_to_end(words, tiny.root(), &errors);
  };
  Words alone = command(0);
  alone.insert(alone.end(), {"--ranks", "2"});
  ASSERT_EQ(run_to_end(alone, tiny.root(), &errors), 0) << errors;
  const std::string want = final_bits(tiny.out(0));
  // Many messages are of a step's passes. One of its totals ends the run, with 5 and other words; one copy of a verdict and
  // one of a checkpoint, which is compared by itself, change nothing.
  int at = 150, out = 1;
  for (bool again = false; !again; at += 3, ++out) {
    ASSERT_LT(at, 240) << errors;
    const int code = launched_with(out, fmt::format("corrupt@1@{}@{}", at, 37 * at));
    ASSERT_TRUE(code == 0 || code == 5) << at << ": " << errors;
    again = errors.find("a message of rank 1 to rank 0 was changed on its way; the step is done again") !=
            std::string::npos;
    EXPECT_EQ(code == 0 && final_bits(tiny.out(out)) != want, false) << at << errors;
    EXPECT_EQ(again && code != 0, false) << at << errors;
  }
  std::string every;
  for (int message = at - 3; message < at + 60; ++message)
    every += fmt::format("{}corrupt@1@{}", every.empty() ? "" : ",", message);
  EXPECT_EQ(launched_with(out, every), 5) << errors;
  EXPECT_NE(errors.find("a message of rank 1 to rank 0 was changed on its way, and one of this step had been before"),
            std::string::npos)
      << errors;
  EXPECT_TRUE(none_left(tiny.out(out), 1));
  ASSERT_EQ(run_to_end(launched(2, command(out)), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(out)) == want) << "of a run that went on after its end";
}

}  // namespace
}  // namespace tern
