#pragma once
// Writing safetensors: streamed, and the same tensors always give the same bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "formats/byte_sink.h"

namespace tern {

class Io;

/// A tensor to write: its bytes at once, or a function that hands them over in pieces, in order, when their turn comes
/// (so converting or gathering needs one piece of memory). Exactly one of the two; empty tensors need neither.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::function<void(const ByteSink&)> produce;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// What was written.
struct SafetensorsWritten {
  int64_t file_bytes = 0;
  uint32_t crc32c = 0;  // of the whole file
};

/// Writes `path` as an OutputFile: a crash leaves the old file or the new one, and a mapping of the old one keeps its
/// bytes.
/// Order   tensors by element type (the reference writer's order), then by name; metadata sorted by key; the header
///         padded with blanks to a multiple of 8. Byte-equal to what the reference library writes for the same tensors
///         (checked for ≤ 1 metadata key: with more the reference does not fix their order).
/// Errors  usage: a name twice, a negative size, bytes that do not match the shape, more than the reader would accept;
/// those of base/io.h.
SafetensorsWritten write_safetensors(Io&, const std::string& path, std::span<const TensorToWrite> tensors,
                                     const SafetensorsMetadata& metadata = {{"format", "pt"}});

/// The header with its length, as write_safetensors would begin the file.
std::string safetensors_header(std::span<const TensorToWrite> tensors, const SafetensorsMetadata& metadata);

}  // namespace tern
