// `tern train` as a person meets it: stops, goes on, refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/io.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

// CPU time of the programs that ended so far.
double children_cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void wait_for_checkpoint(Child& child, const std::string& out) {
  while (child.running() && !real_io().stat(out + "/checkpoints/step-3")) real_clock().sleep_ns(1'000'000);
}

TEST(TrainProcess, TerminatedRunSavesExits75AndGoesOnToTheSameBits) {
  const TinyRun tiny;
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0)), tiny.root(), &errors), 0) << errors;
  const std::string out = tiny.out(1);
  // Far more steps than can be done before the signal; then the same command with fewer would be another run, so stop
  // by time.
  Child child(tiny.command(out, {"--max-seconds", "0"}), tiny.root() + "/errors");
  EXPECT_EQ(child.wait(), 75);
  EXPECT_NE(real_io().read(tiny.root() + "/errors").find("the same command goes on"), std::string::npos);
  Child second(tiny.command(out), tiny.root() + "/errors");
  wait_for_checkpoint(second, out);
  second.signal(SIGTERM);
  const int code = second.wait();
  EXPECT_TRUE(code == 75 || code == 0) << code;
  EXPECT_TRUE(real_io().stat(out + "/model/config.json"));
  ASSERT_EQ(run_to_end(tiny.command(out), tiny.root(), &errors), 0) << errors;
  EXPECT_EQ(final_bits(out), final_bits(tiny.out(0)));
}

// Threads of a running program that do not block SIGINT, SIGTERM and SIGHUP all three; −1 among them: the first thread.
std::vector<int64_t> threads_that_take_signals(pid_t pid) {
  std::vector<int64_t> takers;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream status(task.path() / "status");
    std::string line;
    while (std::getline(status, line))
      if (line.starts_with("SigBlk:")) {
        const uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
        uint64_t stops = 0;
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) stops |= uint64_t{1} << (number - 1);
        if ((blocked & stops) != stops) takers.push_back(task.path().filename() == fmt::to_string(pid) ? -1 : 1);
      }
  }
  return takers;
}

// A handler that runs on a thread that multiplies writes where oneDNN has pointed the stack pointer: into the heap.
TEST(TrainProcess, NoThreadThatComputesTakesTheSignalsThatStopARun) {
  const TinyRun tiny;
  const std::string out = tiny.out(0);
  Child child(tiny.command(out, {"--threads", "2", "--steps", "100000"}), tiny.root() + "/errors");
  wait_for_checkpoint(child, out);
  ASSERT_TRUE(child.running()) << real_io().read(tiny.root() + "/errors");
  EXPECT_EQ(threads_that_take_signals(child.pid()), std::vector<int64_t>{1}) << "one thread, and not the first";
  child.signal(SIGTERM);
  const int code = child.wait();
  EXPECT_TRUE(code == 75 || code == 0) << code;
}

// Ranks of one process: stopped politely or killed, and gone on with by any number of them, the bits are those of one that
// was never stopped.
TEST(TrainProcess, AnyNumberOfRanksGoesOnWhereAnotherWasStoppedOrKilled) {
  const TinyRun tiny;
  std::string errors;
  const auto on = [&](int out, const char* ranks) {
    return tiny.command(tiny.out(out), {"--micro-batch", "1", "--sum-groups", "4", "--ranks", ranks});
  };
  ASSERT_EQ(run_to_end(on(0, "1"), tiny.root(), &errors), 0) << errors;
  int out = 0;
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    ++out;
    for (const char* ranks : {"4", "1", "2"}) {
      // A file of its own: what it says first, it says when it listens to signals.
      const std::string said = fmt::format("{}/errors-{}-{}", tiny.root(), signal, ranks);
      Child child(on(out, ranks), said);
      while (child.running() && (!real_io().stat(said) || real_io().read(said).empty()))
        real_clock().sleep_ns(1'000'000);
      wait_for_checkpoint(child, tiny.out(out));
      real_clock().sleep_ns(7'000'000);
      child.signal(signal);
      const int code = child.wait();
      EXPECT_TRUE(code == 0 || code == (signal == SIGKILL ? 128 + SIGKILL : 75)) << code;
    }
    ASSERT_EQ(run_to_end(on(out, "4"), tiny.root(), &errors), 0) << errors;
    EXPECT_EQ(final_bits(tiny.out(out)), final_bits(tiny.out(0))) << signal;
  }
}

