#pragma once
// Learning from pairs of answers (DPO). The loss of a pair is −log σ(β·h), where h = log π(chosen) − log π(rejected), less the same
// difference under the reference. The reference is the model without its adapter. Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7
// (number recalled); trl's DPOTrainer (loss "sigmoid", no smoothing).

#include <functional>
#include <span>

#include "train/evaluate.h"

namespace tern {

/// What a step's pairs of answers say about the model.
struct Preference {
  double loss = 0;                       // mean of the pairs' losses, in nats
  double accuracy = 0;                   // share of pairs with h > 0
  double margin = 0;                     // mean of β·h
  int64_t peak_bytes = 0;                // counted peak of activations and temporaries of the forward passes
  std::vector<ByteMismatch> mismatches;  // counted bytes that are not the predicted ones
};

/// The losses of pairs, and the weight of each answer in the gradient. `answers`: micro-batches of one answer each, chosen and rejected in
/// turn. Each gets a loss_scale of ±β·σ(−β·h)/pairs. With these scales held fixed, the gradient of Σ scale·(−log p) is that of the mean loss.
/// A pair takes four forward passes: each answer with the adapter and without. `Compute`: that of the step that follows, so that both see
/// the same numbers.
/// Errors  TERN_CHECK: an odd number of micro-batches; a model without adapters.
Preference weigh_pairs(const ModelSpec&, const ModelWeights&, double beta, std::span<MicroBatch> answers,
                       const Compute&, DType);

/// Loss and accuracy on the pairs of min(num_windows, max_windows) windows, evenly spaced, by exact kernels and without dropout. `stopped`:
/// as for evaluate().
Evaluation evaluate_preference(const ModelSpec&, const ModelWeights&, double beta, const Feed&, int64_t max_windows,
                               DType, const RopeTable*, Arena&, const std::function<bool()>& stopped = {});

}  // namespace tern
