// Training under the variables of other launchers: the bits of one process, and who is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

using Variables = std::map<std::string, std::string>;

// The port that torchrun's own store would have is taken while ranks look for theirs.
Together run_pair(const TinyRun& tiny, const std::function<Variables(int rank)>& variables,
                  const std::function<Words(int rank)>& command) {
  return run_together(tiny, {{variables(0), command(0)}, {variables(1), command(1)}});
}

TEST(Launch, TheVariablesOfEveryLauncherGiveTheSameBits) {
  const TinyRun tiny;
  const TakenPort port;
  std::string errors;
  const auto command = [&](int out) { return tiny.command(tiny.out(out), {"--comm-timeout", "10"}); };
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0), {"--ranks", "2"}), tiny.root(), &errors), 0) << errors;
  const std::string job = std::to_string(::getpid());
  const std::function<Variables(int)> kinds[] = {[&](int rank) { return torchrun_variables(rank, 2, port.number()); },
                                                 [&](int rank) {
                                                   return Variables{{"SLURM_PROCID", std::to_string(rank)},
                                                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                                                    {"SLURM_LOCALID", std::to_string(rank)},
                                                                    {"SLURM_STEP_ID", "0"},
                                                                    {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                                                    {"SLURM_STEP_NODELIST", "node1"},
                                                                    {"SLURM_JOB_ID", job}};
                                                 },
                                                 [&](int rank) {
                                                   return Variables{
                                                       {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                       {"PMIX_NAMESPACE", job}};
                                                 }};
  for (int kind = 0; kind < 3; ++kind) {
    const Together pair = run_pair(tiny, kinds[kind], [&](int) { return command(1 + kind); });
    EXPECT_EQ(pair.codes[0], 0) << pair.said[0];
    EXPECT_EQ(pair.codes[1], 0) << pair.said[1];
    EXPECT_EQ(pair.said[1], "") << "rank 0 alone talks";
    EXPECT_EQ(final_bits(tiny.out(1 + kind)) == final_bits(tiny.out(0)), true) << kind;
  }
}

// Two more processes by hand, of another run whose MASTER_PORT is the same.
TEST(Launch, AStrayProcessIsRefusedAndTheRunGoesOnToItsBits) {
  const TinyRun tiny;
  const TakenPort port;
  std::string errors;
  const Words more{"--steps", "1500", "--checkpoint-every", "100", "--eval-every", "500"};
  const auto by_hand = [&](int rank, int out) {
    Words words{"/usr/bin/env", fmt::format("RANK={}", rank), "WORLD_SIZE=2",
                fmt::format("MASTER_PORT={}", port.number())};
    for (const std::string& word : tiny.command(tiny.out(out), more)) words.push_back(word);
    words.insert(words.end(), {"--comm-timeout", "10"});
    return words;
  };
  Words threads = tiny.command(tiny.out(0), more);
  threads.insert(threads.end(), {"--ranks", "2"});
  ASSERT_EQ(run_to_end(threads, tiny.root(), &errors), 0) << errors;
  const std::string said[] = {tiny.root() + "/said-0", tiny.root() + "/said-1"};
  Child first(by_hand(0, 1), said[0]), second(by_hand(1, 1), said[1]);
  while (first.running() && !real_io().stat(tiny.out(1) + "/checkpoints/step-100")) real_clock().sleep_ns(1'000'000);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(run_to_end(by_hand(rank, 2), tiny.root(), &errors), 2) << errors;
    EXPECT_NE(errors.find(fmt::format("rank {}: refused by the store at 127.0.0.1:", rank)), std::string::npos)
        << errors;
    EXPECT_NE(errors.find("MASTER_PORT of its own"), std::string::npos) << errors;
    EXPECT_TRUE(first.running()) << "too few steps for this machine";
  }
  EXPECT_EQ(first.wait(), 0) << real_io().read(said[0]);
  EXPECT_EQ(second.wait(), 0) << real_io().read(said[1]);
  const auto model = [&](int out) { return real_io().read(tiny.out(out) + "/model/model.safetensors"); };
  EXPECT_TRUE(model(1) == model(0));
}

