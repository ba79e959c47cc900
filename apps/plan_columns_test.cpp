// tern plan on terminals of 40, 80 and 120 columns.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "apps/plan_verb_testing.h"

namespace tern {
namespace {

// What a command prints to a terminal so wide; "" where there are no pseudo-terminals.
std::string on_terminal(const std::string& command, int columns) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return "";
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  if (terminal < 0 || ::ioctl(terminal, TIOCSWINSZ, &size) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(terminal, STDOUT_FILENO), ::close(terminal), ::close(master);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(terminal);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(master, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(master);
  EXPECT_EQ(status, 0) << text;
  return replace_all(text, "\r\n", "\n");
}

TEST_F(PlanVerb, TheAnswerComesFirstInTenLinesOrSo) {
  const Outcome o = tern("plan llama-2-7b" + kNode + kJob + " 2>/dev/null");
  ASSERT_EQ(o.code, 0) << o.text;
  for (const char* key :
       {"model ", "hardware ", "plan ", "layers ", "step ", "memory ", "price ", "limited by ", "proof "})
    EXPECT_TRUE(has(o, "\n" + std::string(key)) || o.text.starts_with(key)) << key << "\n" << o.text;
  EXPECT_LE(std::count(o.text.begin(), o.text.end(), '\n'), 15) << o.text;
  EXPECT_FALSE(has(o, "rivals  ")) << o.text;
  const Outcome all = tern("plan llama-2-7b" + kNode + kJob + " --details 2>/dev/null");
  for (const char* part : {"rivals", "memory per device", "outer choices", "MFU        ", "measure    1. "})
    EXPECT_TRUE(has(all, part)) << part << "\n" << all.text;
}

TEST_F(PlanVerb, NothingIsWiderThanTheTerminal) {
  for (const char* more : {"", " --details --tokens 1e12 --pareto"})
    for (const int columns : {40, 80, 120}) {
      const std::string text = on_terminal(
          "cd " + folder_ + "; " TERN_PROGRAM " plan llama-2-7b" + kNode + kJob + " --fix pp=2" + more + " 2>errors",
          columns);
      if (text.empty()) GTEST_SKIP() << "no pseudo-terminals here";
      for (const std::string_view line : split(text, '\n'))
        EXPECT_LE(display_width(line), static_cast<size_t>(columns)) << line;
      const std::string one_line = replace_all(replace_all(text, "\n", " "), "  ", " ");
      EXPECT_NE(one_line.find("no choice is faster"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace tern
