// `tern launch`, and training under the variables of other launchers: the bits of one process, and how it ends when a rank
// does not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/text.h"
#include "comm/mpi_world.h"
#include "comm/socket.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

using Words = std::vector<std::string>;

Words launched(int ranks, const Words& command, const Words& options = {}) {
  Words all{TERN_PROGRAM, "launch", "-n", std::to_string(ranks), "--comm-timeout", "2"};
  all.insert(all.end(), options.begin(), options.end());
  all.emplace_back("--");
  all.insert(all.end(), command.begin() + 1, command.end());
  return all;
}

// The numbers of living processes whose command line has this word, of a rank or of all.
std::vector<pid_t> processes_of(const std::string& word, const std::string& rank = "") {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line, variables;
    try {
      line = real_io().read("/proc/" + name + "/cmdline"), variables = real_io().read("/proc/" + name + "/environ");
    } catch (const std::exception&) { continue; }  // it has just ended
    const std::string wanted = std::string("\0RANK=", 6) + rank + '\0';
    if (line.find(word) != std::string::npos && (rank.empty() || ('\0' + variables).find(wanted) != std::string::npos))
      found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool none_left(const std::string& word, double within_s) {
  const auto begin = std::chrono::steady_clock::now();
  while (!processes_of(word).empty())
    if (seconds_since(begin) > within_s) return false;
  return true;
}

// Runs that only a signal ends, and that have a checkpoint when they get it.
struct EndlessRun {
  TinyRun tiny{};
  std::string out = tiny.out(1), said = tiny.root() + "/said";
  Child child;
  explicit EndlessRun(int ranks, const Words& options = {})
      : child(launched(ranks,
                       tiny.command(tiny.out(1), {"--micro-batch", "1", "--sum-groups", "4", "--steps", "100000000",
                                                  "--schedule", "constant"}),
                       options),
              said) {
    while (child.running() && !real_io().stat(out + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
  }
  std::string text() const { return real_io().read(said); }
  pid_t rank(int r) const {
    const std::vector<pid_t> found = processes_of(out, std::to_string(r));
    return found.empty() ? -1 : found.front();
  }
};

TEST(LaunchSlow, ProcessesHaveTheBitsOfThreads) {
  const TinyRun tiny;
  std::string errors;
  int out = 0;
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    const auto on = [&](const char* ranks) {
      return tiny.command(tiny.out(++out), {"--micro-batch", "1", "--batch", "8", "--sum-groups", "8", "--dtype", dtype,
                                            "--ranks", ranks});
    };
    ASSERT_EQ(run_to_end(on("2"), tiny.root(), &errors), 0) << errors;
    const std::string want = final_bits(tiny.out(out));
    for (const int ranks : {2, 4, 8}) {
      if (ranks == 8 && dtype != std::string("f32")) continue;
      Words words = on(std::to_string(ranks).c_str());
      if (ranks == 4) words.insert(words.end(), {"--zero", "1"});  // shared or not
      ASSERT_EQ(run_to_end(launched(ranks, words), tiny.root(), &errors), 0) << errors;
      EXPECT_EQ(final_bits(tiny.out(out)) == want, true) << dtype << " on " << ranks << " processes";
    }
  }
}

TEST(Launch, ProcessesShareOutWeights) {
  const TinyRun tiny;
  std::string errors;
  const auto on = [&](int out, const char* zero) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "2", "--ranks", "2", "--zero", zero});
  };
  ASSERT_EQ(run_to_end(on(1, "2"), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(on(2, "3"), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(2, on(3, "3")), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(1))) << "threads";
  EXPECT_TRUE(final_bits(tiny.out(3)) == final_bits(tiny.out(1))) << "processes";
}

TEST(Launch, ProcessesShareOutMatrices) {
  const TinyRun tiny;
  std::string errors;
  const auto on = [&](int out) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--ranks", "4", "--tensor-parallel", "2"});
  };
  ASSERT_EQ(run_to_end(on(1), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(4, on(2)), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(1)));
}

