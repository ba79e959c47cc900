#pragma once
// `tern launch` of real processes: started, found by their command line, lost.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "comm/socket.h"
#include "tests/e2e/train_process.h"

namespace tern {

using Words = std::vector<std::string>;

/// `tern launch -n RANKS --comm-timeout 2 OPTIONS --` and the command without its program.
Words launched(int ranks, const Words& command, const Words& options = {});

/// The numbers of living processes whose command line has this word, of a rank or of all.
std::vector<pid_t> processes_of(const std::string& word, const std::string& rank = "");
/// Whether none of these processes lives any more, or none will within `within_s` seconds.
bool none_left(const std::string& word, double within_s);

/// `tern plan` of the run's config.json for as many devices as `fix` and `more` say, in f32 sequences of 16 tokens, written to `file`.
Words plan_command(const TinyRun&, const std::string& fix, const std::string& file, const Words& more);

double seconds_since(std::chrono::steady_clock::time_point begin);

/// A port that another program has, which hangs up on whoever comes.
class TakenPort {
 public:
  explicit TakenPort(int port = 0);  // 0: one that the system chooses; a port that is taken already stays as it is
  TakenPort(const TakenPort&) = delete;
  int number() const { return number_; }

 private:
  bool before_ = false;  // somebody else has the port
  Descriptor listener_;
  int number_;
  std::jthread answers_;
};
/// The variables that torchrun gives to a rank of so many on one machine.
std::map<std::string, std::string> torchrun_variables(int rank, int ranks, int master_port);

/// Processes that ran beside each other: how each ended, and what it said.
struct Together {
  std::vector<int> codes;
  std::vector<std::string> said;
};
struct WithVariables {
  std::map<std::string, std::string> variables;
  Words command;
};
Together run_together(const TinyRun&, const std::vector<WithVariables>&);

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
