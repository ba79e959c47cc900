#pragma once
// The CRC-32C of a file whose parts several ranks have, none of which sees the whole: each part has a share in the checksum, and
// all shares together are the checksum.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern {

/// The share of a part of a file, behind which `bytes_after` bytes of the file follow. Shares of parts are joined by XOR, in any
/// order and any number at a time.
/// Source  CRCs are linear over GF(2): a part's share is its remainder times x^(8 · bytes_after) modulo the polynomial, as in
///         zlib's crc32_combine.
uint32_t crc32c_share(std::span<const std::byte> part, int64_t bytes_after);
/// crc32c of a file of `file_bytes` bytes, each of which is in one part; `shares`: those of all parts, joined.
uint32_t crc32c_of_shares(uint32_t shares, int64_t file_bytes);

}  // namespace tern
