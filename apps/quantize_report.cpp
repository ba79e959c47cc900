#include "apps/quantize_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/read_text.h"
#include "apps/signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/data/text_data.h"
#include "infer/memory_fit.h"
#include "model/unit_reader.h"
#include "report/bar_chart.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/table.h"

namespace tern {
namespace {

constexpr int64_t kWindow = 1024, kTokensAtOnce = 4096;  // of a pass over all units

int64_t window_of(const ModelDescription& model) { return std::min(kWindow, model_context(model)); }
int64_t batch_of(const ModelDescription& model) { return std::max<int64_t>(1, kTokensAtOnce / window_of(model)); }

std::string with_error(double value, double error, int digits) {
  return fmt::format("{:.{}f} ± {:.{}f}", value, digits, error, digits);
}
// As many digits as the error has.
std::string kl_words(const CompareReport& r) {
  const int digits = r.kl_error > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(r.kl_error))), 2, 9) : 6;
  return with_error(r.mean_kl, r.kl_error, digits);
}

std::string bits_words(const TextLoss& x, double loss, double error) {
  return x.bytes == 0 ? "" : with_error(x.per_byte(loss), x.per_byte(error), 4);
}

Table texts_table(const QuantizeReport& report) {
  Table t{{{"text"},
           {"tokens", Align::right},
           {"KL divergence, nats", Align::right},
           {"same top token, %", Align::right},
           {"perplexity", Align::right},
           {"before", Align::right},
           {"bits per byte", Align::right},
           {"before", Align::right}},
          {}};
  for (const TextLoss& x : report.texts) {
    const CompareReport& r = x.figures;
    t.rows.push_back({x.path, format_with_commas(r.tokens), kl_words(r),
                      with_error(100 * r.same_top, 100 * r.same_top_error, 2),
                      with_error(r.perplexity, r.perplexity * r.loss_error, 3),
                      with_error(r.reference_perplexity, r.reference_perplexity * r.reference_loss_error, 3),
                      bits_words(x, r.loss, r.loss_error), bits_words(x, r.reference_loss, r.reference_loss_error)});
  }
  return t;
}
Table tensors_table(const QuantizeReport& report) {
  Table t{{{"tensor"}, {"type"}, {"numbers", Align::right}, {"error, %", Align::right}}, {}};
  for (const auto& [e, type] : report.tensors)
    t.rows.push_back({e.parameter, type, format_with_commas(e.elements), fmt::format("{:.3f}", 100 * e.relative())});
  return t;
}

Json text_json(const TextLoss& x) {
  const CompareReport& r = x.figures;
  const auto figure = [](double value, double error) { return Json{{"value", value}, {"stderr", error}}; };
  Json json = {
      {"data", x.path},
      {"scored_tokens", r.tokens},
      {"kl_divergence", figure(r.mean_kl, r.kl_error)},
      {"kl_divergence_max", r.max_kl},
      {"same_top", figure(r.same_top, r.same_top_error)},
      {"perplexity", figure(r.perplexity, r.perplexity * r.loss_error)},
      {"reference_perplexity", figure(r.reference_perplexity, r.reference_perplexity * r.reference_loss_error)}};
  if (x.bytes == 0) return json;
  json["bytes"] = x.bytes;
  json["bits_per_byte"] = figure(x.per_byte(r.loss), x.per_byte(r.loss_error));
  json["reference_bits_per_byte"] = figure(x.per_byte(r.reference_loss), x.per_byte(r.reference_loss_error));
  return json;
}

std::string summary(const Json& run) {
  const auto words = [&](const char* key) { return run.at(key).get<std::string>(); };
  std::string text = fmt::format(
      "{} by {}: {} ({} bytes), {:.3f} bits per weight, everything in the file counted; matrices in {}, "
      "tables of tokens in {}; rounding error {:.2f} % of the weights' root mean square",
      words("model"), words("method"), words("output"), format_with_commas(run.at("bytes").get<int64_t>()),
      run.at("bits_per_weight").get<double>(), words("type"), words("table_type"),
      100 * run.at("relative_error").get<double>());
  if (const auto tokens = run.at("calibration_tokens").get<int64_t>(); tokens > 0)
    text += fmt::format("; {} tokens for calibration", format_with_commas(tokens));
  return text;
}
constexpr std::string_view kHow =
    "± is one standard error over tokens. KL divergence of the original's prediction from the quantized model's, per "
    "token; "
    "windows of at most 1,024 tokens, both models computed in f32. A tensor's error is the root of the sum of its "
    "squared "
    "errors over that of its squares.";

