#include "base/terminal_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

namespace tern {
namespace {

TEST(TerminalText, ShowsWhatCouldSteerAndLeavesTheRest) {
  EXPECT_EQ(terminal_text("plain\n\ttext, \xC3\xA4\xE2\x82\xAC\xF0\x9F\x99\x82"),
            "plain\n\ttext, \xC3\xA4\xE2\x82\xAC\xF0\x9F\x99\x82");
  EXPECT_EQ(terminal_text("\x1b]0;title\x07\x1b[2J\r"), "\\x1b]0;title\\x07\\x1b[2J\\x0d");
  EXPECT_EQ(terminal_text("\xC2\x9B"
                          "31m \xC2\xA0"),
            "\\x9b31m \xC2\xA0")
      << "C1 controls are two bytes";
  EXPECT_EQ(terminal_text(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  for (int c = 0; c < 256; ++c) {
    const std::string shown = terminal_text(std::string(1, static_cast<char>(c)));
    for (const char s : shown) EXPECT_TRUE(s == '\n' || s == '\t' || static_cast<unsigned char>(s) >= 0x20) << c;
  }
}

TEST(TerminalText, APipeGetsTheBytesAndATerminalTheFilteredText) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(text_for(ends[1], "\x1b[2J\xff"), "\x1b[2J\xff");
  ::close(ends[0]), ::close(ends[1]);
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  EXPECT_EQ(text_for(terminal, "\x1b[2J"), "\\x1b[2J");
  ::close(terminal), ::close(master);
}

}  // namespace
}  // namespace tern
