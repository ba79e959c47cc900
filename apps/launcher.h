#pragma once
// Starts the processes of one run on this machine, watches them, and ends them together.

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern {

struct LaunchConfig {
  int ranks = 1;
  double silence_s = 30;             // --comm-timeout
  std::vector<std::string> command;  // the program and its arguments
  bool again = false;                // a start after a loss: TERN_FAULT, which has had its effect, is left out
};

/// How the ranks ended.
struct LaunchEnd {
  int exit_code = 0;  // of the first rank, by number, that failed by itself; 5: a rank was lost; 75, 130, 143: stopped
  std::string lost;   // "rank 2 was killed by signal 9 (SIGKILL)"; empty: none was lost
  bool told = false;  // whether a rank has printed an error of its own
};

/// Starts the ranks with torchrun's variables, TERN_STORE and TERN_RUN, and without the variables of other launchers. Rank 0 has this process's
/// terminal; lines of the others are printed with "rank 2: " before them. The first stop signal is passed on to the ranks. If a rank ends
/// with an error, is killed or is silent, the others end too; those that still run 3 s later are killed. If this process is killed, the kernel
/// kills all ranks.
/// Errors  does_not_fit: a process cannot be started; bug: its pipe cannot be made.
LaunchEnd launch(const LaunchConfig&);

}  // namespace tern
