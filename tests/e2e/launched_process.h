#pragma once
// `tern launch` of real processes: started, found by their command line, lost.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/e2e/train_process.h"

namespace tern {

using Words = std::vector<std::string>;

/// `tern launch -n RANKS --comm-timeout 2 OPTIONS --` and the command without its program.
Words launched(int ranks, const Words& command, const Words& options = {});

/// The numbers of living processes whose command line has this word, of a rank or of all.
std::vector<pid_t> processes_of(const std::string& word, const std::string& rank = "");
/// Whether none of these processes lives any more, or none will within `within_s` seconds.
bool none_left(const std::string& word, double within_s);

double seconds_since(std::chrono::steady_clock::time_point begin);

/// Runs that only a signal ends, and that have a checkpoint when they get it.
struct EndlessRun {
  TinyRun tiny{};
  std::string out = tiny.out(1), said = tiny.root() + "/said";
  Child child;
  explicit EndlessRun(int ranks, const Words& options = {});
  std::string text() const;
  pid_t rank(int r) const;
};

}  // namespace tern
