#pragma once
// CRC-32C (Castagnoli), the checksum of checkpoints and of TensorBoard's event files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tern {

/// The checksum of the bytes. To checksum data in parts, pass the result of the part before as `crc`, and 0 for the first part.
/// Source  RFC 3720 appendix B.4; polynomial 0x1EDC6F41, reflected, inverted in and out.
uint32_t crc32c(std::span<const std::byte>, uint32_t crc = 0);
inline uint32_t crc32c(std::string_view text, uint32_t crc = 0) { return crc32c(std::as_bytes(std::span(text)), crc); }

class Io;
/// The checksum of a whole file. Under real_io the file is mapped and its pages are released piece by piece, so that
/// checking a large file neither copies it nor adds to the program's resident memory. Errors: those of the Io.
uint32_t file_crc32c(Io&, const std::string& path);

/// crc32c by a table of 256 entries. CPUs without the CRC-32C instruction use it, and tests compare crc32c with it.
uint32_t crc32c_ref(std::span<const std::byte>, uint32_t crc = 0);
/// Whether crc32c uses the CRC-32C instruction of this CPU.
bool crc32c_is_fast();

}  // namespace tern
