#include "formats/peft/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf/fields.h"
#include "formats/small_file.h"

namespace tern {
namespace {

constexpr size_t kMaxPeftBytes = size_t{4} << 20;

// They change nothing of what an adapter computes.
constexpr std::string_view kHarmlessInPeft[] = {
    "auto_mapping",   "peft_version",      "base_model_name_or_path", "revision",          "inference_mode",
    "fan_in_fan_out", "init_lora_weights", "megatron_core",           "qalora_group_size", "runtime_config"};
// Beginnings of adapters that change the base beside them, so that they mean nothing beside the model as it was.
constexpr std::string_view kChangesBase[] = {"pissa", "olora", "loftq", "corda", "lora_ga"};

// What tern does not follow: fine where it is not set.
bool is_unset(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get<std::string>().empty() || value == "none";
  return (value.is_array() || value.is_object()) && value.empty();
}

PeftTargets targets_of(HfFields& fields, std::string_view key) {
  PeftTargets targets;
  const Json* value = fields.take(key);
  if (!value || value->is_null()) return targets;
  if (value->is_array()) {
    targets.names = *fields.texts(key);
  } else if (value->is_string()) {
    const auto text = value->get<std::string>();
    targets.all_linear = text == "all-linear";
    if (!targets.all_linear) targets.regex = text;
  } else {
    fields.fail(key, "{}, expected a list of names, a regular expression or \"all-linear\"", shown_value(*value));
  }
  return targets;
}

double positive(HfFields& fields, std::string_view key, double value) {
  if (!(value > 0 && value <= 1e6)) fields.fail(key, "{}, expected a number above 0 and at most 1,000,000", value);
  return value;
}
int64_t whole(HfFields& fields, std::string_view key, double value) {
  if (positive(fields, key, value) != std::floor(value)) fields.fail(key, "{}, expected a whole number", value);
  return static_cast<int64_t>(value);
}

// "layers.0.self_attn.q_proj": 16.
std::vector<std::pair<std::string, double>> pattern_of(HfFields& fields, std::string_view key) {
  std::vector<std::pair<std::string, double>> pattern;
  const Json* value = fields.take(key);
  if (!value || value->is_null()) return pattern;
  if (!value->is_object()) fields.fail(key, "{}, expected an object of modules", shown_value(*value));
  for (const auto& [module, number] : value->items()) {
    if (!number.is_number()) fields.fail(key, "'{}' is {}, expected a number", module, shown_value(number));
    pattern.emplace_back(module, positive(fields, key, number.get<double>()));
  }
  return pattern;
}

void read_layers(HfFields& fields, PeftConfig& c) {
  const Json* value = fields.take("layers_to_transform");
  if (!value || value->is_null()) return;
  c.layers = *fields.ids("layers_to_transform");
}

std::vector<std::string> saved_modules(HfFields& fields) {
  const Json* value = fields.take("modules_to_save");
  if (!value || value->is_null()) return {};
  std::vector<std::string> names = *fields.texts("modules_to_save");
  for (const std::string& name : names)
    if (name.empty()) fields.fail("modules_to_save", "holds \"\", expected names of modules");
  return names;
}

void refuse_base_changes(HfFields& fields) {
  const Json* init = fields.take("init_lora_weights");
  if (!init || !init->is_string()) return;
  for (const std::string_view name : kChangesBase)
    if (init->get<std::string>().starts_with(name))
      fields.fail("init_lora_weights",
                  "\"{}\" changed the model it was trained on, so the adapter means nothing beside the original; save "
                  "it with path_initial_model_for_weight_conversion, and with true here",
                  init->get<std::string>());
}

void refuse_what_is_set(HfFields& fields, const Json& json) {
  constexpr std::array kFollowed{"peft_type",      "task_type",           "r",
                                 "lora_alpha",     "lora_dropout",        "use_rslora",
                                 "use_dora",       "rank_pattern",        "alpha_pattern",
                                 "target_modules", "layers_to_transform", "exclude_modules",
                                 "modules_to_save"};
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::count(kFollowed, key) || std::ranges::count(kHarmlessInPeft, key)) continue;
    fields.take(key);
    if (!is_unset(value))
      fields.fail(key, "{}, which tern does not follow; without it the adapter would compute something else",
                  shown_value(value));
  }
}

}  // namespace

