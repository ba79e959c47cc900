#include "formats/chat/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/chat/template_files.h"

namespace tern {
namespace {

// The reasoning of a message under every name that templates ask for.
Json with_reasoning(const Json& message) {
  for (const char* field : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(field);
    if (found == message.end() || found->is_null()) continue;
    Json out = Json::object();
    out["thinking"] = *found;
    for (const auto& [key, value] : message.items()) out[key] = value;
    out["reasoning_content"] = *found;
    return out;
  }
  return message;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const std::string& place,
                           std::map<std::string, std::string> special_tokens)
    : template_(JinjaTemplate::parse(source, place)), special_tokens_(std::move(special_tokens)) {}

ChatTemplate ChatTemplate::choose(const ChatTemplates& all, const std::string& name, bool has_tools) {
  const auto make = [&](const ChatTemplates::Source& source) {
    return ChatTemplate(source.text, source.place, all.special_tokens);
  };
  if (all.empty())
    throw Error(ErrorKind::bad_file, "this model brings no chat template; give one with --chat-template FILE");
  if (!name.empty()) {
    if (const auto found = all.by_name.find(name); found != all.by_name.end()) return make(found->second);
  } else {
    if (const auto found = all.by_name.find("tool_use"); has_tools && found != all.by_name.end())
      return make(found->second);
    if (const auto found = all.by_name.find("default"); found != all.by_name.end()) return make(found->second);
    if (all.by_name.size() == 1) return make(all.by_name.begin()->second);
  }
  std::string names;
  std::vector<std::string_view> known;
  for (const auto& [other, source] : all.by_name) {
    names += (names.empty() ? "" : ", ") + make_printable(other.substr(0, 60));
    known.push_back(other);
  }
  if (name.empty())
    throw Error(ErrorKind::bad_file, "this model has several chat templates and none named default: {}; name one",
                names);
  throw Error(ErrorKind::usage, "no chat template is named '{}'{}; there are: {}", make_printable(name.substr(0, 60)),
              did_you_mean(name, known), names);
}

RenderedChat ChatTemplate::render(const ChatRequest& request) const {
  if (!request.messages || !request.messages->is_array()) throw Error(ErrorKind::usage, "messages: a list is needed");
  Json messages = Json::array();
  for (const Json& message : *request.messages) {
    if (!message.is_object())
      throw Error(ErrorKind::usage, "messages[{}]: an object with role and content is needed", messages.size());
    messages.push_back(with_reasoning(message));
  }
  const Json none, prompt = request.add_generation_prompt;
  const Json& tools = request.tools ? *request.tools : none;
  const Json& documents = request.documents ? *request.documents : none;
  std::vector<JinjaVariable> variables;
  Json special_tokens = Json::object();
  for (const auto& [name, token] : special_tokens_) special_tokens[name] = token;
  for (const auto& [name, token] : special_tokens.items()) variables.push_back({name, &token, false});
  if (request.variables) {
    if (!request.variables->is_object()) throw Error(ErrorKind::usage, "template variables: an object is needed");
    for (const auto& [name, value] : request.variables->items()) {
      for (const char* taken : {"messages", "tools", "documents", "add_generation_prompt"})
        if (name == taken)
          throw Error(ErrorKind::usage, "template variables: '{}' is a part of the request itself", name);
      variables.push_back({name, &value, true});
    }
  }
  variables.push_back({"messages", &messages, true});
  variables.push_back({"tools", &tools, true});
  variables.push_back({"documents", &documents, true});
  variables.push_back({"add_generation_prompt", &prompt, false});

  JinjaRenderOptions options;
  if (request.limits) {
    options.limits = *request.limits;
  } else {  // some templates look back over all messages at every message
    constexpr int64_t kStepsPerMessage = 4096, kMost = 4096;
    options.limits.max_steps += kStepsPerMessage * std::min<int64_t>(static_cast<int64_t>(messages.size()), kMost);
  }
  if (request.now) {
    options.now = *request.now;
  } else {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &options.now);
  }
  MarkedText text = template_.render(variables, options);
  RenderedChat out;
  out.user = text.spans(kMarkUser);
  out.assistant = text.spans(kMarkGeneration);
  out.text = std::move(text.bytes);
  return out;
}

}  // namespace tern
