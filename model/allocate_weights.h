#pragma once
// Allocates the tensors of a model's weights and gradients. A tensor that the model uses in two places gets one storage.

#include <vector>

#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/arena.h"

namespace tern {

/// Weights without tensors, in which only the linears' sizes are set.
ModelWeights empty_weights(const ModelSpec&);
/// Gives each tensor that the model uses in two places one storage: the table of tokens and a head tied to it;
/// the norm common to a parallel unit's attention and MLP. For weights that were not made by allocate_weights.
void share_storage(const ModelSpec&, ModelWeights&);
/// Allocates an uninitialised tensor for every parameter and adapter, with storage shared as by
/// share_storage. With MemoryClass::weights it also allocates the tensors of for_each_fixed.
/// `elsewhere` (one entry per unit, or empty): units that another rank has. Their parameters
/// stay empty tensors, except that a tied head's rank also allocates the table of tokens.
ModelWeights allocate_weights(const ModelSpec&, DType, MemoryClass, Arena&, const std::vector<bool>& elsewhere = {});
/// Allocates zero gradients (MemoryClass::gradients) for all that is trained in a model with weights of
/// `dtype`: in f32, or in f64 for f64 weights. A frozen unit's own parameters get none. Storage is shared as in
/// the weights, except that a tied projection has a gradient of its own, beside that of the table of tokens
/// (V·D elements more). The embedding and the head each add to their own gradient in the order of
/// micro-batches, so no schedule changes their bits. `without` (one entry per unit, or empty): units of which
/// only a tied projection's gradient is allocated. `elsewhere` (the same): units of which nothing is allocated.
ModelWeights allocate_gradients(const ModelSpec&, DType dtype, Arena&, const std::vector<bool>& without = {},
                                const std::vector<bool>& elsewhere = {});
/// Gives the norm common to a parallel unit's attention and MLP one storage again, after the tensors were set one by one.
void share_norms(const ModelSpec&, ModelWeights&);

}  // namespace tern
