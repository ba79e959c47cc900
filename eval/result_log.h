#pragma once
// A file of results, one JSON line each, written as they come, so that the same command can continue after a stop.

#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"

namespace tern {

/// The first line of the file says what was asked (`question`: model, data, settings). The other lines are results in order, each with a checksum
/// (`crc32c`) of this line and all lines before. Every line is written whole; a line that a crash cut short is dropped at the next start. One
/// process at a time writes it.
class ResultLog {
 public:
  /// Opens or makes the file. Errors: usage: the file answers another question (with the first key that differs), or another process writes it;
  /// bad_file: it is another kind of file, or a line has changed since it was written; those of the Io.
  ResultLog(Io&, const std::string& path, const Json& question);
  ~ResultLog();

  /// The results of an earlier run, in order.
  const std::vector<Json>& done() const { return done_; }
  /// Sentences for people about what was found when the file was opened.
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
