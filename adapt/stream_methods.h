#pragma once
// What the methods for streams do before, in and after the run of a task. Each function writes its result whole or not at all, so a stream
// that was killed and started again finds the result or makes it again. Tasks t count from 0.

#include <functional>
#include <string>

#include "adapt/memory_file.h"
#include "adapt/stream.h"
#include "adapt/stream_places.h"

namespace tern {

/// Whether a task's adapter is merged into the weights that the next task starts from.
bool folds(StreamMethod);

/// The settings of the run of task t.
TrainSettings task_settings(const StreamSettings&, size_t t);
/// The settings with which the model is scored after task t: its model and adapter are those after the task.
TrainSettings learned_settings(const StreamSettings&, size_t t);
/// Sets total_steps; a warm-up that is longer becomes a tenth of it.
void take_steps(TrainSettings&, int64_t steps);
/// Writes the texts `data` as one token file, `to`, read by the settings' invalid_utf8 within their memory_bytes. Errors: those of pack.
void join_data(const StreamSettings&, const std::vector<std::string>& data, const std::string& to, Io&);

/// The memories of inputs that the tasks before t left; none for the first task.
InputMemories memories_before(const StreamSettings&, size_t t);
/// Writes what the run of task t needs: InfLoRA's directions, GainLoRA's beginning, replay's data.
void before_task(const StreamSettings&, size_t t, Io&);
/// The function that adds the method's penalty to the gradients of each step of task t; empty: the method has none.
std::function<void(const StepGradients&)> penalty_of(const StreamSettings&, size_t t);
/// Writes what the next task needs: memories of inputs, anchors, old directions, kept data, and the model with the adapter merged in. For
/// GainLoRA end_gated_task (adapt/gain_lora.h) takes its place.
void after_task(const StreamSettings&, size_t t, Io&);
/// The cost of task t, but for TaskCost::seconds.
TaskCost cost_of(const StreamSettings&, size_t t, Io&);
/// Removes what earlier tasks left for task t alone, and the checkpoints of task t.
void clear_behind(const StreamSettings&, size_t t, Io&);

}  // namespace tern
