#pragma once
// A second trainer beside the adapter's: it sees each micro-batch of a step by itself, and the
// run's checkpoints hold its numbers. One rank alone.

#include <cstdint>
#include <vector>

#include "exec/executor.h"
#include "model/weights.h"
#include "train/checkpoint_writer.h"

namespace tern {

class StepCompanion {
 public:
  virtual ~StepCompanion() = default;

  /// Bytes that it will take from the arena, for the forecast. read: of what it does not change. state: of what it trains and
  /// keeps beside that; all of it is in checkpoints.
  struct Bytes {
    int64_t read = 0, state = 0;
  };
  virtual Bytes bytes(const ModelSpec&, DType) const = 0;
  /// Once: its state as at a run's beginning. A resumed run then puts its checkpoint's numbers there.
  virtual std::vector<NamedTensor> allocate(const ModelSpec&, DType, Arena&) = 0;
  /// Once, before the first step, with the weights that the run trains.
  virtual void join(const ModelWeights&) = 0;

  /// May take losses away from the step's rows.
  virtual void choose_targets(std::vector<MicroBatch>&) const = 0;
  /// The weights that a step computes with; they may change between micro-batches.
  virtual const ModelWeights& weights() const = 0;
  virtual void before(const MicroBatch&) = 0;
  /// The micro-batch's gradients are added to `gradients`, entry i of parameter i of trained_parameters.
  virtual void after(const std::vector<Tensor>& trained, const std::vector<Tensor>& gradients) = 0;
  /// At the end of a step that had a loss, before the adapter's own update. number: from 1.
  virtual void update(int64_t number, double learning_rate) = 0;
};

}  // namespace tern
