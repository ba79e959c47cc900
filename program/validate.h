#pragma once
// The validator: what must hold for any Program, whoever generated or rewrote it. A run validates its Program before
// the first step.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The rules that a Program breaks: one sentence each, which names the instruction by its place in the list. Empty: the
/// Program is sound.
/// Fields   rank, unit, micro and peer in range; no negative size.
/// Buffers  per rank, in the order of the list: allocated only while not alive (a second time only by GATHER or LOAD), read and
///          freed only while alive. At the end only resident buffers are alive. No buffer stands twice in one instruction's
///          reads, allocates or frees. No buffer is freed while an instruction on another resource may still read it.
/// Messages every SEND has its RECV and every RECV its SEND; nothing waits in a circle (deadlock, all parties named).
/// Order    per micro-batch: FORWARD(u) after FORWARD(u−1) on the same rank, or reading its output from another;
///          BACKWARD_INPUT(u) after FORWARD(u), and after BACKWARD_INPUT(u+1) or reading its gradient; RECOMPUTE
///          between the two, at most once; BACKWARD_WEIGHT(u) after BACKWARD_INPUT(u) (the embedding's after
///          BACKWARD_INPUT(1), or reading its gradient). A unit stays on its rank.
/// Bits     what adds to one gradient comes in order of micro-batches: a unit's BACKWARD_WEIGHTs, and the head's
///          FORWARDs, which add the gradient of the projection and the loss.
/// Needs    each instruction reads the buffers its computation takes: x, saved, dy.
/// Groups   MERGE after the unit's BACKWARD_WEIGHT of its micro-batch and before that of the next micro-batch (the head's
///          also before the next FORWARD), at most once. It reads and keeps sums of its own unit alone.
/// Step     REDUCE and SCATTER after the unit's last BACKWARD_WEIGHT (with a micro-batch: after that micro-batch's); beside the
///          compute their `waits` name that BACKWARD_WEIGHT or a later instruction. NORM after every BACKWARD_WEIGHT of its
///          rank; its `waits` name the last REDUCE or SCATTER beside the compute. UPDATE after NORM, or, if it reads its layer's
///          `summand`, after its unit's last BACKWARD_WEIGHT. After NORM only UPDATEs. No work of a unit after its UPDATE.
/// Whole    every (unit, micro) runs FORWARD, BACKWARD_INPUT (not the embedding) and BACKWARD_WEIGHT exactly once; one
///          NORM to a rank; UPDATE of every unit exactly once.
/// `training` false: a forward program, with FORWARD alone.
std::vector<std::string> validate(const Program&, bool training = true);

/// Checks that validate finds nothing. Errors: TERN_CHECK with the first few sentences.
void check_valid(const Program&, bool training = true);

}  // namespace tern
