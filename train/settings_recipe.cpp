// OUT/recipe.toml: the options of a run and where each came from.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

#include "base/json.h"
#include "base/options.h"
#include "train/outer_settings.h"
#include "train/robust_settings.h"
#include "train/settings_impl.h"

namespace tern {
namespace {

// Paths are written whole: the recipe lies in OUT, and its relative paths would be relative to that.
std::string whole_path(const std::string& path) {
  return path == "-" || path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

std::string value_text(const Options::Value& v) {
  switch (v.spec->type) {
    case OptionType::flag:
    case OptionType::toggle:
      return v.boolean ? "true" : "false";
    case OptionType::integer:
      return fmt::format("{}", v.integer);
    case OptionType::real:
      return recipe_real(fmt::format("{}", v.real));
    case OptionType::path:
      return quote_json(whole_path(v.text));
    default:
      return quote_json(v.text);  // as it was typed, also sizes and times
  }
}

}  // namespace

std::string recipe_real(std::string_view text) {
  return std::string(text) + (text.find_first_of(".en") == std::string_view::npos ? ".0" : "");
}

std::string recipe_text(const Options& o, const TrainSettings& s) {
  const bool wsd = s.schedule.kind == LearningRateKind::wsd;
  const auto absent = [&](std::string_view name) {
    if (is_of_other_rules(s.optimizer.rule, name)) return true;
    if (name == "clip") return row_of(s.optimizer.rule).clip.empty();
    if (name == "eval-every" || name == "eval-batches") return s.valid_data.empty();
    if (name == "max-seconds") return true;  // of one sitting, not of the job
    if (name == "perturbation" || name == "recompute") return (name == "recompute") == s.perturbation.has_value();
    if (name == "dpo-beta") return !learns_pairs(o);
    if (is_async_option(name)) return !s.async;
    if (s.async && (name == "ranks" || name == "sum-groups" || name == "zero" || name == "tensor-parallel" ||
                    name == "context-parallel" || name == "context-by" || name == "expert-parallel"))
      return true;
    if (name == "capacity-factor") return s.expert_ranks == 1 || s.plan.has_value();
    if (is_robust_option(name)) return !says_something(name, s.robust);
    if (is_outer_option(name)) return !says_something(name, s.outer);
    if (name == "min-learning-rate") return s.schedule.kind == LearningRateKind::constant;
    return name == "decay-steps" && !wsd;
  };
  const std::vector<DerivedValue> all_derived = derived_values(o);
  const auto derived = [&](std::string_view name) {
    const auto it = std::find_if(all_derived.begin(), all_derived.end(), [&](const auto& d) { return d.name == name; });
    return it == all_derived.end() ? nullptr : &*it;
  };
  std::string out = fmt::format(
      "# The options of this run and where each came from. `tern {} THIS-FILE` runs it again.\n", o.verb().name);
  for (const auto& [name, value] : o.positionals()) {
    if (!value.set) continue;
    std::string key = name;
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::error_code ignored;  // a name in the cache is no path
    const bool is_path = std::filesystem::exists(value.text, ignored);
    out += fmt::format("{} = {}\n", key, quote_json(is_path ? whole_path(value.text) : value.text));
  }
  for (const auto& [name, value] : o.values()) {
    const bool given = value.set && value.origin != Origin::fallback;
    const DerivedValue* worked_out = derived(name);
    if (absent(name) || (!value.set && !worked_out)) continue;
    if (name == "output" && given)
      out += fmt::format("{} = \".\"  # this file's folder, wherever it is moved ({})\n", name, value.where);
    else if (worked_out)
      out += fmt::format("{} = {}  # {}\n", name, worked_out->value, worked_out->why);
    else
      out += fmt::format("{} = {}  # {}\n", name, value_text(value), given ? value.where : "default");
  }
  return out;
}

}  // namespace tern
