#pragma once
// What a collective instruction puts on the links, in closed form.

#include <span>

#include "program/program.h"
#include "spec/collective_bytes.h"

namespace tern {

/// Bytes that `rank` of so many that share the instruction sends to the others and receives from them: REDUCE over an axis
/// an all-reduce of message_bytes, in elements of `element_bytes` (over all ranks: of `parts`, and what is left of the message from each to each); NORM over ranks an all-reduce of one integer, and of what is
/// shared out an all-gather of `parts`; SCATTER a reduce-scatter of `parts`, GATHER and UPDATE an all-gather. Others: none.
/// Shapes  parts: bytes of what each rank keeps, as spec/owner.h deals it; empty: nothing is shared out.
/// Errors  TERN_CHECK: parts that are not the instruction's message together.
LinkBytes link_bytes(const Instruction&, int64_t element_bytes, int rank, int ranks,
                     std::span<const int64_t> parts = {});

/// Inside a unit's pass, over a tensor group of so many ranks whose parts are equal.
LinkBytes exchanged_bytes(const Instruction&, int ranks);

}  // namespace tern
