#include "train/async_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/options.h"
#include "train/option_origin.h"
#include "train/settings.h"

namespace tern {
namespace {

constexpr std::array<std::string_view, 3> kAsyncOptions{"workers", "async-rule", "replay"};

void refuse(const Options& o, std::string_view name, const std::string& why) {
  if (o.given(name)) throw Error(ErrorKind::usage, "{}: {}; leave it out", as_given(o, name), why);
}

void require_alone(const Options& o, const TrainSettings& s, const AsyncConfig& c) {
  if (o.given("ranks") && o.integer("ranks") != c.workers + 1)
    throw Error(ErrorKind::usage,
                "--ranks {}: --async has a server and {} workers; leave it out, or start {} processes",
                o.integer("ranks"), c.workers, c.workers + 1);
  refuse(o, "sum-groups", "--async takes each worker's gradient by itself");
  refuse(o, "plan", "--async has no step that a plan would place");
  refuse(o, "aggregator", "--async takes one gradient at a time");
  refuse(o, "trace", "--async has no step that all share");
  if (s.zero > 0)
    throw Error(ErrorKind::usage, "--zero {}: the server of --async has the whole state; leave it out", s.zero);
  if (s.optimizer.rule != UpdateRule::sgd)
    throw Error(
        ErrorKind::usage,
        "--optimizer {}: what comes late has a known effect on sums of gradients alone; --async runs --optimizer "
        "sgd with the momentum of --async-rule",
        name_of(s.optimizer.rule));
  if (s.dtype == DType::bf16)
    throw Error(ErrorKind::usage, "--dtype bf16: --async sends the weights that it updates; choose f32");
  const double momentum = s.optimizer.option("momentum");
  if (c.rule == AsyncRule::asgd && momentum > 0)
    throw Error(ErrorKind::usage, "{} {}: --async-rule asgd has none; leave it out, or choose another rule",
                as_given(o, "momentum"), momentum);
}

}  // namespace

bool asks_for_async(const Options& o) { return o.knows("async") && o.flag("async"); }
bool async_without_momentum(const Options& o) { return asks_for_async(o) && o.text("async-rule") == "asgd"; }
bool is_async_option(std::string_view name) { return std::ranges::count(kAsyncOptions, name) > 0; }

std::optional<AsyncSettings> async_from(const Options& o, const TrainSettings& s) {
  if (!o.knows("async")) return {};
  if (!o.flag("async")) {
    for (const std::string_view name : kAsyncOptions) refuse(o, name, "without --async all ranks step together");
    return {};
  }
  if (!o.has("workers")) throw Error(ErrorKind::usage, "--workers: missing; --async needs to know how many there are");
  AsyncSettings a;
  a.rule.rule = static_cast<AsyncRule>(std::ranges::find(kAsyncRuleNames, std::string_view(o.text("async-rule"))) -
                                       std::begin(kAsyncRuleNames));
  a.rule.workers = static_cast<int>(o.integer("workers"));
  a.replay = o.text("replay");
  require_alone(o, s, a.rule);
  a.rule.momentum = s.optimizer.option("momentum");
  return a;
}

Facts async_facts(const AsyncSettings& a) {
  return {{"async-rule", std::string(kAsyncRuleNames[static_cast<size_t>(a.rule.rule)])},
          {"workers", fmt::format("{}", a.rule.workers)}};
}

}  // namespace tern
