#include "infer/npy.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"
#include "base/publish.h"

namespace tern {

NpyWriter::NpyWriter(Io& io, std::string path, int64_t rows, int64_t width) : missing_(rows * width) {
  static_assert(std::endian::native == std::endian::little);
  TERN_CHECK(rows >= 0 && width > 0, "npy: {} rows of {}", rows, width);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, width);
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64, behind a line's end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  file_ = std::make_unique<OutputFile>(io, std::move(path));
  file_->append(bytes);
}

NpyWriter::~NpyWriter() = default;

void NpyWriter::append(std::span<const float> values) {
  missing_ -= static_cast<int64_t>(values.size());
  file_->append(std::as_bytes(values));
}

void NpyWriter::finish() {
  TERN_CHECK(missing_ == 0, "npy: {} numbers are missing", missing_);
  file_->publish();
}

}  // namespace tern
