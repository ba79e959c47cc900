#include "train/robust_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/options.h"
#include "train/option_origin.h"
#include "train/settings_ranks.h"

namespace tern {
namespace {

constexpr std::array<std::string_view, 7> kRobustOptions{"aggregator",  "byzantine", "mix",      "local-momentum",
                                                         "clip-radius", "attack",    "attackers"};

template <class Value, size_t N>
Value value_of(const Options& o, std::string_view option, const std::string_view (&names)[N]) {
  const auto at = std::ranges::find(names, std::string_view(o.text(option)));
  TERN_CHECK(at != std::end(names), "--{}: {} is in the table of options alone", option, o.text(option));
  return static_cast<Value>(at - std::begin(names));
}

void require_place(const TrainSettings& s, const RobustConfig& c) {
  const std::string option = fmt::format("--aggregator {}", kAggregatorNames[static_cast<size_t>(c.aggregator)]);
  if (s.ranks == 1)
    throw Error(ErrorKind::usage, "{}: there is one rank, and nothing to aggregate; give --ranks", option);
  if (num_stage_devices(s) > 1)
    throw Error(ErrorKind::usage,
                "{}: the plan has {} stages, and a rank's vector would be cut over them; plan with --fix pp=1", option,
                num_stage_devices(s));
  if (deepest_zero(s) > 0)
    throw Error(ErrorKind::usage,
                "{}: --zero {} sums gradients where they are kept, before they could be aggregated; choose --zero 0",
                option, deepest_zero(s));
  if (const std::string fault = robust_fault(c, s.ranks); !fault.empty()) throw Error(ErrorKind::usage, "{}", fault);
  if (c.attackers >= s.ranks)
    throw Error(ErrorKind::usage, "--attackers {}: of {} ranks one at least is honest; choose fewer", c.attackers,
                s.ranks);
  if (c.attack == Attack::alie && s.ranks / 2 + 1 <= c.attackers)
    throw Error(ErrorKind::usage, "--attackers {}: alie is of less than half of the {} ranks; choose fewer",
                c.attackers, s.ranks);
}

}  // namespace

bool is_robust_option(std::string_view name) { return std::ranges::count(kRobustOptions, name) > 0; }

bool says_something(std::string_view name, const std::optional<RobustConfig>& c) {
  if (!c) return false;
  if (name == "clip-radius") return c->aggregator == Aggregator::centered_clipping;
  if (name == "mix") return c->aggregator != Aggregator::mean;
  if (name == "attackers") return c->attack != Attack::none;
  return true;
}

std::optional<RobustConfig> robust_from(const Options& o, const TrainSettings& s) {
  if (!o.knows("aggregator")) return {};
  std::optional<RobustConfig> c;
  if (o.has("aggregator")) {
    c.emplace();
    c->aggregator = value_of<Aggregator>(o, "aggregator", kAggregatorNames);
    c->mixing = value_of<Mixing>(o, "mix", kMixingNames);
    c->attack = value_of<Attack>(o, "attack", kAttackNames);
    c->byzantine = static_cast<int>(o.integer("byzantine"));
    c->local_momentum = o.real("local-momentum");
    c->clip_radius = o.real("clip-radius");
    if (c->attack != Attack::none)
      c->attackers = o.has("attackers") ? static_cast<int>(o.integer("attackers")) : c->byzantine;
    c->seed = s.seed;
  }
  for (const std::string_view name : kRobustOptions)
    if (o.given(name) && !says_something(name, c))
      throw Error(ErrorKind::usage, "{}: {}; leave it out", as_given(o, name),
                  !c ? "without --aggregator gradients are summed"
                  : name == "attackers"
                      ? "without --attack there are none"
                      : fmt::format("--aggregator {} has none", kAggregatorNames[static_cast<size_t>(c->aggregator)]));
  if (!c) return c;
  if (c->aggregator == Aggregator::centered_clipping && !(c->clip_radius > 0))
    throw Error(ErrorKind::usage, "--clip-radius: {}; expected more than 0", c->clip_radius);
  if (c->attack != Attack::none && c->attackers == 0)
    throw Error(ErrorKind::usage, "--attack {}: nobody attacks; give --byzantine, or --attackers",
                kAttackNames[static_cast<size_t>(c->attack)]);
  require_place(s, *c);
  return c;
}

Facts robust_facts(const TrainSettings& s) {
  const RobustConfig& c = *s.robust;
  const auto number = [](auto x) { return fmt::format("{}", x); };
  return {{"aggregator", std::string(kAggregatorNames[static_cast<size_t>(c.aggregator)])},
          {"ranks", number(s.ranks)},
          {"byzantine", number(c.byzantine)},
          {"mix", std::string(kMixingNames[static_cast<size_t>(c.mixing)])},
          {"local-momentum", number(c.local_momentum)},
          {"clip-radius", number(c.clip_radius)},
          {"attack", std::string(kAttackNames[static_cast<size_t>(c.attack)])},
          {"attackers", number(c.attackers)}};
}

}  // namespace tern
