#pragma once
// The forward and the two backward passes of each unit, written once for training and inference. f32 and
// bf16 run on the CPU kernels, f64 as model/ops.h says. T tokens of a ragged batch; D width.

#include <cstdint>
#include <span>
#include <vector>

#include "model/compute.h"
#include "model/kv_view.h"
#include "model/rows.h"
#include "model/unit_saved.h"
#include "model/weight_source.h"

namespace tern {

/// y = unit(x), for every unit but head and bridge. `x` is empty for embed. y is allocated here (activations).
/// saved == nullptr: nothing is kept (inference, or a forward that a RECOMPUTE repeats). kv != nullptr: attention reads and extends the cache.
Tensor unit_forward(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& x_TD, UnitSaved* saved,
                    KvView* kv, const Compute&);
/// Computes dx from dy, and leaves in `saved` what unit_backward_weight needs. Not for
/// embed. For the head dy is empty, as head_forward_loss has already set saved.dnormed_TD.
Tensor unit_backward_input(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& dy_TD,
                           UnitSaved& saved, const Compute&);
/// Adds this micro-batch's weight gradients to those in `gradients`. Gradients are f32 (f64
/// of an f64 model), made by allocate_gradients. dy: the gradient of the unit's output, also for embed.
void unit_backward_weight(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& dy_TD,
                          UnitSaved& saved, UnitWeights& gradients, const Compute&);

/// The head in training: final norm, logits, loss and both gradients, tile by tile in one pass, so that the logits never exist all at once.
/// It adds the projection's weight gradient; unit_backward_input of the head then only goes back through the norm.
/// targets (T), < 0: no loss. Returns Σ over targets of -log p. Gradients are those of `scale`·Σ.
double head_forward_loss(const ModelSpec&, const HeadWeights&, const Rows&, const Tensor& x_TD,
                         std::span<const int32_t> targets, double scale, HeadSaved& saved, HeadWeights& gradients,
                         const Compute&);
/// -log p(target) per row (0 where target < 0), tile by tile and without gradients, for evaluation.
std::vector<double> head_losses(const ModelSpec&, WeightSource, const Tensor& x_TD, std::span<const int32_t> targets,
                                const Compute&);
/// Logits (rows.size(), V) of some rows of x, in f32 (f64 if x is f64). `rows`: the indices of those rows.
Tensor head_logits(const ModelSpec&, WeightSource, const Tensor& x_TD, std::span<const int32_t> rows, const Compute&);

/// The whole forward pass, which keeps nothing for a backward pass; for scores of texts, embeddings and calibration.
/// It leases one unit's weights at a time, and returns the last block's output (T, D).
Tensor model_forward(const ModelSpec&, WeightSource, const Rows&, KvView* kv, const Compute&);

}  // namespace tern
