#include "apps/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
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

// What the first signal writes to a terminal, or to a pipe.
std::string told_on_first_signal(bool to_terminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const int slave = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(to_terminal ? slave : ends[1], STDERR_FILENO);
    const StopSignals signals("stopping soon");
    ::raise(SIGINT);
    ::_exit(stop_requested() ? 0 : 1);
  }
  ::close(ends[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  char text[100];
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  const ssize_t bytes = ::read(to_terminal ? terminal : ends[0], text, sizeof text);
  for (const int file : {terminal, slave, ends[0]}) ::close(file);
  return {text, bytes > 0 ? static_cast<size_t>(bytes) : 0};
}

TEST(StopSignals, TheFirstIsAcknowledgedOnATerminal) {
  EXPECT_NE(told_on_first_signal(true).find("stopping soon"), std::string::npos);
  EXPECT_EQ(told_on_first_signal(false), "");
}

TEST(EndSignals, TheFirstEndsWithLastWords) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      ::signal(SIGHUP, SIG_DFL);
      const EndSignals signals("nothing has begun");
      ::raise(number);
      ::_exit(1);
    }
    ::close(ends[1]);
    std::string said;
    for (char c; ::read(ends[0], &c, 1) == 1;) said += c;
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + number);
    EXPECT_EQ(said, "tern: nothing has begun\n");
  }
  { const EndSignals signals("gives way"); }
  const StopSignals signals;
  ::raise(SIGINT);
  EXPECT_EQ(stop_signal(), SIGINT);
  clear_stop();
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
