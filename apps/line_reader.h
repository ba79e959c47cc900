#pragma once
// Lines from standard input, where Ctrl-C ends the line and not the program.

#include <optional>
#include <string>

namespace tern {

class LineReader {
 public:
  enum class End { line, input, interrupt };
  /// The next line without its line break. `end`: why it ends; with `input` and `interrupt` it is the text typed so far.
  std::string next(End& end);

 private:
  std::string held_;
};

}  // namespace tern
