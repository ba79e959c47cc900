#pragma once
// A conversation as a model wants to read it: a chat template rendered, and which bytes of the result a user wrote.

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/chat/template_files.h"
#include "formats/jinja/jinja.h"
#include "formats/jinja/marked_text.h"

namespace tern {

/// What is rendered. The request borrows its values for the time of the call.
struct ChatRequest {
  const Json* messages = nullptr;   // a list of objects
  const Json* tools = nullptr;      // null: none
  const Json* documents = nullptr;  // null: none
  const Json* variables = nullptr;  // an object: what chat_template_kwargs add, e.g. enable_thinking; null: nothing
  bool add_generation_prompt = false;
  std::optional<std::tm> now;         // absent: the clock
  std::optional<JinjaLimits> limits;  // absent: JinjaLimits' defaults, with more steps for a long conversation
};

/// A rendered conversation. Spans are byte ranges of `text`.
struct RenderedChat {
  std::string text;
  /// Bytes that came from messages, tools, documents or variables. A control token that lies wholly in one of these
  /// was typed by somebody: encode it as plain text. One that only touches them is the template's own.
  std::vector<TextSpan> user;
  /// The assistant's part, for training: the bytes between {% generation %} and {% endgeneration %}.
  std::vector<TextSpan> assistant;
};

/// A loaded template with its special tokens.
class ChatTemplate {
 public:
  /// Errors  JinjaError.
  ChatTemplate(std::string_view source, const std::string& place, std::map<std::string, std::string> special_tokens);
  /// The template of a directory for a request: `name` if given, else "tool_use" if there are tools and such a
  /// template, else "default", else the only one. Errors: bad_file, naming what there is.
  static ChatTemplate choose(const ChatTemplates&, const std::string& name = "", bool has_tools = false);

  /// Renders the request as transformers' apply_chat_template(tokenize=False) does. The reasoning of a message
  /// (reasoning_content, else thinking, else reasoning) is given as reasoning_content, and as thinking where the
  /// message has none of that name; tools and documents are None if absent.
  /// Errors  JinjaError; usage, if a message is no object or a variable takes the name of a part of the request.
  RenderedChat render(const ChatRequest&) const;

  /// False: the template marks no assistant spans; training on the assistant's turns alone needs another template.
  bool marks_assistant() const { return template_.has_generation_tag(); }
  const JinjaTemplate& jinja() const { return template_; }

 private:
  JinjaTemplate template_;
  std::map<std::string, std::string> special_tokens_;
};

}  // namespace tern
