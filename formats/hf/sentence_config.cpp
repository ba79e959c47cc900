#include "formats/hf/sentence_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/hf/fields.h"
#include "formats/safetensors/safetensors_impl.h"
#include "formats/small_file.h"

namespace tern {
namespace {

constexpr JsonLimits kLimits{.max_bytes = 1 << 20, .max_depth = 16, .max_string_bytes = 1 << 20};
constexpr size_t kMostModules = 16;

// Keys that change no vector: sizes that the weights say, switches for speed, how vectors are compared, releases.
constexpr std::string_view kPoolingSizes[] = {"word_embedding_dimension", "embedding_dimension"};
constexpr std::string_view kSpeed[] = {"unpad_inputs", "tokenizer_name_or_path"};
constexpr std::string_view kComparing[] = {"__version__", "similarity_fn_name", "model_type"};

// What sentence-transformers looks for in this order.
constexpr const char* kTransformerFiles[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                             "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                             "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                             "sentence_xlnet_config.json"};

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

// A file and its text as JSON.
struct File {
  std::string path;
  Json json;
  HfFields fields() const { return HfFields(json, path); }
};

// The files of one directory.
struct Directory {
  const std::string& path;
  const ReadFile& read;
  std::optional<File> find(const std::string& name) const {
    const std::optional<std::string> text = read(name);
    if (!text) return {};
    const std::string at = join_path(path, name);
    return File{at, parse_json(*text, at, kLimits)};
  }
  File need(const std::string& name) const {
    if (auto file = find(name)) return std::move(*file);
    throw Error(ErrorKind::bad_file, "{}: no such file, but modules.json names it", join_path(path, name));
  }
};

std::optional<int64_t> read_length(HfFields& fields, const char* key) {
  const std::optional<double> n = fields.number(key, HfFields::Null::absent);
  if (!n) return {};
  if (!(*n >= 1)) fields.fail(key, "{}, expected at least 1", *n);
  if (*n > 1e9) return {};  // "no limit", as tokenizers spell it
  return static_cast<int64_t>(*n);
}

// A text that must be what tern does.
void must_say(HfFields& fields, const char* key, std::string_view expected) {
  const std::optional<std::string> said = fields.text(key, HfFields::Null::absent);
  if (said && *said != expected) fields.fail(key, "{}, which tern does not have; expected {}", shown(*said), expected);
}

void read_pooling(const File& file, SentenceConfig& config) {
  HfFields fields = file.fields();
  std::optional<Pooling> found;
  const auto take = [&](Pooling pooling, std::string_view key) {
    if (found && *found != pooling)
      fields.fail(key, "two poolings at once ({} and {}), whose vectors stand beside each other; tern takes one",
                  name_of(*found), name_of(pooling));
    found = pooling;
  };
  for (const std::string& mode :
       fields.texts("pooling_mode", HfFields::Null::absent).value_or(std::vector<std::string>{})) {
    const auto known = std::ranges::find(kNames, mode, &Name::new_name);
    if (known == kNames.end() || mode.empty()) fields.fail("pooling_mode", "{}, which tern does not have", shown(mode));
    take(known->pooling, "pooling_mode");
  }
  for (const Name& n : kNames)
    if (!n.old_key.empty() && fields.boolean(n.old_key, HfFields::Null::absent).value_or(false))
      take(n.pooling, n.old_key);
  for (const auto& [key, value] : file.json.items())
    if (key.starts_with("pooling_mode_") && value == true &&
        std::ranges::find(kNames, key, &Name::old_key) == kNames.end())
      fields.fail(key, "true, a pooling tern does not have");
  config.include_prompt = fields.boolean("include_prompt", HfFields::Null::absent).value_or(true);
  fields.finish(kPoolingSizes);
  if (!found) fields.fail("pooling_mode", "no pooling is named");
  config.pooling = *found;
}

void read_normalize(const File& file) {
  HfFields fields = file.fields();
  for (const char* key : {"module_input_name", "module_output_name"}) must_say(fields, key, "sentence_embedding");
  fields.finish({});
}

// What sentence-transformers says about the model itself. Returns the length it cuts texts to.
std::optional<int64_t> read_transformer(const File& file) {
  HfFields fields = file.fields();
  const std::optional<int64_t> length = read_length(fields, "max_seq_length");
  if (fields.boolean("do_lower_case", HfFields::Null::absent).value_or(false))
    fields.fail("do_lower_case",
                "true: texts made lower case before the tokenizer, which tern does not do; give them so");
  must_say(fields, "transformer_task", "feature-extraction");
  must_say(fields, "module_output_name", "token_embeddings");
  if (const Json* kinds = fields.take("modality_config"); kinds && !kinds->is_null()) {
    HfFields by_kind(*kinds, file.path, "modality_config.");
    if (const Json* text = by_kind.take("text")) {
      HfFields how(*text, file.path, "modality_config.text.");
      must_say(how, "method", "forward");
      must_say(how, "method_output_name", "last_hidden_state");
      how.finish({});
    }
    by_kind.finish({});
  }
  // Empty, or another model: how it is loaded, and texts spread over several vectors.
  for (const char* key : {"model_args", "tokenizer_args", "config_args", "model_kwargs", "processor_kwargs",
                          "config_kwargs", "processing_kwargs", "query_length", "document_length", "query_expansion"})
    if (const Json* value = fields.take(key); value && !value->is_null() && !value->empty())
      fields.fail(key, "{}, which tern does not follow; expected none", shown_value(*value));
  fields.finish(kSpeed);
  return length;
}

struct Module {
  std::string kind, folder;  // the class's own name: its package has moved between releases
};

Module read_module(const Json& json, const std::string& path, size_t i) {
  HfFields fields(json, path, fmt::format("module {}.", i));
  const std::optional<std::string> type = fields.text("type"), folder = fields.text("path");
  if (!type) fields.fail("type", "missing");
  if (!folder) fields.fail("path", "missing");
  if (folder->starts_with('/') || folder->find("..") != std::string::npos || folder->find('\0') != std::string::npos)
    fields.fail("path", "{} leads out of the directory", shown(*folder));
  constexpr std::string_view kOrder[] = {"idx", "name"};
  fields.finish(kOrder);
  return {type->substr(type->rfind('.') + 1), *folder};
}

void read_modules(const File& file, const Directory& directory, SentenceConfig& config) {
  const auto fail = [&](const std::string& fact) { throw Error(ErrorKind::bad_file, "{}: {}", file.path, fact); };
  if (!file.json.is_array()) fail(fmt::format("{}, expected a list of modules", shown_value(file.json)));
  const size_t count = file.json.size();
  if (count > kMostModules) fail(fmt::format("{} modules, at most {} are read", count, kMostModules));
  bool pooled = false;
  for (size_t i = 0; i < count; ++i) {
    const Module m = read_module(file.json[i], file.path, i);
    if (m.kind == "Transformer" && i == 0) {
      if (!m.folder.empty() && m.folder != ".")
        fail(fmt::format("the model lies in folder {}; give that folder as MODEL", shown(m.folder)));
    } else if (m.kind == "Pooling" && i == 1) {
      read_pooling(directory.need(m.folder.empty() ? "config.json" : m.folder + "/config.json"), config);
      pooled = true;
    } else if (m.kind == "Normalize" && pooled && i + 1 == count) {
      if (const auto own = m.folder.empty() ? std::nullopt : directory.find(m.folder + "/config.json"))
        read_normalize(*own);
      config.normalize = true;
    } else {
      fail(
          fmt::format("{} as module {}, which tern does not have; it reads Transformer, Pooling and (or not) "
                      "Normalize, in this order",
                      shown(m.kind), i));
    }
  }
  if (!pooled) fail("no Pooling, so nothing says how rows become one vector");
}

void read_prompts(const File& file, SentenceConfig& config) {
  HfFields fields = file.fields();
  const Json* prompts = fields.take("prompts");
  if (prompts && prompts->is_null()) prompts = nullptr;
  if (prompts && !prompts->is_object()) fields.fail("prompts", "{}, expected an object", shown_value(*prompts));
  std::vector<std::string> named;
  if (prompts)
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_string()) fields.fail("prompts", "{} is {}, expected a text", shown(name), shown_value(text));
      if (!text.get<std::string>().empty())
        named.push_back(fmt::format("{} ({})", shown(name), quote_json(text.get<std::string>().substr(0, 80))));
    }
  if (const auto name = fields.text("default_prompt_name", HfFields::Null::absent)) {
    if (!prompts || !prompts->contains(*name))
      fields.fail("default_prompt_name", "{} is none of prompts", shown(*name));
    config.prefix = (*prompts)[*name].get<std::string>();
  }
  fields.finish(kComparing);
  if (!named.empty() && config.prefix.empty())
    config.notes.push_back(fmt::format(
        "this model was trained with prompts before the text: {}; {}", fmt::join(named, ", "),
        config.include_prompt ? "--prefix puts one there"
                              : "it leaves their rows out of the vector (include_prompt), which tern does not do"));
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
  if (const auto modules = directory.find("modules.json"))
    read_modules(*modules, directory, config);
  else if (const auto pooling = directory.find("1_Pooling/config.json"))
    read_pooling(*pooling, config);
  else
    return {};
  const auto at_most = [&](std::optional<int64_t> n) {
    if (n) config.max_tokens = std::min(config.max_tokens.value_or(*n), *n);
  };
  for (const char* name : kTransformerFiles)
    if (const auto file = directory.find(name)) {
      at_most(read_transformer(*file));
      break;
    }
  if (const auto file = directory.find("tokenizer_config.json")) {
    HfFields fields = file->fields();  // the tokenizer reads the rest
    at_most(read_length(fields, "model_max_length"));
  }
  if (const auto file = directory.find("config_sentence_transformers.json")) read_prompts(*file, config);
  return config;
}

}  // namespace tern
