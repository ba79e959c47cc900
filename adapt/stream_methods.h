#pragma once
// What the methods for streams do around a task's run. Each step's result is there whole or not at all, so a stream that was
// killed and started again finds the result or makes it again.

#include <functional>
#include <string>

#include "adapt/stream.h"

namespace tern {

inline constexpr const char* kStreamMemory = "memory.safetensors";

/// Where a stream's files lie; t counts from 0.
struct StreamPlaces {
  const StreamSettings& s;
  std::string of_stream(const std::string& name) const { return join_path(s.train.output, name); }
  std::string directory(size_t t) const;
  std::string in(size_t t, const std::string& name) const { return join_path(directory(t), name); }
  std::string adapter(size_t t) const { return join_path(in(t, "run"), "adapter"); }
};

/// Whether a task's adapter becomes part of the weights that the next task starts from.
bool folds(StreamMethod);
/// Of the run of task t.
TrainSettings task_settings(const StreamSettings&, size_t t);
/// The model as it is after task t, to be judged.
TrainSettings learned_settings(const StreamSettings&, size_t t);
void take_steps(TrainSettings&, int64_t steps);
/// `data` as one token file, `to`. Errors: those of pack.
void join_data(const StreamSettings&, const std::vector<std::string>& data, const std::string& to, Io&);

/// What the run of task t needs: InfLoRA's directions, GainLoRA's beginning, replay's data.
void before_task(const StreamSettings&, size_t t, Io&);
/// Added to the gradients of its steps; empty: nothing.
std::function<void(const StepGradients&)> penalty_of(const StreamSettings&, size_t t);
/// What the next task needs (of GainLoRA: adapt/gain_lora.h): memories of inputs, anchors, old directions, kept data; the folded model.
void after_task(const StreamSettings&, size_t t, Io&);
/// TaskCost without its seconds.
TaskCost cost_of(const StreamSettings&, size_t t, Io&);
/// Removes what earlier tasks left for task t alone, and task t's checkpoints.
void clear_behind(const StreamSettings&, size_t t, Io&);

}  // namespace tern
