#pragma once
// GainLoRA's part in a task's run: earlier branches beside the one that learns, all weighed by their gates, and the gate that learns
// with it (adapt/gate_rule.h). A micro-batch is one window, as a window has one prompt.

#include <optional>
#include <string>
#include <vector>

#include "adapt/gate_rule.h"
#include "formats/peft/config.h"
#include "model/gated_adapter.h"
#include "train/step_companion.h"

namespace tern {

/// The first rows of a window that are its prompt: up to the first target with a loss where rows before it have none (a conversation), else
/// `prompt_tokens` of them, at most all.
int64_t prompt_rows(const MicroBatch& window, int64_t prompt_tokens);
/// Takes away the losses of what lies inside the prompt, which the gates have seen.
void hide_prompt(MicroBatch& window, int64_t prompt_tokens);

struct GateTask {
  GatedAdapter earlier;  // gates and branches of earlier tasks; its prompt_tokens
  InputGate begin;       // where this task's gate begins
  GateMemory memory;
  GateUpdates updates = GateUpdates::exact;
  std::optional<double> forced = {};  // tests: the gates of all tasks
};

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
  /// The gradient of the window's gate: <B, this window's gradient of B>/gate, because the gate
  /// scales the branch. A gate of 0 has none.
  void after(const std::vector<Tensor>& trained, const std::vector<Tensor>& gradients) override;
  void update(int64_t number, double learning_rate) override;

  const InputGate& gate() const { return state_.gate; }
  const InputGate& gradient() const { return gradient_; }  // of the step so far

 private:
  size_t num_earlier() const { return task_.earlier.gates.size(); }

  GateTask task_;
  GateState state_;
  InputGate gradient_;
  ModelSpec spec_;
  ModelWeights earlier_, weights_;  // branches alone; handles on all
  GatedBranches branches_;
  std::vector<bool> is_b_;  // of trained parameters
  GatePass pass_;           // of the window at hand
  double gate_ = 1;
  double agreement_ = 0;  // <B, its gradient> of the step so far
  std::vector<Tensor> counted_;
};

/// Earlier branches behind those of `weights`, as adapters 0, 1, … Errors: those of load_adapters.
void add_branches(const ModelSpec& adapted, const std::vector<std::string>& branches, DType, ModelWeights& weights,
                  Arena&);

}  // namespace tern
