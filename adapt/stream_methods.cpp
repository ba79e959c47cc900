#include "adapt/stream_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "adapt/gain_lora.h"
#include "adapt/penalties.h"
#include "adapt/replay_text.h"
#include "adapt/task_model.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/publish.h"
#include "base/system.h"
#include "model/adapter_files.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

bool is_there(Io& io, const std::string& path) { return io.stat(path).has_value(); }

DType stored_type(const StreamSettings& s) { return s.train.dtype == DType::f64 ? DType::f64 : DType::f32; }

Feed data_of(const StreamSettings& s, const TaskModel& model, size_t t, Io& io) {
  return feed_of(s.train, model, s.tasks[t].data, StreamPlaces{s}.of_stream("data"), io);
}

// The trained adapter beside the model it was trained on.
TrainSettings trained_settings(const StreamSettings& s, size_t t) {
  TrainSettings trained = task_settings(s, t);
  trained.adapter->begin = StreamPlaces{s}.adapter(t);
  return trained;
}

NamedMatrices matrices_before(const StreamSettings& s, size_t t) {
  return t > 0 ? read_matrices(StreamPlaces{s}.in(t - 1, kStreamMemory)) : NamedMatrices{};
}

// A of the task's adapter; B zero.
void give_directions(const StreamSettings& s, size_t t, const std::string& to, Io& io) {
  TrainSettings plain = task_settings(s, t);
  plain.adapter->begin.clear();
  TaskModel model;
  read_task_model(plain, DType::f32, model);
  for_each_adapter(model.in.spec, model.weights, [](const ParameterInfo&, Tensor& tensor) { tensor.fill_zero(); });
  const auto covariances = input_covariances(plain, model, data_of(s, model, t, io), s.statistics_windows);
  InputMemories memories = memories_before(s, t);
  for_each_linear(model.in.spec, model.weights, [&](const ParameterInfo& info, Linear& linear) {
    if (linear.branches.empty()) return;
    InputMemory& memory = memories[info.name];
    memory.dim = linear.in;
    for (const Branch& b : linear.branches) {
      const std::vector<double> rows = task_directions(memory, covariances.at(info.name), b.rank, s.mode);
      for (size_t i = 0; i < rows.size(); ++i) b.a.span<float>()[i] = static_cast<float>(rows[i]);
    }
  });
  OutputDirectory output(io, to);
  save_adapters(model.in.spec, plain.adapter->config, model.weights, output.temporary(), io);
  output.publish();
}

void remember_inputs(const StreamSettings& s, size_t t, TaskModel& model, const std::string& to, Io& io) {
  InputMemories memories = memories_before(s, t);
  const double threshold = energy_threshold(s.energy, 1, static_cast<int64_t>(t), static_cast<int64_t>(s.tasks.size()));
  const auto covariances = input_covariances(s.train, model, data_of(s, model, t, io), s.statistics_windows);
  for (const auto& [name, covariance] : covariances) {
    InputMemory& memory = memories[name];
    memory.dim = std::llround(std::sqrt(static_cast<double>(covariance.size())));
    remember(memory, covariance, threshold, s.mode);
  }
  write_memories(memories, to, io);
}

void write_memory(const StreamSettings& s, size_t t, const std::string& to, Io& io) {
  TaskModel model;
  read_task_model(trained_settings(s, t), DType::f32, model);
  if (s.method == StreamMethod::inflora) return remember_inputs(s, t, model, to, io);
  NamedMatrices matrices = matrices_before(s, t);
  if (s.method == StreamMethod::ewc)
    add_anchors(s.train, model, data_of(s, model, t, io), s.statistics_windows, matrices);
  else
    add_past_rows(model, matrices);
  write_matrices(matrices, to, io);
}

// What a document may take while it becomes tokens: what the run may take, or what is free. No model is there yet.
int64_t room_for_text(const TrainSettings& s) {
  if (!s.memory_bytes) return read_memory_facts().available_bytes;
  return std::max<int64_t>(*s.memory_bytes - read_process_memory().resident_bytes, 0);
}

bool has_memory(StreamMethod m) { return folds(m) || m == StreamMethod::ewc; }

// replay's share of task t, its end by the kind of the data.
std::string kept_data(const StreamSettings& s, size_t t, Io& io) {
  const std::string path = StreamPlaces{s}.in(t, "kept");
  for (const char* end : {".txt", ".jsonl"})
    if (is_there(io, path + end)) return path + end;
  return "";
}

}  // namespace

InputMemories memories_before(const StreamSettings& s, size_t t) {
  return t > 0 ? read_memories(StreamPlaces{s}.in(t - 1, kStreamMemory)) : InputMemories{};
}

bool folds(StreamMethod m) { return m == StreamMethod::inflora || m == StreamMethod::olora; }

void take_steps(TrainSettings& s, int64_t steps) {
  s.schedule.total_steps = steps;
  if (s.schedule.warmup_steps > steps) s.schedule.warmup_steps = steps / 10;
}

TrainSettings task_settings(const StreamSettings& s, size_t t) {
  const StreamPlaces places{s};
  TrainSettings run = s.train;
  run.data = s.method == StreamMethod::replay && t > 0 ? places.in(t, "data.safetensors") : s.tasks[t].data;
  run.output = places.in(t, "run");
  run.eval_every = 0;
  take_steps(run, s.tasks[t].steps.value_or(s.train.schedule.total_steps));
  const bool gated = s.method == StreamMethod::gainlora;
  if (gated || s.method == StreamMethod::inflora)
    run.adapter->begin = places.in(t, "begin"), run.adapter->trains_a = false;
  if (gated) run.micro_batch = 1;                      // a window has one prompt
  if (s.method == StreamMethod::olora) run.seed += t;  // another A for each task
  if (t == 0 || gated) return run;
  if (folds(s.method))
    run.model = places.in(t - 1, "model");
  else
    run.adapter->begin = places.adapter(t - 1);
  return run;
}

