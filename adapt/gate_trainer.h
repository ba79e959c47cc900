#pragma once
// GainLoRA's part in the run of a task. It puts the branches of earlier tasks beside the branch that learns, weighs all by their gates, and
// trains the gate of this task (adapt/gate_rule.h). A micro-batch is one window, as a window has one prompt.

#include <optional>
#include <string>
#include <vector>

#include "adapt/gate_rule.h"
#include "formats/peft/config.h"
#include "model/gated_adapter.h"
#include "train/step_companion.h"

namespace tern {

/// What the gate of a task is trained from.
struct GateTask {
  GatedAdapter earlier;  // branches and gates of earlier tasks; the number of a text's prompt tokens
  InputGate begin;       // this task's gate before the run
  GateMemory memory;     // of earlier tasks
  GateUpdates updates = GateUpdates::exact;
  std::optional<double> forced = {};  // for tests: the value that all gates have
};

/// Trains the gate of a task, step by step. For the functions that override, see train/step_companion.h.
class GateTrainer : public StepCompanion {
 public:
  explicit GateTrainer(GateTask);
  GateTrainer(const GateTrainer&) = delete;
  GateTrainer& operator=(const GateTrainer&) = delete;

  Bytes bytes(const ModelSpec&, DType) const override;
  std::vector<NamedTensor> allocate(const ModelSpec&, DType, Arena&) override;
  void join(const ModelWeights&) override;
  void choose_targets(std::vector<MicroBatch>&) const override;
  const ModelWeights& weights() const override { return weights_; }
  void before(const MicroBatch&) override;
  /// Adds the gradient of the window's gate to that of the step. As the gate scales the branch, the loss changes with the gate by
  /// <B, this window's gradient of B>/gate. A gate of 0 adds nothing.
  void after(const std::vector<Tensor>& trained, const std::vector<Tensor>& gradients) override;
  void update(int64_t number, double learning_rate) override;

  const InputGate& gate() const { return state_.gate; }
  const InputGate& gradient() const { return gradient_; }  // the sum over the step's windows so far

 private:
  size_t num_earlier() const { return task_.earlier.gates.size(); }

  GateTask task_;
  GateState state_;
  InputGate gradient_;
  ModelSpec spec_;
  ModelWeights earlier_, weights_;  // earlier branches alone; the run's weights with all branches, sharing memory
  GatedBranches branches_;
  std::vector<bool> is_b_;  // by trained parameter: whether it is a B
  GatePass pass_;           // of the window at hand
  double gate_ = 1;         // of the window at hand
  double agreement_ = 0;    // <B, its gradient> of the step so far
  std::vector<Tensor> counted_;
};

/// Loads these PEFT directories as further branches of `weights`, after the branches that it has. Errors: those of load_adapters.
void add_branches(const ModelSpec& adapted, const std::vector<std::string>& branches, DType, ModelWeights& weights,
                  Arena&);

}  // namespace tern
