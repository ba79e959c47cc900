#include "train/outer_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/options.h"
#include "train/settings.h"

namespace tern {
namespace {

constexpr std::array<std::string_view, 8> kOuterOptions{"outer",          "outer-every",     "outer-rate",
                                                        "outer-momentum", "outer-fragments", "outer-delay",
                                                        "outer-mix",      "outer-codec"};

// LocalSGD: the plain average, all at once.
bool averages_plainly(const OuterConfig& c) {
  return c.rate == 1 && c.momentum == 0 && c.fragments == 1 && c.delay == 0 && c.mix == 0;
}

void require_place(const TrainSettings& s, const OuterConfig& c) {
  const auto refuse = [](const std::string& what, std::string_view why) {
    throw Error(ErrorKind::usage, "{}: {}; leave one of the two out", what, why);
  };
  if (s.async) refuse("--outer", "--async has a server that all workers talk to at each step");
  if (s.robust) refuse("--aggregator", "between averages, ranks of --outer send nothing that could be aggregated");
  if (s.plan) refuse("--plan", "a plan has no ranks that train alone, as those of --outer do");
  if (s.tensor > 1) refuse("--tensor-parallel", "each rank of --outer has the whole model");
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

bool is_outer_option(std::string_view name) { return std::ranges::count(kOuterOptions, name) > 0; }

bool says_something(std::string_view name, const std::optional<OuterConfig>& c) {
  if (!c) return false;
  return name == "outer" || name == "outer-every" || name == "outer-codec" || !averages_plainly(*c);
}

std::optional<OuterConfig> outer_from(const Options& o, const TrainSettings& s) {
  if (std::ranges::none_of(o.values(), [](const auto& value) { return value.first == "outer"; })) return {};
  std::optional<OuterConfig> c;
  const bool local = o.has("outer") && o.text("outer") == "local-sgd";
  for (const std::string_view name : kOuterOptions) {
    if (!o.given(name) || name == "outer") continue;
    if (!o.has("outer"))
      throw Error(ErrorKind::usage, "--{}: without --outer ranks sum their gradients at each step; leave it out", name);
    if (local && name != "outer-every" && name != "outer-codec")
      throw Error(ErrorKind::usage, "--{}: --outer local-sgd is the plain average; leave it out, or choose diloco",
                  name);
  }
  if (!o.has("outer")) return c;
  c.emplace();
  c->every = o.integer("outer-every");
  c->codec = static_cast<OuterCodec>(std::ranges::find(kOuterCodecNames, std::string_view(o.text("outer-codec"))) -
                                     std::begin(kOuterCodecNames));
  if (!local) {
    c->rate = o.real("outer-rate"), c->momentum = o.real("outer-momentum");
    c->fragments = static_cast<int>(o.integer("outer-fragments")), c->delay = o.integer("outer-delay");
    c->mix = o.real("outer-mix");
    if (c->momentum >= 1)
      throw Error(ErrorKind::usage, "--outer-momentum: {}; expected 0 up to, but not, 1", c->momentum);
    if (c->mix >= 1) throw Error(ErrorKind::usage, "--outer-mix: {}; expected 0 up to, but not, 1", c->mix);
    if (!(c->rate > 0)) throw Error(ErrorKind::usage, "--outer-rate: {}; expected more than 0", c->rate);
  }
  require_place(s, *c);
  return c;
}

Facts outer_facts(const TrainSettings& s) {
  const OuterConfig& c = *s.outer;
  const auto number = [](auto x) { return fmt::format("{}", x); };
  return {{"ranks", number(s.ranks)},
          {"outer-every", number(c.every)},
          {"outer-rate", number(c.rate)},
          {"outer-momentum", number(c.momentum)},
          {"outer-fragments", number(c.fragments)},
          {"outer-delay", number(c.delay)},
          {"outer-mix", number(c.mix)},
          {"outer-codec", std::string(kOuterCodecNames[static_cast<size_t>(c.codec)])}};
}

}  // namespace tern
