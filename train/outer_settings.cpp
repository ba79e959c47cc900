#include "train/outer_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/options.h"
#include "train/option_origin.h"
#include "train/settings.h"

namespace tern {
namespace {

enum class OuterKind : uint8_t { local_sgd, diloco, noloco, co2 };
struct KindRow {
  std::string_view name;
  double rate, momentum;  // unless given
  std::string_view what;  // for who gives an option that it does not have
};
constexpr std::array<KindRow, 4> kKinds{{{"local-sgd", 1, 0, "is the plain average"},
                                         {"diloco", 0.7, 0.9, ""},
                                         {"noloco", 0.7, 0.5, "averages pairs, which have no model in common"},
                                         {"co2", 1, 0.5, "counts each average one round late, all layers at once"}}};

constexpr std::array<std::string_view, 10> kOuterOptions{
    "outer",       "outer-every", "outer-rate",  "outer-momentum", "outer-fragments",
    "outer-delay", "outer-mix",   "outer-codec", "outer-rank",     "outer-away"};

OuterKind kind_named(std::string_view name) {
  return static_cast<OuterKind>(std::ranges::find(kKinds, name, &KindRow::name) - kKinds.begin());
}
OuterKind kind_of(const OuterConfig& c) {
  if (c.pairs) return OuterKind::noloco;
  if (c.delay == c.every) return OuterKind::co2;
  return c.nesterov ? OuterKind::diloco : OuterKind::local_sgd;
}

bool reads(OuterKind kind, std::string_view option) {
  if (option == "outer" || option == "outer-every" || option == "outer-away") return true;
  if (option == "outer-codec" || option == "outer-rank") return kind != OuterKind::noloco;
  if (option == "outer-rate" || option == "outer-momentum") return kind != OuterKind::local_sgd;
  return kind == OuterKind::diloco || kind == OuterKind::noloco;
}

// "RANK@FROM-TO"
std::optional<OuterAbsence> absence_from(std::string_view text) {
  OuterAbsence a;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& value, char after) {
    const auto [next, fault] = std::from_chars(at, end, value);
    if (fault != std::errc() || (after != 0 ? next == end || *next != after : next != end)) return false;
    at = next + (after != 0);
    return true;
  };
  if (!number(a.rank, '@') || !number(a.from, '-') || !number(a.to, 0)) return {};
  if (a.rank < 0 || a.from < 1 || a.to < a.from) return {};
  return a;
}

// Several, with commas between them.
std::vector<OuterAbsence> absences_from(const std::string& text) {
  std::vector<OuterAbsence> list;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const std::optional<OuterAbsence> a = absence_from(one);
    if (!a)
      throw Error(ErrorKind::usage, "--outer-away: '{}'; expected RANK@FROM-TO, steps from 1, such as 2@10-29", one);
    list.push_back(*a);
    begin = end + 1;
  }
  return list;
}

std::string text_of(const std::vector<OuterAbsence>& away) {
  std::string text;
  for (const OuterAbsence& a : away) text += fmt::format("{}{}@{}-{}", text.empty() ? "" : ",", a.rank, a.from, a.to);
  return text;
}

void require_company(const OuterConfig& c, int ranks) {
  for (const OuterAbsence& a : c.away) {
    if (a.rank >= ranks)
      throw Error(ErrorKind::usage, "--outer-away: rank {}, but --ranks {} are 0 to {}", a.rank, ranks, ranks - 1);
    if (present_at(c, ranks, a.from) == 0)
      throw Error(ErrorKind::usage, "--outer-away: in step {} all ranks are away; leave one there", a.from);
  }
}

void require_place(const TrainSettings& s, const OuterConfig& c) {
  const auto refuse = [](const std::string& what, std::string_view why) {
    throw Error(ErrorKind::usage, "{}: {}; leave one of the two out", what, why);
  };
  if (s.async) refuse("--outer", "--async has a server that all workers talk to at each step");
  if (s.robust) refuse("--aggregator", "between averages, ranks of --outer send nothing that could be aggregated");
  if (s.plan) refuse("--plan", "a plan has no ranks that train alone, as those of --outer do");
  if (s.tensor > 1) refuse("--tensor-parallel", "each rank of --outer has the whole model");
  if (s.expert_ranks > 1) refuse("--expert-parallel", "each rank of --outer has the whole model");
  if (s.context_ranks > 1) refuse("--context-parallel", "each rank of --outer has micro-batches of its own");
  if (s.zero > 0) refuse(fmt::format("--zero {}", s.zero), "each rank of --outer has the whole state");
  if (!s.trace.empty()) refuse("--trace", "--outer has no step that all share");
  if (row_of(s.optimizer.rule).computes_elsewhere)
    throw Error(ErrorKind::usage,
                "--optimizer {}: it learns at other weights than it saves, and --outer averages those that are saved; "
                "choose another rule",
                name_of(s.optimizer.rule));
  if (c.every > s.schedule.total_steps)
    throw Error(ErrorKind::usage,
                "--outer-every: {}, but the run has {} steps, and nothing would ever be averaged; choose less", c.every,
                s.schedule.total_steps);
}

}  // namespace

