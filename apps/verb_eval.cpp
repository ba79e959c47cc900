// tern eval MODEL: perplexity of a text by a named convention, the distance to a reference model, or a task.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/eval_task.h"
#include "apps/eval_windows.h"
#include "apps/inference_weights.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/compare_models.h"
#include "eval/result_log.h"
#include "infer/load.h"
#include "kernels/dispatch.h"

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
  print_out(fmt::format("scored         {} of {} tokens, {} windows of {}, stride {}, {}\n",
                        format_with_commas(r.num_scored), format_with_commas(r.num_tokens),
                        format_with_commas(r.num_windows), r.window, r.stride, r.bos_rule));
}

InferenceNeeds needs_of(const EvalWindows& work, int64_t batch) {
  return {.context = work.report.window,
          .sequences = 0,
          .page_tokens = 16,
          .iteration_tokens = batch * work.report.window,
          .logit_rows = 0};
}

// What a results file must have been asked for.
Json question_of(const Options& options, const ModelDescription& model, const EvalWindows& work) {
  Json q = {{"model", weights_identity(model)},     {"data", file_identity(options.text("data"))},
            {"convention", work.report.convention}, {"window", work.report.window},
            {"stride", work.report.stride},         {"windows", work.windows.size()},
            {"bos", work.report.bos_rule},          {"dtype", name_of(model.dtype)}};
  if (in_integers(options)) q["arithmetic"] = options.text("arithmetic");
  if (const auto kv = kv_option(options, model.dtype)) q["kv_dtype"] = name_of(*kv);
  return q;
}

int stopped(const Error& error, bool resumable) {
  log_info("{}{}", error.what(), resumable ? "; the same command goes on" : "");
  return resumable ? static_cast<int>(ErrorKind::interrupted) : 128 + stop_signal();
}

void finish_json(const Options& options, const ModelDescription& model, Json out, double seconds) {
  out["model"] = options.positional("MODEL");
  out["data"] = options.text("data");
  out["dtype"] = name_of(model.dtype);
  out["kv_dtype"] = name_of(kv_option(options, model.dtype).value_or(kv_type_of(model.dtype)));
  out["arithmetic"] = options.text("arithmetic");
  out["instruction_set"] = name_of(active_isa());
  out["seconds"] = seconds;
  print_json(out);
}

int run_perplexity(const Options& options, const ModelDescription& model) {
  EvalWindows work = eval_windows(options, model);
  std::optional<ResultLog> log;
  if (options.has("output")) {
    log.emplace(real_io(), options.text("output"), question_of(options, model, work));
    tell_notes(log->notes());
  }
  std::vector<double> losses;
  if (log)
    for (const Json& row : log->done()) losses.push_back(row.at("loss").get<double>());
  if (losses.size() > work.windows.size())
    throw Error(ErrorKind::bad_file, "--output {}: {} results, there are {} windows", options.text("output"),
                losses.size(), work.windows.size());
  if (!losses.empty()) log_info("{} of {} windows are done already", losses.size(), work.windows.size());

  const int64_t batch = std::min(options.integer("batch"), static_cast<int64_t>(work.windows.size()));
  const MemoryBudget budget = memory_budget(options);
  const WeightsChoice choice = choose_weights(options, model, needs_of(work, batch), budget);
  Arena arena;
  const InferenceWeights loaded(options, model, choice, 0, arena, WeightsPass::batch);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  const size_t before = losses.size();
  try {
    Progress progress("eval", static_cast<int64_t>(work.windows.size()), real_clock(), {}, "windows");
    const auto more = window_losses_from(
        before, model.spec, loaded.weights(), work.windows, work.masks, batch, arena,
        [&](size_t first, std::span<const double> part) {
          if (log)
            for (const double loss : part) log->append({{"loss", loss}});
          progress.update(static_cast<int64_t>(first + part.size()));
          return !stop_requested();
        },
        kv_option(options, model.dtype));
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
    finish_json(options, model, std::move(out), seconds);
  } else {
    print_report(work.report);
    if (before == 0) log_info("{} tok/s", format_count(static_cast<double>(work.report.num_scored) / seconds));
  }
  return 0;
}

// Two models can be compared only if they read the text alike.
void check_same_tokens(const Options& options, const ModelDescription& model, const ModelDescription& reference) {
  if (!reference.tokenizer)
    throw Error(ErrorKind::bad_file, "--reference {}: there is no tokenizer", reference.dir.path);
  if (model.tokenizer->hash() == reference.tokenizer->hash()) return;
  std::string text = read_text(options.text("data"));
  text.resize(std::min<size_t>(text.size(), size_t{1} << 20));
  if (model.tokenizer->encode(text) != reference.tokenizer->encode(text))
    throw Error(ErrorKind::usage,
                "--reference {}: its tokenizer gives other ids; only models that read a text alike "
                "can be compared",
                reference.dir.path);
}

