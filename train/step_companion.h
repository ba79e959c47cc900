#pragma once
// A second trainer that runs beside the trainer of an adapter. It sees each micro-batch of a step separately, and the run's checkpoints hold
// its state. Only a run on one rank can have one.

#include <cstdint>
#include <vector>

#include "exec/executor.h"
#include "model/weights.h"
#include "train/checkpoint_writer.h"

namespace tern {

/// train/ calls these functions; adapt/gate_trainer.h implements them.
class StepCompanion {
 public:
  virtual ~StepCompanion() = default;

  /// Bytes that it will take from the arena.
  struct Bytes {
    int64_t read = 0;   // of what it only reads
    int64_t state = 0;  // of what it trains, and of the state that this needs; checkpoints hold all of it
  };
  /// A prediction, before anything is allocated.
  virtual Bytes bytes(const ModelSpec&, DType) const = 0;
  /// Called once: makes its state as at the beginning of a run. If the run resumes, train/ then overwrites it from the checkpoint.
  virtual std::vector<NamedTensor> allocate(const ModelSpec&, DType, Arena&) = 0;
  /// Called once, before the first step, with the weights that the run trains.
  virtual void join(const ModelWeights&) = 0;

  /// Called with a step's micro-batches; it may remove the loss of some targets (set them to −1).
  virtual void choose_targets(std::vector<MicroBatch>&) const = 0;
  /// The weights that a step computes with; they may change between micro-batches.
  virtual const ModelWeights& weights() const = 0;
  /// Called before the first pass of a micro-batch.
  virtual void before(const MicroBatch&) = 0;
  /// Called after the last pass of a micro-batch, whose gradients are then in `gradients`. Entry i of both belongs to parameter i of
  /// trained_parameters.
  virtual void after(const std::vector<Tensor>& trained, const std::vector<Tensor>& gradients) = 0;
  /// Called at the end of a step that had a loss, before the adapter's own update. `number`: of the step, from 1.
  virtual void update(int64_t number, double learning_rate) = 0;
};

}  // namespace tern
