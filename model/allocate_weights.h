#pragma once
// Makes the storage of a model's weights and of their gradients, and says which of their tensors share one.

#include <vector>

#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/arena.h"

namespace tern {

/// Weights without tensors, in which only the linears' sizes are set.
ModelWeights empty_weights(const ModelSpec&);
/// Makes tensors with two names share one storage: a tied projection, a norm of two branches. For weights that were not
/// made by allocate_weights.
void share_storage(const ModelSpec&, ModelWeights&);
/// Uninitialised tensors for every parameter and adapter, which share storage as share_storage makes them; with MemoryClass::weights also
/// for the tensors of for_each_fixed.
/// `elsewhere` (an entry per unit, or none): units that another rank has. Their parameters stay empty tensors; a tied
/// head's table is allocated where the head is.
ModelWeights allocate_weights(const ModelSpec&, DType, MemoryClass, Arena&, const std::vector<bool>& elsewhere = {});
/// Zero gradients of what is trained, for weights of `dtype`; a frozen unit's own parameters have none. f32, or f64 of
/// an f64 model; storage is shared as in the weights, but a tied projection has a gradient of its own beside the embedding
/// table's (V·D elements more). Each of the two units adds to its own gradient in the order of micro-batches, so no schedule
/// changes their bits. MemoryClass::gradients.
/// `without` (an entry per unit, or none): of these units only a tied projection's gradient is allocated; `elsewhere`: of
/// these nothing.
ModelWeights allocate_gradients(const ModelSpec&, DType dtype, Arena&, const std::vector<bool>& without = {},
                                const std::vector<bool>& elsewhere = {});
/// Makes a norm of two branches share one storage again, after its tensors were set one by one.
void share_norms(const ModelSpec&, ModelWeights&);

}  // namespace tern
