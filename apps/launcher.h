#pragma once
// Processes of one run on this machine: started, watched, ended together.

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern {

struct LaunchConfig {
  int ranks = 1;
  double silence_s = 30;             // --comm-timeout
  std::vector<std::string> command;  // the program and what it is called with
};

/// How the ranks ended.
struct LaunchEnd {
  int exit_code = 0;  // of the rank that failed first by itself; 5: a rank was lost; 75, 130, 143: stopped
  std::string lost;   // "rank 2 was killed by signal 9 (SIGKILL)"; empty: none was lost
  bool told = false;  // a rank has printed what went wrong
};

/// Starts the ranks with torchrun's variables, TERN_STORE and TERN_RUN; the variables of other launchers are removed. Rank 0 has
/// this process's terminal; the others' lines pass with "rank 2: " before them. The first stop signal is passed on.
/// A rank that ends with an error, is killed or is silent ends the others: those that still run 3 s later are killed. If this
/// process is killed, the kernel kills all ranks.
/// Errors  bug: a process cannot be started.
LaunchEnd launch(const LaunchConfig&);

}  // namespace tern
