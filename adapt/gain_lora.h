#pragma once
// GainLoRA around a task's run (docs/continual.md). Branches stay apart, each weighed by its gate, so nothing is folded; A of a branch is
// given as InfLoRA's.
//
//   NN-NAME/begin/              the directions that A is given, a PEFT directory
//   NN-NAME/gate.safetensors    where the task's gate begins
//   NN-NAME/gated/              what was learned up to this task (model/gated_adapter.h); gone when the next one is done

#include <atomic>
#include <memory>
#include <vector>

#include "adapt/gate_trainer.h"
#include "adapt/stream.h"
#include "adapt/stream_methods.h"

namespace tern {

std::string gated_directory(const StreamSettings&, size_t t);

/// Writes begin/ and the beginning gate, of the task's inputs as the model with all earlier branches sees them.
void begin_gated_task(const StreamSettings&, size_t t, Io&);
/// The trainer of the gate of task t. gate_trainer_of_forecast: one with as many branches as the last task has beside it, made
/// without files, for a forecast of memory alone.
std::unique_ptr<GateTrainer> gate_trainer(const StreamSettings&, size_t t);
std::unique_ptr<GateTrainer> gate_trainer_of_forecast(const StreamSettings&, const ModelSpec&);
/// After the run: gated/ with the gate as it was trained; then the memories of inputs, the gate's among them.
void end_gated_task(const StreamSettings&, size_t t, const GateTrainer&, const std::string& memory, Io&);

/// Scores of all tests, by what was learned up to task t. Of questions, whose prompts open the gates:
/// the share of right choices. Of a text: bits per byte; a window's prompt is scored by the bare
/// model, since the gates have read it, the rest by the model with its branches. Empty: stopped.
std::vector<double> judge_gated(const StreamSettings&, size_t t, Io&, const std::atomic<bool>& stop);

}  // namespace tern
