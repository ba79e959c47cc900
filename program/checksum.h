#pragma once
// A Program's checksum. If a planned, a simulated and an executed Program have equal checksums, they are the same Program.

#include <cstdint>

#include "program/program.h"

namespace tern {

/// CRC-32C over num_ranks, num_units, num_micro, devices_per_rank, the resident buffers, and every field of every
/// instruction in the order of the list, as 64-bit little-endian integers. A list is preceded by its length. exchanged_bytes,
/// swapped_bytes, ring_bytes, routed_bytes and told_bytes form a list of five, which is left out if all five are zero. head_parts
/// follows the resident buffers if it is not 0.
uint32_t checksum(const Program&);

}  // namespace tern
