#include "formats/sentence_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/hf_fields.h"
#include "formats/safetensors_impl.h"

namespace tern {
namespace {

constexpr JsonLimits kLimits{.max_bytes = 1 << 20, .max_depth = 16, .max_string_bytes = 1 << 20};
constexpr size_t kMostModules = 16;

struct Name {
  Pooling pooling;
  std::string_view name, new_name, old_key;  // ours; of pooling_mode; the switch before sentence-transformers 5
};
constexpr std::array kNames = {
    Name{Pooling::mean, "mean", "mean", "pooling_mode_mean_tokens"},
    Name{Pooling::cls, "cls", "cls", "pooling_mode_cls_token"},
    Name{Pooling::last, "last", "lasttoken", "pooling_mode_lasttoken"},
    Name{Pooling::max, "max", "max", "pooling_mode_max_tokens"},
    Name{Pooling::mean_sqrt, "mean-sqrt", "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    Name{Pooling::weighted_mean, "weighted-mean", "weightedmean", "pooling_mode_weightedmean_tokens"},
    Name{Pooling::pooler, "pooler", "", ""},
};

// One file: an object whose members are asked for by key.
class File {
 public:
  File(const std::string& path, std::string_view text) : path_(path), json_(parse_json(text, path, kLimits)) {}
  template <class... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: {}: {}", path_, key, fmt::format(format, std::forward<Args>(args)...));
  }
  const Json& object() const {
    if (!json_.is_object()) throw Error(ErrorKind::bad_file, "{}: {}, expected an object", path_, json_.type_name());
    return json_;
  }
  const Json& json() const { return json_; }
  const Json* find(const char* key) const {
    const auto it = object().find(key);
    return it == object().end() || it->is_null() ? nullptr : &*it;
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value && !value->is_boolean()) fail(key, "{}, expected true or false", value->type_name());
    return value ? value->get<bool>() : otherwise;
  }
  std::optional<std::string> text(const char* key) const {
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_string()) fail(key, "{}, expected a text", value->type_name());
    return value->get<std::string>();
  }
  std::optional<int64_t> length(const char* key) const {
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_number()) fail(key, "{}, expected a number of tokens", value->type_name());
    const double n = value->get<double>();
    if (!(n >= 1)) fail(key, "{}, expected at least 1", n);
    if (n > 1e9) return {};  // "no limit", as tokenizers spell it
    return static_cast<int64_t>(n);
  }

 private:
  std::string path_;
  Json json_;
};

// The files of one directory.
struct Directory {
  const std::string& path;
  const ReadFile& read;
  std::optional<File> find(const std::string& name) const {
    const std::optional<std::string> text = read(name);
    return text ? std::optional<File>(std::in_place, join_path(path, name), *text) : std::nullopt;
  }
  File need(const std::string& name) const {
    if (auto file = find(name)) return std::move(*file);
    throw Error(ErrorKind::bad_file, "{}: no such file, but modules.json names it", join_path(path, name));
  }
};

Pooling read_pooling(const File& file) {
  std::optional<Pooling> found;
  const auto take = [&](Pooling pooling, const char* key) {
    if (found && *found != pooling)
      file.fail(key, "two poolings at once ({} and {}), whose vectors stand beside each other; tern takes one",
                name_of(*found), name_of(pooling));
    found = pooling;
  };
  if (const Json* mode = file.find("pooling_mode")) {
    const Json list = mode->is_array() ? *mode : Json::array({*mode});
    for (const Json& one : list) {
      const Name* known = nullptr;
      for (const Name& n : kNames)
        if (one.is_string() && !n.new_name.empty() && one.get<std::string>() == n.new_name) known = &n;
      if (!known)
        file.fail("pooling_mode", "{}, which tern does not have",
                  shown(one.is_string() ? one.get<std::string>() : dump_json(one)));
      take(known->pooling, "pooling_mode");
    }
  }
  for (const Name& n : kNames)
    if (!n.old_key.empty() && file.flag(std::string(n.old_key).c_str(), false))
      take(n.pooling, std::string(n.old_key).c_str());
  for (const auto& [key, value] : file.object().items())
    if (key.starts_with("pooling_mode_") && value == true &&
        std::ranges::find(kNames, key, &Name::old_key) == kNames.end())
      file.fail(key, "true, a pooling tern does not have");
  if (!found) file.fail("pooling_mode", "no pooling is named");
  return *found;
}

// The class's own name: its package has moved between releases.
std::string class_of(const File& file, const Json& module, size_t i) {
  const auto type = module.is_object() ? module.find("type") : module.end();
  if (!module.is_object() || type == module.end() || !type->is_string())
    file.fail("modules", "module {} has no type", i);
  const std::string name = type->get<std::string>();
  return name.substr(name.rfind('.') + 1);
}

