#pragma once
// Plain twins (reference implementations) of kernels/cpu/attention.h: in doubles, and with all scores of a row computed at once.

#include <cstdint>
#include <span>

#include "kernels/cpu/attention.h"

namespace tern {

/// Shapes as in kernels/cpu/attention.h; lse (rows, heads) in doubles, may be empty.
void attention_forward_ref(const AttentionShape&, std::span<const AttentionSequence<double>>, const double* q,
                           double* out, std::span<double> lse);
void attention_backward_ref(const AttentionShape&, std::span<const int64_t> starts, const double* q, const double* k,
                            const double* v, const double* out, const double* dout, std::span<const double> lse,
                            double* dq, double* dk, double* dv);

}  // namespace tern
