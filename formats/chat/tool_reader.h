#pragma once
// What a model writes, piece by piece, as content and calls of tools.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/tool_syntax.h"

namespace tern {

/// A piece of what a model wrote.
struct ToolPiece {
  enum class Kind : uint8_t { content, name, arguments };
  Kind kind;
  int64_t call = 0;  // number of the call, for a name (which begins it) and for arguments
  std::string text;
  friend bool operator==(const ToolPiece&, const ToolPiece&) = default;
};

/// Parts a model's text into content and calls, as the text comes. A call names one of `names` and has arguments; its
/// white space and the order of its keys do not matter. All else is content, unchanged but for white space next to
/// calls. Arguments are passed on as the model writes them: if the text ends within a call they are incomplete, and
/// errors in them stay.
class ToolReader {
 public:
  ToolReader(ToolSyntax, std::vector<std::string> names);
  /// Takes more text; returns the pieces that are certain now.
  std::vector<ToolPiece> push(std::string_view text);
  /// Ends the text; returns what is left of it.
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
