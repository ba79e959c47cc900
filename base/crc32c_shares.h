#pragma once
// The CRC-32C of a file whose parts are on several ranks, so that no rank sees the whole file. Each rank computes the share
// of its part; the checksum follows from all shares.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tern {

/// The share of a part of a file. `bytes_after`: the number of the file's bytes after the part. XOR combines the shares of
/// several parts into one, in any order.
/// Source  CRCs are linear over GF(2): a part's share is its remainder times x^(8 · bytes_after) modulo the polynomial, as in
///         zlib's crc32_combine.
uint32_t crc32c_share(std::span<const std::byte> part, int64_t bytes_after);
/// The crc32c of a file of `file_bytes` bytes. `shares`: the XOR of the shares of all parts, where each byte is in exactly one part.
uint32_t crc32c_of_shares(uint32_t shares, int64_t file_bytes);

}  // namespace tern
