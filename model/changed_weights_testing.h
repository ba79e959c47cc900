#pragma once
// Tests only: a model's weights file without one tensor, with one more, or with a changed one.

#include <functional>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/safetensors/index.h"
#include "formats/safetensors/write.h"

namespace tern {

/// Writes the tensors of `dir`'s weights file over it, once `change` has had them.
inline void rewrite_weights(const std::string& dir, const std::function<void(std::vector<TensorToWrite>&)>& change) {
  const Weights file(dir + "/model.safetensors");
  std::vector<TensorToWrite> entries;
  for (size_t i = 0; i < file.size(); ++i)
    entries.push_back(
        {std::string(file[i].name), *file[i].dtype, {file[i].shape.begin(), file[i].shape.end()}, file[i].bytes, {}});
  change(entries);
  write_safetensors(real_io(), dir + "/model.safetensors", entries);
}

}  // namespace tern