PeftConfig parse_peft_config(std::string_view text, std::string_view place) {
  const Json json = parse_json(text, place, {.max_bytes = kMaxPeftBytes});
  HfFields fields(json, std::string(place));
  const std::string type = fields.text("peft_type", HfFields::Null::absent).value_or("");
  if (type != "LORA") fields.fail("peft_type", "\"{}\", expected \"LORA\": tern reads no other kind of adapter", type);
  if (const auto task = fields.text("task_type", HfFields::Null::absent); task && *task != "CAUSAL_LM")
    fields.fail("task_type", "\"{}\", expected \"CAUSAL_LM\" or null", *task);
  PeftConfig c;
  c.targets = targets_of(fields, "target_modules");
  if (c.targets.empty()) fields.fail("target_modules", "absent or empty; name the modules that the file has");
  c.excluded = targets_of(fields, "exclude_modules");
  if (c.excluded.all_linear) fields.fail("exclude_modules", "\"all-linear\" would exclude every module");
  c.saved = saved_modules(fields);
  c.rank = whole(fields, "r", fields.number("r", HfFields::Null::absent).value_or(8));
  c.alpha = positive(fields, "lora_alpha", fields.number("lora_alpha", HfFields::Null::absent).value_or(8));
  for (const auto& [module, rank] : pattern_of(fields, "rank_pattern"))
    c.rank_pattern.emplace_back(module, whole(fields, "rank_pattern", rank));
  c.alpha_pattern = pattern_of(fields, "alpha_pattern");
  c.rank_stabilized = fields.boolean("use_rslora", HfFields::Null::absent).value_or(false);
  c.magnitude = fields.boolean("use_dora", HfFields::Null::absent).value_or(false);
  c.dropout = fields.number("lora_dropout", HfFields::Null::absent).value_or(0);
  if (!(c.dropout >= 0 && c.dropout < 1)) fields.fail("lora_dropout", "{}, expected 0 to 1", c.dropout);
  c.base_model = fields.text("base_model_name_or_path", HfFields::Null::absent).value_or("");
  read_layers(fields, c);
  refuse_base_changes(fields);
  refuse_what_is_set(fields, json);
  fields.finish(kHarmlessInPeft);
  return c;
}

PeftConfig read_peft_config(const std::string& path) {
  return parse_peft_config(read_text_file(path, kMaxPeftBytes), path);
}

namespace {

Json json_of(const PeftTargets& targets) {
  if (targets.empty()) return nullptr;
  if (targets.all_linear) return "all-linear";
  return targets.regex.empty() ? Json(targets.names) : Json(targets.regex);
}

// Whole numbers as such: alpha 16, not 16.0.
Json number_json(double x) {
  return x == std::floor(x) && std::abs(x) < 1e15 ? Json(static_cast<int64_t>(x)) : Json(x);
}

}  // namespace

std::string peft_config_json(const PeftConfig& c) {
  Json ranks = Json::object(), alphas = Json::object();
  for (const auto& [module, rank] : c.rank_pattern) ranks[module] = rank;
  for (const auto& [module, alpha] : c.alpha_pattern) alphas[module] = number_json(alpha);
  const Json json = {{"alpha_pattern", alphas},
                     {"base_model_name_or_path", c.base_model.empty() ? Json(nullptr) : Json(c.base_model)},
                     {"bias", "none"},
                     {"exclude_modules", json_of(c.excluded)},
                     {"fan_in_fan_out", false},
                     {"inference_mode", true},
                     {"init_lora_weights", true},
                     {"layers_to_transform", c.layers ? Json(*c.layers) : Json(nullptr)},
                     {"lora_alpha", number_json(c.alpha)},
                     {"lora_dropout", c.dropout},
                     {"modules_to_save", c.saved.empty() ? Json(nullptr) : Json(c.saved)},
                     {"peft_type", "LORA"},
                     {"r", c.rank},
                     {"rank_pattern", ranks},
                     {"revision", nullptr},
                     {"target_modules", json_of(c.targets)},
                     {"task_type", "CAUSAL_LM"},
                     {"use_dora", c.magnitude},
                     {"use_rslora", c.rank_stabilized}};
  return dump_json(json, 2) + "\n";
}

}  // namespace tern
