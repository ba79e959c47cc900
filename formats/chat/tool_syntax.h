#pragma once
// How a template writes calls of tools, so that what a model writes can be asked for and read as calls.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

class ChatTemplate;  // formats/chat/template.h

/// The forms of calls that templates write.
enum class ToolForm : uint8_t {
  tagged,  // <tool_call>\n{"name": NAME, "arguments": {…}}\n</tool_call>, one behind the other: Hermes, Qwen2.5, Qwen3
  bare,    // the whole answer is {"name": NAME, "parameters": {…}}: Llama 3
  listed,  // [TOOL_CALLS] [{"name": NAME, "arguments": {…}}, …]: Mistral
  named,   // [TOOL_CALLS]NAME[ARGS]{…}, one behind the other: later Mistral models
};

/// How a template spells calls: first NAME middle ARGUMENTS (next NAME middle ARGUMENTS)* last.
struct ToolSyntax {
  ToolForm form = ToolForm::tagged;
  std::string first, middle, next, last;  // next is empty where there can be one call only
  /// The text that begins calls.
  std::string_view mark() const;
  /// The tokens that mark calls, of all forms. Where calls are read from the text, a decoder writes out those of them that
  /// are special tokens; elsewhere it leaves them out like other special tokens.
  static const std::vector<std::string>& marks();
  /// Whether the template takes only ids of calls with nine letters and digits.
  bool has_short_ids() const { return form == ToolForm::listed || form == ToolForm::named; }
};

/// Finds the syntax of a template by rendering a conversation that calls a tool. nullopt: the template has no place for
/// tools, refuses the call, or writes it in another form; `why` says which.
std::optional<ToolSyntax> tool_syntax(const ChatTemplate&, std::string& why);

}  // namespace tern
