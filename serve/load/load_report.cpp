#include "serve/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

Json json_of(const LoadTimes& t) {
  return {{"mean", t.mean}, {"median", t.median}, {"p90", t.p90}, {"p99", t.p99}, {"most", t.most}};
}

std::string row(std::string_view name, const LoadTimes& t) {
  return fmt::format("{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}\n", name, format_seconds(t.mean),
                     format_seconds(t.median), format_seconds(t.p90), format_seconds(t.p99), format_seconds(t.most));
}

}  // namespace

LoadTimes load_times(std::vector<double> v) {
  if (v.empty()) return {};
  std::ranges::sort(v);
  LoadTimes t;
  for (const double x : v) t.mean += x;
  t.mean /= static_cast<double>(v.size());
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(v.size())));
    return v[std::max<size_t>(rank, 1) - 1];
  };
  t.median = at(0.5), t.p90 = at(0.9), t.p99 = at(0.99), t.most = v.back();
  return t;
}

LoadFigures load_figures(const LoadResult& result, const LoadTargets& targets) {
  LoadFigures f;
  std::vector<double> ttft, tpot, gap, whole, late;
  int64_t within = 0;
  for (const LoadRecord& r : result.measured) {
    ++f.measured;
    late.push_back(r.sent_s - r.due_s);
    if (!r.ok()) {
      ++(r.status == 429 || r.status == 503 ? f.refused : f.failed);
      if (f.first_error.empty()) f.first_error = r.error;
      continue;
    }
    ++f.answered;
    ttft.push_back(r.ttft_s()), whole.push_back(r.end_s - r.due_s);
    if (r.written_tokens > 1) tpot.push_back(r.tpot_s()), gap.push_back(r.longest_gap_s);
    within +=
        (targets.ttft_s == 0 || r.ttft_s() <= targets.ttft_s) && (targets.tpot_s == 0 || r.tpot_s() <= targets.tpot_s);
  }
  f.ttft = load_times(ttft), f.tpot = load_times(tpot), f.gap = load_times(gap), f.whole = load_times(whole);
  f.late = load_times(late);
  if (f.measured == 0) return f;
  f.seconds = std::max(result.end_s - result.begin_s, 1e-9);
  f.requests_per_s = static_cast<double>(result.ended) / f.seconds;
  f.prompt_tokens_per_s = static_cast<double>(result.ended_prompt_tokens) / f.seconds;
  f.output_tokens_per_s = static_cast<double>(result.ended_tokens) / f.seconds;
  f.in_flight = result.in_flight;
  f.within = static_cast<double>(within) / static_cast<double>(f.measured);
  if (f.answered > 0)
    f.goodput_per_s = f.requests_per_s * static_cast<double>(within) / static_cast<double>(f.answered);
  return f;
}

Json load_json(const LoadFigures& f) {
  Json out = {{"measured", f.measured},
              {"answered", f.answered},
              {"refused", f.refused},
              {"failed", f.failed},
              {"seconds", f.seconds},
              {"ttft_s", json_of(f.ttft)},
              {"tpot_s", json_of(f.tpot)},
              {"longest_gap_s", json_of(f.gap)},
              {"whole_s", json_of(f.whole)},
              {"sent_late_s", json_of(f.late)},
              {"requests_per_s", f.requests_per_s},
              {"prompt_tokens_per_s", f.prompt_tokens_per_s},
              {"output_tokens_per_s", f.output_tokens_per_s},
              {"mean_in_flight", f.in_flight},
              {"within_targets", f.within},
              {"goodput_per_s", f.goodput_per_s}};
  if (!f.first_error.empty()) out["first_error"] = f.first_error;
  return out;
}

std::string load_text(const LoadFigures& f, const LoadTargets& targets) {
  std::string text =
      fmt::format("{} measured in {}: {} answered, {} refused, {} failed\n", counted(f.measured, "request"),
                  format_seconds(f.seconds), f.answered, f.refused, f.failed);
  if (!f.first_error.empty()) text += fmt::format("first error: {}\n", make_printable(f.first_error));
  if (f.answered > 0) {
    text += fmt::format("\n{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "", "mean", "median", "90 %", "99 %", "most");
    text += row("first token", f.ttft) + row("per token after it", f.tpot) + row("longest gap", f.gap) +
            row("whole answer", f.whole) + row("sent late", f.late);
  }
  text += fmt::format(
      "\n{:.3g} requests/s, {:.4g} tokens/s written, {:.4g} tokens/s read; {:.3g} requests at once on average\n",
      f.requests_per_s, f.output_tokens_per_s, f.prompt_tokens_per_s, f.in_flight);
  if (targets.ttft_s > 0 || targets.tpot_s > 0) {
    std::string of;
    if (targets.ttft_s > 0) of = fmt::format("first token {}", format_seconds(targets.ttft_s));
    if (targets.tpot_s > 0) of += fmt::format("{}{} per token", of.empty() ? "" : ", ", format_seconds(targets.tpot_s));
    text += fmt::format("{:.1f} % within the targets ({}): {:.3g} requests/s\n", 100 * f.within, of, f.goodput_per_s);
  }
  return text;
}

}  // namespace tern
