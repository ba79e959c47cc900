#pragma once
// For model/ alone. Attention's sinks (AttentionSpec::sinks): one learned score per head, without a key or a value. The
// step after attention over the keys alone, and the gradient of that step. Kernels: kernels/cpu/attention_sinks.h.

#include "model/unit.h"

namespace tern {

/// In place: context (rows, heads·head_dim) and lse (rows, heads) of the heads that this rank computes (in a context group its share).
/// sinks (heads of `u`), in the type that weights have. f32 and bf16 rows keep lse in f32, f64 rows in f64.
void take_sinks(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& lse, const Compute&);
/// dsinks (heads of `u`; f32, f64 of an f64 model) += the gradient from this rank's heads. context, lse: as take_sinks
/// left them; dcontext: the gradient of context.
void add_sinks_gradient(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& dcontext,
                        const Tensor& lse, const Tensor& dsinks, const Compute&);

}  // namespace tern
