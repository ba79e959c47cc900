#pragma once
// The learned scores of attention's heads that have no key and no value (AttentionSpec::sinks): the step after attention over the
// keys alone, and its gradient (kernels/cpu/attention_sinks.h). Stays in model/.

#include "model/unit.h"

namespace tern {

/// In place: context (rows, heads·head_dim) and lse (rows, heads) of the heads that this rank computes (in a context group its share).
/// sinks (heads of `u`), in the type that weights have. f32 and bf16 rows keep lse in f32, f64 rows in f64.
void take_sinks(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& lse, const Compute&);
/// dsinks (heads of `u`; f32, f64 of an f64 model) += what this rank's heads give it; context and lse as take_sinks left them,
/// dcontext the gradient of the former.
void add_sinks_gradient(const AttentionSpec& u, const Tensor& sinks, const Tensor& context, const Tensor& dcontext,
                        const Tensor& lse, const Tensor& dsinks, const Compute&);

}  // namespace tern