std::string text_of(const QuantizeReport& report) {
  std::string out = summary(report.run) + "\n\n";
  if (!report.texts.empty()) out += table_text(texts_table(report)) + "\n";
  return out + table_text(tensors_table(report)) + "\n" + std::string(kHow) + "\n";
}

std::string html_of(const QuantizeReport& report) {
  HtmlPage page(fmt::format("{} in fewer bits", report.run.at("model").get<std::string>()));
  page.paragraph(summary(report.run));
  if (!report.texts.empty()) {
    page.heading("What it predicts");
    page.table(texts_table(report));
    BarChart chart{.title = "KL divergence, nats per token"};
    for (const TextLoss& x : report.texts)
      chart.bars.push_back({x.path, x.figures.mean_kl, fmt::format("± {:.2g}", x.figures.kl_error)});
    page.svg(svg(chart), "How far predictions moved, by text");
  }
  page.heading("Tensor by tensor");
  BarChart errors{.title = "Error of each tensor", .unit = "%"};
  for (const auto& [e, type] : report.tensors)
    if (e.different > 0) errors.bars.push_back({e.parameter, 100 * e.relative(), type});
  if (!errors.bars.empty()) page.svg(svg(errors), "Of its root mean square; tensors that are the same are left out");
  page.table(tensors_table(report));
  page.paragraph(kHow);
  return page.str();
}

}  // namespace

double TextLoss::per_byte(double loss) const {
  return bytes > 0 ? loss * static_cast<double>(figures.tokens) / (static_cast<double>(bytes) * std::log(2.0)) : 0;
}

TextLoss measure_text(const ModelDescription& original, const std::string& quantized, const std::string& path) {
  if (!original.tokenizer)
    throw Error(ErrorKind::usage, "--valid-data {}: {} has no tokenizer to read it with", path, original.dir.path);
  const Tokenizer& tokenizer = *original.tokenizer;
  const std::string text = read_text(path);
  check_text(text, path);
  const std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = false});
  const int64_t window = window_of(original);
  const int32_t prefix = tokenizer.bos() ? *tokenizer.bos() : tokenizer.eos().value_or(-1);
  const std::vector<Window> windows = stride_windows(tokens, window, std::max<int64_t>(1, window - 1), prefix);
  if (windows.empty()) throw Error(ErrorKind::bad_file, "--valid-data {}: no token to measure on", path);
  Arena arena;
  UnitReader from(original.spec, original.dir.path, arena), to(original.spec, quantized, arena);
  WindowDifference sum;
  Progress progress("measure", static_cast<int64_t>(windows.size()), real_clock(), {}, "windows of " + path);
  compare_windows({original.spec, from}, {original.spec, to}, windows, {}, batch_of(original), arena, 0,
                  [&](size_t first, const std::vector<WindowDifference>& part) {
                    for (const WindowDifference& d : part) sum += d;
                    progress.update(static_cast<int64_t>(first + part.size()));
                    return !stop_requested();
                  });
  progress.finish();
  return {path, prefix >= 0 ? static_cast<int64_t>(text.size()) : 0, summarize(sum)};
}

int64_t measuring_bytes(const ModelDescription& model) {
  const int64_t window = window_of(model);
  const InferenceFit fit =
      inference_fit(model.spec, DType::f32,
                    {.context = window, .sequences = 0, .iteration_tokens = batch_of(model) * window, .logit_rows = 0});
  // Two units and what their largest matrix is packed to; rows of both models; logits as they are compared.
  const int64_t hidden = batch_of(model) * window * model.spec.width * size_of(DType::f32);
  return 2 * UnitReader::peak_bytes(model.spec) + fit.running() + fit.beside + hidden +
         4 * kCompareRows * 4 * model.spec.vocab;
}

void require_report_name(const std::string& path) {
  if (path.ends_with(".txt") || path.ends_with(".json") || path.ends_with(".html")) return;
  throw Error(ErrorKind::usage, "--report {}: let its name end in .txt, .json or .html", make_printable(path));
}

std::string report_file(const QuantizeReport& report, const std::string& path) {
  if (path.ends_with(".html")) return html_of(report);
  if (path.ends_with(".txt")) return text_of(report);
  Json json = report.run;
  json["texts"] = Json::array();
  for (const TextLoss& x : report.texts) json["texts"].push_back(text_json(x));
  for (size_t i = 0; i < report.tensors.size(); ++i) json["tensors"][i]["type"] = report.tensors[i].type;
  return dump_json(json, 2) + "\n";
}

}  // namespace tern
