// tern eval MODEL: perplexity of a text by a named convention, the distance to a reference model, or a task.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/eval_compare.h"
#include "apps/eval_flags.h"
#include "apps/eval_run.h"
#include "apps/eval_task.h"
#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/gated_losses.h"

namespace tern {
namespace {

Json report_json(const PerplexityReport& r) {
  Json json = {{"convention", r.convention},
               {"window", r.window},
               {"stride", r.stride},
               {"bos", r.bos_rule},
               {"windows", r.num_windows},
               {"tokens", r.num_tokens},
               {"scored_tokens", r.num_scored},
               {"sum_loss", r.sum_loss},
               {"perplexity", r.perplexity}};
  json["mean_loss"] = r.sum_loss / static_cast<double>(r.num_scored);
  if (r.num_pages > 0) json["pages"] = r.num_pages;
  if (r.num_words > 0) json.update({{"words", r.num_words}, {"word_perplexity", r.word_perplexity}});
  if (r.num_bytes > 0)
    json.update({{"bytes", r.num_bytes}, {"byte_perplexity", r.byte_perplexity}, {"bits_per_byte", r.bits_per_byte}});
  return json;
}

void print_report(const PerplexityReport& r) {
  print_out(fmt::format("perplexity     {:.4f}   (per token, convention {}: not comparable with other conventions)\n",
                        r.perplexity, r.convention));
  if (r.num_words > 0)
    print_out(fmt::format("per word       {:.4f}   ({} words)\n", r.word_perplexity, format_with_commas(r.num_words)));
  if (r.num_bytes > 0)
    print_out(fmt::format("bits per byte  {:.4f}   ({} bytes)\n", r.bits_per_byte, format_with_commas(r.num_bytes)));
  print_out(fmt::format("mean loss      {:.4f}   nats per token\n", r.sum_loss / static_cast<double>(r.num_scored)));
  print_out(fmt::format("scored         {} of {} tokens, {} of {}, stride {}, {}\n", format_with_commas(r.num_scored),
                        format_with_commas(r.num_tokens), counted(r.num_windows, "window"), r.window, r.stride,
                        r.bos_rule));
}

int run_perplexity(const Options& options, const ModelDescription& model) {
  EvalWindows work = eval_windows(options, model);
  std::optional<ResultLog> log;
  if (options.has("output")) open_log(options, question_of(options, model, work), log);
  std::vector<double> losses;
  if (log)
    for (const Json& row : log->done()) losses.push_back(row.at("loss").get<double>());
  check_done(options, losses.size(), work);
  if (!losses.empty()) log_info("{} of {} windows are done already", losses.size(), work.windows.size());

  const int64_t batch = windows_at_once(options, work);
  const MemoryBudget budget = memory_budget(options);
  InferenceNeeds needs = window_needs(work, batch);
  needs.adapters = model.beside;
  const WeightsChoice choice = choose_weights(options, model, needs, budget);
  Arena arena;
  const InferenceWeights loaded(options, model, choice, 0, arena, WeightsPass::batch);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  const size_t before = losses.size();
  try {
    Progress progress("eval", static_cast<int64_t>(work.windows.size()), real_clock(), {}, "windows");
    const OnLosses on_losses = [&](size_t first, std::span<const double> part) {
      if (log)
        for (const double loss : part) log->append({{"loss", loss}});
      progress.update(static_cast<int64_t>(first + part.size()));
      return !stop_requested();
    };
    const std::optional<KvType> kv = kv_option(options, model.dtype);
    const auto more = is_gated(model)
                          ? gated_window_losses(before, model.spec, loaded.weights(), read_gated_adapter(model.adapter),
                                                work.windows, work.masks, arena, on_losses, kv)
                          : window_losses_from(before, model.spec, loaded.weights(), work.windows, work.masks, batch,
                                               arena, on_losses, kv);
    losses.insert(losses.end(), more.begin(), more.end());
    progress.finish();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    return stopped(error, log.has_value());
  }
  derive_figures(work.report, work.windows, losses);
  const double seconds = seconds_between(start_ns, real_clock().now_ns());
  if (options.flag("json")) {
    Json out = report_json(work.report);
    if (loaded.streams()) out["streaming"] = loaded.json();
    print_figures(options, model, std::move(out), seconds);
  } else {
    print_report(work.report);
    if (before == 0) log_info("{} tok/s", format_count(static_cast<double>(work.report.num_scored) / seconds));
  }
  return 0;
}

}  // namespace

int run_eval(const Options& options) {
  apply_threads(options);
  check_eval_flags(options);
  const ModelDescription model = described_model(options);
  refuse_encoder(model, "eval");
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer; put the model's tokenizer.json beside config.json",
                model.dir.path);
  try {
    return naming_bad_weights(model, [&] {
      if (options.has("task")) return run_task(options, model);
      return options.has("reference") ? run_compare_models(options, model) : run_perplexity(options, model);
    });
  } catch (const Error& error) {  // a stop before anything was measured, while the text was packed
    if (error.kind() != ErrorKind::interrupted) throw;
    return stopped(error, false);
  } catch (const Json::exception& error) {  // a key or a type of a result that another program wrote
    if (!options.has("output")) throw;
    throw Error(ErrorKind::bad_file,
                "--output {}: a result in it cannot be read ({}); remove the file, or name another",
                options.text("output"), error.what());
  }
}

}  // namespace tern
