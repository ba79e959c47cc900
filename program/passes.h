#pragma once
// Passes over Programs for many ranks: from a sound Program to a sound one that computes the same, to the bit.

#include "program/program.h"

namespace tern {

/// Lets a stage recompute while it waits for its output's gradient, not after that has come (Merak's first rule). The
/// RECOMPUTE of the stage's last unit, and a GATHER before it, start as soon as the compute is free. So do those of
/// units before it, as many as fit into `spare_bytes`: what they make is then alive until their own backward, and a
/// rank's peak rises by spare_bytes at most. In the last micro-batch the further units stay where they are, so that no
/// gradient synchronisation starts later. The simulated makespan never rises. Only tests call it so far.
/// Source  Lai et al. 2023, Merak, arXiv:2206.04959 (recalled; bytes and proof ours).
Program recompute_early(const Program&, int64_t spare_bytes);

}  // namespace tern
