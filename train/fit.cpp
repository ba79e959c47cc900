#include "train/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/units.h"
#include "base/wide_type.h"
#include "model/linear.h"
#include "model/rope_table.h"
#include "model/thread_memory.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "program/simulate.h"
#include "spec/attended_pairs.h"
#include "spec/collective_bytes.h"
#include "train/async_fit.h"
#include "train/mesh_fit.h"
#include "train/outer_run.h"
#include "train/plan_settings.h"
#include "train/settings_ranks.h"
#include "train/step_placement.h"
#include "train/stored_run.h"
#include "train/train_state.h"
#include "train/update_peaks.h"
#include "train/zeroth_run.h"
#include "update/perturbed_weights.h"
#include "update/update_unit.h"

namespace tern {
namespace {

CostQuery evaluation_query(const ModelSpec& spec, const TrainSettings& s, int64_t sequences) {
  int64_t window = first_attention(spec).window;  // where layers differ, of those that see most
  for (const Unit& unit : spec.units)
    if (const AttentionSpec* a = attention_of(unit); a && a->window == 0) window = 0;
  return {.tokens = sequences * s.seq,
          .attended_pairs = sequences * attended_pairs(s.seq, 0, window),
          .dtype = s.dtype,
          .scratch = scratch_bytes(Multiply::exact, s.dtype)};
}

// The closed forms are of 64 bits: what would leave them is refused, as it fits nowhere.
void check_countable(const ModelSpec& spec, const TrainSettings& s) {
  const double tokens = static_cast<double>(s.micro_batch) * static_cast<double>(s.seq);
  double elements = 0, flops = 0;  // upper bounds, per token: of all units; of the widest attention
  for (const Unit& unit : spec.units) {
    elements += 8.0 * static_cast<double>(spec.width);
    if (const MlpSpec* m = mlp_of(unit)) elements += 16.0 * static_cast<double>(m->hidden);
    if (const MoeSpec* e = moe_of(unit))
      elements += static_cast<double>(e->top_k) *
                      (16.0 * static_cast<double>(e->hidden) + 8.0 * static_cast<double>(e->width)) +
                  16.0 * static_cast<double>(e->shared_hidden) + 4.0 * static_cast<double>(e->experts);
    if (const AttentionSpec* a = attention_of(unit)) {
      elements += 8.0 * static_cast<double>(a->qkv_rows());
      flops = std::max(flops, 10.0 * static_cast<double>(a->qkv_rows()) * static_cast<double>(s.seq));
    }
  }
  if (tokens * std::max(8 * elements, flops) > 0x1p62)
    throw Error(ErrorKind::does_not_fit,
                "--micro-batch {} sequences of --seq {} through this model take more bytes than tern can count; lower "
                "both",
                s.micro_batch, s.seq);
}

}  // namespace

std::vector<std::pair<std::string_view, int64_t>> PredictedMemory::classes() const {
  std::vector<std::pair<std::string_view, int64_t>> list{{"weights", weights},     {"gradients", gradients},
                                                         {"optimizer", optimizer}, {"activations", activations},
                                                         {"workspace", workspace}, {"staging", staging}};
  if (messages > 0) list.emplace_back("messages", messages);
  if (whole > 0) list.emplace_back("whole model", whole);
  list.insert(list.end(), {{"scratch", scratch}, {"data", data}, {"process", process}});
  return list;
}

int64_t PredictedMemory::tensors() const {
  const int64_t step = activations + workspace + whole;
  const int64_t run =
      weights + gradients + optimizer + messages + (staging_during_steps ? step + staging : std::max(step, staging));
  return std::max(run, beginning);
}

namespace {

// The parameters whose gradients are summed up together: of each layer, experts apart. By their places in trained_parameters.
void for_each_sum(const ModelSpec& spec, const std::vector<ParameterInfo>& infos,
                  const std::function<void(const Layer&, bool experts, const std::vector<size_t>& places)>& f) {
  for (const Layer& layer : layers_of(spec))
    for (const bool experts : {false, true}) {
      std::vector<size_t> places;
      for (size_t p = 0; p < infos.size(); ++p)
        if (infos[p].unit >= layer.first && infos[p].unit < layer.first + layer.count && is_expert(infos[p]) == experts)
          places.push_back(p);
      f(layer, experts, places);
    }
}

// The longest part that one rank sums up of a layer's gradients: an equal one, or what it keeps.
int64_t longest_sum(const ModelSpec& spec, const TrainSettings& s) {
  const Shares shares = make_shares(spec, s.optimizer.rule, zero_of_units(spec, s), 0, s.ranks);
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  int64_t longest = 0;
  for_each_sum(spec, infos, [&](const Layer&, bool, const std::vector<size_t>& places) {
    int64_t together = 0;
    std::vector<int64_t> kept(static_cast<size_t>(s.ranks));
    for (const size_t p : places)
      if (shares.is_shared(p))
        for (const RankInterval& o : shares.owners[p]) kept[static_cast<size_t>(o.rank)] += o.elements.size();
      else
        together += infos[p].shape.count();
    longest = std::max({longest, (together + s.ranks - 1) / s.ranks, *std::ranges::max_element(kept)});
  });
  return longest;
}

}  // namespace

RankBytes evaluation_bytes(const ModelSpec& spec, const TrainSettings& s) {
  const CostQuery exact = evaluation_query(spec, s, std::min(s.micro_batch, s.batch));
  return simulate(forward_program(without_dropout(spec), {&exact, 1})).ranks[0];
}

namespace {

// What is trained, as one rank would have it alone, and what of it ranks share out.
struct TrainedParts {
  int64_t trained = 0, widest = 0;                 // elements: all, of the largest unit
  int64_t states = 0, gradients = 0, weights = 0;  // bytes that ranks share out
};

// Fills in weights, gradients and optimizer of a rank that keeps all of them.
TrainedParts predict_units(const ModelSpec& spec, const TrainSettings& s, int64_t wide, PredictedMemory& predicted) {
  TrainedParts parts;
  const std::vector<int> zero = zero_of_units(spec, s);
  for (size_t u = 0; u < spec.units.size(); ++u) {
    const UnitCost cost = unit_cost(spec.units[u], {.dtype = s.dtype});
    predicted.weights += cost.parameter_bytes;
    predicted.gradients += s.update_in_backward ? own_table_gradient(spec.units[u], {}) * wide : cost.gradient_bytes;
    parts.trained += cost.trained;
    const int64_t states = state_bytes(s.optimizer, s.dtype, trained_forms(spec.units[u], {}));
    predicted.optimizer += states;
    if (zero[u] >= 1) parts.states += states;
    if (zero[u] >= 2) parts.gradients += cost.trained * wide;
    if (zero[u] >= 3 && s.ranks > 1) parts.weights += cost.trained * size_of(s.dtype);
    parts.widest = std::max(parts.widest, cost.parameters + own_table_gradient(spec.units[u], {}));
  }
  if (s.perturbation) predicted.gradients = perturbed_bytes(spec, s.dtype, units_in_file(spec, s));
  return parts;
}

// Of weights that lie in a file.
int64_t bytes_in_file(const ModelSpec& spec, const TrainSettings& s) {
  const std::vector<bool> units = units_in_file(spec, s);
  int64_t bytes = 0;
  if (units.empty()) return bytes;
  for (const ParameterInfo& info : trained_parameters(spec))
    if (units[static_cast<size_t>(info.unit)]) bytes += info.shape.count() * size_of(s.dtype);
  return bytes;
}

// Of a step's passes, or of a rule's temporaries for one parameter behind them.
RankBytes peak_of_passes(const ModelSpec& spec, const TrainSettings& s) {
  RankBytes peak = simulate(zeroth_program(spec, s)).ranks[0];
  for (const Unit& unit : spec.units)
    if (const int64_t bytes = update_workspace(s.optimizer, s.dtype, trained_forms(unit, {})); bytes > peak.peak_bytes)
      peak.peak_bytes = peak.workspace_at_peak = bytes, peak.buffers_at_peak = 0;
  return peak;
}

// A step that reaches the peak of the run's steps. In one stage one micro-batch's Program has the same peak as many in turn; the first
// is the largest. Of each group one: what is kept of the others lies beside it. What one micro-batch's sums over ranks still hold lies
// beside the next one.
Program highest_step(const ModelSpec& spec, const TrainSettings& s) {
  const int64_t micros = sums_each_micro_batch(s) ? 2 : s.sum_order.groups / data_parallel_size(s);
  return lower(spec, step_placement(spec, s, std::min(s.micro_batch, s.batch) * micros));
}

// Of ranks that have all layers each, beside the step. `begins`: bytes of one rank's weights with the values that masters begin from.
void predict_copies(const ModelSpec& spec, const TrainSettings& s, const TrainedParts& parts, int64_t begins,
                    PredictedMemory& predicted) {
  const int64_t wide = size_of(wide_type(s.dtype)), fixed = num_fixed_numbers(spec) * wide;
  predicted.weights = parts.weights + s.ranks * (predicted.weights - parts.weights);
  predicted.gradients = parts.gradients + s.ranks * (predicted.gradients - parts.gradients);
  predicted.optimizer = parts.states + s.ranks * (predicted.optimizer - parts.states);
  if (parts.weights > 0)
    predicted.beginning = predicted.weights + predicted.optimizer + s.ranks * (parts.widest * wide + fixed);
  else if (s.dtype == DType::bf16)
    predicted.beginning = s.ranks * begins + predicted.optimizer;
  if (s.robust) {
    const DType type = wide == 8 ? DType::f64 : DType::f32;
    const int64_t kept = robust_state_bytes(*s.robust, s.ranks, parts.trained, type);
    predicted.optimizer += kept, predicted.staging += kept;
    predicted.messages = robust_staging_bytes(*s.robust, s.ranks, parts.trained, type);
  } else if (s.outer)
    predict_outer(spec, s, predicted.staging - fixed, predicted);
  else if (s.ranks > 1)
    predicted.messages = s.ranks * staging_elements(longest_sum(spec, s), s.ranks) * wide;
}

// What compute threads keep, of all ranks.
int64_t scratch_of_threads(const ModelSpec& spec, const TrainSettings& s) {
  const auto threads = [&](Multiply multiply, bool gradients) {
    const ThreadWork work{.dtype = s.dtype,
                          .multiply = multiply,
                          .tokens = std::min(s.micro_batch, s.batch) * s.seq / (gradients ? s.context_ranks : 1),
                          .sequence = s.seq,
                          .gradients = gradients};
    return thread_memory(spec, work).total();
  };
  const int64_t step = s.ranks * std::max(threads(s.multiply, true), update_thread_bytes(spec, s.optimizer, s.dtype));
  return s.valid_data.empty() ? step : std::max(step, threads(Multiply::exact, false));
}

}  // namespace

PredictedMemory predict_memory(const ModelSpec& spec, const TrainSettings& s, int64_t process_bytes) {
  check_countable(spec, s);
  if (s.async) {
    PredictedMemory of_async = predict_async_memory(spec, s, process_bytes);
    of_async.checkpoint = of_async.staging;
    return of_async;
  }
  PredictedMemory predicted{.process = process_bytes};
  const int64_t n = num_parameters(spec), wide = size_of(wide_type(s.dtype));
  const int64_t fixed = num_fixed_numbers(spec) * wide;
  const TrainedParts parts = predict_units(spec, s, wide, predicted);
  // Masters and what the rule keeps, of what is trained; masters are the weights themselves where the rule has none.
  predicted.staging = fixed + predicted.optimizer + (has_own_masters(s.optimizer, s.dtype) ? 0 : parts.trained * wide);
  predicted.staging_during_steps = s.checkpoint_every > 0 && s.checkpoint_every < s.schedule.total_steps;

  RankBytes peak;
  Program step;
  if (s.perturbation)
    peak = peak_of_passes(spec, s);
  else
    step = highest_step(spec, s), peak = peak_of_step(spec, step, s);
  if (num_stage_devices(s) > 1 || s.tensor > 1 || s.expert_ranks > 1) {
    predict_mesh(spec, s, step, predicted);
  } else {
    // The f32 values that masters begin from: beside the states
    const int64_t first = trains_adapters_alone(spec) ? parts.trained * wide : n * wide + fixed;
    predict_copies(spec, s, parts, predicted.weights + first, predicted);
  }
  predicted.checkpoint = predicted.staging;
  if (keeps_apart(s)) predicted.staging = 0;  // from each rank's memory to the file
  if (s.states_on_disk) {
    predicted.staging = 0;  // it goes from file to file
    predicted.optimizer = stored_memory_bytes(spec, s);
    const int64_t in_file = bytes_in_file(spec, s);
    predicted.weights -= in_file;
    if (predicted.beginning > 0 || in_file > 0)
      predicted.beginning = predicted.weights + predicted.optimizer + parts.widest * wide + fixed;
  }
  RankBytes evaluation;
  if (!s.valid_data.empty()) evaluation = evaluation_bytes(spec, s);
  const int64_t whole = is_whole_for_a_while(s) || s.outer ? n * size_of(s.dtype) + fixed : 0;
  if (evaluation.peak_bytes + whole > peak.peak_bytes) peak = evaluation, predicted.whole = whole;
  predicted.activations = peak.buffers_at_peak;
  predicted.workspace = peak.workspace_at_peak;
  predicted.scratch = scratch_of_threads(spec, s);
  predicted.data =
      (s.perturbation ? 2 : 1) * s.batch * s.seq * 3 * static_cast<int64_t>(sizeof(int32_t))  // token, target, position
      + s.ranks * rope_table_bytes(spec, s.seq);
  return predicted;
}

std::string describe(const PredictedMemory& predicted) {
  std::string out;
  const char* apart = predicted.staging < predicted.activations + predicted.workspace
                          ? "  after the last step, in the place of activations and workspace"
                          : "  after the last step, when activations and workspace are gone";
  for (const auto& [name, bytes] : predicted.classes())
    out += fmt::format("  {:<12} {:>10}{}\n", name, format_bytes(bytes),
                       name == "staging" && !predicted.staging_during_steps ? apart : "");
  return out + fmt::format("  {:<12} {:>10}{}\n", "total", format_bytes(predicted.total()),
                           predicted.staging_during_steps ? "" : "  at the highest moment");
}

}  // namespace tern