WindowDifference difference_of(const Json& row) {
  return {.tokens = row.at("tokens"),
          .same_top = row.at("same_top"),
          .kl = row.at("kl"),
          .kl_squares = row.at("kl_squares"),
          .kl_max = row.at("kl_max"),
          .loss = row.at("loss"),
          .reference_loss = row.at("reference_loss")};
}
Json row_of(const WindowDifference& d) {
  return {{"tokens", d.tokens},
          {"same_top", d.same_top},
          {"kl", d.kl},
          {"kl_squares", d.kl_squares},
          {"kl_max", d.kl_max},
          {"loss", d.loss},
          {"reference_loss", d.reference_loss}};
}

int run_compare_models(const Options& options, const ModelDescription& model) {
  const ModelDescription reference = describe_model(options.text("reference"), std::nullopt);  // --dtype is the model's
  tell_notes(reference);
  check_same_tokens(options, model, reference);
  const EvalWindows work = eval_windows(options, model);
  std::optional<ResultLog> log;
  if (options.has("output")) {
    Json question = question_of(options, model, work);
    question["reference"] = weights_identity(reference);
    log.emplace(real_io(), options.text("output"), question);
    tell_notes(log->notes());
  }
  std::vector<WindowDifference> all;
  if (log)
    for (const Json& row : log->done()) all.push_back(difference_of(row));
  if (all.size() > work.windows.size())
    throw Error(ErrorKind::bad_file, "--output {}: {} results, there are {} windows", options.text("output"),
                all.size(), work.windows.size());
  const int64_t batch = std::min(options.integer("batch"), static_cast<int64_t>(work.windows.size()));
  MemoryBudget budget = memory_budget(options);
  const int64_t others = inference_fit(reference.spec, reference.dtype, needs_of(work, batch)).total() +
                         4 * kCompareRows * 2 * model.spec.vocab;
  budget.bytes -= others;
  budget.source += fmt::format(", less {} for the reference", format_bytes(others));
  if (budget.program >= 0) budget.program += others;
  const WeightsChoice choice = choose_weights(options, model, needs_of(work, batch), budget);
  Arena arena;
  const InferenceWeights loaded(options, model, choice, 0, arena, WeightsPass::batch);
  const ModelWeights reference_weights = load_for_inference(reference, arena);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  try {
    Progress progress("compare", static_cast<int64_t>(work.windows.size()), real_clock(), {}, "windows");
    const ComparedModel compared{model.spec, loaded.weights(), kv_option(options, model.dtype)};
    compare_windows({reference.spec, reference_weights}, compared, work.windows, work.masks, batch, arena, all.size(),
                    [&](size_t first, const std::vector<WindowDifference>& part) {
                      for (const WindowDifference& d : part)
                        if (log) log->append(row_of(d));
                      all.insert(all.end(), part.begin(), part.end());
                      progress.update(static_cast<int64_t>(first + part.size()));
                      return !stop_requested();
                    });
    progress.finish();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    return stopped(error, log.has_value());
  }
  const CompareReport r = summarize(all);
  if (options.flag("json")) {
    finish_json(options, model,
                {{"reference", options.text("reference")},
                 {"convention", work.report.convention},
                 {"window", work.report.window},
                 {"stride", work.report.stride},
                 {"bos", work.report.bos_rule},
                 {"windows", work.windows.size()},
                 {"scored_tokens", r.tokens},
                 {"kl_divergence", r.mean_kl},
                 {"kl_divergence_stderr", r.kl_error},
                 {"kl_divergence_max", r.max_kl},
                 {"same_top", r.same_top},
                 {"same_top_stderr", r.same_top_error},
                 {"perplexity", r.perplexity},
                 {"reference_perplexity", r.reference_perplexity}},
                seconds_between(start_ns, real_clock().now_ns()));
    return 0;
  }
  print_out(
      fmt::format("KL divergence  {:.6f} ± {:.6f}   nats per token from the reference (0: alike), at most {:.4f}\n",
                  r.mean_kl, r.kl_error, r.max_kl));
  print_out(fmt::format("same top token {:.2f} ± {:.2f} %\n", 100 * r.same_top, 100 * r.same_top_error));
  print_out(fmt::format("perplexity     {:.4f}, of the reference {:.4f}\n", r.perplexity, r.reference_perplexity));
  print_out(fmt::format("scored         {} tokens, {} windows of {}, stride {}, {}\n", format_with_commas(r.tokens),
                        format_with_commas(static_cast<int64_t>(work.windows.size())), work.report.window,
                        work.report.stride, work.report.bos_rule));
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
  } catch (const Json::exception& error) {  // a key or a type of a result that another program wrote
    if (!options.has("output")) throw;
    throw Error(ErrorKind::bad_file,
                "--output {}: a result in it cannot be read ({}); remove the file, or name another",
                options.text("output"), error.what());
  }
}

}  // namespace tern