TEST(Launch, ProcessesRarelyAverage) {
  const TinyRun tiny;
  const std::vector<std::vector<std::string>> kinds{
      {"diloco", "--outer-fragments", "2", "--outer-delay", "1", "--outer-mix", "0.5", "--outer-codec", "int8"},
      {"noloco", "--outer-away", "3@2-2"},
      {"co2", "--outer-codec", "powersgd", "--outer-rank", "2"}};
  int out = 0;
  for (const std::vector<std::string>& kind : kinds) {
    SCOPED_TRACE(kind[0]);
    std::string errors;
    const auto on = [&](int to) {
      std::vector<std::string> words{"--micro-batch", "1", "--ranks", "4", "--outer-every", "2", "--outer"};
      words.insert(words.end(), kind.begin(), kind.end());
      return tiny.command(tiny.out(to), words);
    };
    const int threads = ++out, processes = ++out;
    ASSERT_EQ(run_to_end(on(threads), tiny.root(), &errors), 0) << errors;
    EXPECT_NE(errors.find("to average, all ranks together sent"), std::string::npos) << errors;
    ASSERT_EQ(run_to_end(launched(4, on(processes)), tiny.root(), &errors), 0) << errors;
    EXPECT_TRUE(final_bits(tiny.out(processes)) == final_bits(tiny.out(threads)));
  }
}

TEST(Launch, ProcessesRunAPlanOfStages) {
  const TinyRun tiny;
  const std::string file = tiny.root() + "/plan.json";
  std::string errors;
  const Words plan{TERN_PROGRAM,
                   "plan",
                   tiny.root() + "/config.json",
                   "--hardware",
                   "h100",
                   "--batch",
                   "4",
                   "--seq",
                   "16",
                   "--dtype",
                   "f32",
                   "--fix",
                   "pp=2,dp=2,tp=1,cp=1,zero=0,micro-batch=1",
                   "--schedules",
                   "1f1b",
                   "--output",
                   file};
  ASSERT_EQ(run_to_end(plan, tiny.root(), &errors), 0) << errors;
  const Words planned{"--plan", file, "--micro-batch", "1"}, alone{"--micro-batch", "1", "--sum-groups", "2"};
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(1), planned), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(launched(4, tiny.command(tiny.out(2), planned)), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(3), alone), tiny.root(), &errors), 0) << errors;
  EXPECT_TRUE(final_bits(tiny.out(1)) == final_bits(tiny.out(3))) << "threads";
  EXPECT_TRUE(final_bits(tiny.out(2)) == final_bits(tiny.out(3))) << "processes";
}

