#include "formats/model_dir.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/gguf/model.h"
#include "formats/hf/config_impl.h"
#include "formats/hf/family.h"
#include "formats/hf/fields.h"
#include "formats/hf/packing.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/safetensors_impl.h"
#include "formats/small_file.h"

namespace tern {
namespace {

constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr std::string_view kTokenizerFiles[] = {"tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "vocab.json",
                                                "merges.txt",
                                                "tokenizer.model",
                                                "chat_template.jinja",
                                                "spiece.model",
                                                "sentencepiece.bpe.model",
                                                "vocab.txt"};

bool exists(const std::string& path) { return real_io().stat(path).has_value(); }
bool is_directory(const std::string& path) {
  const std::optional<FileInfo> info = real_io().stat(path);
  return info && info->is_directory;
}

// --- what else a directory may hold
// -------------------------------------------------------------------------------------------

/// Files training leaves beside a model; pickles, but no weights.
bool is_training_state(std::string_view name) {
  return name == "training_args.bin" || name.starts_with("optimizer.") || name.starts_with("scheduler.") ||
         name.starts_with("rng_state") || name.starts_with("scaler.");
}

bool is_pickle(std::string_view name) {
  return !is_training_state(name) && (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") ||
                                      name.ends_with(".ckpt") || name.ends_with(".pkl"));
}

struct Foreign {
  std::string_view what, remedy;
};

/// Weights in a form tern does not read, by one file's name.
std::optional<Foreign> foreign_weights(std::string_view name) {
  if (is_pickle(name) || name.ends_with(".bin.index.json"))
    return Foreign{"by its name a Python pickle, which can run code when opened and which tern never reads",
                   "use the model's safetensors, or convert it once where you trust it: "
                   "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT)"};
  if (name.ends_with(".gguf") || name.ends_with(".ggml"))
    return Foreign{"a GGUF model", "give that file itself as MODEL"};
  if (name.ends_with(".onnx")) return Foreign{"an ONNX graph, which tern does not read", "use the model's safetensors"};
  if (name.ends_with(".h5") || name.ends_with(".msgpack"))
    return Foreign{"TensorFlow or Flax weights, which tern does not read", "use the model's safetensors"};
  if (name.starts_with("adapter_model"))
    return Foreign{"an adapter, not a whole model", "give the base model named in adapter_config.json"};
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
    return Foreign{"not under a name that says it is the model",
                   "expected model.safetensors, or model.safetensors.index.json with its shards"};
  return {};
}

std::optional<std::pair<std::string, Foreign>> find_foreign(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const std::optional<Foreign> f = foreign_weights(name)) return std::pair{name, *f};
  return {};
}

std::string quantization_of(const std::string& config_path) {
  const Json json = parse_json(read_text_file(config_path, 4 << 20), config_path);
  if (!json.is_object()) return "";
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_object()) continue;
    const auto method = it->find("quant_method");
    if (method != it->end() && method->is_string()) return method->get<std::string>();
    return it->contains("load_in_4bit") || it->contains("load_in_8bit") ? "bitsandbytes" : "unknown";
  }
  return "";
}

// --- one directory
// ------------------------------------------------------------------------------------------------------------

void check_shards(const ModelDir& model) {
  const SafetensorsIndex index = parse_safetensors_index(read_text_file(model.weights, 64 << 20), model.weights);
  std::set<std::string> missing;
  for (const auto& [tensor, file] : index.weight_map)
    if (!missing.contains(file) && !exists(join_path(model.path, file))) missing.insert(file);
  if (!missing.empty())
    throw Error(ErrorKind::bad_file,
                "{}: {} of the shards named in {} not there: {}; the download is incomplete, fetch it again",
                model.path, missing.size(), kIndex, join({missing.begin(), missing.end()}, ", "));
}

