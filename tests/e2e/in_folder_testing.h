#pragma once
// Tests of the program in a folder of their own, one for a whole suite.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"

namespace tern {

/// `Suite` is the fixture itself, so that each has a folder. SetUpTestSuite calls make_root.
template <class Suite>
class InFolder : public testing::Test {
 protected:
  static void make_root(const std::string& name) {
    std::string pattern = testing::TempDir() + "tern-" + name + "-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  static void TearDownTestSuite() { remove_all(real_io(), root_); }

  static void write(const std::string& name, std::string_view text) {
    write_file_atomically(real_io(), root_ + "/" + name, text);
  }
  /// In the folder, by the shell, with the cache there too; `rest` may redirect.
  static Outcome tern(const std::string& rest) {
    return run_shell("cd " + root_ + " && env -u TERN_DATA XDG_CACHE_HOME=" + root_ + "/cache " TERN_PROGRAM " " +
                     rest);
  }
  /// Ends with this code, and a message that has all these words.
  static void expect_refusal(int code, const std::string& command, const std::vector<std::string>& words) {
    const Outcome outcome = tern(command + " 2>&1 >/dev/null </dev/null");
    EXPECT_EQ(outcome.code, code) << command << "\n" << outcome.text;
    for (const std::string& word : words)
      EXPECT_NE(outcome.text.find(word), std::string::npos) << command << "\n" << outcome.text;
  }
  static inline std::string root_;
};

}  // namespace tern
