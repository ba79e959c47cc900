// Which adapter a module has, as peft 0.21 looks it up: the whole path against a regular expression, or its end against
// names; then layers_to_transform; then the first key of a pattern that matches the path's end.

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "formats/peft/config.h"
#include "formats/tokenizer/regex.h"

namespace tern {
namespace {

constexpr std::string_view kPlace = "adapter_config.json";

// Whether a match covers all of the text.
bool matches_whole(const std::string& pattern, std::string_view text) {
  const Regex regex("\\A(?:" + pattern + ")\\z", kPlace);
  std::vector<TextSpan> matches;
  TextBudget budget(text.size());
  regex.find_all(text, matches, budget);
  return !matches.empty();
}

bool ends_with_name(std::string_view module, std::string_view name) {
  return module == name || (module.ends_with(name) && module[module.size() - name.size() - 1] == '.');
}

bool holds(const PeftTargets& targets, std::string_view module) {
  if (targets.all_linear) return true;
  if (!targets.regex.empty()) return matches_whole(targets.regex, module);
  return std::ranges::any_of(targets.names, [&](const std::string& name) { return ends_with_name(module, name); });
}

// The last number that stands behind a list's name: 3 of "model.layers.3.mlp.up_proj".
std::optional<int64_t> layer_of(std::string_view module) {
  std::optional<int64_t> layer;
  for (size_t at = module.find('.'); at != module.npos; at = module.find('.', at + 1)) {
    const size_t end = module.find('.', at + 1);
    if (end == module.npos) break;
    const std::string_view part = module.substr(at + 1, end - at - 1);
    if (!part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos)
      layer = std::stoll(std::string(part));
  }
  return layer;
}

template <class Value>
Value looked_up(const std::vector<std::pair<std::string, Value>>& pattern, std::string_view module, Value otherwise) {
  for (const auto& [key, value] : pattern)
    if (matches_whole("(?:.*\\.)?(?:" + key + ")", module)) return value;
  return otherwise;
}

}  // namespace

std::optional<PeftAdapter> peft_adapter_of(const PeftConfig& c, std::string_view module) {
  if (!holds(c.targets, module) || (!c.excluded.empty() && holds(c.excluded, module))) return {};
  if (c.layers) {
    const auto layer = layer_of(module);
    if (!layer || !std::ranges::count(*c.layers, *layer)) return {};
  }
  const int64_t rank = looked_up(c.rank_pattern, module, c.rank);
  const double alpha = looked_up(c.alpha_pattern, module, c.alpha), r = static_cast<double>(rank);
  return PeftAdapter{rank, alpha / (c.rank_stabilized ? std::sqrt(r) : r)};
}

}  // namespace tern