void find_weights(ModelDir& model, const std::vector<std::string>& names, bool need_weights) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const std::string method = need_weights ? quantization_of(model.config) : "";
  for (const char* old : {"quantize_config.json", "quant_config.json"})  // GPTQ's and AWQ's before quantization_config
    if (need_weights && method.empty() && has(old))
      throw Error(
          ErrorKind::bad_file,
          "{}: {} says these are {} weights, but config.json has no quantization_config, from which tern reads how; "
          "save the model once more with a transformers of today",
          model.path, old, std::string_view(old) == "quant_config.json" ? "AWQ" : "GPTQ");
  if (!method.empty() && method != kCodedMethod && !is_packing_method(method))
    throw Error(ErrorKind::bad_file,
                "{}: quantization_config: the weights are quantized by method {}, which tern does not read; {}",
                model.config, shown(method), quantized_remedy(method));

  if (has(kSingle)) {
    model.weights = join_path(model.path, kSingle);
    if (has(kIndex))
      model.notes.push_back(fmt::format("{}: has {} and {}; the single file is used", model.path, kSingle, kIndex));
  } else if (has(kIndex)) {
    model.weights = join_path(model.path, kIndex);
    if (need_weights) check_shards(model);
  }
  if (!model.weights.empty()) {
    if (has("adapter_config.json"))
      model.notes.push_back(
          fmt::format("{}: an adapter lies beside the weights (adapter_config.json); it is not applied", model.path));
    return;
  }

  const auto foreign = find_foreign(names);
  if (!foreign) {
    model.bare_config = true;
    if (need_weights) {
      const Json json = parse_json(read_text_file(model.config, 4 << 20), model.config);
      if (const auto type = json.find("model_type"); json.is_object() && type != json.end() && type->is_string() &&
                                                     !find_hf_family(type->get_ref<const std::string&>()))
        read_hf_config(model.config);  // says so: of a model that tern cannot read the weights are no help
      throw Error(ErrorKind::bad_file,
                  "{}: a configuration without weights, expected {} or {}; fetch the weights, or train from scratch",
                  model.path, kSingle, kIndex);
    }
    return;
  }
  const auto& [name, what] = *foreign;
  if (need_weights)
    throw Error(ErrorKind::bad_file, "{}: no safetensors; {} is {}; {}", model.path, name, what.what, what.remedy);
  model.bare_config = true;
  model.notes.push_back(fmt::format("{}: {} is {}; only the configuration is used", model.path, name, what.what));
}

[[noreturn]] void no_config(const std::string& path, const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (exists(join_path(path, "model/config.json")))
    throw Error(ErrorKind::bad_file, "{}: no config.json; the model of this run lies in {}", path,
                join_path(path, "model"));
  if (exists(join_path(path, "adapter/adapter_config.json")))
    throw Error(ErrorKind::bad_file, "{}: no config.json; {} is the adapter of this run", path,
                join_path(path, "adapter"));
  if (has("gates.json")) {
    const auto branch = std::ranges::find_if(
        names, [&](const std::string& name) { return exists(join_path(path, name + "/adapter_config.json")); });
    throw Error(ErrorKind::bad_file,
                "{}: an adapter of --method gainlora (several with gates), not a whole model; give the base model, and "
                "this directory by --adapter{}",
                path,
                branch == names.end()
                    ? ""
                    : fmt::format("; tern inspect reads one of its adapters: {}", join_path(path, *branch)));
  }
  if (has("adapter_config.json"))
    throw Error(ErrorKind::bad_file,
                "{}: an adapter, not a whole model; give the base model named in adapter_config.json", path);
  for (const std::string_view weights : {kSingle, kIndex})
    if (has(weights))
      throw Error(ErrorKind::bad_file, "{}: no config.json beside {}; fetch config.json of the same model", path,
                  weights);
  if (const auto foreign = find_foreign(names))
    throw Error(ErrorKind::bad_file, "{}: no config.json; {} is {}; {}", path, foreign->first, foreign->second.what,
                foreign->second.remedy);
  if (has("params.json"))
    throw Error(ErrorKind::bad_file,
                "{}: the makers' own format (params.json), expected a Hugging Face directory with config.json", path);
  throw Error(ErrorKind::bad_file,
              "{}: no config.json among {} files; expected a Hugging Face model directory, or a GGUF file", path,
              names.size());
}

