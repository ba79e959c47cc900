#pragma once
// The penalties that two methods add to the loss of a task, as gradients. EWC holds numbers near where they were; O-LoRA keeps new directions
// away from old ones.

#include "adapt/numbers_file.h"
#include "adapt/task_model.h"
#include "train/step_gradients.h"

namespace tern {

/// EWC: adds weight·importance·(θ − value) to the gradients, which is the gradient of weight/2·Σ importance·(θ − value)². `anchors` has for
/// each trained parameter "NAME.value", its numbers after the last task, and "NAME.importance", what their change costs: the sum over tasks
/// of the diagonal of the Fisher information of one token.
/// Source  Kirkpatrick et al. 2017, arXiv:1612.00796, with one sum of importances and the latest values (Schwarz et al. 2018,
///         arXiv:1805.06370, γ = 1), so that memory does not grow.
void add_ewc_gradient(const NamedMatrices& anchors, double weight, const StepGradients&);
/// EWC: adds a task that was learned to `anchors`. The adapter's numbers become the values. Importances grow by the mean over at most
/// `max_windows` windows of (targets of the window)·(∂ mean loss / ∂θ)², which is the Fisher information of a token if the tokens' gradients
/// are independent. Only for f32 models.
void add_anchors(const TrainSettings&, TaskModel&, const Feed&, int64_t max_windows, NamedMatrices& anchors);
/// O-LoRA: adds weight·sign(A·A_oldᵀ)·A_old to the gradient of each A, which is the gradient of weight·Σ |A·A_oldᵀ|. `past` has for each A,
/// under its name, the rows A_old of all earlier tasks, one task below the other. Source: Wang et al. 2023, arXiv:2310.14152 (its code).
void add_olora_gradient(const NamedMatrices& past, double weight, const StepGradients&);
/// O-LoRA: appends the rows of the learned task's A to those of earlier tasks.
void add_past_rows(TaskModel&, NamedMatrices& past);

}  // namespace tern
