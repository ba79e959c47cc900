#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "apps/task_kinds.h"
#include "base/options.h"
#include "eval/gated_losses.h"
#include "eval/task_run.h"
#include "infer/load.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

Json choice_row(const TaskItem& item, const std::vector<ChoiceScore>& scores) {
  const ChoicePick pick = pick_choices(scores);
  Json row = {{"id", item.id},
              {"answer", item.answer},
              {"pick", pick.sum},
              {"pick_token", pick.per_token},
              {"pick_byte", pick.per_byte},
              {"pick_char", pick.per_character},
              {"ll", Json::array()},
              {"tokens", Json::array()}};
  for (const ChoiceScore& s : scores) {
    row["ll"].push_back(s.log_likelihood);
    row["tokens"].push_back(s.tokens);
  }
  return row;
}

}  // namespace

void run_choices(TaskRun& run, const OnItems& on_done) {
  const ModelDescription& model = run.model;
  const auto windows_of = [&](const std::vector<TaskItem>& items) {
    return choice_windows(*model.tokenizer, items, model_context(model), run.prefix, run.prefix_if_empty, run.path);
  };
  // All are encoded once before a weight is read: what cannot be asked is said at once.
  int64_t longest = 1, most = 1;
  for (size_t i = 0; i < run.task.items.size(); ++i) {
    const auto windows = windows_of(run.items(i, 1));
    most = std::max(most, static_cast<int64_t>(windows.size()));
    for (const Window& w : windows) longest = std::max(longest, static_cast<int64_t>(w.tokens.size()) - 1);
  }
  const int64_t batch = run.options.integer("batch");
  const std::optional<KvType> kv = kv_option(run.options, model.dtype);
  const InferenceNeeds needs{.context = longest,
                             .sequences = 0,
                             .page_tokens = 16,
                             .iteration_tokens = batch * longest,
                             .logit_rows = 0,
                             .adapters = model.beside};
  const WeightsChoice choice = choose_weights(run.options, model, needs, memory_budget(run.options));
  Arena arena;
  const InferenceWeights loaded(run.options, model, choice, 0, arena, WeightsPass::batch);
  const std::optional<GatedAdapter> gated =
      is_gated(model) ? std::optional(read_gated_adapter(model.adapter)) : std::nullopt;
  const auto losses_of = [&](const std::vector<Window>& windows) {
    return gated ? gated_choice_losses(model.spec, loaded.weights(), *gated, windows, batch, arena, kv)
                 : ragged_losses(model.spec, loaded.weights(), windows, batch, arena, kv);
  };
  const auto at_once = static_cast<size_t>(std::max<int64_t>(1, batch / most));
  for (size_t first = run.rows.size(); first < run.task.items.size(); first += at_once) {
    const std::vector<TaskItem> items = run.items(first, at_once);
    const std::vector<Window> windows = windows_of(items);
    const auto scores = choice_scores(items, windows, losses_of(windows));
    for (size_t i = 0; i < items.size(); ++i) run.add(choice_row(items[i], scores[i]));
    if (!on_done(run.rows.size())) return;
  }
}

}  // namespace tern