TEST(Launch, AStopEndsAllAtOneStepAndThreadsGoOn) {
  const TinyRun tiny;
  std::string errors;
  const auto command = [&](int out, const char* ranks) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "4", "--ranks", ranks});
  };
  ASSERT_EQ(run_to_end(command(0, "1"), tiny.root(), &errors), 0) << errors;
  for (const int signal : {SIGINT, SIGTERM}) {
    const int out = signal;
    const std::string said = fmt::format("{}/said-{}", tiny.root(), signal);
    Child child(launched(2, command(out, "2")), said);
    while (child.running() && !real_io().stat(tiny.out(out) + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
    child.signal(signal);
    const int code = child.wait();
    EXPECT_TRUE(code == 75 || code == 0) << code << real_io().read(said);
    ASSERT_EQ(run_to_end(command(out, "4"), tiny.root(), &errors), 0) << errors;
    EXPECT_EQ(final_bits(tiny.out(out)) == final_bits(tiny.out(0)), true) << signal;
  }
  EndlessRun run(2);
  run.child.signal(SIGINT);
  EXPECT_EQ(run.child.wait(), 75) << run.text();
  EXPECT_NE(run.text().find("with everything saved; the same command goes on"), std::string::npos) << run.text();
  EXPECT_TRUE(none_left(run.out, 1));
}

TEST(Launch, AKilledRankEndsTheOthersWithItsNameOperationAndStep) {
  for (const int victim : {0, 2}) {
    EndlessRun run(4);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(run.rank(victim), SIGKILL), 0) << run.text();
    EXPECT_EQ(run.child.wait(), 5) << run.text();
    EXPECT_LT(seconds_since(begin), 5) << "the system tells it at once";
    EXPECT_NE(run.text().find(fmt::format("rank {} was killed by signal 9", victim)), std::string::npos) << run.text();
    EXPECT_NE(run.text().find("tern: step "), std::string::npos) << run.text();
    EXPECT_TRUE(run.text().find("; it was at ") != std::string::npos ||
                run.text().find("; it waited for ") != std::string::npos)
        << run.text();
    EXPECT_TRUE(none_left(run.out, 1));
  }
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
  EXPECT_NE(real_io().read(said).find("starting again with 2 ranks from the last checkpoint (restart 1 of 1)"),
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

TEST(Launch, WhatItCannotRunIsRefusedByName) {
  const TinyRun tiny;
  std::string errors;
  const auto refused = [&](const Words& words) {
    EXPECT_EQ(run_to_end(words, tiny.root(), &errors), 2) << errors;
    return errors;
  };
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "--", "train"}).find("how many ranks? Say -n N"), std::string::npos);
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "-n", "2"}).find("what is to run stands after --"), std::string::npos);
  EXPECT_NE(refused({TERN_PROGRAM, "launch", "-n", "2", "--", "generate"}).find("'generate' runs on one rank"),
            std::string::npos);
  EXPECT_NE(refused(launched(2, tiny.command(tiny.out(0), {"--ranks", "4"})))
                .find("--ranks 4: tern launch has started 2 processes"),
            std::string::npos)
      << errors;
  EXPECT_NE(refused(launched(3, tiny.command(tiny.out(0)))).find("--ranks"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

// Two processes with these variables each; what they said, and how they ended.
struct Pair {
  int codes[2];
  std::string said[2];
};
Pair run_pair(const TinyRun& tiny, const std::function<Words(int rank)>& variables,
              const std::function<Words(int rank)>& command) {
  std::vector<std::unique_ptr<Child>> children;
  Pair pair;
  const auto file = [&](int rank) { return fmt::format("{}/said-{}", tiny.root(), rank); };
  for (int rank = 0; rank < 2; ++rank) {
    Words words{"/usr/bin/env"};
    for (const std::string& variable : variables(rank)) words.push_back(variable);
    for (const std::string& word : command(rank)) words.push_back(word);
    children.push_back(std::make_unique<Child>(words, file(rank)));
  }
  for (int rank = 0; rank < 2; ++rank)
    pair.codes[rank] = children[rank]->wait(), pair.said[rank] = real_io().read(file(rank));
  return pair;
}

// The port that torchrun's own store would have: taken while ranks look for theirs.
struct TakenPort {
  Descriptor listener = listen_at({"127.0.0.1", 0}, 1);
  std::string number() const { return std::to_string(own_address(listener).port); }
};

Words torchrun(int rank, const TakenPort& port) {
  return {fmt::format("RANK={}", rank),
          "WORLD_SIZE=2",
          fmt::format("LOCAL_RANK={}", rank),
          "LOCAL_WORLD_SIZE=2",
          "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + port.number(),
          "TORCHELASTIC_RUN_ID=none",
          "TORCHELASTIC_RESTART_COUNT=0",
          "TORCHELASTIC_USE_AGENT_STORE=True",
          "OMP_NUM_THREADS=1"};
}

TEST(Launch, TheVariablesOfEveryLauncherGiveTheSameBits) {
  const TinyRun tiny;
  const TakenPort port;
  std::string errors;
  const auto command = [&](int out) { return tiny.command(tiny.out(out), {"--comm-timeout", "10"}); };
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0), {"--ranks", "2"}), tiny.root(), &errors), 0) << errors;
  const std::function<Words(int)> kinds[] = {
      [&](int rank) { return torchrun(rank, port); },
      [](int rank) {
        return Words{fmt::format("SLURM_PROCID={}", rank),
                     "SLURM_STEP_NUM_TASKS=2",
                     fmt::format("SLURM_LOCALID={}", rank),
                     "SLURM_STEP_ID=0",
                     "SLURM_STEP_TASKS_PER_NODE=2",
                     "SLURM_STEP_NODELIST=node1",
                     fmt::format("SLURM_JOB_ID={}", ::getpid())};
      },
      [](int rank) {
        return Words{fmt::format("OMPI_COMM_WORLD_RANK={}", rank), "OMPI_COMM_WORLD_SIZE=2",
                     fmt::format("OMPI_COMM_WORLD_LOCAL_RANK={}", rank), "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                     fmt::format("PMIX_NAMESPACE={}", ::getpid())};
      }};
  for (int kind = 0; kind < 3; ++kind) {
    const Pair pair = run_pair(tiny, kinds[kind], [&](int) { return command(1 + kind); });
    EXPECT_EQ(pair.codes[0], 0) << pair.said[0];
    EXPECT_EQ(pair.codes[1], 0) << pair.said[1];
    EXPECT_EQ(pair.said[1], "") << "rank 0 alone talks";
    EXPECT_EQ(final_bits(tiny.out(1 + kind)) == final_bits(tiny.out(0)), true) << kind;
  }
}

