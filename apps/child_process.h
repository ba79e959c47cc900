#pragma once
// Running another program and waiting for it: what it printed, how it ended; or killing it on the way.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern {

struct ChildOptions {
  std::string stdin_file = {};                // empty: nothing to read
  bool count_only = false;                    // count the bytes of its output instead of keeping them
  bool join_stderr = false;                   // its standard error goes with its output; else it is ours
  std::function<bool()> kill_when = nullptr;  // asked every 20 ms; once true the child gets SIGKILL
};

struct ChildResult {
  std::string output;  // its standard output, and error if joined
  int64_t output_bytes = 0;
  int exit_code = 0;    // 128 + signal if a signal ended it
  bool killed = false;  // by kill_when
  double seconds = 0;
};

/// Errors  bug: the program cannot be started; `found_program` tells beforehand whether PATH has it.
ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options = {});

/// The kind of error that a tern verb's exit code stands for (docs/exit-codes.md); bug for any other code.
ErrorKind kind_of_exit(int exit_code);

/// Whether PATH has an executable of this name.
bool found_program(const std::string& name);

/// The path of the running program.
std::string own_program();

}  // namespace tern
