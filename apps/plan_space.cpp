#include "apps/plan_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

std::vector<std::string_view> words(const Options& o, std::string_view name) {
  std::vector<std::string_view> out;
  for (const std::string_view w : split(o.text(name), ',')) out.push_back(trim(w));
  return out;
}

// "0,1,3" as a subset of `all`, in its order.
template <class T, class Name>
std::vector<T> subset(const Options& o, std::string_view option, const std::vector<T>& all, const Name& name) {
  std::vector<std::string> names;
  for (const T& t : all) names.push_back(std::string(name(t)));
  std::vector<bool> wanted(all.size(), false);
  for (const std::string_view w : words(o, option)) {
    const auto at = std::find(names.begin(), names.end(), w);
    if (at == names.end())
      throw Error(ErrorKind::usage, "--{}: '{}' is none of {}{}", option, make_printable(w), join(names, ", "),
                  did_you_mean(w, {names.begin(), names.end()}));
    wanted[static_cast<size_t>(at - names.begin())] = true;
  }
  std::vector<T> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (wanted[i]) out.push_back(all[i]);
  return out;
}

// The options that narrow the space; --offload, which widens it, is apart.
constexpr std::array<std::string_view, 10> kNarrowing{"schedules",   "zero",       "allow-recompute", "max-tensor",
                                                      "max-context", "max-stages", "max-chunks",      "max-micro-batch",
                                                      "ulysses",     "fix"};

// What --fix gives and another option excludes.
void refuse_at_odds(const Options& o, const std::function<bool(std::string_view)>& heeded, const SearchSpace& s,
                    const PinnedAxes& p) {
  const auto at_odds = [&](std::string_view option, bool odds) {
    if (odds && o.given(option) && heeded(option))
      throw Error(ErrorKind::usage, "--fix {} is at odds with --{} {}", to_string(p), option, o.value(option).text);
  };
  const auto lacks = [](const auto& list, const auto& one) {
    return one && std::find(list.begin(), list.end(), *one) == list.end();
  };
  at_odds("max-tensor", p.tensor.value_or(1) > s.max_tensor),
      at_odds("max-context", p.context.value_or(1) > s.max_context);
  at_odds("max-stages", p.stages.value_or(1) > s.max_stages),
      at_odds("max-chunks", p.chunks.value_or(1) > s.max_chunks);
  at_odds("max-micro-batch", p.micro_batch.value_or(1) > s.max_micro_batch);
  at_odds("schedules", lacks(s.schedules, p.schedule)), at_odds("zero", lacks(s.zero, p.zero));
  at_odds("allow-recompute", lacks(s.recompute, p.recompute));
  at_odds("offload", lacks(s.states, p.states) || lacks(s.activations, p.activations));
  at_odds("ulysses", p.ulysses.value_or(false) && !s.ulysses);
}

// `heeded`: which of the narrowing options count.
SearchSpace space_with(const Options& o, const std::function<bool(std::string_view)>& heeded) {
  SearchSpace s;
  const auto has = [&](std::string_view name) { return o.given(name) && heeded(name); };
  const auto limit = [&](std::string_view name, auto& at) {
    if (has(name)) at = static_cast<std::decay_t<decltype(at)>>(o.integer(name));
  };
  limit("max-tensor", s.max_tensor), limit("max-context", s.max_context), limit("max-stages", s.max_stages);
  limit("max-chunks", s.max_chunks), limit("max-micro-batch", s.max_micro_batch);
  if (has("ulysses")) s.ulysses = o.flag("ulysses");
  if (has("schedules"))
    s.schedules = subset(o, "schedules", s.schedules, [](PipelineSchedule x) { return name_of(x); });
  if (has("zero")) s.zero = subset(o, "zero", s.zero, [](int z) { return std::to_string(z); });
  if (has("allow-recompute"))
    s.recompute = subset(o, "allow-recompute", s.recompute, [](Recompute r) { return name_of(r); });
  const std::string& offload = o.text("offload");
  if (offload == "none" || offload == "activations") s.states = {Tier::device};
  if (offload == "none" || offload == "states") s.activations = {Tier::device};
  if (has("fix")) {
    const PinnedAxes pinned = parse_pinned(o.text("fix"));
    refuse_at_odds(o, heeded, s, pinned);
    s = pin(s, pinned);
  }
  for (const Framework f : kFrameworks)
    if (o.text("emit") == name_of(f)) s = for_framework(s, f);
  return s;
}

}  // namespace

SearchSpace space_of(const Options& o) {
  return space_with(o, [](std::string_view) { return true; });
}

SearchSpace space_without_pins(const Options& o) {
  return space_with(o, [](std::string_view name) { return name != "fix"; });
}

std::vector<WiderSpace> wider_spaces(const Options& o) {
  std::vector<WiderSpace> out;
  std::string all;
  for (const std::string_view name : kNarrowing) {
    if (!o.given(name)) continue;
    out.push_back({fmt::format("without --{}", name), space_with(o, [&](std::string_view n) { return n != name; })});
    all += fmt::format("{} --{}", all.empty() ? "without" : ",", name);
  }
  if (out.size() > 1) out.push_back({all, space_with(o, [](std::string_view) { return false; })});
  return out;
}

}  // namespace tern
