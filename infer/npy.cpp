#include "infer/npy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>

#include "base/error.h"
#include "base/io.h"

namespace tern {

NpyWriter::NpyWriter(Io& io, std::string path, int64_t rows, int64_t width)
    : io_(io), path_(std::move(path)), temporary_(fmt::format("{}.tmp-{}", path_, ::getpid())), missing_(rows * width) {
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
  file_ = io_.create(temporary_);
  file_->append(bytes);
}

NpyWriter::~NpyWriter() {
  if (!file_) return;
  file_.reset();
  try {
    io_.remove(temporary_);
  } catch (const Error&) {  // the failure that led here is the one to report
  }
}

void NpyWriter::append(std::span<const float> values) {
  missing_ -= static_cast<int64_t>(values.size());
  file_->append(std::as_bytes(values));
}

void NpyWriter::finish() {
  TERN_CHECK(missing_ == 0, "npy: {} numbers are missing", missing_);
  file_->sync();
  file_->close();
  io_.rename(temporary_, path_);
  file_.reset();
  io_.sync_dir(parent_path(path_));
}

}  // namespace tern
