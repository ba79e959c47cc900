#pragma once
// GaLore: a rule inside a projection. The gradient of a matrix is projected on the `projection-rank` directions of its shorter side that are
// strongest in it; the rule keeps its state there and makes its step there, and the step is projected back to the whole matrix:
//   every `basis-every` steps, from the first on:  B = the strongest eigenvectors of gᵀg (rows ≥ columns; else of ggᵀ), as rows
//   r = g Bᵀ (else B g);  d = the rule's step from zero under r;  w = (w + scale · d B (else Bᵀ d)) (1 - ηλ)
// State stays as it is where the basis changes. λ is added to the gradient where the rule does so. Tables and vectors: the rule as it is.
// Source: Zhao et al. 2024, arXiv:2403.03507 (text not seen); order of steps as in galore-torch. Ours: the largest number of each direction is
// positive, so that state means the same on all ranks and in all runs.

#include "update/rule.h"

namespace tern {

/// Slots: the basis, then those of `inner`, of the projected form. Options: those of `inner` and of the projection. Temporary:
/// spec/update_rules.def. `adds_decay`: the rule adds λw to the gradient.
void galore_step(const UpdateShard&, UpdateRule inner, bool adds_decay);
ThreadBytes galore_thread_bytes(const UpdateConfig&, const ParameterForm&);

}  // namespace tern
