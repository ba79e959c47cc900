#include "apps/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/mapped_file.h"

namespace tern {
namespace {

TEST(StopSignals, TheFirstAsksAndTheSecondEnds) {
  EXPECT_FALSE(stop_requested());
  {
    const StopSignals signals;
    ::raise(SIGTERM);
    EXPECT_TRUE(stop_requested());
    EXPECT_EQ(stop_signal(), SIGTERM);
    clear_stop();
  }
  EXPECT_FALSE(stop_requested());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const StopSignals signals;
      ::raise(number);
      if (!stop_requested()) ::_exit(1);
      ::raise(number);
      ::_exit(2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + number);
  }
}

TEST(FileSignals, AMappedFileThatIsCutShortEndsWithAMessageAndTheCodeOfABadFile) {
  const std::string path = testing::TempDir() + "tern-cut-" + std::to_string(::getpid());
  write_file_atomically(real_io(), path, std::string(100'000, 'x'));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    explain_file_signals();
    const MappedFile before(path);
    MappedFile file(path), moved = std::move(file);
    if (moved.bytes()[99'999] != std::byte{'x'}) ::_exit(1);
    real_io().truncate(path, 10);
    ::_exit(moved.bytes()[99'999] == std::byte{0} ? 2 : 3);
  }
  ::close(ends[1]);
  std::string said;
  for (char c; ::read(ends[0], &c, 1) == 1;) said += c;
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 4) << said;
  EXPECT_NE(said.find("tern: " + path + ": cut short"), std::string::npos) << said;
  EXPECT_EQ(mapped_file_with(&status), nullptr);
  real_io().remove(path);
}

TEST(FileSignals, AFileBeyondTheLimitIsAnErrorOfTheWrite) {
  const std::string path = testing::TempDir() + "tern-limit-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    explain_file_signals();
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomically(real_io(), path, std::string(10'000, 'x'));
    } catch (const Error& e) { ::_exit(std::string(e.what()).find("ulimit -f") != std::string::npos ? 4 : 1); }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

TEST(StopSignals, WhatNohupIgnoresStaysIgnored) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_IGN);
    const StopSignals signals;
    ::raise(SIGHUP);
    ::_exit(stop_requested() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tern
