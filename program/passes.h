#pragma once
// Passes over Programs for many ranks: from a sound Program to a sound one that computes the same, to the bit.

#include "program/program.h"

namespace tern {

/// Lets a stage recompute before its output's gradient has come, not after (Merak's first rule). The RECOMPUTE of the
/// stage's last unit, and a GATHER before it, start as soon as the compute is free. So do the RECOMPUTEs of the units
/// before the last, as many as fit into `spare_bytes`: what they make is then alive until their own backward, and a
/// rank's peak rises by spare_bytes at most. In the last micro-batch only the stage's last unit recomputes early, so that
/// no gradient synchronisation starts later. The simulated makespan never rises. Only tests call recompute_early so far.
/// Source  Lai et al. 2023, Merak, arXiv:2206.04959 (recalled; bytes and proof ours).
Program recompute_early(const Program&, int64_t spare_bytes);

}  // namespace tern
