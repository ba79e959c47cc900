#pragma once
// What a collective instruction puts on the links, in closed form.

#include <span>

#include "program/program.h"
#include "spec/collective_bytes.h"

namespace tern {

/// Bytes that `rank` of the `ranks` that share the instruction sends to the others and receives from them.
/// REDUCE  over an axis: an all-reduce of message_bytes, in elements of `element_bytes`. Over all ranks: an all-reduce of `parts`; the rest
///         of the message goes from each rank to each other one.
/// NORM    an all-reduce of one integer, and an all-gather of `parts` of what is shared out.
/// SCATTER a reduce-scatter of `parts`. GATHER, UPDATE an all-gather of `parts`. Other instructions send nothing.
/// Shapes  parts: bytes of what each rank keeps, as spec/owner.h deals it; empty: nothing is shared out.
/// Errors  TERN_CHECK: parts that are not the instruction's message together.
LinkBytes link_bytes(const Instruction&, int64_t element_bytes, int rank, int ranks,
                     std::span<const int64_t> parts = {});

/// Inside a unit's pass, over a tensor group of so many ranks whose parts are equal.
LinkBytes exchanged_bytes(const Instruction&, int ranks);

}  // namespace tern