TEST(TrainProcess, RanksThatCannotShareAStepAreRefusedByName) {
  const TinyRun tiny;
  std::string errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--ranks", "3"}), tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("cannot be shared out to 3 ranks"), std::string::npos) << errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--ranks", "2", "--memory", "1MiB"}), tiny.root(), &errors), 3);
  EXPECT_NE(errors.find("messages"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

TEST(TrainProcess, RecomputationAndAnotherLoggingChangeNoBitOfTheResult) {
  const TinyRun tiny;
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0)), tiny.root(), &errors), 0) << errors;
  for (const char* mode : {"attention", "full"}) {
    const std::string out = tiny.out(mode[0]);
    ASSERT_EQ(run_to_end(tiny.command(out, {"--recompute", mode, "--log-every", "1", "--checkpoint-every", "7"}),
                         tiny.root(), &errors),
              0)
        << errors;
    EXPECT_EQ(final_bits(out), final_bits(tiny.out(0))) << mode;
  }
}

TEST(TrainProcess, RefusesAnotherRunInTheSameDirectoryByName) {
  const TinyRun tiny;
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0)), tiny.root(), &errors), 0) << errors;
  for (const char* option : {"--seq", "--batch", "--seed"}) {
    EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {option, "8"}), tiny.root(), &errors), 2) << option;
    EXPECT_NE(errors.find(fmt::format("{}: ", option)), std::string::npos) << errors;
  }
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--steps", "70"}), tiny.root(), &errors), 0) << errors;
}

TEST(TrainProcess, EvaluationWithoutDataIsRefusedByNameAndEvalEvery0SwitchesItOff) {
  const TinyRun tiny;
  std::vector<std::string> command = {
      TERN_PROGRAM,     "train", tiny.root() + "/config.json", "--from-scratch", "--dry-run", "--seq", "16",
      "--eval-batches", "3"};
  std::string errors;
  EXPECT_EQ(run_to_end(command, tiny.root(), &errors), 2);
  EXPECT_NE(errors.find("--eval-batches: there is nothing to evaluate on"), std::string::npos) << errors;
  EXPECT_NE(errors.find("--eval-every 0"), std::string::npos) << errors;
  command.insert(command.end(), {"--eval-every", "0"});
  EXPECT_EQ(run_to_end(command, tiny.root(), &errors), 0) << errors;
}

TEST(TrainProcess, TwoJobsOnOneDirectoryTheSecondIsRefused) {
  const TinyRun tiny;
  Child first(tiny.command(tiny.out(0), {"--steps", "1000000"}), tiny.root() + "/errors");
  wait_for_checkpoint(first, tiny.out(0));
  std::string errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--steps", "1000000"}), tiny.root(), &errors), 2) << errors;
  EXPECT_NE(errors.find("another tern is at work"), std::string::npos) << errors;
}

