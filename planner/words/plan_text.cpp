#include "planner/words/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

std::string layers_text(const Plan& p) {
  std::string text = "\nlayers\n";
  for (const PlannedLayers& l : p.layers)
    text +=
        fmt::format("  {:>9}  stage {:<4} {}\n",
                    l.count == 1 ? fmt::format("{}", l.first) : fmt::format("{}-{}", l.first, l.first + l.count - 1),
                    l.stage, to_string(l.strategy));
  return text;
}

// A row of each rank's device, and of the host and disk where something lies there: all, what there is, by class.
std::string memory_text(const Plan& p, const std::vector<PlannedMemoryByTier>& memory) {
  const bool mixed =
      std::any_of(p.ranks.begin(), p.ranks.end(), [&](const auto& r) { return r.node != p.ranks[0].node; });
  std::string titles;
  const auto width = [](std::string_view title) { return std::max<size_t>(title.size(), 9); };
  for (const std::string_view title : kMemoryTitles) titles += fmt::format(" {:>{}}", title, width(title));
  std::string text =
      fmt::format("\n{:<18} {:>9} {:>9}{} {:>8}\n", "memory per device", "at most", "of", titles, "busy");
  for (size_t r = 0; r < p.ranks.size(); ++r) {
    if (p.ranks.size() > 12 && r >= 6 && r + 6 < p.ranks.size()) {
      if (r == 6) text += "  …\n";
      continue;
    }
    const PlannedRank& rank = p.ranks[r];
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      const size_t at = static_cast<size_t>(tier);
      if (tier != Tier::device && rank.peak[at] == 0) continue;
      std::string line = tier != Tier::device ? fmt::format("    {}", name_of(tier))
                                              : fmt::format("  rank {}{}", r, mixed ? ", " + rank.node : "");
      line = fmt::format("{:<18} {:>9} {:>9}", line, format_bytes(rank.peak[at]), format_bytes(rank.capacity[at]));
      const std::array<int64_t, 5> parts = memory_parts(memory[r][at]);
      for (size_t i = 0; i < parts.size(); ++i)
        line += fmt::format(" {:>{}}", format_bytes(parts[i]), width(kMemoryTitles[i]));
      if (tier == Tier::device)
        line += fmt::format(" {:>6.1f} %", 100.0 * static_cast<double>(rank.busy_ps) / static_cast<double>(p.step_ps));
      text += line + "\n";
    }
  }
  return text + labelled("", fmt::format("({})", kMemoryWords));
}

// "zero 1, recompute full (10 of 34)": the strategies of most layers first.
std::string strategies_text(const Plan& p) {
  std::vector<std::pair<std::string, int>> counts;
  int all = 0;
  for (const PlannedLayers& l : p.layers) {
    all += l.count;
    const std::string words = to_string(l.strategy);
    const auto at = std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == words; });
    if (at == counts.end())
      counts.emplace_back(words, l.count);
    else
      at->second += l.count;
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (counts.size() == 1) return fmt::format("{} (all {})", counts[0].first, all);
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min<size_t>(counts.size(), 3); ++i)
    words.push_back(fmt::format("{} ({} of {})", counts[i].first, counts[i].second, all));
  if (counts.size() > 3) words.push_back(fmt::format("{} more ways", counts.size() - 3));
  return join(words, "; ");
}

// Of the device that has least room left, and of its host and disk where something lies there.
std::string fullest_text(const Plan& p) {
  size_t fullest = 0;
  const auto room = [&](size_t r) { return p.ranks[r].capacity[0] - p.ranks[r].peak[0]; };
  for (size_t r = 1; r < p.ranks.size(); ++r)
    if (room(r) < room(fullest)) fullest = r;
  const PlannedRank& rank = p.ranks[fullest];
  std::string text =
      fmt::format("{} of {} on the fullest device", format_bytes(rank.peak[0]), format_bytes(rank.capacity[0]));
  for (const Tier tier : {Tier::host, Tier::disk}) {
    int64_t most = 0;
    for (const PlannedRank& r : p.ranks) most = std::max(most, r.peak[static_cast<size_t>(tier)]);
    if (most > 0) text += fmt::format(", {} on the {}", format_bytes(most), name_of(tier));
  }
  return text;
}

