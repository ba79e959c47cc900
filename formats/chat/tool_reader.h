#pragma once
// What a model writes, piece by piece, as content and calls of tools.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/tool_syntax.h"

namespace tern {

struct ToolPiece {
  enum class Kind : uint8_t { content, name, arguments };
  Kind kind;
  int64_t call = 0;  // number of the call, for a name (which begins it) and for arguments
  std::string text;
  friend bool operator==(const ToolPiece&, const ToolPiece&) = default;
};

/// A call is one of `names` with arguments, with any white space and order of keys. All else is content, to the byte, except
/// white space next to calls. Arguments are passed on as they come: they stay incomplete where the text is cut in a call, and
/// ill-formed where the model wrote them so.
class ToolReader {
 public:
  ToolReader(ToolSyntax, std::vector<std::string> names);
  std::vector<ToolPiece> push(std::string_view text);
  /// The text is whole.
  std::vector<ToolPiece> finish();
  int64_t num_calls() const { return num_calls_; }

 private:
  enum class State : uint8_t { content, head, arguments, tail };
  // Each reads held_ as far as its state reaches; false: more text is needed.
  bool read_content(bool ends);
  bool read_head();
  bool read_arguments();
  bool read_tail();
  bool close_call();
  void add(ToolPiece::Kind, std::string text);
  void add_content(std::string_view text);
  void refuse_call();
  void begin_call(const std::string& name);

  ToolSyntax syntax_;
  std::vector<std::string> names_;
  State state_ = State::content;
  std::string held_;          // not given away
  std::string space_;         // white space of the content in front of held_
  bool in_list_ = false;      // the next call follows without a mark
  bool in_object_ = false;    // in State::tail: the call's JSON object is not closed yet
  bool after_call_ = false;   // and no content since
  bool all_content_ = false;  // of a bare form: no call can begin any more
  int64_t num_calls_ = 0;
  int depth_ = 0;  // of the arguments at hand; 0: not begun
  bool in_string_ = false, escaped_ = false;
  std::vector<ToolPiece> pieces_;
};

}  // namespace tern
