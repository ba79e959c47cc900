#pragma once
// Turns messages into the tokens that a model reads, by the model's chat template.

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
  /// `file`: a template that takes the place of the model's own; empty: none.
  /// Errors  usage: the model has no template (with a remedy); JinjaError; bad_file.
  ChatPrompt(const std::string& model_path, const std::string& file, Tokenizer);
  /// The tokens of a prompt that ends where the assistant's answer begins. `variables`: an object of further values that the template reads;
  /// null: none. `tools`: the list of tools that may be called; null: none. A model may have another template for prompts with tools.
  /// Errors: JinjaError, with what the template says of the messages.
  std::vector<int32_t> tokens(const Json& messages, const Json* variables = nullptr, const Json* tools = nullptr) const;
  /// Special tokens that the template puts right behind an answer. They end an answer, even if the configuration does not list them.
  std::vector<int32_t> turn_ends() const;
  /// How the template writes calls of tools; none: why_no_tools() says why.
  const std::optional<ToolSyntax>& tool_syntax() const { return syntax_; }
  const std::string& why_no_tools() const { return why_no_tools_; }
  const std::string& place() const { return place_; }  // where the template comes from

 private:
  struct Chosen {
    ChatTemplate chat;
    std::vector<int32_t> control;
  };
  Tokenizer tokenizer_;
  std::string place_, why_no_tools_;
  std::optional<Chosen> plain_, with_tools_;  // with_tools_: only if it differs from plain_
  std::optional<ToolSyntax> syntax_;
};

}  // namespace tern
