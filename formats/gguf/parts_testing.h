#pragma once
// What llama.cpp's gguf-split makes of one file, with tern's writer: for tests of the reader.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/gguf/parts.h"
#include "formats/gguf/write.h"

namespace tern {

// Bytes of a tensor with its padding.
inline int64_t padded_bytes(const GgufTensorToWrite& t) {
  int64_t elements = 1;
  for (const int64_t size : t.shape) elements *= size;
  const WeightTypeRow& row = row_of(t.type);
  return (elements / row.block_elements * row.block_bytes + 31) / 32 * 32;
}

/// Files of at most `max_bytes` of tensors each (one that is larger has a file of its own), with the keys and names that
/// gguf-split gives them; their paths. One file is `path` itself.
inline std::vector<std::string> write_gguf_parts(const std::string& path, const GgufMetadata& metadata,
                                                 std::span<const GgufTensorToWrite> tensors, int64_t max_bytes) {
  std::vector<size_t> begins{0};
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t more = padded_bytes(tensors[i]);
    if (i > begins.back() && bytes + more > max_bytes) begins.push_back(i), bytes = 0;
    bytes += more;
  }
  const size_t count = begins.size();
  begins.push_back(tensors.size());
  if (count == 1) return write_gguf(real_io(), path, metadata, tensors), std::vector<std::string>{path};
  std::vector<std::string> paths;
  for (size_t i = 0; i < count; ++i) {
    const std::string prefix = path.substr(0, path.size() - std::string_view(".gguf").size());
    paths.push_back(gguf_part_path(prefix, static_cast<int>(i) + 1, static_cast<int>(count)));
    GgufMetadata own = i == 0 ? metadata : GgufMetadata();
    own.add("split.no", static_cast<uint16_t>(i));
    own.add("split.count", static_cast<uint16_t>(count));
    own.add("split.tensors.count", static_cast<int32_t>(tensors.size()));
    write_gguf(real_io(), paths.back(), own, tensors.subspan(begins[i], begins[i + 1] - begins[i]));
  }
  return paths;
}

}  // namespace tern
