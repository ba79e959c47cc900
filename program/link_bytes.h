#pragma once
// What a collective instruction puts on the links, in closed form.

#include "program/program.h"
#include "spec/collective_bytes.h"

namespace tern {

/// Bytes that `rank` of so many that share the instruction sends to the others and receives from them: REDUCE over an axis
/// an all-reduce of message_bytes, in elements of `element_bytes`; NORM over ranks an all-reduce of one integer. Others:
/// none.
LinkBytes link_bytes(const Instruction&, int64_t element_bytes, int rank, int ranks);

}  // namespace tern
