#pragma once
// Results as they come, one JSON line each, so that the same command goes on after a stop.

#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"

namespace tern {

/// A file whose first line says what was asked (`question`: model, data, settings) and whose other lines are results in
/// order, each with a checksum (`crc32c`, of it and of all lines before). Every line is written whole; a line that a crash
/// cut short is dropped at the next start. One writer at a time.
class ResultLog {
 public:
  /// Opens or makes the file. Errors: usage: it answers another question, naming the first key that differs, or somebody
  /// else writes it; bad_file: not such a file, or a line has changed since it was written; io.h's.
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
  std::unique_ptr<IoLock> lock_;
  uint32_t crc_ = 0;
  std::vector<Json> done_;
  std::vector<std::string> notes_;
};

}  // namespace tern
