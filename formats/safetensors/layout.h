#pragma once
// Where each tensor of a safetensors file will lie, for writers that do not write it from its beginning to its end.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors/write.h"

namespace tern {

struct SafetensorsLayout {
  std::string header;           // the file's first bytes, its length included
  std::vector<int64_t> begins;  // of each tensor, in the order given: its first byte in the file
  int64_t file_bytes = 0;
};

/// The layout of the file that write_safetensors would write. The tensors need neither bytes nor a producer. Errors: usage, as
/// write_safetensors.
SafetensorsLayout safetensors_layout(std::span<const TensorToWrite> tensors,
                                     const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace tern
