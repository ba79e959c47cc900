#pragma once
// Lines from standard input, where Ctrl-C ends the line and not the program.

#include <optional>
#include <string>

namespace tern {

class LineReader {
 public:
  enum class End { line, input, interrupt };
  /// The next line without its end. `end`: why it ends; of `input` and `interrupt` the line is what was there.
  std::string next(End& end);

 private:
  std::string held_;
};

}  // namespace tern
