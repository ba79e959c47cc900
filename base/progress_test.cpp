#include "base/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tern {
namespace {

std::string progress_output(ProgressOptions options, void (*use)(Progress&, VirtualClock&)) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  options.fd = ends[1];
  VirtualClock clock;
  {
    Progress progress("train", 100, clock, options);
    use(progress, clock);
  }
  ::close(ends[1]);
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  return out;
}

TEST(Progress, WithoutATerminalWritesOnePlainLinePerInterval) {
  const std::string out =
      progress_output({.terminal = ProgressOptions::Terminal::no}, [](Progress& progress, VirtualClock& clock) {
        for (int i = 1; i <= 25; ++i) {
          clock.advance_ns(1'000'000'000);
          progress.update(i, "loss 2.5");
        }
        progress.finish();
      });
  EXPECT_EQ(out,
            "train  1/100  1%  loss 2.5  left 1m39s\n"
            "train  11/100  11%  loss 2.5  left 1m29s\n"
            "train  21/100  21%  loss 2.5  left 1m19s\n"
            "train  25/100  25%  left 1m15s  in 25.0 s\n");
}

TEST(Progress, OnATerminalRewritesOneLine) {
  const std::string out =
      progress_output({.terminal = ProgressOptions::Terminal::yes}, [](Progress& progress, VirtualClock& clock) {
        progress.update(1);
        clock.advance_ns(50'000'000);
        progress.update(2);  // too soon
        clock.advance_ns(60'000'000);
        progress.update(3);
      });
  EXPECT_EQ(out, "\r\x1b[Ktrain  1/100  1%\r\x1b[Ktrain  3/100  3%  left 3.6 s\n");
}

TEST(Progress, AUnitStandsBesideTheCount) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    VirtualClock clock;
    Progress progress("eval", 210, clock, {.fd = ends[1], .terminal = ProgressOptions::Terminal::no}, "windows");
    progress.update(8);
  }
  ::close(ends[1]);
  char buffer[100];
  const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
  ::close(ends[0]);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), "eval  8/210 windows  3%\n");
}

TEST(Progress, AResumedRunEstimatesFromWhereItBegan) {
  VirtualClock clock;
  Progress progress("train", 100, clock, {.terminal = ProgressOptions::Terminal::no});
  progress.set_start(90);
  clock.advance_ns(5'000'000'000);
  EXPECT_DOUBLE_EQ(progress.seconds_left(95), 5);
  EXPECT_LT(progress.seconds_left(90), 0) << "unknown before the first step";
}

}  // namespace
}  // namespace tern
