#include "apps/plan_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/common.h"
#include "apps/plan_lines.h"
#include "apps/threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/shell.h"
#include "base/units.h"
#include "formats/model_dir.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/rates.h"
#include "model/linear.h"
#include "plan/cost_model.h"
#include "plan/layers.h"
#include "spec/recompute.h"
#include "train/plan_settings.h"
#include "train/tensor_groups.h"

namespace tern {
namespace {

std::string why_not(const ModelSpec& spec, const Plan& p) {
  if (std::any_of(spec.units.begin(), spec.units.end(), [](const Unit& u) { return u.frozen || !u.adapters.empty(); }))
    return "it trains adapters beside frozen weights, which tern adapt does without a plan";
  const std::string reason = why_not_trained(p);
  return reason.empty() ? "" : "it " + reason;
}

// What of `tern train` says how much memory it takes: a run without a checkpoint on the way.
TrainSettings settings_of(const Plan& p) {
  TrainSettings s;
  s.seq = p.job.seq, s.batch = p.job.batch, s.micro_batch = p.choice.micro_batch;
  s.dtype = p.job.dtype, s.plan = p, s.plan_path = "PLAN";
  s.ranks = static_cast<int>(p.choice.devices()), s.tensor = static_cast<int>(p.choice.mesh.tensor);
  s.tensor_overlap = planned_overlap(p);
  s.context_ranks = static_cast<int>(p.choice.mesh.context);
  s.context_ring = s.context_ranks > 1 && !p.choice.mesh.ulysses, s.sum_order.groups = p.choice.mesh.data;
  s.expert_ranks = static_cast<int>(p.choice.mesh.expert), s.capacity_factor = p.job.capacity_factor;
  s.zero = planned_zero(p).value_or(0), s.states_on_disk = states_lie_on_disk(p);
  s.optimizer = update_config(p.job.optimizer);
  s.schedule.total_steps = 2;
  s.checkpoint_every = 0;
  return s;
}

std::string_view kind_of(const Unit& unit) {
  if (std::holds_alternative<EmbedSpec>(unit.spec)) return "embedding";
  if (std::holds_alternative<HeadSpec>(unit.spec)) return "head";
  if (std::holds_alternative<BridgeSpec>(unit.spec)) return "bridge";
  if (std::holds_alternative<ParallelSpec>(unit.spec)) return "block";
  return attention_of(unit) ? "attention" : moe_of(unit) ? "experts" : "mlp";
}

bool is_engine(const Cluster& cluster) { return cluster.devices.size() == 1 && cluster.devices[0].engine == "tern"; }

constexpr std::string_view kAsksForTokenizer = " --tokenizer TOKENIZER";

// MODEL as `tern train` takes it, and what it asks for where files are missing: not a preset's name, nor a GGUF file.
void name_model(const std::string& model, EngineTraining& out) {
  std::error_code ignored;
  if (!std::filesystem::exists(model, ignored) || model.ends_with(".gguf")) return;
  ModelDir dir;
  try {
    dir = resolve_model(model, {.need_weights = false, .environment = {}});
  } catch (const Error&) { return; }  // tern train does not read it either
  out.model = shell_quoted(model);
  if (dir.weights.empty()) out.asks += " --from-scratch";
  if (!dir.has_tokenizer()) out.asks += kAsksForTokenizer;
}

}  // namespace

std::string noise_of(const Cluster& cluster) {
  const auto wide = std::count_if(cluster.measured.begin(), cluster.measured.end(),
                                  [](const Measurement& m) { return m.spread() > 0.1; });
  if (wide * 10 <= static_cast<int64_t>(cluster.measured.size())) return "";
  return fmt::format(
      "  the times are as good as the file: {} of its {} figures spread by more than 10 % when measured\n", wide,
      cluster.measured.size());
}

EngineTraining engine_training(const ModelSpec& spec, const Plan& p, const std::string& file) {
  const ShareOfThreads threads(p.choice.devices());  // scratch of products may depend on them
  EngineTraining out{.why_not = why_not(spec, p), .packs = p.job.lengths.given()};
  name_model(p.model, out);
  if (spec.context > 0 && p.job.seq > spec.context) out.asks += fmt::format(" --context {}", p.job.seq);
  if (!out.why_not.empty()) return out;
  TrainSettings s = settings_of(p);
  try {
    check_planned_model(spec, s);
    check_tensor_ranks(spec, s);
    out.memory = predict_memory(spec, s, 0);
    s.checkpoint_every = 1;
    out.saving = predict_memory(spec, s, 0);
  } catch (const Error& e) {  // a model that so many ranks cannot share out
    out.why_not = e.what();
    return out;
  }
  if (p.program) out.program = p.program->checksum;
  const std::optional<Recompute> mode = planned_mode(p);
  out.command = !file.empty() ? "--plan " + shell_quoted(file)
                : p.choice.devices() == 1 && mode
                    ? fmt::format("--batch {} --seq {} --micro-batch {} --recompute {} --dtype {} --optimizer {}{}",
                                  s.batch, s.seq, s.micro_batch, name_of(*mode), name_of(s.dtype),
                                  name_of(p.job.optimizer), s.states_on_disk ? " --states disk" : "")
                    : "--plan PLAN.json";
  return out;
}

bool runs_here(const ModelSpec& spec, const Cluster& cluster, const Plan& plan) {
  return !is_engine(cluster) || engine_training(spec, plan, "").why_not.empty();
}

std::string describe_times(const ModelSpec& spec, const Plan& p, const Machine& m) {
  const LayerCosts costs(spec, p.job, m, p.choice.mesh, p.choice.micro_batch);
  std::vector<Recompute> modes;  // of each unit
  const std::vector<Recompute> of_layers = planned_recompute(p);
  const std::vector<Layer> layers = layers_of(spec);
  for (size_t l = 0; l < layers.size(); ++l)
    modes.insert(modes.end(), static_cast<size_t>(layers[l].count), of_layers[l]);
  struct Row {
    std::string_view kind;
    int64_t forward = 0, backward = 0, weight = 0;
  };
  std::vector<Row> rows;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    const std::string_view kind = kind_of(spec.units[u]);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.kind == kind; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{kind});
    const UnitFacts& facts = costs.units()[u];
    row->forward += facts.forward, row->weight += facts.weight;
    row->backward += facts.backward + (is_recomputed(spec.units[u], modes[u]) ? facts.forward : 0);
  }
  const auto ms = [](int64_t ps) { return static_cast<double>(ps) * 1e-9; };
  const int64_t times = p.choice.num_micro;
  std::string out = fmt::format("  {:<12} {:>12} {:>12} {:>12}\n", "ms a step", "forward", "backward", "weights'");
  for (const Row& r : rows)
    out += fmt::format("  {:<12} {:>12.3f} {:>12.3f} {:>12.3f}\n", r.kind, ms(counted_ps(times, r.forward)),
                       ms(counted_ps(times, r.backward)), ms(counted_ps(times, r.weight)));
  int64_t update = 0;
  for (const Layer& layer : layers) update += costs.cost(layer, LayerStrategy{}, false).update;
  return out + fmt::format("  {:<12} {:>12.3f}\n", "update", ms(update));
}

