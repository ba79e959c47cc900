#include "train/update_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "model/visit_weights.h"
#include "train/outer_settings.h"
#include "update/state.h"

namespace tern {
namespace {

std::string_view name_of(Aggregator a) { return kAggregatorNames[static_cast<size_t>(a)]; }
std::string_view name_of(Attack a) { return kAttackNames[static_cast<size_t>(a)]; }
std::string_view name_of(AsyncRule rule) { return kAsyncRuleNames[static_cast<size_t>(rule)]; }

std::string robust_words(const RobustConfig& c, int ranks) {
  std::string text = fmt::format("aggregator: {} of {} ranks", name_of(c.aggregator), ranks);
  text += c.byzantine > 0 ? fmt::format(", of whom {} may send anything", c.byzantine) : ", all of whom it believes";
  if (c.mixing != Mixing::none) text += fmt::format("; mix {}", kMixingNames[static_cast<size_t>(c.mixing)]);
  if (c.local_momentum > 0) text += fmt::format("; local momentum {}", c.local_momentum);
  if (c.attackers == 1) text += fmt::format("; rank {} attacks: {}", ranks - 1, name_of(c.attack));
  if (c.attackers > 1)
    text += fmt::format("; ranks {} to {} attack: {}", ranks - c.attackers, ranks - 1, name_of(c.attack));
  return text;
}

std::string async_words(const AsyncSettings& a) {
  std::string text = fmt::format("asynchronous: rule {}, {}", name_of(a.rule.rule), counted(a.rule.workers, "worker"));
  if (a.rule.rule != AsyncRule::asgd) text += fmt::format(", momentum {}", a.rule.momentum);
  if (!a.replay.empty()) text += fmt::format(", in the order of {}", a.replay);
  return text;
}

std::string outer_words(const OuterConfig& c, int ranks) {
  std::string text =
      fmt::format("rare averages: {} of {}, every {} steps", outer_name(c), counted(ranks, "rank"), c.every);
  if (c.codec != OuterCodec::none) text += fmt::format(", codec {}", kOuterCodecNames[static_cast<size_t>(c.codec)]);
  if (ranks > 1) return text;
  // Of a plain average nothing is left; what remains of the others is an outer step towards a rank's own weights.
  const bool plain = c.rate == 1 && c.momentum == 0 && c.delay == 0 && c.codec == OuterCodec::none;
  return text + (plain ? "; one rank has nobody to average with, so this changes rounding alone"
                       : "; one rank has nobody to average with: what remains is the outer step towards its own "
                         "weights, which is Lookahead with a momentum (Zhang et al. 2019, arXiv:1907.08610)");
}

// A projection on all directions of the shorter side keeps a basis and a gradient as large as before.
std::string projection_words(const ModelSpec& spec, const UpdateConfig& c) {
  if (std::ranges::count(row_of(c.rule).options, "projection-rank", &RuleOption::name) == 0) return "";
  const double rank = c.option("projection-rank");
  int64_t matrices = 0, whole = 0, longest = 0;
  for (const ParameterInfo& info : trained_parameters(spec)) {
    const ParameterForm form = form_of(spec, info);
    if (form.kind != ParameterKind::matrix) continue;
    const int64_t side = std::min(form.rows, form.columns);
    ++matrices, longest = std::max(longest, side);
    if (rank >= static_cast<double>(side)) ++whole;
  }
  if (whole == 0) return "";
  return fmt::format(
      "--projection-rank {}: the shorter side of {} of {} matrices is no longer than that; all of their directions are "
      "kept, and with the basis more state than without a projection: choose a rank well below {}",
      rank, whole, matrices, longest);
}

}  // namespace

std::vector<std::string> update_notes(const ModelSpec& spec, const TrainSettings& s) {
  std::vector<std::string> notes;
  if (s.robust) notes.push_back(robust_words(*s.robust, s.ranks));
  if (s.async) notes.push_back(async_words(*s.async));
  if (s.outer) notes.push_back(outer_words(*s.outer, s.ranks));
  if (std::string text = projection_words(spec, s.optimizer); !text.empty()) notes.push_back(std::move(text));
  return notes;
}

Json update_json(const TrainSettings& s) {
  Json json = Json::object(), optimizer = {{"rule", tern::name_of(s.optimizer.rule)}};
  for (const RuleOption& o : row_of(s.optimizer.rule).options)
    optimizer[std::string(o.name)] = s.optimizer.option(o.name);
  optimizer["clip"] = s.optimizer.clip;
  json["optimizer"] = std::move(optimizer);
  if (s.robust)
    json["aggregator"] = {{"rule", name_of(s.robust->aggregator)},
                          {"byzantine", s.robust->byzantine},
                          {"mix", kMixingNames[static_cast<size_t>(s.robust->mixing)]},
                          {"local_momentum", s.robust->local_momentum},
                          {"attack", name_of(s.robust->attack)},
                          {"attackers", s.robust->attackers}};
  if (s.async) json["async"] = {{"rule", name_of(s.async->rule.rule)}, {"workers", s.async->rule.workers}};
  if (s.outer)
    json["outer"] = {{"kind", outer_name(*s.outer)},
                     {"every", s.outer->every},
                     {"codec", kOuterCodecNames[static_cast<size_t>(s.outer->codec)]}};
  return json;
}

std::string robust_advice(const TrainSettings& s) {
  if (!s.robust || s.robust->attackers <= s.robust->byzantine) return "";
  const RobustConfig& c = *s.robust;
  RobustConfig wanted = c;
  wanted.aggregator = Aggregator::geometric_median, wanted.byzantine = c.attackers, wanted.mixing = Mixing::none;
  const bool takes = robust_fault(wanted, s.ranks).empty();
  const std::string who =
      fmt::format("{} of {} ranks attack{} ({})", c.attackers, s.ranks, c.attackers == 1 ? "s" : "", name_of(c.attack));
  const std::string weak =
      c.aggregator == Aggregator::mean
          ? "--aggregator mean has no defence"
          : fmt::format("--aggregator {} --byzantine {} allows for fewer", name_of(c.aggregator), c.byzantine);
  return fmt::format(
      "{}, and {}; {}, in another --output", who, weak,
      takes ? fmt::format("choose --aggregator geometric-median --byzantine {}", c.attackers)
            : "a robust one takes more honest ranks than attackers: choose fewer attackers, or more --ranks");
}

}  // namespace tern
