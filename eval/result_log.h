#pragma once
// Results as they come, one JSON line each, so that the same command goes on after a stop.

#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"

namespace tern {

/// A file whose first line says what was asked (`question`: model, data, settings) and whose other lines are results in
/// order. Every line is written whole; a line that a crash cut short is dropped at the next start.
class ResultLog {
 public:
  /// Opens or makes the file. Errors: usage: it answers another question, naming the first key that differs; bad_file:
  /// not such a file; io.h's.
  ResultLog(Io&, const std::string& path, const Json& question);
  ~ResultLog();

  /// Results of an earlier run, in order.
  const std::vector<Json>& done() const { return done_; }
  /// What was found when the file was opened, for people.
  const std::vector<std::string>& notes() const { return notes_; }
  void append(const Json& result);
  void sync();

 private:
  std::unique_ptr<IoFile> file_;
  std::vector<Json> done_;
  std::vector<std::string> notes_;
};

}  // namespace tern
