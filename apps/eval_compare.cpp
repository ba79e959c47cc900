#include "apps/eval_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/eval_run.h"
#include "apps/identity.h"
#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/compare_models.h"
#include "eval/gated_losses.h"

namespace tern {
namespace {

// Two models can be compared only if they read the text alike.
void check_same_tokens(const Options& options, const ModelDescription& model, const ModelDescription& reference) {
  if (!reference.tokenizer)
    throw Error(ErrorKind::bad_file, "--reference {}: there is no tokenizer", reference.dir.path);
  if (model.tokenizer->hash() == reference.tokenizer->hash()) return;
  std::string text = read_text(options.text("data"), {.bytes = text_room(options)});
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

// What is left beside the reference, which is there whole, and the rows of logits that are compared.
MemoryBudget budget_beside(const ModelDescription& reference, const Options& options, const ModelDescription& model,
                           const InferenceNeeds& needs) {
  MemoryBudget budget = memory_budget(options);
  const int64_t others =
      inference_fit(reference.spec, reference.dtype, needs).total() + 4 * kCompareRows * 2 * model.spec.vocab;
  budget.bytes -= others;
  budget.source += fmt::format(", less {} for the reference", format_bytes(others));
  if (budget.program >= 0) budget.program += others;
  return budget;
}

// Adds the differences of the windows that are left. Errors: interrupted.
void compare_the_rest(const ComparedModel& reference, const ComparedModel& model, const EvalWindows& work,
                      int64_t batch, Arena& arena, std::optional<ResultLog>& log, std::vector<WindowDifference>& all) {
  Progress progress("compare", static_cast<int64_t>(work.windows.size()), real_clock(), {}, "windows");
  const auto on_batch = [&](size_t first, const std::vector<WindowDifference>& part) {
    for (const WindowDifference& d : part)
      if (log) log->append(row_of(d));
    all.insert(all.end(), part.begin(), part.end());
    progress.update(static_cast<int64_t>(first + part.size()));
    return !stop_requested();
  };
  compare_windows(reference, model, work.windows, work.masks, batch, arena, all.size(), on_batch);
  progress.finish();
}

Json comparison_json(const Options& options, const EvalWindows& work, const CompareReport& r) {
  return {{"reference", options.text("reference")},
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
          {"reference_perplexity", r.reference_perplexity}};
}

void print_comparison(const EvalWindows& work, const CompareReport& r) {
  print_out(
      fmt::format("KL divergence  {:.6f} ± {:.6f}   nats per token from the reference (0: alike), at most {:.4f}\n",
                  r.mean_kl, r.kl_error, r.max_kl));
  print_out(fmt::format("same top token {:.2f} ± {:.2f} %\n", 100 * r.same_top, 100 * r.same_top_error));
  print_out(fmt::format("perplexity     {:.4f}, of the reference {:.4f}\n", r.perplexity, r.reference_perplexity));
  print_out(fmt::format("scored         {} tokens, {} of {}, stride {}, {}\n", format_with_commas(r.tokens),
                        counted(static_cast<int64_t>(work.windows.size()), "window"), work.report.window,
                        work.report.stride, work.report.bos_rule));
}

}  // namespace

int run_compare_models(const Options& options, const ModelDescription& model) {
  const ModelDescription reference = describe_model(options.text("reference"), std::nullopt);  // --dtype is the model's
  tell_notes(reference);
  check_same_tokens(options, model, reference);
  const EvalWindows work = eval_windows(options, model);
  std::optional<ResultLog> log;
  if (options.has("output")) {
    Json question = question_of(options, model, work);
    question["reference"] = weights_identity(reference);
    open_log(options, question, log);
  }
  std::vector<WindowDifference> all;
  if (log)
    for (const Json& row : log->done()) all.push_back(difference_of(row));
  check_done(options, all.size(), work);

  const bool gated = is_gated(model);
  const int64_t batch = gated ? 1 : windows_at_once(options, work);
  InferenceNeeds needs = window_needs(work, batch);
  const MemoryBudget budget = budget_beside(reference, options, model, needs);
  needs.adapters = model.beside;
  const WeightsChoice choice = choose_weights(options, model, needs, budget);
  Arena arena;
  const InferenceWeights loaded(options, model, choice, 0, arena, WeightsPass::batch);
  const ModelWeights reference_weights = load_for_inference(reference, arena);
  const GatedAdapter gates = gated ? read_gated_adapter(model.adapter) : GatedAdapter{};
  std::optional<GatedTexts> texts;
  if (gated) texts.emplace(model.spec, loaded.weights(), gates);
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  try {
    compare_the_rest({reference.spec, reference_weights},
                     {model.spec, loaded.weights(), kv_option(options, model.dtype), gated ? &*texts : nullptr}, work,
                     batch, arena, log, all);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    return stopped(error, log.has_value());
  }
  const CompareReport r = summarize(all);
  if (options.flag("json"))
    print_figures(options, model, comparison_json(options, work, r), seconds_between(start_ns, real_clock().now_ns()));
  else
    print_comparison(work, r);
  return 0;
}

}  // namespace tern
