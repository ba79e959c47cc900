#pragma once
// The validator: what must hold for any Program, whoever generated or rewrote it. A run validates its Program before
// the first step.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The rules that a Program breaks: one sentence each, which names the instruction by its place in the list. Empty: the
/// Program is sound.
/// Fields   rank (a device of the pipeline), unit, micro and peer in range; no negative size.
/// Buffers  per rank, in the order of the list: allocated only while not alive (a second time only by GATHER or LOAD), read and
///          freed only while alive. At the end only resident buffers are alive. No buffer stands twice in one instruction's
///          reads, allocates or frees. No buffer is freed while an instruction on another resource may still read it.
/// Messages every SEND has its RECV and every RECV its SEND; nothing waits in a circle (deadlock, all parties named).
/// Order    per micro-batch: FORWARD(u) after FORWARD(u−1); BACKWARD_INPUT(u) after FORWARD(u) and BACKWARD_INPUT(u+1);
///          RECOMPUTE(u) between FORWARD(u) and BACKWARD_INPUT(u), at most once; BACKWARD_WEIGHT(u) after
///          BACKWARD_INPUT(u) (the embedding's: after BACKWARD_INPUT(1)). If the neighbour u−1 or u+1 is on another
///          rank, the instruction reads the neighbour's result instead. All instructions of a unit are on one rank.
/// Bits     what adds to one gradient comes in order of micro-batches: a unit's BACKWARD_WEIGHTs, and the head's
///          FORWARDs, which add the gradient of the projection and the loss.
/// Needs    each pass reads the buffers that the pass takes: x, saved, dy, left.
/// Groups   MERGE after the unit's BACKWARD_WEIGHT of its micro-batch and before that of the next micro-batch (the head's
///          also before the next FORWARD), at most once. It reads and keeps sums of its own unit alone.
/// Step     REDUCE, SCATTER after the unit's last BACKWARD_WEIGHT (with a micro-batch: that micro-batch's). If their
///          resource is not compute, their `waits` name that BACKWARD_WEIGHT or a later instruction, and NORM's `waits`
///          name the rank's last such sum. NORM after all BACKWARD_WEIGHTs of the rank; after NORM only UPDATEs. UPDATE
///          after NORM, or, if it reads a `summand`, after the unit's last BACKWARD_WEIGHT; then no pass of the unit.
/// Whole    every (unit, micro) runs FORWARD, BACKWARD_INPUT (not the embedding) and BACKWARD_WEIGHT exactly once; one
///          NORM to a rank; UPDATE of every unit exactly once.
/// Rows     rows go to other ranks' experts in FORWARD, RECOMPUTE and BACKWARD_INPUT alone. If one of a unit's passes sends some, each of these
///          does in every micro-batch: FORWARD the same multiple of its output's bytes, and as many bytes that tell how many rows come;
///          RECOMPUTE what its FORWARD sends; BACKWARD_INPUT more than its FORWARD, at most twice as much, in one ratio for all units.
/// `training` false: a forward program, with FORWARD alone.
std::vector<std::string> validate(const Program&, bool training = true);

/// Checks that validate finds nothing. Errors: TERN_CHECK with the first few sentences.
void check_valid(const Program&, bool training = true);

}  // namespace tern
