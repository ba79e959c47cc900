#pragma once
// A real `tern train` on a tiny model as a child process: started, watched, killed.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

/// A directory with config.json (a two-layer Llama of width 16) and data.tokens (4,000 seeded ids in documents of 3 to
/// 90), removed with the object. Children find their cache there too.
class TinyRun {
 public:
  TinyRun();
  ~TinyRun();
  TinyRun(const TinyRun&) = delete;
  const std::string& root() const { return root_; }
  std::string out(int number) const;
  /// `tern train config.json --from-scratch --data … --output OUT` and `more`.
  std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more = {}) const;

 private:
  std::string root_;
};

/// A running child; its standard error goes to a file. Killed, if it still runs, with the object.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command, const std::string& error_file);
  ~Child();
  Child(const Child&) = delete;
  bool running();  // reaps it when it has ended
  void signal(int number);
  pid_t pid() const { return pid_; }
  int wait();  // exit code, 128 + signal if one ended it

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Runs to the end. The error text is returned through `errors` if given.
int run_to_end(const std::vector<std::string>& command, const std::string& root, std::string* errors = nullptr);

/// The bytes that a run leaves: the exported weights and the last checkpoint's data.
std::string final_bits(const std::string& out);

}  // namespace tern
