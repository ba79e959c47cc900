#pragma once
// Plain twins (reference implementations) of kernels/cpu/attention_onto.h, in doubles.

#include "kernels/cpu/attention_onto.h"

namespace tern {

void attention_onto_ref(const AttentionShape&, std::span<const AttentionPiece>, const double* q, const double* k,
                        const double* v, double* out, std::span<double> lse);
void attention_queries_onto_ref(const AttentionShape&, std::span<const AttentionPiece>, const AttentionInputs<double>&,
                                double* dq);
void attention_keys_onto_ref(const AttentionShape&, std::span<const AttentionPiece>, const AttentionInputs<double>&,
                             double* dk, double* dv);

}  // namespace tern
