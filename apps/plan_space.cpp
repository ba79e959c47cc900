#include "apps/plan_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "spec/recompute.h"

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

template <class T>
bool lacks(const std::vector<T>& list, const std::optional<T>& one) {
  return one && std::find(list.begin(), list.end(), *one) == list.end();
}

// An option that narrows the space: how it is read, and whether what is pinned is outside what it leaves.
struct Narrowing {
  std::string_view option;
  void (*read)(const Options&, SearchSpace&);
  bool (*at_odds)(const SearchSpace&, const PinnedAxes&);
};

// Of an option --max-AXIS, the member of SearchSpace and the pin.
#define TERN_MOST(option, most, axis)                                                                            \
  Narrowing {                                                                                                    \
    option, [](const Options& o, SearchSpace& s) { s.most = static_cast<decltype(s.most)>(o.integer(option)); }, \
        [](const SearchSpace& s, const PinnedAxes& p) { return p.axis.value_or(1) > s.most; }                    \
  }

constexpr std::array kNarrowing{
    Narrowing{"schedules",
              [](const Options& o, SearchSpace& s) {
                s.schedules = subset(o, "schedules", s.schedules, [](PipelineSchedule x) { return name_of(x); });
              },
              [](const SearchSpace& s, const PinnedAxes& p) { return lacks(s.schedules, p.schedule); }},
    Narrowing{"zero",
              [](const Options& o, SearchSpace& s) {
                s.zero = subset(o, "zero", s.zero, [](int z) { return std::to_string(z); });
              },
              [](const SearchSpace& s, const PinnedAxes& p) { return lacks(s.zero, p.zero); }},
    Narrowing{"allow-recompute",
              [](const Options& o, SearchSpace& s) {
                s.recompute = subset(o, "allow-recompute", s.recompute, [](Recompute r) { return name_of(r); });
              },
              [](const SearchSpace& s, const PinnedAxes& p) { return lacks(s.recompute, p.recompute); }},
    TERN_MOST("max-tensor", max_tensor, tensor),
    TERN_MOST("max-context", max_context, context),
    TERN_MOST("max-stages", max_stages, stages),
    TERN_MOST("max-chunks", max_chunks, chunks),
    TERN_MOST("max-micro-batch", max_micro_batch, micro_batch),
    Narrowing{"ulysses", [](const Options& o, SearchSpace& s) { s.ulysses = o.flag("ulysses"); },
              [](const SearchSpace& s, const PinnedAxes& p) { return p.ulysses.value_or(false) && !s.ulysses; }},
};
#undef TERN_MOST

// --offload, which widens the space where it is given.
void read_offload(const Options& o, SearchSpace& s) {
  const std::string& offload = o.text("offload");
  if (offload == "none" || offload == "activations") s.states = {Tier::device};
  if (offload == "none" || offload == "states") s.activations = {Tier::device};
}

// `heeded`: which of the narrowing options count; --fix is one of them.
SearchSpace space_with(const Options& o, const std::function<bool(std::string_view)>& heeded) {
  SearchSpace s;
  const auto has = [&](std::string_view name) { return o.given(name) && heeded(name); };
  for (const Narrowing& n : kNarrowing)
    if (has(n.option)) n.read(o, s);
  read_offload(o, s);
  if (has("fix")) {
    const PinnedAxes p = parse_pinned(o.text("fix"));
    const auto refuse = [&](std::string_view option) {
      throw Error(ErrorKind::usage, "--fix {} is at odds with --{} {}", to_string(p), option, o.value(option).text);
    };
    for (const Narrowing& n : kNarrowing)
      if (has(n.option) && n.at_odds(s, p)) refuse(n.option);
    if (has("offload") && (lacks(s.states, p.states) || lacks(s.activations, p.activations))) refuse("offload");
    s = pin(s, p);
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
  std::vector<std::string_view> narrowing;
  for (const Narrowing& n : kNarrowing) narrowing.push_back(n.option);
  narrowing.push_back("fix");
  for (const std::string_view name : narrowing) {
    if (!o.given(name)) continue;
    out.push_back({fmt::format("without --{}", name), space_with(o, [&](std::string_view n) { return n != name; })});
    all += fmt::format("{} --{}", all.empty() ? "without" : ",", name);
  }
  if (out.size() > 1) out.push_back({all, space_with(o, [](std::string_view) { return false; })});
  return out;
}

}  // namespace tern