PlacementOptions engine_placement(const Cluster& cluster, DType dtype) {
  if (!is_engine(cluster)) return {};
  return {.scratch = scratch_bytes(TrainSettings{}.multiply, dtype)};
}

void tell_engine(const ModelSpec& spec, const Plan& plan, const Cluster& cluster, const std::string& file, bool json) {
  constexpr int64_t kMostThreads = 1024;  // ranks of one process (--ranks)
  if (!is_engine(cluster) || plan.choice.devices() > kMostThreads) return;
  const EngineTraining e = engine_training(spec, plan, file);
  const Machine machine = machine_of(cluster, 0);
  const std::string times = e.why_not.empty() ? describe_times(spec, plan, machine) : "";
  const std::string text = describe(e, plan.choice.devices() * machine.device_capacity()) + times + noise_of(cluster);
  if (!json) return print_lines(text);
  if (e.why_not.empty())
    log_info("{} train {}: {} bytes of tensors at their most, {} with checkpoints", program_name(), e.command,
             e.memory.tensors(), e.saving.tensors());
}

std::string describe(const EngineTraining& e, int64_t capacity) {
  if (!e.why_not.empty()) return fmt::format("\n{} train   does not run this plan: {}\n", program_name(), e.why_not);
  std::string out = fmt::format("\n{} train {} --data DATA --output RUN {}\n", program_name(),
                                e.model.empty() ? "MODEL" : e.model + e.asks, e.command) +
                    fmt::format("  {}DATA is the text to train on, RUN a folder for the run\n",
                                e.model.empty() ? "MODEL is a folder or config.json of this shape, " : "");
  if (e.asks.ends_with(kAsksForTokenizer))
    out += "  TOKENIZER is a folder with one, such as tern tokenize --train makes\n";
  if (e.command == "--plan PLAN.json") out += "  PLAN.json is this plan's file (--output)\n";
  out += fmt::format(
      "  its step is the Program {:08x}; tern train --plan says so where its own is another: with another --multiply, "
      "optimizer's options or kernels\n",
      e.program);
  if (e.packs) out += "  its windows are packed as this plan's: documents end to end, attention inside each alone\n";
  const auto line = [&](std::string_view name, int64_t bytes, const char* what) {
    out += fmt::format("  {:<24} {:>12} {:>20} bytes{}\n", name, format_bytes(bytes), format_with_commas(bytes), what);
  };
  for (const auto& [name, bytes] : e.memory.classes())
    if (name != "staging" && name != "scratch" && name != "data" && name != "process") line(name, bytes, "");
  if (e.saving.staging > 0)
    line("staging", e.saving.staging,
         " from which a checkpoint is written; after the last step in place of activations");
  line("tensors at their most", e.memory.tensors(), ", as the trainer predicts and counts them");
  line("with checkpoints", e.saving.tensors(), " where one is saved on the way");
  if (e.memory.tensors() > capacity)
    out += fmt::format(
        "  more than the {} that the cluster file leaves to a program: the search does not count this "
        "machine's scratch\n",
        format_bytes(capacity));
  return out;
}

}  // namespace tern