// What --tp-comm-overlap does to the plan's time.
std::string overlap_words(const Plan& p, const NodeType& node) {
  if (p.choice.mesh.tensor == 1) return "no rows to exchange beside products (--tp-comm-overlap): tp 1";
  if (shares_cores(node))
    return "exchanges of rows pass beside products (--tp-comm-overlap), priced as if behind them: devices share cores";
  return "exchanges of rows pass beside products (--tp-comm-overlap)";
}

const NodeType& first_node(const Cluster& cluster) {
  return cluster.nodes[static_cast<size_t>(cluster.groups[0].node)];
}

// The answer, one line under each key.
std::string facts_text(const Plan& p, const Cluster& cluster, const PlanTextOptions& options) {
  std::string text;
  const auto line = [&](std::string_view key, const std::string& words) { text += labelled(key, words); };
  line("model", fmt::format("{}, {} parameters, {} sequences of {} tokens a step", p.model,
                            format_count(static_cast<double>(p.parameters)), format_with_commas(p.job.batch),
                            format_with_commas(p.job.seq)));
  line("hardware", fmt::format("{}: {} of {} devices{}{}", p.hardware, format_with_commas(p.choice.devices()),
                               format_with_commas(cluster.num_devices()),
                               p.idle_devices ? fmt::format(", {} idle", format_with_commas(p.idle_devices)) : "",
                               cluster.groups.size() > 1 ? ", on " + p.node : ""));
  line("plan", to_string(p.choice));
  line("layers", strategies_text(p));
  line("step", fmt::format("{}, {} {}tokens/s, {} of the devices' peak for the model's own work", step_words(p.step_ps),
                           format_count(p.tokens_per_second()), p.job.lengths.given() ? "real " : "",
                           percent_words(p.flops_share)));
  const NodeType& node = first_node(cluster);
  if (p.job.tensor_overlap) line("", overlap_words(p, node));
  if (p.program && shares_cores(node))
    line("", fmt::format("{} if a device that waits leaves its core to the others ({} of {} can compute at once)",
                         step_words(p.program->step_ps), node.devices_at_once, node.num_devices));
  if (!options.uncalibrated.empty()) line("", options.uncalibrated);
  if (p.error) line("error bar", error_bar_words(*p.error));
  line("memory", fullest_text(p));
  if (p.price_per_hour > 0)
    line(
        "price",
        fmt::format(
            "{:.2f} per hour, {:.4f} per million tokens{}", p.price_per_hour,
            p.price_per_hour / 3600 / p.tokens_per_second() * 1e6,
            " (of the devices in use; US dollars in the machines that come with tern, else as the prices were given)"));
  line("limited by", p.binds);
  const auto limits = static_cast<int64_t>(p.restrictions.size());
  line("proof",
       fmt::format("no choice is faster than {}: simulator gap {}, model gap {}{}", step_words(p.bound_ps),
                   percent_words(p.simulator_gap()), percent_words(p.model_gap()),
                   options.details || limits == 0 ? "" : fmt::format("; within {}", counted(limits, "limit"))));
  if (options.details) return text;
  for (const std::string& note : options.notes) line("within", note);
  line("more", "--details: the search and its limits, layers, memory of each rank, rivals, what to measure first");
  return text;
}

// How the answer was found, and what it speaks of.
std::string search_text(const PlanAnswer& a, const Cluster& cluster) {
  const Plan& p = a.plan;
  std::string text = "\n";
  const auto line = [&](std::string_view key, const std::string& words) { text += labelled(key, words); };
  line("words",
       "tp, cp, ep, dp: ranks by tensor, context, expert × its tensor, data; pp: stages × chunks on each; "
       "micro-batch: sequences × how many");
  if (p.program && shares_cores(first_node(cluster)))
    line("program", fmt::format("its {}, one by one, take the second time of the step above",
                                counted(p.program->instructions, "instruction")));
  else if (p.program)
    line("program", program_words(p));
  line("search", fmt::format("{} outer choices: {} closed by a bound, {} by search, {} open; {} {}, {} in {}",
                             format_with_commas(p.counts.legal), format_with_commas(p.counts.by_bound),
                             format_with_commas(p.counts.by_search), format_with_commas(p.counts.open),
                             format_with_commas(a.searches), a.searches == 1 ? "search" : "searches",
                             counted(a.simulated, "simulation"), format_seconds(a.seconds)));
  for (const std::string& r : p.restrictions) line("within", r);
  return text;
}

