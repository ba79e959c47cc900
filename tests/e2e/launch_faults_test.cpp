// How ranks end when one does not: killed, stopped, cut off, with bits flipped on their way, or unlike the others from the start.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "comm/launched_rank.h"
#include "comm/socket.h"
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

TEST(Launch, ARestartHasANumberOfRanksThatTheCommandCanHave) {
  const TinyRun tiny;
  std::string errors;
  Words words = launched(2, tiny.command(tiny.out(1), {"--micro-batch", "1", "--tensor-parallel", "2"}),
                         {"--max-restarts", "1", "--min-ranks", "1"});
  words.insert(words.begin(), {"/usr/bin/env", "TERN_FAULT=die@1@20"});
  EXPECT_EQ(run_to_end(words, tiny.root(), &errors), 0) << errors;
  EXPECT_NE(
      errors.find("starting again with 2 ranks (not fewer, as groups of 2 share the model or its rows out), from"),
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

// Faults drawn by chance, and a run that nothing befell.
struct Faults {
  TinyRun tiny{};
  std::string errors{};
  uint64_t seed = 1;
  int number = 0;                      // of the fault, from 1; the run without has 0
  std::map<std::string, int> ended{};  // by kind and exit code

  int draw(uint64_t what, int below) const {
    return static_cast<int>(below * random_uniform({seed, what}, static_cast<uint64_t>(number)));
  }
  std::string out() const { return tiny.out(number); }
  Words command(const Words& more = {}) const {
    Words all{"--micro-batch", "1", "--sum-groups", "4", "--steps", "12"};
    all.insert(all.end(), more.begin(), more.end());
    return tiny.command(out(), all);
  }
  std::string bits(int of) const { return real_io().read(tiny.out(of) + "/model/model.safetensors"); }
  bool says(const std::string& text) const { return errors.find(text) != std::string::npos; }
  void expect_bits_of_none() { EXPECT_TRUE(bits(number) == bits(0)) << errors; }
};

// A rank sends to each other fewer messages than the first before the first step, and more than the second in all.
constexpr int kBeforeSteps = 75, kMessages = 190;

std::string name_of_loss(const std::string& kind, int victim) {
  if (kind == "die") return fmt::format("rank {} was killed by signal 9", victim);
  if (kind == "stop") return fmt::format("rank {} was lost: no sign of life for 2 s", victim);
  if (kind == "corrupt") return fmt::format("a message of rank {} to rank ", victim);
  return fmt::format("of rank {}", victim);  // a partition: who waits for what of whom
}

// A rank is lost or slow, or a bit of what it sends is changed, at a message of a run of `tern launch`.
void befall_a_message(Faults& f, const std::string& kind) {
  const int ranks = 2 << f.draw(1, 2), victim = f.draw(2, ranks), others = ranks - 1;
  // A changed bit is seen from the first step on (docs/parallel.md).
  const int least = kind == "corrupt" ? kBeforeSteps * others : 0;
  const int amount = kind == "slow" ? 2'000'000 : least + f.draw(3, kMessages * others - least);
  const std::string bit = kind == "corrupt" ? fmt::format("@{}", f.draw(7, 1 << 20)) : "";
  Words words = launched(ranks, f.command({"--zero", std::to_string(f.draw(6, 2))}));
  words.insert(words.begin(), {"/usr/bin/env", fmt::format("TERN_FAULT={}@{}@{}{}", kind, victim, amount, bit)});
  SCOPED_TRACE(testing::Message() << kind << " of rank " << victim << " of " << ranks << " at " << amount);
  const auto begin = std::chrono::steady_clock::now();
  const int code = run_to_end(words, f.tiny.root(), &f.errors);
  EXPECT_TRUE(none_left(f.out(), 1));
  ++f.ended[fmt::format("{} {}{}", kind, code, f.says("the step is done again") ? " after a step done again" : "")];
  if (code == 0) {
    EXPECT_TRUE(kind == "slow" || kind == "corrupt") << f.errors;
    EXPECT_EQ(f.says("was changed on its way"), f.says(name_of_loss("corrupt", victim))) << f.errors;
    f.expect_bits_of_none();
    return;
  }
  EXPECT_EQ(code, 5) << f.errors;
  EXPECT_LT(seconds_since(begin), 2 + 2 + 5) << "two seconds are the timeout, two the steps";
  EXPECT_TRUE(f.says(name_of_loss(kind, victim))) << f.errors;
  if (amount >= kBeforeSteps * others) { EXPECT_TRUE(f.says("step ")) << f.errors; }
  if (kind == "corrupt") {
    EXPECT_TRUE(f.says("cannot be trusted")) << f.errors;
  } else {
    EXPECT_TRUE(f.says(" was at ") || f.says(" waited for ")) << f.errors;
  }
  // Whoever goes on, as threads, has the bits of a run that nothing befell.
  const Words rest{"--ranks", std::to_string(1 << f.draw(4, 3)), "--zero", std::to_string(f.draw(5, 2))};
  ASSERT_EQ(run_to_end(f.command(rest), f.tiny.root(), &f.errors), 0) << f.errors;
  f.expect_bits_of_none();
}

// The first words of a rank to its run's store (comm/store_impl.h), of a tern that never was: again and again, until the store is there.
void join_as_another_version(const std::stop_token& end, const LaunchedRank& me) {
  std::string body(1, '\0');
  const auto number = [&](int64_t n) { body.append(reinterpret_cast<const char*>(&n), sizeof n); };
  const auto text = [&](const std::string& t) { number(static_cast<int64_t>(t.size())), body += t; };
  text(me.token), number(me.rank), number(me.size), text("0.0.1");
  const auto length = static_cast<uint32_t>(body.size());
  const std::string frame = std::string(reinterpret_cast<const char*>(&length), sizeof length) + body;
  while (!end.stop_requested()) {
    for (int more = 0; more <= me.more_ports; ++more) {
      std::string why;
      const Descriptor d = connect_once({me.store.host, me.store.port + more}, 0.2, &why);
      if (d.open() && ::send(d.get(), frame.data(), frame.size(), MSG_NOSIGNAL) > 0) wait_readable(d.get(), 0.2);
    }
    real_clock().sleep_ns(10'000'000);
  }
}

// What is said, and how all end.
struct Handshake {
  int code;
  std::string text;
};
Handshake handshake_of(const std::string& kind, int victim, int ranks) {
  if (kind == "world")
    return {2, fmt::format("rank {} was started as one of {} ranks, this run has {}", victim, 2 * ranks, ranks)};
  if (kind == "version") return {2, fmt::format("rank {} is tern 0.0.1, this run's store is tern ", victim)};
  if (kind == "data") return {2, fmt::format(", rank {} has ", victim)};
  return {0, ""};
}

// Ports are taken, or a rank is of another world, version or data, when ranks under torchrun's variables find each other.
void befall_the_start(Faults& f, const std::string& kind) {
  const int ranks = 2 << f.draw(1, 2), victim = 1 + f.draw(2, ranks - 1), taken = kind == "port" ? 1 + f.draw(3, 8) : 0;
  SCOPED_TRACE(testing::Message() << kind << " of rank " << victim << " of " << ranks << ", " << taken << " ports");
  const TakenPort master;
  std::vector<std::unique_ptr<TakenPort>> next;
  for (int i = 1; i <= taken; ++i) next.push_back(std::make_unique<TakenPort>(master.number() + i));
  std::vector<WithVariables> processes;
  std::jthread impostor;
  for (int rank = 0; rank < ranks; ++rank) {
    WithVariables p{torchrun_variables(rank, ranks, master.number()), f.command({"--comm-timeout", "2"})};
    if (rank == victim && kind == "world")
      p.variables["WORLD_SIZE"] = p.variables["LOCAL_WORLD_SIZE"] = std::to_string(2 * ranks);
    if (rank == victim && kind == "data")
      p.command = f.command({"--comm-timeout", "2", "--data", f.tiny.root() + "/other.tokens"});
    if (rank == victim && kind == "version")
      impostor = std::jthread(join_as_another_version, *launched_rank_of(p.variables));
    else
      processes.push_back(p);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Together ended = run_together(f.tiny, processes);
  EXPECT_LT(seconds_since(begin), 2 + 2 + 5) << "two seconds are the timeout, two the steps";
  EXPECT_TRUE(none_left(f.out(), 1));
  const Handshake want = handshake_of(kind, victim, ranks);
  for (size_t i = 0; i < processes.size(); ++i) {
    EXPECT_EQ(ended.codes[i], want.code) << ended.said[i];
    // Rank 0 says it; another rank does too, or that rank 0 does.
    if (i > 0 && want.code != 0 && ended.said[i].find("rank 0 says why this run ends") != std::string::npos) continue;
    EXPECT_NE(ended.said[i].find(want.text), std::string::npos) << ended.said[i];
    if (kind == "data") { EXPECT_NE(ended.said[i].find("data: rank 0 has "), std::string::npos) << ended.said[i]; }
  }
  ++f.ended[fmt::format("{} {}", kind, ended.codes[0])];
  if (kind == "port") f.expect_bits_of_none();
}

// Faults of every kind, at messages drawn by chance or before the first: each ends as it should, soon, by name, and leaves nobody behind.
TEST(LaunchSlow, SixtyFourRandomFaultsEndByName) {
  Faults f;
  if (const char* given = std::getenv("TERN_TEST_SEED")) f.seed = std::strtoull(given, nullptr, 10);
  ::unsetenv("TERN_TEST_SEED");  // tern knows no such variable
  ASSERT_EQ(run_to_end(f.command(), f.tiny.root(), &f.errors), 0) << f.errors;
  std::string other = real_io().read(f.tiny.root() + "/data.tokens");
  other[other.size() / 2] ^= 1;
  write_file_atomically(real_io(), f.tiny.root() + "/other.tokens", std::string_view(other));
  constexpr const char* kKinds[]{"die",     "die",     "die",     "die",     "die",  "stop",  "partition", "slow",
                                 "corrupt", "corrupt", "corrupt", "corrupt", "port", "world", "version",   "data"};
  for (f.number = 1; f.number <= 64; ++f.number) {
    SCOPED_TRACE(testing::Message() << "seed " << f.seed << ", number " << f.number);
    const int kind = (f.number - 1) % 16;
    kind < 12 ? befall_a_message(f, kKinds[kind]) : befall_the_start(f, kKinds[kind]);
  }
  for (const auto& [how, times] : f.ended) std::printf("%s: %d\n", how.c_str(), times);
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
