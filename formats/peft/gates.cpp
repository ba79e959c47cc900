#include "formats/peft/gates.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tern {
namespace {

constexpr std::string_view kGatesFormat = "tern gated adapters 1";

}  // namespace

GatesConfig read_gates_config(const std::string& path) {
  const Json json = read_json_file(path);
  const auto refuse = [&](std::string_view what) { throw Error(ErrorKind::bad_file, "{}: {}", path, what); };
  const auto of = [&](const char* key) { return json.is_object() && json.contains(key) ? json.at(key) : Json(); };
  if (of("format") != kGatesFormat) refuse("format: expected \"tern gated adapters 1\"");
  const Json prompt = of("prompt_tokens"), names = of("branches");
  if (!prompt.is_number_integer() || prompt.get<int64_t>() < 1)
    refuse("prompt_tokens: expected a whole number from 1 on");
  if (!names.is_array() || names.empty()) refuse("branches: expected a list of directories");
  GatesConfig config{.prompt_tokens = prompt.get<int64_t>(), .branches = {}};
  for (const Json& name : names) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text.starts_with('.') || text.find('/') != std::string::npos)
      refuse("branches: expected names of directories beside it");
    config.branches.push_back(text);
  }
  return config;
}

std::string gates_config_json(const GatesConfig& config) {
  const Json json = {{"format", kGatesFormat}, {"prompt_tokens", config.prompt_tokens}, {"branches", config.branches}};
  return dump_json(json, 1) + "\n";
}

}  // namespace tern
