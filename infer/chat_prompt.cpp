#include "infer/chat_prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "base/text.h"
#include "formats/chat/encode.h"

namespace tern {
namespace {

ChatTemplates templates_of(const std::string& model_path, const std::string& file) {
  ChatTemplates all = read_chat_templates(model_path);
  if (!file.empty()) {
    if (!real_io().stat(file)) throw Error(ErrorKind::bad_file, "--chat-template {}: is not there", file);
    all.by_name = {{"default", {real_io().read(file), file}}};
  }
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

}  // namespace

ChatPrompt::ChatPrompt(const std::string& model_path, const std::string& file, Tokenizer tokenizer)
    : tokenizer_(std::move(tokenizer)), template_([&] {
        const ChatTemplates all = templates_of(model_path, file);
        place_ = source_of(all).place;
        control_ = chat_control_tokens(tokenizer_, source_of(all).text);
        return ChatTemplate::choose(all);
      }()) {}

std::vector<int32_t> ChatPrompt::tokens(const Json& messages, const Json* variables) const {
  ChatRequest request;
  request.messages = &messages;
  request.variables = variables;
  request.add_generation_prompt = true;
  return encode_chat(tokenizer_, template_.render(request), control_);
}

std::vector<int32_t> ChatPrompt::turn_ends() const {
  const Json messages = Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
  ChatRequest request;
  request.messages = &messages;
  std::vector<int32_t> ends;
  try {
    const RenderedChat chat = template_.render(request);
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