std::string folder_of(const File& file, const Json& module, size_t i) {
  const auto path = module.find("path");
  if (path == module.end() || !path->is_string()) file.fail("modules", "module {} has no path", i);
  std::string name = path->get<std::string>();
  if (name.starts_with('/') || name.find("..") != std::string::npos || name.find('\0') != std::string::npos)
    file.fail("modules", "module {}: path {} leads out of the directory", i, shown(name));
  return name;
}

void read_modules(const File& file, const Directory& directory, SentenceConfig& config) {
  if (!file.json().is_array()) file.fail("modules", "{}, expected a list", file.json().type_name());
  if (file.json().size() > kMostModules)
    file.fail("modules", "{} of them, at most {} are read", file.json().size(), kMostModules);
  bool pooled = false;
  for (size_t i = 0; i < file.json().size(); ++i) {
    const Json& module = file.json()[i];
    const std::string kind = class_of(file, module, i), folder = folder_of(file, module, i);
    if (kind == "Transformer" && i == 0) {
      if (!folder.empty() && folder != ".")
        file.fail("modules", "the model lies in folder {}; give that folder as MODEL", shown(folder));
    } else if (kind == "Pooling" && i == 1) {
      config.pooling = read_pooling(directory.need(folder.empty() ? "config.json" : folder + "/config.json"));
      pooled = true;
    } else if (kind == "Normalize" && pooled && i + 1 == file.json().size()) {
      config.normalize = true;
    } else {
      file.fail("modules",
                "{} as module {}, which tern does not have; it reads Transformer, Pooling and (or not) Normalize, in "
                "this order",
                shown(kind), i);
    }
  }
  if (!pooled) file.fail("modules", "no Pooling, so nothing says how rows become one vector");
}

void read_prompts(const File& file, SentenceConfig& config) {
  const Json* prompts = file.find("prompts");
  if (prompts && !prompts->is_object()) file.fail("prompts", "{}, expected an object", prompts->type_name());
  std::vector<std::string> named;
  if (prompts)
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_string()) file.fail("prompts", "{} is {}, expected a text", shown(name), text.type_name());
      if (!text.get<std::string>().empty())
        named.push_back(fmt::format("{} ({})", shown(name), quote_json(text.get<std::string>().substr(0, 80))));
    }
  if (const auto name = file.text("default_prompt_name")) {
    if (!prompts || !prompts->contains(*name)) file.fail("default_prompt_name", "{} is none of prompts", shown(*name));
    config.prefix = (*prompts)[*name].get<std::string>();
  }
  if (!named.empty() && config.prefix.empty())
    config.notes.push_back(fmt::format(
        "this model was trained with prompts before the text: {}; --prefix puts one there", fmt::join(named, ", ")));
}

}  // namespace

std::string_view name_of(Pooling pooling) {
  for (const Name& n : kNames)
    if (n.pooling == pooling) return n.name;
  return "";
}

std::optional<Pooling> pooling_named(std::string_view name) {
  for (const Name& n : kNames)
    if (n.name == name) return n.pooling;
  return {};
}

std::optional<SentenceConfig> read_sentence_config(const std::string& directory) {
  return parse_sentence_config(directory, [&](const std::string& name) -> std::optional<std::string> {
    const std::string path = join_path(directory, name);
    return real_io().stat(path) ? std::optional(read_text_file(path, kLimits.max_bytes)) : std::nullopt;
  });
}

std::optional<SentenceConfig> parse_sentence_config(const std::string& path, const ReadFile& read) {
  const Directory directory{path, read};
  SentenceConfig config;
  const std::optional<File> pooling = directory.find("1_Pooling/config.json");
  if (const auto modules = directory.find("modules.json"))
    read_modules(*modules, directory, config);
  else if (pooling)
    config.pooling = read_pooling(*pooling);
  else
    return {};
  const auto at_most = [&](std::optional<int64_t> n) {
    if (n) config.max_tokens = std::min(config.max_tokens.value_or(*n), *n);
  };
  if (const auto file = directory.find("sentence_bert_config.json")) {
    at_most(file->length("max_seq_length"));
    if (file->flag("do_lower_case", false))
      file->fail("do_lower_case",
                 "true: texts made lower case before the tokenizer, which tern does not do; give them so");
  }
  if (const auto file = directory.find("tokenizer_config.json")) at_most(file->length("model_max_length"));
  if (const auto file = directory.find("config_sentence_transformers.json")) read_prompts(*file, config);
  if (!config.prefix.empty() && pooling && !pooling->flag("include_prompt", true))
    pooling->fail("include_prompt",
                  "false, and the model puts a prompt before every text; tern does not leave its rows out");
  return config;
}

}  // namespace tern
