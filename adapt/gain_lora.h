#pragma once
// What GainLoRA does before and after the run of a task (docs/continual.md). Each task's branch stays a branch, weighed by its own gate, so
// no branch is merged into the weights. The A of a branch is given, as under InfLoRA.
//
//   NN-NAME/begin/              the directions that A is given, a PEFT directory
//   NN-NAME/gate.safetensors    the task's gate before its run
//   NN-NAME/gated/              all branches and gates up to this task (model/gated_adapter.h); removed when the next task is done

#include <atomic>
#include <memory>
#include <vector>

#include "adapt/gate_trainer.h"
#include "adapt/stream.h"
#include "adapt/stream_methods.h"

namespace tern {

/// The path of NN-NAME/gated. Tasks t count from 0.
std::string gated_directory(const StreamSettings&, size_t t);

/// Writes begin/ and the gate before the run. It computes both from the task's inputs as the model with all earlier branches sees them.
/// Errors: those of read_task_model and feed_of; the disk's.
void begin_gated_task(const StreamSettings&, size_t t, Io&);
/// The trainer of the gate of task t, from the task's files.
std::unique_ptr<GateTrainer> gate_trainer(const StreamSettings&, size_t t);
/// A trainer with as many earlier branches as the last task has, made without files. It serves to predict memory, not to train.
std::unique_ptr<GateTrainer> gate_trainer_of_forecast(const StreamSettings&, const ModelSpec&);
/// Called after the run: writes gated/ with the trained gate, then the memories of inputs, with those of the gate, to the file `memory`.
void end_gated_task(const StreamSettings&, size_t t, const GateTrainer&, const std::string& memory, Io&);
/// The scores of all tests, by what was learned up to task t. Empty: `stop` became true.
/// Questions  the share of right choices; a question's prompt opens the gates.
/// Texts      bits per byte. The model without branches scores a window's prompt, since the gates have read it; the model with its branches
///            scores the rest.
std::vector<double> judge_gated(const StreamSettings&, size_t t, Io&, const std::atomic<bool>& stop);

}  // namespace tern
