#pragma once
// Messages as the tokens a model wants to read, by its template.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/chat/template.h"
#include "formats/chat/tool_syntax.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {

class ChatPrompt {
 public:
  /// `file`: a template to use in place of the model's own; may be empty.
  /// Errors  usage: the model has no template, with what to do; JinjaError; bad_file.
  ChatPrompt(const std::string& model_path, const std::string& file, Tokenizer);
  /// Ends where the assistant's answer begins. `variables`: an object of what the template reads beside them; may be
  /// null. `tools`: a list of what may be called, null: none; a model may have a template of its own for them.
  /// Errors: JinjaError, with what the template says of the messages.
  std::vector<int32_t> tokens(const Json& messages, const Json* variables = nullptr, const Json* tools = nullptr) const;
  /// Special tokens that the template puts right behind an answer: they end one, whatever the configuration says.
  std::vector<int32_t> turn_ends() const;
  /// How the template writes calls; none: why_no_tools().
  const std::optional<ToolSyntax>& tool_syntax() const { return syntax_; }
  const std::string& why_no_tools() const { return why_no_tools_; }
  const std::string& place() const { return place_; }

 private:
  struct Chosen {
    ChatTemplate chat;
    std::vector<int32_t> control;
  };
  Tokenizer tokenizer_;
  std::string place_, why_no_tools_;
  std::optional<Chosen> plain_, with_tools_;  // with_tools_: only where it differs from plain_
  std::optional<ToolSyntax> syntax_;
};

}  // namespace tern
