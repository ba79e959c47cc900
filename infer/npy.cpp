#include "infer/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/io.h"

namespace tern {

void write_npy(Io& io, const std::string& path, std::span<const float> values, int64_t width) {
  static_assert(std::endian::native == std::endian::little);
  TERN_CHECK(width > 0 && values.size() % static_cast<size_t>(width) == 0, "npy: {} values in rows of {}",
             values.size(), width);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   values.size() / static_cast<size_t>(width), width);
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64, behind a line's end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  const size_t at = bytes.size();
  bytes.resize(at + values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data() + at, values.data(), values.size_bytes());
  write_file_atomically(io, path, bytes);
}

}  // namespace tern
