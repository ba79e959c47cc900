// A run killed by SIGKILL again and again ends with the bits of the run that nobody disturbed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "base/clock.h"
#include "base/io.h"
#include "base/rng.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

struct Disk {
  bool committed = false, committing = false;
};
Disk look(const std::string& out) {
  Disk d;
  const std::string checkpoints = out + "/checkpoints";
  if (!real_io().stat(checkpoints)) return d;
  for (const std::string& name : real_io().list(checkpoints)) {
    if (!name.starts_with("step-")) continue;  // a writer's lock
    if (name.find(".tmp-") == std::string::npos)
      d.committed = true;
    else if (name.find(".tmp-old-") == std::string::npos)
      d.committing = true;
  }
  return d;
}

TEST(KillSlow, TwoHundredKillsAtRandomMomentsChangeNoBitOfTheFinalWeights) {
  constexpr uint64_t kSeed = 20261121;
  constexpr int kKills = 200, kAimed = 40, kAfterCommit = 100;
  fmt::print("seed {}\n", kSeed);
  const TinyRun tiny;
  Clock& clock = real_clock();
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(0)), tiny.root()), 0);  // fills the caches
  const int64_t begin = clock.now_ns();
  ASSERT_EQ(run_to_end(tiny.command(tiny.out(1)), tiny.root()), 0);
  const double whole_s = seconds_between(begin, clock.now_ns());
  const std::string want = final_bits(tiny.out(1));
  ASSERT_EQ(final_bits(tiny.out(0)), want) << "two undisturbed runs differ: nothing can be tested";

  int kills = 0, after_commit = 0, during_commit = 0, ends = 0, run = 2;
  uint64_t draw = 0;
  // On a busy machine a run is slower than the one that was timed, and kills come early: then more of them.
  while (kills < kKills || (after_commit < kAfterCommit && kills < 2 * kKills)) {
    const std::string out = tiny.out(run);
    Child child(tiny.command(out), tiny.root() + "/errors");
    const bool aimed = kills % (kKills / kAimed) == 0;
    const int64_t start = clock.now_ns();
    // Uniform over the whole run; an aimed one waits for the next commit after that moment. A resumed run is shorter:
    // half of it.
    const double at_s = random_uniform({kSeed, 1}, draw++) * whole_s * (aimed ? 0.5 : 0.8);
    while (child.running() && seconds_between(start, clock.now_ns()) < at_s) clock.sleep_ns(200'000);
    while (aimed && child.running() && !look(out).committing) clock.sleep_ns(50'000);
    Disk disk;
    if (child.running()) {
      child.signal(SIGSTOP);  // so that what is counted is what was killed
      disk = look(out);
      child.signal(SIGKILL);
    }
    const int status = child.wait();
    if (status != 128 + SIGKILL) {  // it was faster: its end must be the right one
      ASSERT_EQ(status, 0) << real_io().read(tiny.root() + "/errors");
      ASSERT_EQ(final_bits(out), want) << "run " << run << " after " << kills << " kills, seed " << kSeed;
      remove_all(real_io(), out);
      ++ends, ++run;
      continue;
    }
    ++kills;
    after_commit += disk.committed;
    during_commit += disk.committing;
  }
  const std::string out = tiny.out(run);  // what the last kills left must end well too
  std::string errors;
  ASSERT_EQ(run_to_end(tiny.command(out), tiny.root(), &errors), 0) << errors;
  ASSERT_EQ(final_bits(out), want);
  fmt::print(
      "{} kills, {} after the first commit, {} during one; {} runs reached their end; an undisturbed run takes {:.2f} "
      "s\n",
      kills, after_commit, during_commit, ends + 1, whole_s);
  EXPECT_GE(after_commit, kAfterCommit);
  EXPECT_GE(during_commit, 20);
}

}  // namespace
}  // namespace tern