std::string_view outer_name(const OuterConfig& c) { return kKinds[static_cast<size_t>(kind_of(c))].name; }

bool is_outer_option(std::string_view name) { return std::ranges::count(kOuterOptions, name) > 0; }

bool says_something(std::string_view name, const std::optional<OuterConfig>& c) {
  if (!c) return false;
  if (name == "outer-away") return !c->away.empty();
  if (name == "outer-rank") return c->codec == OuterCodec::power_sgd;
  return reads(kind_of(*c), name);
}

std::optional<OuterConfig> outer_from(const Options& o, const TrainSettings& s) {
  if (std::ranges::none_of(o.values(), [](const auto& value) { return value.first == "outer"; })) return {};
  for (const std::string_view name : kOuterOptions) {
    if (!o.given(name) || name == "outer") continue;
    if (!o.has("outer"))
      throw Error(ErrorKind::usage, "{}: without --outer ranks sum their gradients at each step; leave it out",
                  as_given(o, name));
    const OuterKind kind = kind_named(o.text("outer"));
    if (!reads(kind, name))
      throw Error(ErrorKind::usage, "{}: --outer {} {}; leave it out, or choose diloco", as_given(o, name),
                  o.text("outer"), kKinds[static_cast<size_t>(kind)].what);
  }
  if (!o.has("outer")) return {};
  const OuterKind kind = kind_named(o.text("outer"));
  const KindRow& row = kKinds[static_cast<size_t>(kind)];
  std::optional<OuterConfig> c(std::in_place);
  c->every = o.integer("outer-every");
  c->nesterov = kind == OuterKind::diloco, c->pairs = kind == OuterKind::noloco;
  c->seed = s.seed;
  c->rate = o.given("outer-rate") ? o.real("outer-rate") : row.rate;
  c->momentum = o.given("outer-momentum") ? o.real("outer-momentum") : row.momentum;
  c->delay = kind == OuterKind::co2 ? c->every : 0;
  if (reads(kind, "outer-codec")) {
    c->codec = static_cast<OuterCodec>(std::ranges::find(kOuterCodecNames, std::string_view(o.text("outer-codec"))) -
                                       std::begin(kOuterCodecNames));
    c->codec_rank = static_cast<int>(o.integer("outer-rank"));
  }
  if (reads(kind, "outer-delay")) {
    c->fragments = static_cast<int>(o.integer("outer-fragments")), c->delay = o.integer("outer-delay");
    c->mix = o.real("outer-mix");
    if (c->delay >= c->every)  // τ = H is another order, which has a name
      throw Error(ErrorKind::usage,
                  "--outer-delay: {}, but an average counts before its fragment is sent again, --outer-every {} steps "
                  "later; choose less{}",
                  c->delay, c->every, kind == OuterKind::diloco ? ", or --outer co2" : "");
  }
  if (o.given("outer-rank") && c->codec != OuterCodec::power_sgd)
    throw Error(ErrorKind::usage, "{}: of --outer-codec powersgd alone; leave it out", as_given(o, "outer-rank"));
  if (o.has("outer-away")) c->away = absences_from(o.text("outer-away"));
  if (!(c->rate > 0)) throw Error(ErrorKind::usage, "--outer-rate: {}; expected more than 0", c->rate);
  require_company(*c, s.ranks);
  require_place(s, *c);
  return c;
}

std::vector<DerivedValue> outer_defaults(const Options& o) {
  std::vector<DerivedValue> list;
  if (!o.knows("outer") || !o.has("outer")) return list;
  const OuterKind kind = kind_named(o.text("outer"));
  const KindRow& row = kKinds[static_cast<size_t>(kind)];
  const std::string why = fmt::format("the default of --outer {}", row.name);
  if (kind != OuterKind::noloco && kind != OuterKind::co2) return list;
  if (!o.given("outer-rate")) list.push_back({"outer-rate", fmt::format("{:.1f}", row.rate), why});
  if (!o.given("outer-momentum")) list.push_back({"outer-momentum", fmt::format("{:.1f}", row.momentum), why});
  return list;
}

Facts outer_facts(const TrainSettings& s) {
  const OuterConfig& c = *s.outer;
  const auto number = [](auto x) { return fmt::format("{}", x); };
  Facts facts{{"ranks", number(s.ranks)},
              {"outer-every", number(c.every)},
              {"outer-rate", number(c.rate)},
              {"outer-momentum", number(c.momentum)},
              {"outer-fragments", number(c.fragments)},
              {"outer-delay", number(c.delay)},
              {"outer-mix", number(c.mix)},
              {"outer-codec", std::string(kOuterCodecNames[static_cast<size_t>(c.codec)])}};
  // Runs that these say nothing in keep the facts that they had before.
  const OuterKind kind = kind_of(c);
  if (kind == OuterKind::noloco || kind == OuterKind::co2)
    facts.emplace_back("outer", kKinds[static_cast<size_t>(kind)].name);
  if (c.codec == OuterCodec::power_sgd) facts.emplace_back("outer-rank", number(c.codec_rank));
  if (!c.away.empty()) facts.emplace_back("outer-away", text_of(c.away));
  return facts;
}

}  // namespace tern
