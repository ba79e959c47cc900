#pragma once
// The validator of Programs for many ranks: what must hold before one is simulated or run, whoever generated or rewrote
// it.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// Every broken rule, one sentence each, naming the instruction by its place in the list; empty: the Program is sound.
/// Fields   rank, unit, micro and peer in range; no negative size or time.
/// Buffers  per rank, in the order of the list: born when not alive, read and freed only while alive, nothing but the
///          resident alive at the end; not freed while an instruction on another resource may still read it.
/// Messages every SEND has its RECV and every RECV its SEND; nothing waits in a circle (deadlock, all parties named).
/// Order    per micro-batch: FORWARD(u) after FORWARD(u−1) on the same rank, or reading its output from another;
///          BACKWARD_INPUT(u) after FORWARD(u), and after BACKWARD_INPUT(u+1) or reading its gradient; RECOMPUTE
///          between the two; BACKWARD_WEIGHT(u) after BACKWARD_INPUT(u), in order of micro-batches (bits). A unit stays
///          on its rank.
/// Step     SCATTER waits for its unit's last BACKWARD_WEIGHT; one UPDATE per rank, last, after its SCATTERs.
/// Whole    every (unit, micro) runs FORWARD, BACKWARD_INPUT and BACKWARD_WEIGHT exactly once.
std::vector<std::string> validate_ranks(const Program&);

}  // namespace tern
