#include "formats/chat/template_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/jinja/jinja.h"

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

void replace_chat_templates(ChatTemplates& templates, const std::string& file) {
  if (file.empty()) return;
  if (!real_io().stat(file))
    throw Error(ErrorKind::bad_file, "--chat-template: {} is not there; is the path right?", file);
  templates.by_name = {{"default", {read_template(file), file}}};
}

}  // namespace tern