TEST(TrainProcess, DamagedCheckpointsAreSteppedOverAndIfNoneIsLeftItExits6) {
  const TinyRun tiny;
  const std::string out = tiny.out(0), checkpoints = out + "/checkpoints";
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(out), tiny.root(), &errors), 0) << errors;
  const std::string want = final_bits(out);
  real_io().truncate(checkpoints + "/step-60/rank-0.safetensors", 1000);
  ASSERT_EQ(run_to_end(tiny.command(out), tiny.root(), &errors), 0) << errors;
  EXPECT_NE(errors.find("does not verify"), std::string::npos) << errors;
  EXPECT_EQ(final_bits(out), want);
  for (const std::string& name : real_io().list(checkpoints))
    if (real_io().stat(checkpoints + "/" + name + "/manifest.json"))
      real_io().truncate(checkpoints + "/" + name + "/manifest.json", 10);
  EXPECT_EQ(run_to_end(tiny.command(out), tiny.root(), &errors), 6) << errors;
  EXPECT_EQ(run_to_end(tiny.command(out, {"--resume", "never"}), tiny.root(), &errors), 0) << errors;
  EXPECT_EQ(final_bits(out), want);
  EXPECT_TRUE(real_io().stat(out + "/checkpoints.before-1"));
  EXPECT_TRUE(real_io().stat(out + "/model.before-1/model.safetensors")) << "the old model is not left in its place";
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(5), {"--resume", "must"}), tiny.root(), &errors), 6) << errors;
}

TEST(TrainProcess, WhatDoesNotFitIsRefusedWithin2SecondsAndWritesNothing) {
  const TinyRun tiny;
  std::string errors;
  // Of its own time: on a busy machine it waits for others.
  const double before = children_cpu_seconds();
  EXPECT_EQ(
      run_to_end(tiny.command(tiny.out(0), {"--batch", "1000000", "--micro-batch", "1000000", "--memory", "1GiB"}),
                 tiny.root(), &errors),
      3)
      << errors;
  EXPECT_LT(children_cpu_seconds() - before, 2.0);
  EXPECT_NE(errors.find("nearest settings that fit"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

TEST(TrainProcess, MissingDataIsNamedAndNothingIsWritten) {
  const TinyRun tiny;
  std::string errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--data", tiny.root() + "/none.txt"}), tiny.root(), &errors), 4)
      << errors;
  EXPECT_NE(errors.find("--data: " + tiny.root() + "/none.txt is not there"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--data", tiny.root() + "/config.json"}), tiny.root(), &errors), 2)
      << errors;
  EXPECT_NE(errors.find("give --tokenizer DIR"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

TEST(TrainProcess, SequencesLongerThanTheModelDeclaresAreRefusedUnlessItIsToDeclareThem) {
  const TinyRun tiny;
  std::string errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--seq", "80", "--steps", "3"}), tiny.root(), &errors), 2) << errors;
  EXPECT_NE(errors.find("--context 80"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
  ASSERT_EQ(
      run_to_end(tiny.command(tiny.out(0), {"--seq", "80", "--context", "80", "--steps", "3"}), tiny.root(), &errors),
      0)
      << errors;
  EXPECT_NE(real_io().read(tiny.out(0) + "/model/config.json").find("\"max_position_embeddings\": 80"),
            std::string::npos);
}

TEST(TrainProcess, DryRunPricesAndWritesNothing) {
  const TinyRun tiny;
  std::string errors;
  EXPECT_EQ(run_to_end(tiny.command(tiny.out(0), {"--dry-run"}), tiny.root(), &errors), 0) << errors;
  EXPECT_NE(errors.find("activations"), std::string::npos) << errors;
  EXPECT_FALSE(real_io().stat(tiny.out(0)));
}

TEST(TrainProcess, TheWrittenRecipeRunsTheSameRunAgain) {
  const TinyRun tiny;
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0)), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(
      run_to_end({TERN_PROGRAM, "train", tiny.out(0) + "/recipe.toml", "--output", tiny.out(1)}, tiny.root(), &errors),
      0)
      << errors;
  EXPECT_EQ(final_bits(tiny.out(0)), final_bits(tiny.out(1)));
}

TEST(TrainProcess, TraceHoldsThePredictedAndTheMeasuredStep) {
  const TinyRun tiny;
  std::string errors;
  const std::string trace = tiny.root() + "/trace.json";
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0), {"--steps", "3", "--trace", trace}), tiny.root(), &errors), 0)
      << errors;
  const std::string text = real_io().read(trace);
  for (const char* word : {"\"predicted\"", "\"measured\"", "BACKWARD_WEIGHT unit 0 micro 1", "UPDATE"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace tern
