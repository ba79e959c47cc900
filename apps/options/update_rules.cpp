// The options of update rules, made from the rules' own rows (spec/update_rules.def).
#include "apps/options/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "spec/update_rule.h"

namespace tern {
namespace {

// An option of update rules, and which rules read it with which default.
std::string_view rule_help(const RuleOption& o) {
  static std::map<std::string_view, std::string> texts;
  return texts.try_emplace(o.name, fmt::format("{}: {}", o.help, defaults_of(o.name))).first->second;
}

}  // namespace

std::vector<std::string_view> update_rule_names() {
  std::vector<std::string_view> names;
  for (const UpdateRule rule : kUpdateRules) names.push_back(name_of(rule));
  return names;
}

std::string_view update_clip_help() {
  static const std::string help = [] {
    std::string others;
    for (const UpdateRule rule : kUpdateRules)
      if (const std::string_view clip = row_of(rule).clip; clip != "1.0")
        others += fmt::format("; {} for {}", clip.empty() ? "none" : clip, name_of(rule));
    return fmt::format("largest gradient norm, 0 for no clipping: 1.0{}", others);
  }();
  return help;
}

OptionRows update_rule_rows() {
  OptionRows found;
  for (const UpdateRule rule : kUpdateRules)
    for (const RuleOption& o : row_of(rule).options)
      if (std::ranges::count(found, o.name, &OptionSpec::name) == 0)
        found.push_back({.name = o.name,
                         .verbs = "train adapt",
                         .type = OptionType::real,
                         .unit = "X",
                         .help = rule_help(o),
                         .min = 0,
                         .max = o.max,
                         .below_max = o.below_max});
  return found;
}

}  // namespace tern
