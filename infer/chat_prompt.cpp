#include "infer/chat_prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "base/text.h"
#include "formats/chat/encode.h"
#include "formats/chat/template_files.h"

namespace tern {
namespace {

ChatTemplates templates_of(const std::string& model_path, const std::string& file) {
  ChatTemplates all = read_chat_templates(model_path);
  replace_chat_templates(all, file);
  if (all.empty())
    throw Error(ErrorKind::usage,
                "{}: brings no chat template: it is a base model that continues texts and was not taught to converse; "
                "use {} generate, or give a template it was trained with: --chat-template FILE",
                model_path, program_name());
  return all;
}

const ChatTemplates::Source& source_of(const ChatTemplates& all) {
  const auto found = all.by_name.find("default");
  return found != all.by_name.end() ? found->second : all.by_name.begin()->second;
}

bool speaks_of_calls(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Json& m) { return m.value("role", "") == "tool" || m.contains("tool_calls"); });
}

// A given file may be no chat template at all. What refuses so short a conversation may take the user's own.
void require_words_of_users(const ChatTemplate& chat, const std::string& file) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "a"}}});
  ChatRequest request;
  request.messages = &messages;
  request.add_generation_prompt = true;
  bool writes = true;
  try {
    writes = !chat.render(request).user.empty();
  } catch (const Error&) {}
  if (!writes)
    throw Error(ErrorKind::bad_file,
                "--chat-template {}: writes nothing of what a user says; is it a chat template (Jinja, over messages)?",
                file);
}

}  // namespace

ChatPrompt::ChatPrompt(const std::string& model_path, const std::string& file, Tokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const ChatTemplates all = templates_of(model_path, file);
  const auto chosen = [&](const ChatTemplates::Source& source, bool has_tools) {
    return Chosen{ChatTemplate::choose(all, "", has_tools), chat_control_tokens(tokenizer_, source.text)};
  };
  place_ = source_of(all).place;
  plain_ = chosen(source_of(all), false);
  if (const auto tools = all.by_name.find("tool_use"); tools != all.by_name.end())
    with_tools_ = chosen(tools->second, true);
  if (!file.empty()) require_words_of_users(plain_->chat, file);
  syntax_ = tern::tool_syntax((with_tools_ ? *with_tools_ : *plain_).chat, why_no_tools_);
}

std::vector<int32_t> ChatPrompt::tokens(const Json& messages, const Json* variables, const Json* tools) const {
  const Chosen& chosen = with_tools_ && (tools || speaks_of_calls(messages)) ? *with_tools_ : *plain_;
  ChatRequest request;
  request.messages = &messages;
  request.tools = tools;
  request.variables = variables;
  request.add_generation_prompt = true;
  return encode_chat(tokenizer_, chosen.chat.render(request), chosen.control);
}

std::vector<int32_t> ChatPrompt::turn_ends() const {
  const Json messages = Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
  ChatRequest request;
  request.messages = &messages;
  std::vector<int32_t> ends;
  try {
    const RenderedChat chat = plain_->chat.render(request);
    if (chat.user.empty()) return ends;
    const std::vector<int32_t> behind =
        tokenizer_.encode(std::string_view(chat.text).substr(chat.user.back().end), {.add_special = false});
    if (!behind.empty() && tokenizer_.is_special(behind.front())) ends.push_back(behind.front());
  } catch (const Error&) {
    // A template that refuses so plain a conversation says nothing about the end of a turn.
  }
  return ends;
}

}  // namespace tern
