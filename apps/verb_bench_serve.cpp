// tern bench serve: requests at a server, at the times and of the lengths that people's have, and what they got of it.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/load_forecast.h"
#include "apps/load_target.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/units.h"
#include "serve/load/load_report.h"

namespace tern {
namespace {

constexpr int64_t kMostUsers = 4096,
                  kAtOnce = 256;  // at once: of the server that a search starts; more users wait there

SequenceLengths lengths_of(const Options& o, std::string_view file, std::string_view number) {
  if (!o.has(file)) return sequence_lengths({{o.integer(number), 1}});
  if (o.given(number)) throw Error(ErrorKind::usage, "bench serve: --{} and --{}: give one of them", file, number);
  return read_sequence_lengths(o.text(file));
}

LoadMix mix_of(const Options& o) {
  return {.prompts = lengths_of(o, "prompt-lengths", "prompt-tokens"),
          .answers = lengths_of(o, "output-lengths", "max-tokens"),
          .rate = o.has("rate") ? o.real("rate") : 0,
          .seed = static_cast<uint64_t>(o.integer("seed")),
          .ids = {}};
}

LoadTargets targets_of(const Options& o) {
  return {.ttft_s = o.has("ttft") ? o.real("ttft") : 0, .tpot_s = o.has("tpot") ? o.real("tpot") : 0};
}

void check(const Options& o, const LoadTargets& targets) {
  if (o.has("rate") && o.has("users"))
    throw Error(ErrorKind::usage, "bench serve: --rate, or --users who each wait for their answer; not both");
  if (!o.has("rate") && !o.has("users") && targets.ttft_s == 0 && targets.tpot_s == 0)
    throw Error(
        ErrorKind::usage,
        "bench serve: how much load? Give --rate, or --users, or --ttft and --tpot to find how many users keep them");
  if (o.given("share") && (o.has("rate") || o.has("users")))
    throw Error(ErrorKind::usage, "--share: of a search for the most users, which --rate or --users leaves out");
  if (o.has("hardware") && o.has("url"))
    throw Error(ErrorKind::usage, "--hardware: a forecast is for MODEL; --url does not say which that is");
}

// A descriptor for each connection.
void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Loads one after another at one server.
class Bench {
 public:
  Bench(const Options& o, const LoadTarget& target, LoadMix mix) : begin_ns_(real_clock().now_ns()) {
    if (o.has("max-seconds")) most_s_ = o.real("max-seconds");
    load_ = {.server = target.address, .model = target.model, .mix = std::move(mix), .requests = o.integer("requests")};
    load_.mix.ids = target.ids;
    load_.stop = [this] {
      return stop_requested() || (most_s_ > 0 && seconds_between(begin_ns_, real_clock().now_ns()) > most_s_);
    };
  }
  // Two requests after each other, so that what a first one makes is there; how long the second took.
  double warm_up() {
    LoadSettings alone = load_;
    alone.mix.rate = 0, alone.users = alone.requests = 1;
    const LoadResult result = run_load(alone);
    if (result.measured.empty()) throw Error(ErrorKind::interrupted, "stopped before the first answer");
    const LoadRecord& r = result.measured.front();
    if (!r.ok()) throw Error(ErrorKind::usage, "the server does not answer a request alone: {}", r.error);
    begin_ns_ = real_clock().now_ns();
    return alone_s_ = r.end_s - r.due_s;
  }
  LoadResult run(int64_t users) {
    load_.users = users, load_.ramp_s = alone_s_;
    return run_load(load_);
  }
  double alone_s() const { return alone_s_; }