void find_companions(ModelDir& model, const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("generation_config.json")) model.generation_config = join_path(model.path, "generation_config.json");
  for (const std::string_view name : kTokenizerFiles)
    if (has(name)) model.tokenizer_files.push_back(join_path(model.path, name));
}

ModelDir open_directory(const std::string& name, const std::string& path, bool need_weights) {
  ModelDir model;
  model.name = name;
  model.path = path;
  std::vector<std::string> names = real_io().list(path);
  if (std::find(names.begin(), names.end(), "config.json") == names.end()) no_config(path, names);
  model.config = join_path(path, "config.json");
  find_companions(model, names);
  // A directory "onnx" beside nothing else means the weights are in there.
  if (is_directory(join_path(path, "onnx"))) names.push_back("onnx/model.onnx");
  find_weights(model, names, need_weights);
  return model;
}

ModelDir open_gguf(const std::string& path) {
  ModelDir model;
  model.name = model.path = model.config = model.weights = path;
  const Gguf file(path);
  if (file.tensors().empty())
    throw Error(ErrorKind::bad_file,
                "{}: a GGUF file without weights, such as a vocabulary alone; tern tokenize reads its tokenizer", path);
  const auto vocabulary = file.find("tokenizer.ggml.model");
  if (vocabulary && vocabulary->as_string() != "none" && vocabulary->as_string() != "no_vocab")
    model.tokenizer_files = {path};
  return model;
}

ModelDir open_file(const std::string& path, bool need_weights) {
  const std::string name = file_name(path);
  if (is_gguf_path(path)) return open_gguf(path);
  if (name == kSingle || name == kIndex)
    throw Error(ErrorKind::usage, "{}: weights alone; give their directory, {}", path, parent_path(path));
  if (!name.ends_with(".json")) {
    if (const std::optional<Foreign> foreign = foreign_weights(name))
      throw Error(ErrorKind::bad_file, "{}: {}; {}", path, foreign->what, foreign->remedy);
    throw Error(ErrorKind::bad_file,
                "{}: neither a directory nor a config.json nor a GGUF file; give a Hugging Face model directory or a "
                "GGUF file",
                path);
  }
  if (need_weights)
    throw Error(ErrorKind::bad_file,
                "{}: a configuration without weights; give the model's directory, or train from scratch", path);
  ModelDir model;
  model.name = path;
  model.path = parent_path(path);
  model.config = path;
  model.bare_config = true;
  find_companions(model, real_io().list(model.path));
  return model;
}

// --- the cache
// ----------------------------------------------------------------------------------------------------------------

std::string expand_home(const std::string& path, const EnvironmentLookup& environment) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return environment("HOME").value_or("") + path.substr(1);
}

std::string hub_cache(const EnvironmentLookup& environment) {
  const auto get = [&](std::string_view name) {
    const std::optional<std::string> value = environment(name);
    return value && !value->empty() ? expand_home(*value, environment) : "";
  };
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string path = get(name); !path.empty()) return path;
  if (const std::string home = get("HF_HOME"); !home.empty()) return join_path(home, "hub");
  if (const std::string cache = get("XDG_CACHE_HOME"); !cache.empty()) return join_path(cache, "huggingface/hub");
  return join_path(environment("HOME").value_or("."), ".cache/huggingface/hub");
}

/// "name" or "org/name" as the hub allows them; anything else could lead out of the cache.
bool is_hub_name(std::string_view name) {
  const std::vector<std::string_view> parts = split(name, '/');
  if (parts.size() > 2 || name.find("--") != std::string_view::npos || name.find("..") != std::string_view::npos)
    return false;
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    const auto allowed = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    };
    const auto edge = [](char c) { return c != '-' && c != '.'; };
    return !part.empty() && part.size() <= 96 && std::all_of(part.begin(), part.end(), allowed) && edge(part.front()) &&
           edge(part.back());
  });
}

