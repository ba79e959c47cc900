#include "formats/hf/packing.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/hf/config_impl.h"

namespace tern {
namespace {

struct Words {
  const Json& json;
  std::string_view place;
  std::string_view method;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file,
                "{}: weights of method {} {}, which tern does not read; use the model they were made "
                "from",
                place, shown_value(Json(std::string(method))), fmt::format(format, std::forward<Args>(args)...));
  }
  const Json* find(const Json& in, const char* key) const {
    if (!in.is_object()) return nullptr;
    const auto at = in.find(key);
    return at == in.end() || at->is_null() ? nullptr : &*at;
  }
  const Json* find(const char* key) const { return find(json, key); }
  bool is_true(const char* key) const {
    const Json* value = find(key);
    return value && value->is_boolean() && value->get<bool>();
  }
  std::string text(const char* key, std::string otherwise) const {
    const Json* value = find(key);
    return value && value->is_string() ? value->get<std::string>() : otherwise;
  }
  void among(const char* key, std::initializer_list<const char*> read) const {
    const Json* value = find(key);
    if (!value) return;
    for (const char* word : read)
      if (value->is_string() && value->get<std::string>() == word) return;
    refuse("with {} {}", key, shown_value(*value));
  }
};

HfPacking gptq_packing(const Words& words) {
  const char* key = words.find("checkpoint_format") ? "checkpoint_format" : "format";
  words.among(key, {"gptq", "gptq_v2"});
  words.among("pack_dtype", {"int32"});
  for (const char* other : {"is_marlin_format", "planar"})
    if (words.is_true(other)) words.refuse("with {}", other);
  return words.text(key, "gptq") == "gptq_v2" ? HfPacking::gptq_v2 : HfPacking::gptq;
}

// Of groups of layers, each with its own numbers of bits: the tensors' shapes say those.
HfPacking compressed_packing(const Words& words, std::vector<std::string>& notes) {
  words.among("format", {"pack-quantized", "int-quantized", "naive-quantized", "mxfp4-pack-quantized",
                         "mixed-precision", "dense"});
  if (const Json* transforms = words.find("transform_config"); transforms && !transforms->empty())
    words.refuse("with transform_config");
  if (const Json* sparse = words.find("sparsity_config"))
    if (const Json* form = words.find(*sparse, "format"); form && *form != "dense")
      words.refuse("with sparsity {}", shown_value(*form));
  const Json* groups = words.find("config_groups");
  if (!groups || !groups->is_object()) return HfPacking::compressed;
  for (const auto& [name, group] : groups->items()) {
    if (const Json* weights = words.find(group, "weights"))
      if (const Json* type = words.find(*weights, "type"); type && *type != "int") {
        const Json* form = words.find(group, "format");  // a group's own goes before that of all
        if (!form) form = words.find("format");
        if (*type != "float" || !form || *form != "mxfp4-pack-quantized")
          words.refuse("with weights of type {}", shown_value(*type));
      }
    if (words.find(group, "input_activations") || words.find(group, "output_activations"))
      notes.push_back(
          fmt::format("{}: {} asks for rounded activations; tern rounds the weights alone", words.place, name));
  }
  return HfPacking::compressed;
}

HfPacking bitsandbytes_packing(const Words& words) {
  if (!words.is_true("load_in_4bit") && !words.is_true("_load_in_4bit")) words.refuse("in 8 bits");
  if (const std::string kind = words.text("bnb_4bit_quant_type", "fp4"); kind != "nf4")
    words.refuse("of type {}", kind);
  words.among("bnb_4bit_quant_storage", {"uint8"});
  return HfPacking::bitsandbytes;
}

}  // namespace

bool is_packing_method(std::string_view method) {
  return method == "gptq" || method == "awq" || method == "compressed-tensors" || method == "bitsandbytes" ||
         method == "mxfp4";
}

HfPacking hf_packing(const Json& json, std::string_view place, std::vector<std::string>& notes) {
  std::string method = "unknown";
  if (json.is_object())
    if (const auto it = json.find("quant_method"); it != json.end() && it->is_string()) method = it->get<std::string>();
  const Words words{json, place, method};
  if (method == "gptq") return gptq_packing(words);
  if (method == "awq") {
    words.among("version", {"gemm", "GEMM"});
    if (const Json* bits = words.find("bits"); bits && *bits != 4) words.refuse("in {} bits", shown_value(*bits));
    return HfPacking::awq;
  }
  if (method == "compressed-tensors") return compressed_packing(words, notes);
  if (method == "bitsandbytes") return bitsandbytes_packing(words);
  if (method == "mxfp4") return HfPacking::mxfp4;
  throw Error(ErrorKind::bad_file, "{}: the weights are quantized by method {}, which tern does not read; {}", place,
              shown_value(Json(method)), quantized_remedy(method));
}

std::optional<HfPacking> hf_packing_beside(const std::string& weights_path) {
  const std::filesystem::path config = std::filesystem::path(weights_path).parent_path() / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config, ignored)) return {};
  const Json json = read_json_file(config.string(), {.max_bytes = 16 << 20});
  for (const char* key : {"quantization_config", "compression_config"})
    if (const auto at = json.is_object() ? json.find(key) : json.end(); at != json.end() && at->is_object()) {
      if (const auto method = at->find("quant_method"); method != at->end() && *method == std::string(kCodedMethod))
        continue;
      std::vector<std::string> notes;  // the configuration's reader tells them
      return hf_packing(*at, fmt::format("{}: {}", config.string(), key), notes);
    }
  return {};
}

}  // namespace tern
