#pragma once
// How a template writes calls of tools, so that what a model writes can be asked for and read as calls.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

class ChatTemplate;  // formats/chat/template.h

enum class ToolForm : uint8_t {
  tagged,  // <tool_call>\n{"name": NAME, "arguments": {…}}\n</tool_call>, one behind the other: Hermes, Qwen2.5, Qwen3
  bare,    // the whole answer is {"name": NAME, "parameters": {…}}: Llama 3
  listed,  // [TOOL_CALLS] [{"name": NAME, "arguments": {…}}, …]: Mistral
  named,   // [TOOL_CALLS]NAME[ARGS]{…}, one behind the other: later Mistral models
};

/// Calls are  first NAME middle ARGUMENTS (next NAME middle ARGUMENTS)* last,  as the template itself spells them.
struct ToolSyntax {
  ToolForm form = ToolForm::tagged;
  std::string first, middle, next, last;  // next is empty where there can be one call only
  /// The text that begins calls.
  std::string_view mark() const;
  /// Special tokens that stay in a text with calls; other texts are without them.
  static const std::vector<std::string>& marks();
  /// Ids of calls: templates of this form take nine letters and digits, and no others.
  bool has_short_ids() const { return form == ToolForm::listed || form == ToolForm::named; }
};

/// Found by rendering a conversation that calls a tool. nullopt: the template has no place for tools, refuses the call, or
/// writes it in another form; `why` says which.
std::optional<ToolSyntax> tool_syntax(const ChatTemplate&, std::string& why);

}  // namespace tern
