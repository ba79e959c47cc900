#pragma once
// Reads lines from standard input. Ctrl-C ends the line, not the program.

#include <optional>
#include <string>

namespace tern {

class LineReader {
 public:
  enum class End { line, input, interrupt };
  /// The next line without its line break. Sets `end` to what ended it: its line break, the end of the input, or Ctrl-C. In
  /// the last two cases the line is the text typed so far.
  std::string next(End& end);

 private:
  std::string held_;
};

}  // namespace tern
