#pragma once
// A Program's checksum. Equal checksums mean that the list that was planned is the list that is simulated and run.

#include <cstdint>

#include "program/program.h"

namespace tern {

/// CRC-32C over every field of every instruction in the order of the list, the resident buffers and the Program's own
/// numbers, as 64-bit little-endian integers; a list is preceded by its length. Of bytes exchanged, swapped, routed and told
/// zeros are left out; those of a ring are left out if zero, else they stand negated.
uint32_t checksum(const Program&);

}  // namespace tern
