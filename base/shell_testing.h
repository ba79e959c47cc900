#pragma once
// For tests: runs a command in the shell, and returns its exit code and output.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tern {

struct Outcome {
  int code;          // -1: ended by a signal
  std::string text;  // standard output, and what the command redirects there
};

inline Outcome run_shell(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Whether the output has these words, also if labelled() broke a line between them.
inline bool has(const Outcome& o, std::string_view words) {
  return o.text.find(words) != std::string::npos ||
         replace_all(o.text, "\n" + std::string(11, ' '), " ").find(words) != std::string::npos;
}

}  // namespace tern
