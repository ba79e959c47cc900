#include "apps/bench_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/plot.h"
#include "report/table.h"

namespace tern {
namespace {

// Linear between neighbours: the quartiles of two values are not their ends.
double quantile(const std::vector<double>& sorted, double at) {
  const double place = at * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::string rate_text(double rate, const std::string& unit) {
  if (unit == "B/s") return fmt::format("{:.1f} GB/s", rate / 1e9);
  return fmt::format("{:.1f} G{}", rate / 1e9, unit);
}

// Nothing is faster than its limit: what measures more of it, beyond noise, shows that the limit was measured too low.
constexpr double kAboveLimit = 1.05;

std::string share_text(const RoundSpread& share) {
  if (!share.tells()) return fmt::format("{:.0f} %?", 100 * share.median);
  if (!share.conclusive()) return fmt::format("noise: {:.0f}–{:.0f} %", 100 * share.low, 100 * share.high);
  return fmt::format("{}{:.0f} %", share.median > kAboveLimit ? "above: " : "", 100 * share.median);
}

}  // namespace

RoundSpread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75), values.back(), values.size()};
}

std::vector<BenchResult> run_rounds(const std::vector<BenchTask>& tasks, int rounds,
                                    const std::function<bool(int round)>& told) {
  std::vector<BenchResult> results;
  for (const BenchTask& task : tasks) {
    BenchTask kept = task;
    kept.once = {};
    results.push_back({.task = kept});
  }
  for (const BenchTask& task : tasks) {
    if (told && !told(0)) return results;
    task.once();  // pages, generated kernels, frequencies
  }
  for (int round = 0; round < rounds; ++round) {
    std::map<std::string, double> limits;  // the best of this round
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (told && !told(round)) {  // what was measured of this round is dropped
        for (size_t before = 0; before < i; ++before) results[before].rates.pop_back();
        return results;
      }
      const double rate = tasks[i].once();
      results[i].rates.push_back(rate);
      if (tasks[i].against.empty()) limits[tasks[i].name] = std::max(limits[tasks[i].name], rate);
    }
    for (size_t i = 0; i < tasks.size(); ++i)
      if (const auto limit = limits.find(tasks[i].against); !tasks[i].against.empty() && limit != limits.end())
        results[i].shares.push_back(results[i].rates.back() / limit->second);
  }
  return results;
}

Json bench_json(const std::vector<BenchResult>& results) {
  Json list = Json::array();
  for (const BenchResult& r : results) {
    const RoundSpread rate = spread(r.rates), share = spread(r.shares);
    Json one = {{"name", r.task.name},
                {"what", r.task.what},
                {"unit", r.task.unit},
                {"median", rate.median},
                {"quartiles", {rate.low, rate.high}},
                {"best", rate.best},
                {"rounds", rate.count},
                {"rates", r.rates},
                {"conclusive", rate.conclusive()}};
    if (!r.task.natural.empty()) { one[r.task.natural] = rate.median * r.task.per_second; }
    if (!r.shares.empty()) {
      one["share_of"] = r.task.against;
      one["share"] = share.conclusive() ? Json(share.median) : Json(nullptr);
      one["share_quartiles"] = {share.low, share.high};
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::string bench_text(const std::vector<BenchResult>& results) {
  Table limits{{{"limit", Align::left},
                {"median", Align::right},
                {"best", Align::right},
                {"spread", Align::right},
                {"how", Align::left}},
               {}};
  Table work{{{"work", Align::left},
              {"rate", Align::right},
              {"median", Align::right},
              {"share", Align::right},
              {"of", Align::left},
              {"what", Align::left}},
             {}};
  bool noisy = false, few = false, above = false;
  for (const BenchResult& r : results) {
    const RoundSpread rate = spread(r.rates);
    if (r.task.against.empty()) {
      few |= !rate.tells();
      noisy |= rate.tells() && !rate.conclusive();
      limits.rows.push_back({r.task.name, rate_text(rate.median, r.task.unit), rate_text(rate.best, r.task.unit),
                             !rate.tells() || rate.median <= 0
                                 ? "-"
                                 : fmt::format("{:.0f} %", 100 * (rate.high - rate.low) / rate.median),
                             r.task.what});
    } else {
      const RoundSpread share = spread(r.shares);
      few |= !share.tells();
      noisy |= share.tells() && !share.conclusive();
      above |= share.conclusive() && share.median > kAboveLimit;
      work.rows.push_back({r.task.name,
                           r.task.natural.empty()
                               ? "-"
                               : fmt::format("{} {}", format_count(rate.median * r.task.per_second), r.task.natural),
                           rate_text(rate.median, r.task.unit), share_text(share), r.task.against, r.task.what});
    }
  }
  std::string text = table_text(limits);
  if (!work.rows.empty()) text += "\n" + table_text(work);
  text +=
      "\nspread: distance of the quartiles. A share is the median over rounds of rate / limit in the same round. The\n"
      "matrix units' limit is of multiply-adds in registers: no memory, no cache, no packing.\n";
  if (few)
    text += fmt::format("{} or fewer rounds tell no spread: no conclusion is drawn; give --rounds {} or more.\n",
                        RoundSpread::kLeastRounds - 1, RoundSpread::kLeastRounds);
  if (noisy)
    text +=
        "Some figures spread by more than 10 %: something else uses this machine. No conclusion is drawn from them; "
        "try\n"
        "again when it is quiet, or with more --rounds.\n";
  if (above)
    text +=
        "Work above its limit: the limit was measured too low, as where another program held a core meanwhile. Its "
        "shares\n"
        "say nothing; try again when the machine is quiet.\n";
  return text;
}

std::string bench_roofline(const std::vector<BenchResult>& results) {
  double memory = 0;
  std::map<std::string, double> roofs;
  for (const BenchResult& r : results) {
    if (!r.task.against.empty()) continue;
    const double median = spread(r.rates).median;
    if (r.task.name == "memory read") memory = median;
    if (r.task.unit == "FLOP/s") roofs[r.task.name] = std::max(roofs[r.task.name], median);
  }
  const bool work = std::any_of(results.begin(), results.end(),
                                [](const BenchResult& r) { return r.task.intensity > 0 && !r.rates.empty(); });
  LinePlot plot{.title = work ? "This machine's roofs, and tern's work under them" : "This machine's roofs",
                .x = {"FLOPs per byte of memory traffic", Scale::log},
                .y = {"GFLOP/s", Scale::log}};
  for (const auto& [name, roof] : roofs) {
    Series s{.name = name};
    std::vector<double> xs;
    for (double x = 0.25; x <= 8192; x *= 2) xs.push_back(x);
    // The corner itself, or the line between its neighbours would cut it off.
    if (const double ridge = memory > 0 ? roof / memory : 0; ridge > xs.front() && ridge < xs.back())
      xs.insert(std::upper_bound(xs.begin(), xs.end(), ridge), ridge);
    for (const double x : xs) {
      s.x.push_back(x);
      s.y.push_back(std::min(roof, memory * x) / 1e9);
    }
    if (memory > 0) plot.series.push_back(std::move(s));
  }
  for (const BenchResult& r : results)
    if (r.task.intensity > 0 && !r.rates.empty()) {
      const double rate = spread(r.rates).median;
      const double flops = r.task.unit == "B/s" ? rate * r.task.intensity : rate;
      plot.series.push_back({.name = r.task.name, .x = {r.task.intensity}, .y = {flops / 1e9}, .points = true});
    }
  return svg(plot);
}

}  // namespace tern
