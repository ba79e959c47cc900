// Training under the variables of other launchers: the bits of one process, and who is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "comm/socket.h"
#include "tests/e2e/launched_process.h"

namespace tern {
namespace {

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

// Two more processes by hand, of another run whose MASTER_PORT is the same.
TEST(Launch, AStrayProcessIsRefusedAndTheRunGoesOnToItsBits) {
  const TinyRun tiny;
  const TakenPort port;
  std::string errors;
  const Words more{"--steps", "1500", "--checkpoint-every", "100", "--eval-every", "500"};
  const auto by_hand = [&](int rank, int out) {
    Words words{"/usr/bin/env", fmt::format("RANK={}", rank), "WORLD_SIZE=2", "MASTER_PORT=" + port.number()};
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