std::string rivals_text(const Plan& p) {
  if (p.families.empty()) return "";
  size_t width = 26;
  for (const PlannedFamily& f : p.families) width = std::max(width, display_width(f.feature));
  std::string text = fmt::format("\n{:<{}} {:>10} {:>10}  choice\n", "rivals", width + 2, "at least", "at most");
  for (const PlannedFamily& f : p.families)
    text += fmt::format("  {}{} {:>10} {:>10}  {}\n", f.feature, std::string(width - display_width(f.feature), ' '),
                        f.fits ? step_words(f.bound_ps) : "no room", f.found ? step_words(f.step_ps) : "",
                        rival_words(p, f));
  return text;
}

}  // namespace

std::string percent_words(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::array<int64_t, 5> memory_parts(const PlannedMemory& m) {
  return {m.weights, m.gradients, m.optimizer, m.activations, m.buffers};
}

std::string step_words(int64_t ps) {
  const double s = static_cast<double>(ps) * 1e-12;
  if (ps == 0) return "0 s";
  // From here on minutes have as many digits.
  if (s >= 1000) return format_seconds(s);
  const auto [unit, scale] = s >= 1 ? std::pair("s", 1.0) : s >= 1e-3 ? std::pair("ms", 1e3) : std::pair("us", 1e6);
  const double x = s * scale;
  return fmt::format("{:.{}f} {}", x, x >= 1000 ? 0 : x >= 100 ? 1 : x >= 10 ? 2 : 3, unit);
}

// The span is that of docs/calibration.md: rows of benchmarks/planner/published/ without a calibration.
std::string uncalibrated_words(const Cluster& cluster) {
  const bool measured = std::any_of(cluster.devices.begin(), cluster.devices.end(),
                                    [](const DeviceType& d) { return d.engine == "tern"; });
  return measured ? ""
                  : "uncalibrated: rates of data sheets; published runs took 0.74 to 2.59 times as long "
                    "(docs/calibration.md)";
}

std::string program_words(const Plan& p) {
  const PlannedProgram& program = *p.program;
  const std::string list = fmt::format("its Program of {}", counted(program.instructions, "instruction"));
  if (program.step_ps == p.step_ps) return list + " takes the same time, instruction by instruction";
  return fmt::format("{} takes {}, instruction by instruction ({:+.2f} %)", list, step_words(program.step_ps),
                     100 * (static_cast<double>(program.step_ps) / static_cast<double>(p.step_ps) - 1));
}

std::string rival_words(const Plan& p, const PlannedFamily& f) {
  if (f.found || !f.fits) return f.choice;
  return f.bound_ps >= p.step_ps ? "none: closed by its bound" : "none seen; the bound leaves it open";
}

std::string error_bar_words(const PlannedError& e) {
  const std::string span = fmt::format("{} to {}", step_words(e.low_ps), step_words(e.high_ps));
  const std::string half = fmt::format("half within {:.2f} %", 100 * e.median);
  if (e.rows >= 20)
    return fmt::format("{} in 90 % of {} runs of {} that were left out; {}", span, e.rows, e.software, half);
  if (e.rows == 1) return fmt::format("{}, where the only run of {} that was left out lay", span, e.software);
  return fmt::format("{}, where all {} runs of {} that were left out lay; {}", span, e.rows, e.software, half);
}

std::string plan_text(const PlanAnswer& a, const Cluster& cluster, const PlanTextOptions& options) {
  const std::string facts = facts_text(a.plan, cluster, options);
  return options.details ? facts + search_text(a, cluster) + layers_text(a.plan) + memory_text(a.plan, a.memory) +
                               rivals_text(a.plan)
                         : facts;
}

}  // namespace tern
