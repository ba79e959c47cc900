#pragma once
// CRC-32C (Castagnoli), the checksum of checkpoints and of TensorBoard's event files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tern {

/// The checksum of all bytes so far: pass the last result as `crc` to go on; 0 starts.
/// Source  RFC 3720 appendix B.4; polynomial 0x1EDC6F41, reflected, inverted in and out.
uint32_t crc32c(std::span<const std::byte>, uint32_t crc = 0);
inline uint32_t crc32c(std::string_view text, uint32_t crc = 0) { return crc32c(std::as_bytes(std::span(text)), crc); }

class Io;
/// The checksum of a whole file. Under real_io the file is mapped and its pages are released piece by piece, so that checking a
/// large file neither copies it nor adds to the program's resident memory. Errors: the Io's.
uint32_t file_crc32c(Io&, const std::string& path);

/// crc32c by a table of 256 entries: what tests compare crc32c with, and what runs on CPUs without the instruction.
uint32_t crc32c_ref(std::span<const std::byte>, uint32_t crc = 0);
/// Whether crc32c uses the CPU's instruction here.
bool crc32c_is_fast();

}  // namespace tern
