#pragma once
// Rewrites of Programs for many ranks: each turns a valid Program into a valid one that computes the same, to the bit.

#include "program/program.h"

namespace tern {

/// Lets a stage recompute before its output's gradient arrives, not after (Merak's first rule). The RECOMPUTE of the
/// stage's last unit, and a GATHER before it, start as soon as the compute is free. As many RECOMPUTEs of earlier units as fit
/// into `spare_bytes` start then too. What they make stays alive until their units' own backward, so a rank's peak rises by
/// spare_bytes at most. In the last micro-batch only the stage's last unit recomputes early, so that
/// no gradient synchronisation starts later. The simulated makespan never rises. Only tests call recompute_early so far.
/// Source  Lai et al. 2023, Merak, arXiv:2206.04959 (recalled; bytes and proof ours).
Program recompute_early(const Program&, int64_t spare_bytes);

}  // namespace tern
