#pragma once
// Running another program and waiting for it: what it printed, how it ended; or killing it on the way.

#include <sys/types.h>

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

/// A program that runs beside this one until it is told to end.
class ChildBeside {
 public:
  /// Its standard output is ours to read, its standard error is ours. Errors  bug: it cannot be started.
  explicit ChildBeside(const std::vector<std::string>& arguments);
  ~ChildBeside();  // ends it at once, if `end` did not
  ChildBeside(const ChildBeside&) = delete;
  ChildBeside& operator=(const ChildBeside&) = delete;
  pid_t pid() const { return pid_; }
  /// Its next line of output, without the line's end; "" when its output has ended, or `give_up` (asked every 20 ms) is true.
  std::string line(const std::function<bool()>& give_up);
  /// Asks it to end (SIGTERM) and waits for that. Returns its exit code, 128 + signal if a signal ended it.
  int end();

 private:
  pid_t pid_;
  int output_;
  ChildResult read_;  // of its output what is no whole line yet
};

/// The kind of error that a tern verb's exit code stands for (docs/exit-codes.md); bug for any other code.
ErrorKind kind_of_exit(int exit_code);

/// Whether PATH has an executable of this name.
bool found_program(const std::string& name);

/// The path of the running program.
std::string own_program();

}  // namespace tern