TEST(Launch, RanksOfUnlikeWorldsDataOrSettingsAreRefusedByName) {
  const TinyRun tiny;
  const TakenPort port;
  const auto both_say = [&](const Together& pair, const std::string& text) {
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(pair.codes[rank], 2) << pair.said[rank];
      EXPECT_NE(pair.said[rank].find(text), std::string::npos) << pair.said[rank];
    }
  };
  const auto first_says = [&](const Together& pair, const std::string& text) {
    EXPECT_NE(pair.said[0].find(text), std::string::npos) << pair.said[0];
    EXPECT_EQ(pair.said[1], "tern: rank 0 says why this run ends\n");  // as each rank writes to a file of its own
    for (const int code : pair.codes) EXPECT_EQ(code, 2) << pair.said[0];
  };
  const auto usual = [&](int rank) { return torchrun_variables(rank, 2, port.number()); };
  const auto with = [&](const char* option, const char* value) {
    return run_pair(tiny, usual, [&, option, value](int rank) {
      return rank == 0 ? tiny.command(tiny.out(0)) : tiny.command(tiny.out(0), {option, value});
    });
  };
  first_says(with("--seed", "2"), "seed: rank 0 has 1, rank 1 has 2");
  first_says(with("--learning-rate", "1e-3"), "learning-rate: rank 0 has 0.01, rank 1 has 0.001");
  first_says(with("--optimizer", "lion"), "optimizer: rank 0 has adamw, rank 1 has lion");
  first_says(with("--aggregator", "mean"), "aggregator: rank 0 has none, rank 1 has mean");
  first_says(with("--log-every", "7"), "log-every: rank 0 has ");
  first_says(with("--trace", (tiny.root() + "/trace.json").c_str()), "trace: rank 0 has none, rank 1 has a path");
  const std::string other = tiny.root() + "/other.tokens";
  std::string bytes = real_io().read(tiny.root() + "/data.tokens");
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(real_io(), other, std::string_view(bytes));
  first_says(with("--data", other.c_str()), "data: rank 0 has ");
  both_say(run_pair(
               tiny,
               [&](int rank) {
                 Variables all = usual(rank);
                 if (rank == 1) all["WORLD_SIZE"] = all["LOCAL_WORLD_SIZE"] = "4";
                 return all;
               },
               [&](int) {
                 return tiny.command(tiny.out(0), {"--comm-timeout", "5"});
               }),
           "rank 1 was started as one of 4 ranks, this run has 2");
}

// Both say that they are the first of this machine.
TEST(Launch, RanksWithOneLocalRankAreWarnedOfAndRun) {
  const TinyRun tiny;
  const TakenPort port;
  const Words command = tiny.command(tiny.out(0), {"--steps", "4"});
  const auto both = [&](bool alike) {
    return run_pair(
        tiny,
        [&](int rank) {
          Variables all = torchrun_variables(rank, 2, port.number());
          if (alike) all["LOCAL_RANK"] = "0";
          return all;
        },
        [&](int) { return command; });
  };
  constexpr const char* kWarning = "ranks 0 and 1 are on one machine and have the same local rank 0";
  const Together pair = both(true), again = both(false);
  EXPECT_EQ(pair.codes[0], 0) << pair.said[0];
  EXPECT_NE(pair.said[0].find(kWarning), std::string::npos) << pair.said[0];
  EXPECT_EQ(pair.said[1], "");
  EXPECT_EQ(again.said[0].find("LOCAL_RANK"), std::string::npos) << again.said[0];
}

// The same fault on all ranks is told once; a fault of one rank alone by that rank, and by rank 0, which learns of it.
TEST(Launch, TheSameErrorIsToldOnce) {
  const TinyRun tiny;
  const TakenPort port;
  const auto usual = [&](int rank) { return torchrun_variables(rank, 2, port.number()); };
  const auto alike = [&](const Words& more) {
    const Words command = tiny.command(tiny.out(0), more);
    return run_pair(tiny, usual, [&](int) { return command; });
  };
  for (const auto& [more, code, text] :
       {std::tuple{Words{"--micro-batch", "3"}, 2, "--micro-batch: 3 does not divide"},
        {Words{"--tensor-parallel", "4", "--ranks", "2"}, 2, "--tensor-parallel: 4 does not divide --ranks 2"},
        {Words{"--data", tiny.root() + "/none.tokens"}, 4, "none.tokens"}}) {
    const Together pair = alike(more);
    EXPECT_EQ(pair.codes[0], code) << pair.said[0];
    EXPECT_NE(pair.codes[1], 0);
    EXPECT_NE(pair.said[0].find(text), std::string::npos) << pair.said[0];
    EXPECT_EQ(pair.said[1], "tern: rank 0 says why this run ends\n") << "each has a file of its own";
  }
  const Together unlike = run_pair(tiny, usual, [&](int rank) {
    return rank == 0 ? tiny.command(tiny.out(0)) : tiny.command(tiny.out(0), {"--micro-batch", "3"});
  });
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_NE(unlike.said[rank].find("--micro-batch: 3 does not divide"), std::string::npos) << unlike.said[rank];
}

// Nothing has begun, so there is nothing to save.
TEST(Launch, ASignalEndsARankThatWaitsForAnotherAtOnce) {
  const TinyRun tiny;
  const TakenPort port;
  for (const int number : {SIGINT, SIGTERM}) {
    Words words{"/usr/bin/env"};
    for (const auto& [name, value] : torchrun_variables(0, 2, port.number())) words.push_back(name + "=" + value);
    const Words command = tiny.command(tiny.out(0), {"--comm-timeout", "60"});
    words.insert(words.end(), command.begin(), command.end());
    const std::string said = fmt::format("{}/said-{}", tiny.root(), number);
    Child child(words, said);
    const auto waits = [&] {
      return real_io().stat(said) && real_io().read(said).find("for rank 1 to connect") != std::string::npos;
    };
    while (child.running() && !waits()) real_clock().sleep_ns(10'000'000);
    const auto begin = std::chrono::steady_clock::now();
    child.signal(number);
    EXPECT_EQ(child.wait(), 128 + number) << real_io().read(said);
    EXPECT_LT(seconds_since(begin), 5);
    EXPECT_NE(real_io().read(said).find("tern: stopped while waiting for other ranks"), std::string::npos)
        << real_io().read(said);
  }
}

}  // namespace
}  // namespace tern
