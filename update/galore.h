#pragma once
// GaLore: a rule inside a projection. A matrix's gradient is projected onto the `projection-rank` directions of its shorter side that
// are strongest in it. The rule keeps its state, and makes its step, in this subspace; then the step is projected back to the matrix:
//   every `basis-every` steps, from the first on:  B = the strongest eigenvectors of gᵀg (rows ≥ columns; else of ggᵀ), as rows
//   r = g Bᵀ (else B g);  d = the rule's step from zero under r;  w = (w + scale · d B (else Bᵀ d)) (1 - ηλ)
// A new basis leaves the state as it is. A rule that adds λw to the gradient does so before the projection, and w is not multiplied by
// (1 - ηλ). Tables and vectors get the plain rule. Source: Zhao et al. 2024, arXiv:2403.03507 (text not seen); order of steps as in
// galore-torch. Ours: each direction's entry of largest magnitude is positive, so that states mean the same on all ranks and in all runs.

#include "update/rule.h"

namespace tern {

/// Slots: the basis, then the slots of `inner` for the projected matrix. Options: those of `inner`, and of the projection. Temporary:
/// as spec/update_rules.def says. `adds_decay`: the rule adds λw to the gradient.
void galore_step(const UpdateShard&, UpdateRule inner, bool adds_decay);
ThreadBytes galore_thread_bytes(const UpdateConfig&, const ParameterForm&);

}  // namespace tern
