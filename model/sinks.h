#pragma once
// For model/ alone. Attention's sinks (AttentionSpec::sinks): one learned score per head, without a key or a value. These functions
// take the sinks into account after attention over the keys alone, and give their gradient. Kernels: kernels/cpu/attention_sinks.h.

#include "model/unit.h"

namespace tern {

/// Changes in place context (rows, heads·head_dim) and lse (rows, heads) of the heads that this rank computes (in a context
/// group its share). sinks (heads of `u`), in the type of the weights. lse is f32 for f32 and bf16 rows, f64 for f64 rows.
void take_sinks(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& lse, const Compute&);
/// dsinks (heads of `u`; f32, f64 of an f64 model) += the gradient from this rank's heads. context, lse: as take_sinks
/// left them; dcontext: the gradient of context.
void add_sinks_gradient(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& dcontext,
                        const Tensor& lse, const Tensor& dsinks, const Compute&);

}  // namespace tern