 private:
  LoadSettings load_;
  double most_s_ = 0, alone_s_ = 0;
  int64_t begin_ns_;
};

struct Search {
  int64_t users = 0;  // the most that keep the targets; 0: not even one
  bool cut = false;   // the time ended first: more users may keep them
  std::map<int64_t, LoadFigures> tried;
};

// Doubled until the targets are missed, then halved between.
Search most_users(Bench& bench, const LoadTargets& targets, double share) {
  Search s;
  const auto keeps = [&](int64_t users) {
    const LoadFigures f = load_figures(bench.run(users), targets);
    if (f.measured == 0) return s.cut = true, false;
    s.tried[users] = f;
    log_info("{}: {:.1f} % within the targets, first token {} (99 %: {}), {} per token", counted(users, "user"),
             100 * f.within, format_seconds(f.ttft.mean), format_seconds(f.ttft.p99), format_seconds(f.tpot.mean));
    return f.within >= share;
  };
  int64_t good = 0, bad = 1;
  while (bad <= kMostUsers && !stop_requested() && keeps(bad)) good = bad, bad *= 2;
  while (bad - good > 1 && !s.cut && !stop_requested()) {
    const int64_t middle = (good + bad) / 2;
    (keeps(middle) ? good : bad) = middle;
  }
  s.users = good;
  return s;
}

Json lengths_json(const SequenceLengths& l) { return {{"mean", l.mean()}, {"longest", l.longest()}}; }

struct MeasuredLoad {
  int64_t users = 0;  // 0: at a rate
  LoadFigures figures;
  std::optional<Search> search;
  std::optional<LoadForecast> forecast;
  std::optional<ProcessFigures> before, after;  // of the server that was started
  double alone_s = 0;
};

Json process_json(const ProcessFigures& f) {
  return {{"resident_bytes", f.resident_bytes},
          {"peak_resident_bytes", f.peak_resident_bytes},
          {"open_files", f.open_files}};
}

Json measured_json(const Options& o, const LoadTarget& target, const LoadMix& mix, const LoadTargets& targets,
                   const MeasuredLoad& m) {
  Json out = {{"model", target.model},
              {"seed", o.integer("seed")},
              {"prompt_tokens", lengths_json(mix.prompts)},
              {"answer_tokens", lengths_json(mix.answers)},
              {"alone_s", m.alone_s}};
  if (m.users > 0) out["users"] = m.users;
  if (mix.rate > 0) out["rate"] = mix.rate;
  if (targets.ttft_s > 0) out["targets"]["ttft_s"] = targets.ttft_s;
  if (targets.tpot_s > 0) out["targets"]["tpot_s"] = targets.tpot_s;
  out.update(load_json(m.figures));
  if (m.search) {
    out["share"] = o.real("share");
    out["users_within_targets"] = m.search->users;
    out["search_cut"] = m.search->cut;
    for (const auto& [users, figures] : m.search->tried) {
      out["search"].push_back(load_json(figures));
      out["search"].back()["users"] = users;
    }
  }
  if (m.forecast) out["forecast"] = forecast_json(*m.forecast);
  if (target.child)
    out["server"] = {{"ready", parse_json(target.ready, "the server")},
                     {"before", process_json(*m.before)},
                     {"after", process_json(*m.after)}};
  return out;
}

void print_measured(const Options& o, const LoadMix& mix, const LoadTargets& targets, const MeasuredLoad& m) {
  print_out(fmt::format("{}, prompts of {:.0f} tokens on average, answers of {:.0f}; seed {}\n",
                        m.users > 0 ? counted(m.users, "user") : fmt::format("{:.4g} requests/s", mix.rate),
                        mix.prompts.mean(), mix.answers.mean(), o.integer("seed")));
  print_out(load_text(m.figures, targets));
  if (m.search)
    print_out(fmt::format("{} within the targets (for {:.0f} % of requests or more){}\n",
                          m.search->users > 0 ? counted(m.search->users, "user") : "no user", 100 * o.real("share"),
                          m.search->cut ? "; the time ended before others were measured: --max-seconds" : ""));
  if (m.forecast) print_out(forecast_text(*m.forecast));
  if (m.after)
    print_out(fmt::format("the server: {} resident, {} before; {} files open, {} before\n",
                          format_bytes(m.after->resident_bytes), format_bytes(m.before->resident_bytes),
                          m.after->open_files, m.before->open_files));
}

}  // namespace

int run_bench_serve(const Options& options) {
  const LoadTargets targets = targets_of(options);
  check(options, targets);
  const LoadMix mix = mix_of(options);
  raise_open_files();
  const StopSignals signals;
  int64_t users = options.has("users") ? options.integer("users") : 0;
  LoadTarget target = load_target(options, mix.prompts.longest() + mix.answers.longest(), users > 0 ? users : kAtOnce);
  MeasuredLoad m;
  if (options.has("hardware"))
    m.forecast = load_forecast(*target.serve, options.text("hardware"), mix.prompts, mix.answers, users, targets);
  Bench bench(options, target, mix);
  m.alone_s = bench.warm_up();
  if (target.child) m.before = process_figures(target.child->pid());
  if (users == 0 && mix.rate == 0) {
    m.search = most_users(bench, targets, options.real("share"));
    users = std::max<int64_t>(m.search->users, 1);
    m.figures = m.search->tried[users];
  } else {
    m.figures = load_figures(bench.run(users), targets);
  }
  m.users = users;
  if (target.child) m.after = process_figures(target.child->pid());
  if (options.flag("json"))
    print_json(measured_json(options, target, mix, targets, m));
  else
    print_measured(options, mix, targets, m);
  if (target.child)
    if (const int code = target.child->end(); code != 0 && !stop_requested())
      throw Error(kind_of_exit(code), "the server ended with exit code {}", code);
  return stop_requested() ? 128 + stop_signal() : 0;
}

}  // namespace tern
