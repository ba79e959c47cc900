#include "train/adapter_targets.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "model/adapter_files.h"

namespace tern {

std::vector<std::string> listed_names(const Options& o, const char* option) {
  std::vector<std::string> names;
  for (const std::string& given : o.list(option))
    for (const std::string_view part : split(given, ','))
      if (const std::string_view name = trim(part); !name.empty()) names.emplace_back(name);
  return names;
}

PeftTargets targets_from(const Options& o) {
  PeftTargets targets;
  targets.names = listed_names(o, "target");
  targets.all_linear = targets.names.empty() || std::ranges::count(targets.names, "all-linear") > 0;
  if (targets.all_linear && targets.names.size() > 1)
    throw Error(ErrorKind::usage, "--target: all-linear has every matrix of the layers; leave the other names out");
  if (targets.all_linear) targets.names.clear();
  return targets;
}

void require_targets(const ModelSpec& spec, const PeftConfig& config) {
  try {
    for (const std::string& name : config.targets.names) {
      PeftConfig one = config;
      one.targets.names = {name}, one.saved.clear();
      with_adapters(spec, one, "--target " + name);
    }
  } catch (const Error& e) { throw Error(ErrorKind::usage, "{}", e.what()); }
}

}  // namespace tern
