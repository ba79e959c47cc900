#pragma once
// A Program's checksum. Equal checksums mean that the list that was planned is the list that is simulated and run.

#include <cstdint>

#include "program/program.h"

namespace tern {

/// CRC-32C over every field of every instruction in the order of the list, the resident buffers and the Program's own
/// numbers, as 64-bit little-endian integers. A list is preceded by its length. The bytes exchanged, swapped, in a ring,
/// routed and told come as a list of five; it is left out if all five are zero.
uint32_t checksum(const Program&);

}  // namespace tern
