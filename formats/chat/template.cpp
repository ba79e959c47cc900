#include "formats/chat/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/gguf/model.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

std::string read_template(const fs::path& path) {
  const auto info = real_io().stat(path.string());
  if (info && static_cast<uint64_t>(info->size_bytes) > kJinjaMaxSourceBytes)
    throw Error(ErrorKind::bad_file, "{}: a template of {} bytes; at most {} are read", path.string(), info->size_bytes,
                kJinjaMaxSourceBytes);
  std::string text = real_io().read(path.string());
  if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos)
    throw Error(ErrorKind::bad_file, "{}: byte {} is not UTF-8", path.string(), bad);
  return text;
}

void read_config_templates(const Json& config, const std::string& place, ChatTemplates& out) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return;
  const std::string where = place + ": chat_template";
  if (found->is_string()) {
    out.by_name["default"] = {found->get<std::string>(), where};
    return;
  }
  if (!found->is_array())
    throw Error(ErrorKind::bad_file, "{} is neither a text nor a list of {{name, template}}", where);
  for (const Json& entry : *found) {
    const auto text = [&](const char* key) -> std::string {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string())
        throw Error(ErrorKind::bad_file, "{}: every entry of the list needs the texts 'name' and 'template'", where);
      return entry[key].get<std::string>();
    };
    const std::string name = text("name");
    out.by_name[name] = {text("template"), fmt::format("{} '{}'", where, make_printable(name.substr(0, 60)))};
  }
}

void read_special_tokens(const Json& config, std::map<std::string, std::string>& out) {
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    if (found->is_string()) {
      out.emplace(name, found->get<std::string>());
    } else if (found->is_object() && found->contains("content") && (*found)["content"].is_string()) {
      out.emplace(name, (*found)["content"].get<std::string>());
    }
  }
}

void read_gguf_templates(const Gguf& file, ChatTemplates& out) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  for (size_t i = 0; i < file.num_keys(); ++i) {
    const std::string_view key = file.key(i);
    if (file.value(i).type() != GgufValueType::string) continue;  // a list of names
    if (key == kKey || (key.starts_with(kKey) && key[kKey.size()] == '.'))
      out.by_name[key == kKey ? "default" : std::string(key.substr(kKey.size() + 1))] = {
          std::string(file.value(i).as_string()), fmt::format("{}: key '{}'", file.path(), key)};
  }
  const auto tokens = file.find("tokenizer.ggml.tokens");
  if (!tokens) return;
  const std::vector<std::string_view> pieces = tokens->as_strings();
  for (const auto& [name, key] : {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"),
                                  std::pair("unk_token", "unknown"), std::pair("pad_token", "padding")})
    if (const auto id = file.find(fmt::format("tokenizer.ggml.{}_token_id", key)))
      if (const uint64_t at = static_cast<uint64_t>(id->as_i64()); at < pieces.size())
        out.special_tokens.emplace(name, std::string(pieces[at]));
}

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

ChatTemplates read_chat_templates(const fs::path& directory) {
  ChatTemplates out;
  if (is_gguf_path(directory.string())) {
    read_gguf_templates(Gguf(directory.string()), out);
    return out;
  }
  if (const fs::path file = directory / "chat_template.jinja"; real_io().stat(file.string()))
    out.by_name["default"] = {read_template(file), file.string()};
  const fs::path more = directory / "additional_chat_templates";
  if (const auto info = real_io().stat(more.string()); info && info->is_directory)
    for (const std::string& name : real_io().list(more.string()))
      if (name.ends_with(".jinja"))
        out.by_name[name.substr(0, name.size() - 6)] = {read_template(more / name), (more / name).string()};
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string path = (directory / name).string();
    if (!real_io().stat(path)) continue;
    const Json config = read_json_file(path);
    if (!config.is_object()) throw Error(ErrorKind::bad_file, "{}: not an object", path);
    read_special_tokens(config, out.special_tokens);
    if (std::string_view(name) != "tokenizer_config.json") continue;
    if (out.empty()) {
      read_config_templates(config, path, out);
    } else if (config.contains("chat_template")) {
      out.notes.push_back(path + ": its chat_template is not used, there are template files beside it");
    }
  }
  return out;
}

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
