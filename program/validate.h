#pragma once
// The validator: what must hold for any Program before it is simulated or run, whoever generated or rewrote it.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// Every broken rule, one sentence each, naming the instruction by its place in the list; empty: the Program is sound.
/// Fields   rank, unit and micro in range, no negative size.
/// Buffers  per rank: born when not alive (a second birth only by RECOMPUTE), read only while alive, freed only while
/// alive,
///          nothing alive at the end. An instruction names a buffer at most once per list.
/// Order    per micro-batch: FORWARD in order of units; BACKWARD_INPUT(u) after BACKWARD_INPUT(u+1), the head's after
/// its FORWARD;
///          BACKWARD_WEIGHT(u) after BACKWARD_INPUT(u) (the embedding's after BACKWARD_INPUT(1)); RECOMPUTE(u) between
///          FORWARD(u) and BACKWARD_INPUT(u), at most once. NORM after every BACKWARD_WEIGHT and REDUCE, REDUCE(u) after
///          the unit's last BACKWARD_WEIGHT, UPDATE after NORM.
/// Bits     what adds to one gradient comes in order of micro-batches: a unit's BACKWARD_WEIGHTs, and the head's FORWARDs,
///          which add the gradient of the projection and the loss.
/// Needs    each instruction reads the buffers its computation takes: x, saved, dy.
/// Whole    every (unit, micro) runs F, B (not the embedding) and W exactly once; one NORM; UPDATE of every unit exactly
///          once.
/// `training` false: a forward program, with F alone.
std::vector<std::string> validate(const Program&, bool training = true);

/// Errors: TERN_CHECK with the first few sentences, if there are any.
void check_valid(const Program&, bool training = true);

}  // namespace tern
