#pragma once
// What a collective instruction puts on the links, in closed form.

#include <span>

#include "program/program.h"
#include "spec/collective_bytes.h"

namespace tern {

/// Bytes that `rank` of the `ranks` that share the instruction sends to the others and receives from them:
///   REDUCE over an axis  an all-reduce of message_bytes, in elements of `element_bytes`
///   REDUCE over all      an all-reduce of `parts`; each rank sends the rest of message_bytes to every other rank
///   NORM                 an all-reduce of one integer (whether a rank refuses), and an all-gather of `parts`, where
///                        parameters are shared out
///   SCATTER              a reduce-scatter of `parts`
///   GATHER, UPDATE       an all-gather of `parts`
///   others               nothing
/// Shapes  parts: bytes of what each rank keeps, as spec/owner.h deals it; empty: nothing is shared out.
/// Errors  TERN_CHECK: parts that do not add up to the message (of a NORM: to what it holds beside the refusal).
LinkBytes link_bytes(const Instruction&, int64_t element_bytes, int rank, int ranks,
                     std::span<const int64_t> parts = {});

/// Bytes that a rank sends and receives while a unit's pass exchanges exchanged_bytes over its tensor group of `ranks`
/// ranks, whose parts are equal.
LinkBytes exchange_link_bytes(const Instruction&, int ranks);
/// Bytes that a rank sends and receives while a unit's pass swaps rows for heads over its context group of `ranks`
/// ranks.
LinkBytes swap_link_bytes(const Instruction&, int ranks);
/// Rows that a rank's router sent: of its own tokens `own`, of these `left` to other ranks; `came` from other ranks.
struct RowsSent {
  int64_t own = 0, left = 0, came = 0;
};
/// Bytes that a rank sends and receives while a unit's pass sends rows over its expert group of `ranks` ranks: a row that left or came has
/// gone both ways. An even router's RowsSent {n·k, n·(k − 1), n·(k − 1)}, k ranks, give the Program's bytes less what stays here.
LinkBytes routed_link_bytes(const Instruction&, int ranks, const RowsSent&);

}  // namespace tern
