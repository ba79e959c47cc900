#pragma once
// The bytes that a collective instruction sends and receives over the links, in closed form.

#include <span>

#include "program/program.h"
#include "spec/collective_bytes.h"

namespace tern {

/// Bytes that `rank`, one of the `ranks` ranks of the instruction's axis, sends to the other ranks and receives:
///   REDUCE               an all-reduce of message_bytes, in elements of `element_bytes`
///   REDUCE, axis `all`   an all-reduce of `parts`; besides, each rank sends message_bytes − Σ parts to every other rank
///   NORM                 8 bytes from each rank to every other (whether it refuses the gradients), and an all-gather of `parts`
///   SCATTER              a reduce-scatter of `parts`
///   GATHER, UPDATE       an all-gather of `parts`
///   others, axis `none`  nothing
/// Shapes  parts: for each rank the bytes of a sum that it keeps (SCATTER; REDUCE with axis `all`), or the bytes that it gives to the
///         others (GATHER, UPDATE, NORM). Empty for a NORM in which ranks give nothing, and for a REDUCE over any other axis.
/// Errors  TERN_CHECK: Σ parts differs from message_bytes (of a NORM: from message_bytes − 8). A REDUCE is not checked.
LinkBytes link_bytes(const Instruction&, int64_t element_bytes, int rank, int ranks,
                     std::span<const int64_t> parts = {});

/// Bytes that a rank sends and receives while a unit's pass exchanges exchanged_bytes over its tensor group of `ranks`
/// ranks. All ranks have equal parts.
LinkBytes exchange_link_bytes(const Instruction&, int ranks);
/// Bytes that a rank sends and receives while a unit's pass swaps rows for heads over its context group of `ranks`
/// ranks.
LinkBytes swap_link_bytes(const Instruction&, int ranks);
/// Bytes that a rank sends and receives while a unit's pass sends keys and values round the ring of its context group.
LinkBytes ring_link_bytes(const Instruction&);
/// Rows of a pass. own: of this rank's tokens; left: rows of `own` that go to other ranks; came: rows that come from other ranks.
struct RowsSent {
  int64_t own = 0, left = 0, came = 0;
};
/// Bytes that a rank sends and receives in a unit's pass over an expert group of k = `ranks` ranks, for the actual rows. If every rank
/// sends m rows to each rank, RowsSent is {m·k, m·(k−1), m·(k−1)} and the bytes are (routed_bytes + told_bytes)·(k−1)/k.
LinkBytes routed_link_bytes(const Instruction&, int ranks, const RowsSent&);

}  // namespace tern
