#include "apps/child_process.h"
#include "base/source_dir_testing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tern {
namespace {

TEST(ChildProcess, GivesOutputAndExitCode) {
  const ChildResult result = run_child({"sh", "-c", "printf 'a\\nb'; exit 7"});
  EXPECT_EQ(result.output, "a\nb");
  EXPECT_EQ(result.output_bytes, 3);
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_FALSE(result.killed);
}

TEST(ChildProcess, EveryExitCodeOfAVerbHasItsKindAgain) {
  for (const ErrorKind kind :
       {ErrorKind::bug, ErrorKind::usage, ErrorKind::does_not_fit, ErrorKind::bad_file, ErrorKind::peer,
        ErrorKind::no_checkpoint, ErrorKind::diverged, ErrorKind::undecided, ErrorKind::interrupted})
    EXPECT_EQ(kind_of_exit(static_cast<int>(kind)), kind);
  for (const int stopped : {130, 143}) EXPECT_EQ(kind_of_exit(stopped), ErrorKind::interrupted);
  for (const int strange : {9, 74, 127, 139}) EXPECT_EQ(kind_of_exit(strange), ErrorKind::bug);
}

TEST(ChildProcess, CountsLargeOutputWithoutKeepingIt) {
  const ChildResult result = run_child({"sh", "-c", "head -c 3000000 /dev/zero"}, {.count_only = true});
  EXPECT_EQ(result.output_bytes, 3000000);
  EXPECT_TRUE(result.output.empty());
}

TEST(ChildProcess, ReadsItsInputFromAFileOrFindsNone) {
  EXPECT_EQ(run_child({"head", "-c", "16"}, {.stdin_file = source_dir() + "/LICENSE"}).output_bytes, 16);
  EXPECT_EQ(run_child({"cat"}).output_bytes, 0);
}

TEST(ChildProcess, KillsWhenAsked) {
  const auto start = std::chrono::steady_clock::now();
  int asked = 0;
  const ChildResult result =
      run_child({"sh", "-c", "echo begun; exec sleep 30"}, {.kill_when = [&] { return ++asked > 3; }});
  EXPECT_TRUE(result.killed);
  EXPECT_EQ(result.exit_code, 128 + 9);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ChildProcess, IsNotCalledKilledIfItEndedByItself) {
  const ChildResult result = run_child({"sleep", "0.05"}, {.kill_when = [] {
                                         std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                         return true;
                                       }});
  EXPECT_FALSE(result.killed);
  EXPECT_EQ(result.exit_code, 0);
}

TEST(ChildProcess, SaysWhichProgramsAreThere) {
  EXPECT_TRUE(found_program("sh"));
  EXPECT_FALSE(found_program("no-such-program-here"));
  EXPECT_ANY_THROW(run_child({"no-such-program-here"}));
  EXPECT_NE(own_program().find("apps_test"), std::string::npos);
}

}  // namespace
}  // namespace tern
