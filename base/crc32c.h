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
/// Of a whole file. A real one is mapped and let go piece by piece, so that checking a large one neither copies it nor
/// shows in the program's resident memory. Errors: the Io's.
uint32_t file_crc32c(Io&, const std::string& path);

/// The same by a table of bytes: the judge, and the road of CPUs without the instruction.
uint32_t crc32c_ref(std::span<const std::byte>, uint32_t crc = 0);
/// Whether crc32c uses the CPU's instruction here.
bool crc32c_is_fast();

}  // namespace tern