bool is_revision(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); });
}

/// Names in the cache, "org/name", for a hint.
std::vector<std::string> cached_models(const std::string& cache) {
  std::vector<std::string> models;
  if (!is_directory(cache)) return models;
  for (const std::string& name : real_io().list(cache))
    if (name.starts_with("models--")) models.push_back(replace_all(name.substr(8), "--", "/"));
  return models;
}

[[noreturn]] void not_found(const std::string& name, const std::string& cache) {
  const std::vector<std::string> models = cached_models(cache);
  const std::string hint = did_you_mean(name, {models.begin(), models.end()});
  throw Error(ErrorKind::bad_file,
              "{}: no such directory, and not in the Hugging Face cache {}{}; tern does not download: run `hf download "
              "{}`, or give "
              "a directory",
              name, cache, hint, name);
}

std::string cached_snapshot(const std::string& name, const std::string& cache) {
  const std::string root = join_path(cache, "models--" + replace_all(name, "/", "--"));
  if (!is_directory(root)) not_found(name, cache);
  const std::string ref = join_path(root, "refs/main"), snapshots = join_path(root, "snapshots");
  if (!exists(ref)) {
    std::string others;
    if (is_directory(snapshots))
      for (const std::string& revision : real_io().list(snapshots)) others += "\n  " + join_path(snapshots, revision);
    throw Error(ErrorKind::bad_file, "{}: {} is not there, so no revision is the current one; run `hf download {}`{}{}",
                name, ref, name, others.empty() ? "" : ", or give one of these directories:", others);
  }
  const std::string text = read_text_file(ref, 4096);
  const std::string revision(trim(text));
  if (!is_revision(revision))
    throw Error(ErrorKind::bad_file, "{}: {}, expected a revision's hash; run `hf download {}`", ref, shown(revision),
                name);
  const std::string path = join_path(snapshots, revision);
  if (!is_directory(path))
    throw Error(ErrorKind::bad_file, "{}: {} names revision {}, but {} is not there; run `hf download {}`", name, ref,
                revision, path, name);
  return path;
}

}  // namespace

bool ModelDir::has_tokenizer() const {
  return std::any_of(tokenizer_files.begin(), tokenizer_files.end(), [](const std::string& file) {
    const std::string last = file_name(file);
    return last == "tokenizer.json" || last == "vocab.json" || last == "vocab.txt" || last == "tokenizer.model" ||
           last == "spiece.model" || last == "sentencepiece.bpe.model" || is_gguf_path(last);
  });
}

bool ModelDir::is_gguf() const { return is_gguf_path(weights); }

HfConfig read_model_config(const ModelDir& model) {
  return model.is_gguf() ? gguf_config(Gguf(model.path)) : read_hf_config(model.config);
}

EnvironmentLookup environment_lookup() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

ModelDir resolve_model(const std::string& model, const ResolveOptions& options) {
  if (model.empty())
    throw Error(ErrorKind::usage, "MODEL: empty, expected a directory, a config.json or a name like org/name");
  if (model.find('\0') != std::string::npos)
    throw Error(ErrorKind::usage, "MODEL: holds a zero byte, expected a path or a name");
  if (const std::optional<FileInfo> info = real_io().stat(model))
    return info->is_directory ? open_directory(model, model, options.need_weights)
                              : open_file(model, options.need_weights);
  if (!is_hub_name(model))
    throw Error(ErrorKind::bad_file,
                "{}: no such directory or file; expected a Hugging Face model directory, a GGUF file, a config.json or "
                "a name like org/name",
                model);

  const std::string cache = hub_cache(options.environment ? options.environment : environment_lookup());
  const std::string snapshot = cached_snapshot(model, cache);
  try {
    return open_directory(model, snapshot, options.need_weights);
  } catch (const Error& error) {
    throw Error(error.kind(), "{} (in the cache as {}; `hf download {}` completes it)", error.what(), model, model);
  }
}

}  // namespace tern
