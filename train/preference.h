#pragma once
// Learning from pairs of answers (DPO): the loss of a pair, -log σ(β·h), h = log π(chosen) - log π(rejected) less the same of the reference,
// which is the model with its adapter off. Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7 (number recalled); trl's DPOTrainer
// (loss "sigmoid", no smoothing).

#include <functional>
#include <span>

#include "train/evaluate.h"

namespace tern {

struct Preference {
  double loss = 0;                       // mean of the pairs' losses, nats
  double accuracy = 0;                   // share of pairs with h > 0
  double margin = 0;                     // mean of β·h
  int64_t peak_bytes = 0;                // of the forward passes, counted, activations and temporaries
  std::vector<ByteMismatch> mismatches;  // counted against predicted
};

/// What the pairs cost, and the weight of each answer in the gradient. `answers`: each a micro-batch, chosen and rejected in turn.
/// Each gets a loss_scale of ±β·σ(-β·h)/pairs: with these scales held fixed, the gradient of Σ scale·(-log p) is that of the mean
/// loss. Four forward passes a pair: each answer with the adapter and without. `compute`: as in the step that follows, so that both
/// see the same numbers.
/// Errors  TERN_CHECK: an odd number of micro-batches; a model without adapters.
Preference weigh_pairs(const ModelSpec&, const ModelWeights&, double beta, std::span<MicroBatch> answers,
                       const Compute&, DType);

/// Loss and accuracy on the pairs of min(num_windows, max_windows) windows, evenly spaced, by exact kernels, without dropout.
Evaluation evaluate_preference(const ModelSpec&, const ModelWeights&, double beta, const Feed&, int64_t max_windows,
                               DType, const RopeTable*, Arena&, const std::function<bool()>& stopped = {});

}  // namespace tern
