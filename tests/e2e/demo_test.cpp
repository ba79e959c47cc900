// `tern demo` as its user meets it: one command, and what it says must hold.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace tern {
namespace {

struct CommandRun {
  int exit_code;
  std::string output;
};

CommandRun run(const std::string& arguments) {
  const std::string command = std::string(TERN_PROGRAM) + " " + arguments;
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class DemoFolder : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "tern_demo_" + std::to_string(getpid());
};
using DemoSlow = DemoFolder;

TEST_F(DemoSlow, BeatsXzResumesToTheBitAndLeavesAPage) {
  if (!std::filesystem::exists("/usr/share/games/fortunes/computers"))
    GTEST_SKIP() << "the package fortunes is not installed";
  const auto begin = std::chrono::steady_clock::now();
  const CommandRun demo = run("demo --json --output " + folder_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(demo.exit_code, 0) << demo.output;
  const Json result = parse_json(demo.output, "demo --json");
  std::printf("held-out bits per byte %.4f, xz %s, %.0f s\n", result.at("bits_per_byte").get<double>(),
              result.at("xz_bits_per_byte").dump().c_str(), seconds);

  EXPECT_LT(result.at("bits_per_byte").get<double>(), 2.57);
  if (!result.at("xz_bits_per_byte").is_null()) {
    EXPECT_NEAR(result.at("xz_bits_per_byte").get<double>(), 2.571, 0.002);
  }
  EXPECT_GT(result.at("killed_at_step").get<int>(), 0);
  EXPECT_GT(result.at("resumed_from_step").get<int>(), 0);
  EXPECT_GT(result.at("repeated_rows").get<int>(), 0);
  EXPECT_EQ(result.at("repeated_rows_equal"), result.at("repeated_rows"));
  EXPECT_EQ(result.at("samples").size(), 3u);

  std::ifstream page(folder_ + "/report.html");
  const std::string html((std::istreambuf_iterator<char>(page)), {});
  EXPECT_NE(html.find("<svg"), std::string::npos);
  for (const char* network : {"src=", "href=", "@import", "url("})
    EXPECT_EQ(html.find(network), std::string::npos) << network;
}

TEST_F(DemoFolder, DoesNotEmptyAFolderOfOthers) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/precious") << "x";
  EXPECT_EQ(run("demo --output " + folder_ + " 2>&1").exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/precious"));
}

TEST_F(DemoFolder, SaysWhatAUsersTextMustBe) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/short.txt") << "too short\n";
  const CommandRun demo = run("demo --data " + folder_ + "/short.txt --output " + folder_ + "/out 2>&1");
  EXPECT_EQ(demo.exit_code, 4);
  EXPECT_NE(demo.output.find("expected at least 200000"), std::string::npos) << demo.output;
}

}  // namespace
}  // namespace tern
