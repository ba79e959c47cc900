#pragma once
// Runs another program, waits until it ends or kills it, and returns its output and how it ended.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tern {

struct ChildOptions {
  std::string stdin_file = {};  // its standard input; empty: it has nothing to read
  bool count_only = false;      // true: the bytes of its output are counted and not kept
  // true: its standard error is a part of its output; false: it is this process's.
  bool join_stderr = false;
  std::function<bool()> kill_when = nullptr;  // called every 20 ms; when it returns true the child gets SIGKILL
};
struct ChildResult {
  std::string output;  // its standard output, with its standard error if that is joined
  int64_t output_bytes = 0;
  int exit_code = 0;    // 128 + the signal, if a signal ended it
  bool killed = false;  // by kill_when
  double seconds = 0;
};
/// Runs a program (arguments[0]) to its end. Errors  bug: it cannot be started; found_program tells beforehand whether PATH has it.
ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options = {});

/// A program that runs beside this one until it is told to end.
class ChildBeside {
 public:
  /// Starts it. `line` reads its standard output; its standard error is this process's. Errors  bug: it cannot be started.
  explicit ChildBeside(const std::vector<std::string>& arguments);
  ~ChildBeside();  // ends it at once, if `end` did not
  ChildBeside(const ChildBeside&) = delete;
  ChildBeside& operator=(const ChildBeside&) = delete;
  pid_t pid() const { return pid_; }
  /// The next line of its output, without the line's end. "": the output has ended, or `give_up`, which is called every 20 ms, returned true.
  std::string line(const std::function<bool()>& give_up);
  /// Asks it to end (SIGTERM) and waits until it has. Returns its exit code, or 128 + the signal if a signal ended it.
  int end();

 private:
  pid_t pid_;
  int output_;
  ChildResult read_;  // its output that is not yet a whole line
};

/// The kind of error that the exit code of a tern verb means (docs/exit-codes.md); 130 and 143: interrupted; an unknown code: bug.
ErrorKind kind_of_exit(int exit_code);

/// Whether PATH has an executable of this name.
bool found_program(const std::string& name);

/// The path of the running program.
std::string own_program();

}  // namespace tern
