#include "base/shell.h"

#include <gtest/gtest.h>

#include "base/shell_testing.h"

namespace tern {
namespace {

TEST(ShellQuoted, IsOneWordWhateverItHolds) {
  for (const std::string word : {"plain", "two words", "a; touch PWNED", "it's", "$HOME `x` \"y\"", "[0,1]", "*", "~",
                                 "", "a\nb", "#no comment", "--flag", "a\\b"})
    EXPECT_EQ(run_shell("printf '%s|' " + shell_quoted(word)).text, word + "|") << word;
  EXPECT_EQ(shell_quoted("train.sh"), "train.sh") << "plain words stay as they are";
}

}  // namespace
}  // namespace tern