TrainSettings learned_settings(const StreamSettings& s, size_t t) {
  TrainSettings learned = trained_settings(s, t);
  if (folds(s.method)) learned.model = StreamPlaces{s}.in(t, "model"), learned.adapter.reset();
  return learned;
}

void join_data(const StreamSettings& s, const std::vector<std::string>& data, const std::string& to, Io& io) {
  const TrainInputs in = load_inputs(s.train);
  if (!in.tokenizer)
    throw Error(ErrorKind::usage,
                "{}: has no tokenizer, with which the data of several tasks are put together; give "
                "--tokenizer DIR",
                s.train.model);
  pack(std::vector<std::filesystem::path>(data.begin(), data.end()), *in.tokenizer, to,
       {.invalid_utf8 = s.train.invalid_utf8, .memory_bytes = room_for_text(s.train)}, io);
}

void before_task(const StreamSettings& s, size_t t, Io& io) {
  const StreamPlaces places{s};
  make_dirs(io, places.directory(t));
  const std::string begin = places.in(t, "begin"), data = places.in(t, "data.safetensors");
  if (s.method == StreamMethod::inflora && !is_there(io, begin)) give_directions(s, t, begin, io);
  if (s.method == StreamMethod::gainlora) begin_gated_task(s, t, io);
  if (s.method != StreamMethod::replay || t == 0 || is_there(io, data)) return;
  std::vector<std::string> parts{s.tasks[t].data};
  for (size_t before = 0; before < t; ++before) parts.push_back(kept_data(s, before, io));
  join_data(s, parts, data, io);
}

std::function<void(const StepGradients&)> penalty_of(const StreamSettings& s, size_t t) {
  if (t == 0 || (s.method != StreamMethod::ewc && s.method != StreamMethod::olora)) return {};
  const auto before = std::make_shared<const NamedMatrices>(matrices_before(s, t));
  const auto add = s.method == StreamMethod::ewc ? add_ewc_gradient : add_olora_gradient;
  return [before, add, weight = s.penalty](const StepGradients& step) { add(*before, weight, step); };
}

void after_task(const StreamSettings& s, size_t t, Io& io) {
  const StreamPlaces places{s};
  const std::string memory = places.in(t, kStreamMemory), folded = places.in(t, "model");
  if (has_memory(s.method) && !is_there(io, memory)) write_memory(s, t, memory, io);
  if (s.method == StreamMethod::replay && kept_data(s, t, io).empty())
    keep_share(s.tasks[t].data, s.replay_share, s.train.seed + t, places.in(t, "kept"), io);
  if (!folds(s.method) || is_there(io, folded)) return;
  TaskModel model;
  read_task_model(trained_settings(s, t), stored_type(s), model);
  write_merged(model, stored_type(s), folded, io);
}

TaskCost cost_of(const StreamSettings& s, size_t t, Io& io) {
  const StreamPlaces places{s};
  const auto bytes = [&](const std::string& path) { return io.stat(path).value_or(FileInfo{}).size_bytes; };
  TaskCost cost;
  const TrainSettings run = task_settings(s, t);
  for (const ParameterInfo& info : trained_parameters(load_inputs(run).spec))
    if (run.adapter->trains_a || info.name.ends_with(".b")) cost.trained += info.shape.count();
  if (s.method == StreamMethod::gainlora) {
    const std::string gated = gated_directory(s, t);
    const GatedAdapter all = read_gated_adapter(gated);
    for (const std::string& branch : all.branches) cost.kept_bytes += bytes(peft_weights_file(branch));
    cost.kept_bytes += bytes(join_path(gated, "gates.safetensors")) + bytes(places.in(t, kStreamMemory));
    for_each_list(all.gates.back(),
                  [&](const char*, const std::vector<double>& list) { cost.trained += std::ssize(list); });
  } else if (!folds(s.method)) {
    cost.kept_bytes += bytes(peft_weights_file(places.adapter(t)));
  }
  if (has_memory(s.method)) cost.kept_bytes += bytes(places.in(t, kStreamMemory));
  if (s.method == StreamMethod::replay)
    for (size_t before = 0; before <= t; ++before) cost.kept_bytes += bytes(kept_data(s, before, io));
  if (s.method == StreamMethod::inflora || s.method == StreamMethod::gainlora)
    for (const auto& [name, memory] : read_memories(places.in(t, kStreamMemory)))
      if (!name.starts_with("gate.")) cost.protected_dim += memory.protected_dim(), cost.all_dim += memory.dim;
  return cost;
}

void clear_behind(const StreamSettings& s, size_t t, Io& io) {
  const StreamPlaces places{s};
  remove_all(io, join_path(places.in(t, "run"), "checkpoints"));
  remove_all(io, places.in(t, "data.safetensors"));
  if (t == 0) return;
  remove_all(io, places.in(t - 1, "model"));
  if (s.method == StreamMethod::gainlora) remove_all(io, gated_directory(s, t - 1));
  remove_all(io, places.in(t - 1, kStreamMemory));
}

}  // namespace tern
