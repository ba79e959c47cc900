#pragma once
// What two methods add to the loss of a task, as gradients: EWC holds numbers where they were, O-LoRA keeps new directions
// away from old ones.

#include "adapt/numbers_file.h"
#include "adapt/task_model.h"
#include "train/split_step.h"

namespace tern {

/// `anchors` hold of each trained parameter "NAME.value", where it was after the last task, and "NAME.importance", what its change
/// costs: Σ over tasks of the diagonal of the Fisher information of one token. Source: Kirkpatrick et al. 2017, arXiv:1612.00796, as one
/// sum with the latest values (Schwarz et al. 2018, arXiv:1805.06370, γ = 1), so that memory does not grow.
/// Adds weight·importance·(θ - value), the gradient of weight/2·Σ importance·(θ - value)².
void add_ewc_gradient(const NamedMatrices& anchors, double weight, const StepGradients&);
/// Adds the task's adapter to `anchors`: values become its numbers; importances grow by the mean over windows of (targets of the
/// window)·(∂ mean loss / ∂θ)², which is the Fisher information of a token if the tokens' gradients are independent. f32 models.
void add_anchors(const TrainSettings&, TaskModel&, const Feed&, int64_t max_windows, NamedMatrices& anchors);

/// `past` holds of each A, under "NAME", the rows of all earlier tasks, one task below the other. Adds the gradient
/// weight·sign(A·A_oldᵀ)·A_old of weight·Σ |A·A_oldᵀ|. Source: Wang et al. 2023, arXiv:2310.14152 (its code).
void add_olora_gradient(const NamedMatrices& past, double weight, const StepGradients&);
/// Appends the rows of the task's A to those of earlier tasks.
void add_past_rows(TaskModel&, NamedMatrices& past);

}  // namespace tern