// Skipped where tern was built without MPI, or there is no mpirun.
TEST(Launch, MessagesByMpiGiveTheSameBits) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "no mpirun (Debian: openmpi-bin)";
  const TinyRun tiny;
  std::string errors;
  int out = 0;
  const auto by_mpirun = [&](const char* ranks, const Words& words) {
    Words all{"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
              "mpirun",       "--oversubscribe",          "-n",
              ranks};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--transport", "mpi"});
    return run_to_end(all, tiny.root(), &errors);
  };
  for (const Words& of_run :
       {Words{"--sum-groups", "2", "--ranks", "2"}, Words{"--sum-groups", "4", "--zero", "3", "--ranks", "4"},
        Words{"--tensor-parallel", "2", "--ranks", "4"}}) {
    const auto command = [&] {
      Words more{"--micro-batch", "1"};
      more.insert(more.end(), of_run.begin(), of_run.end());
      return tiny.command(tiny.out(++out), more);
    };
    ASSERT_EQ(run_to_end(command(), tiny.root(), &errors), 0) << errors;
    ASSERT_EQ(by_mpirun(of_run.back().c_str(), command()), 0) << errors;
    EXPECT_TRUE(final_bits(tiny.out(out)) == final_bits(tiny.out(out - 1))) << of_run.back() << " ranks";
  }
  EXPECT_EQ(run_to_end(launched(2, tiny.command(tiny.out(++out), {"--transport", "mpi"})), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("start it with mpirun"), std::string::npos) << errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(out), {"--transport", "mpi"}), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("--transport mpi: this process is a run of its own"), std::string::npos) << errors;
}

TEST(Launch, RanksOfUnlikeWorldsDataOrSettingsAreRefusedByNameOnAll) {
  const TinyRun tiny;
  const TakenPort port;
  const auto both_say = [&](const Pair& pair, const std::string& text) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(pair.codes[rank], 2) << pair.said[rank];
      EXPECT_NE(pair.said[rank].find(text), std::string::npos) << pair.said[rank];
    }
  };
  const auto usual = [&](int rank) { return torchrun(rank, port); };
  const auto with = [&](const char* option, const char* value) {
    return run_pair(tiny, usual, [&, option, value](int rank) {
      return rank == 0 ? tiny.command(tiny.out(0)) : tiny.command(tiny.out(0), {option, value});
    });
  };
  both_say(with("--seed", "2"), "seed: rank 0 has 1, rank 1 has 2");
  both_say(with("--learning-rate", "1e-3"), "learning-rate: rank 0 has 0.01, rank 1 has 0.001");
  const std::string other = tiny.root() + "/other.tokens";
  std::string bytes = real_io().read(tiny.root() + "/data.tokens");
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(real_io(), other, std::string_view(bytes));
  both_say(with("--data", other.c_str()), "data: rank 0 has ");
  both_say(run_pair(
               tiny,
               [&](int rank) {
                 Words words = torchrun(rank, port);
                 if (rank == 1) words[1] = "WORLD_SIZE=4", words[3] = "LOCAL_WORLD_SIZE=4";
                 return words;
               },
               [&](int) {
                 return tiny.command(tiny.out(0), {"--comm-timeout", "5"});
               }),
           "rank 1 was started as one of 4 ranks, this run has 2");
}

}  // namespace
}  // namespace tern
