#include "apps/demo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/units.h"
#include "report/bar_chart.h"
#include "report/compare_runs.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/run_log.h"
#include "report/table.h"

namespace tern {
namespace {

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::optional<double> value_of(const MetricRow& row, const std::string& tag) {
  for (const auto& [name, value] : row.values)
    if (name == tag) return value;
  return std::nullopt;
}

// The tag under which the loss on held-out text is logged: eval/TASK/loss.
std::string held_out_tag(const std::vector<MetricRow>& rows) {
  for (const MetricRow& row : rows)
    for (const auto& [name, value] : row.values)
      if (name.starts_with("eval/") && name.ends_with("/loss")) return name;
  return "";
}

Series series(const std::string& name, const std::vector<MetricRow>& rows, const std::string& tag) {
  const TagSeries values = series_of({name, {rows, false}}, tag);
  return {.name = name, .x = {values.steps.begin(), values.steps.end()}, .y = values.values};
}

std::string loss_plot(const DemoFacts& f) {
  LinePlot plot{.title = "Loss", .x = {"step"}, .y = {"nats per token"}};
  plot.series.push_back(series("training", f.after, "train/loss"));
  if (f.killed_at_step > 0) {
    std::vector<MetricRow> lost;  // what the killed process had done past its last checkpoint
    for (const MetricRow& row : f.before)
      if (row.step >= f.resumed_from_step) lost.push_back(row);
    plot.series.push_back(series("lost to kill -9, and done again", lost, "train/loss"));
    plot.series.back().dashed = true;
  }
  plot.series.push_back(series("held-out text", f.after, held_out_tag(f.after)));
  plot.series.back().points = true;
  std::erase_if(plot.series, [](const Series& s) { return s.x.empty(); });
  return plot.series.empty() ? "" : svg(plot);
}

std::string resume_sentence(const DemoFacts& f) {
  if (f.killed_at_step == 0) return "Training ended before it could be killed, so nothing was resumed.";
  const Repeated r = repeated_rows(f);
  std::string text = fmt::format(
      "Killed with SIGKILL at step {} and started again with the same command: it went on from the checkpoint of step "
      "{}.",
      f.killed_at_step, f.resumed_from_step);
  if (r.rows > 0)
    text += fmt::format(
        " Of the {} logged steps that both processes did, {} gave the same loss and gradient norm to the last bit.",
        r.rows, r.equal);
  return text;
}

std::string verdict(const DemoFacts& f) {
  const std::string own = fmt::format("{:.3f} bits per byte on text it never saw", f.bits_per_byte);
  if (!f.xz_bits_per_byte)
    return own + "; xz is not installed, so there is nothing beside it (apt-get install xz-utils)";
  return own + fmt::format("; xz -9e needs {:.3f} for the whole text", *f.xz_bits_per_byte);
}

Table facts_table(const DemoFacts& f) {
  Table t{{{"what"}, {"value", Align::right}}, {}};
  const auto row = [&](std::string name, std::string value) { t.rows.push_back({std::move(name), std::move(value)}); };
  row("text", fmt::format("{}, {} bytes", f.source, format_with_commas(f.text_bytes)));
  if (f.overstrikes > 0) row("overstrikes taken out", format_with_commas(f.overstrikes));
  row("held out", fmt::format("{} bytes: {}", format_with_commas(f.held_out_bytes), f.how_held_out));
  row("vocabulary", format_with_commas(f.vocab_size));
  row("parameters", format_with_commas(f.parameters));
  row("training", fmt::format("{} steps of {} tokens", f.steps, format_with_commas(f.tokens_per_step)));
  row("speed", format_count(f.tokens_per_s) + " tokens/s");
  row("held-out bits per byte", fmt::format("{:.4f}", f.bits_per_byte));
  row("held-out perplexity per token", fmt::format("{:.2f}", f.perplexity));
  row("xz -9e, whole text, bits per byte",
      f.xz_bits_per_byte ? fmt::format("{:.4f}", *f.xz_bits_per_byte) : "xz is not installed");
  row("machine", f.machine);
  return t;
}

}  // namespace

Repeated repeated_rows(const DemoFacts& f) {
  // A step may have several rows (training, evaluation): compare the one with the training loss.
  std::map<int64_t, const MetricRow*> after;
  for (const MetricRow& row : f.after)
    if (value_of(row, "train/loss")) after[row.step] = &row;
  Repeated out;
  for (const MetricRow& row : f.before) {
    if (row.step <= f.resumed_from_step || row.step > f.killed_at_step || !value_of(row, "train/loss")) continue;
    ++out.rows;
    const auto again = after.find(row.step);
    if (again == after.end()) continue;
    bool equal = true;
    for (const char* tag : {"train/loss", "train/grad_norm"}) {
      const auto a = value_of(row, tag), b = value_of(*again->second, tag);
      equal = equal && a.has_value() == b.has_value() && (!a || same_bits(*a, *b));
    }
    out.equal += equal;
  }
  return out;
}

std::string loss_table(const std::vector<MetricRow>& rows) {
  constexpr size_t kRows = 6;
  const TagSeries train = series_of({"", {rows, false}}, "train/loss");
  const TagSeries held = series_of({"", {rows, false}}, held_out_tag(rows));
  Table t{{{"step", Align::right}, {"training loss", Align::right}, {"held-out loss", Align::right}}, {}};
  const size_t count = std::min(kRows, train.steps.size());
  for (size_t k = 0; k < count; ++k) {
    const size_t i = count < 2 ? 0 : k * (train.steps.size() - 1) / (count - 1);
    // The held-out loss at that step or the last one before it.
    const auto after = std::upper_bound(held.steps.begin(), held.steps.end(), train.steps[i]);
    const std::string value =
        after == held.steps.begin()
            ? "-"
            : fmt::format("{:.3f}", held.values[static_cast<size_t>(after - held.steps.begin()) - 1]);
    t.rows.push_back({fmt::format("{}", train.steps[i]), fmt::format("{:.3f}", train.values[i]), value});
  }
  return table_text(t);
}

std::string demo_summary(const DemoFacts& f) {
  return loss_table(f.after) + "\n" + resume_sentence(f) + "\n" + fmt::format("Result: {}.\n", verdict(f));
}

std::string demo_json(const DemoFacts& f, const std::string& report_path) {
  const Repeated r = repeated_rows(f);
  Json samples = Json::array(), stages = Json::object();
  for (const auto& [prompt, text] : f.samples) samples.push_back({{"prompt", prompt}, {"text", text}});
  for (const auto& [stage, seconds] : f.stage_seconds) stages[stage] = seconds;
  Json xz = nullptr;
  if (f.xz_bits_per_byte) xz = *f.xz_bits_per_byte;
  return dump_json(Json{{"bits_per_byte", f.bits_per_byte},
                        {"xz_bits_per_byte", xz},
                        {"perplexity", f.perplexity},
                        {"text_bytes", f.text_bytes},
                        {"train_bytes", f.train_bytes},
                        {"held_out_bytes", f.held_out_bytes},
                        {"vocab_size", f.vocab_size},
                        {"parameters", f.parameters},
                        {"steps", f.steps},
                        {"tokens_per_step", f.tokens_per_step},
                        {"tokens_per_s", f.tokens_per_s},
                        {"killed_at_step", f.killed_at_step},
                        {"resumed_from_step", f.resumed_from_step},
                        {"repeated_rows", r.rows},
                        {"repeated_rows_equal", r.equal},
                        {"samples", samples},
                        {"stage_seconds", stages},
                        {"report", report_path}},
                   1);
}

std::string demo_html(const DemoFacts& f) {
  HtmlPage page("tern demo");
  page.paragraph(fmt::format("A model of {} parameters, trained from nothing on this machine: {}.",
                             format_count(static_cast<double>(f.parameters)), verdict(f)));
  if (f.xz_bits_per_byte)
    page.svg(svg(BarChart{.title = "Bits per byte: lower is better",
                          .bars = {{"xz -9e", *f.xz_bits_per_byte, "the whole text"},
                                   {"tern", f.bits_per_byte, "held-out text"}}}),
             "Bits per byte. xz sees all of the text; the model is measured only on what it was not trained on, and "
             "its own size is not counted.");
  page.heading("Training");
  if (const std::string plot = loss_plot(f); !plot.empty())
    page.svg(plot, "The loss while training; the held-out text is never trained on.");
  page.paragraph(resume_sentence(f));
  page.heading("What it writes");
  for (const auto& [prompt, text] : f.samples) page.preformatted(prompt + text);
  page.heading("Facts");
  page.table(facts_table(f));
  Table stages{{{"stage"}, {"seconds", Align::right}}, {}};
  for (const auto& [stage, seconds] : f.stage_seconds) stages.rows.push_back({stage, fmt::format("{:.1f}", seconds)});
  page.table(stages);
  page.heading("The commands it ran");
  std::string commands;
  for (const std::string& command : f.commands) commands += command + "\n";
  page.preformatted(commands);
  return page.str();
}

}  // namespace tern
