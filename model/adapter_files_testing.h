#pragma once
// A PEFT directory's weights file without one tensor, with one more, or with a changed one.

#include <functional>
#include <string>
#include <vector>

#include "base/io.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/adapter_files.h"

namespace tern {

/// Writes the tensors of `dir`'s adapter into the directory `out`, once `change` has had them.
inline void write_changed_adapter(const std::string& dir, const std::string& out,
                                  const std::function<void(std::vector<TensorToWrite>&)>& change) {
  const Safetensors file(peft_weights_file(dir));
  std::vector<TensorToWrite> entries;
  for (size_t i = 0; i < file.size(); ++i)
    entries.push_back(
        {std::string(file[i].name), *file[i].dtype, {file[i].shape.begin(), file[i].shape.end()}, file[i].bytes, {}});
  change(entries);
  make_dirs(real_io(), out);
  write_safetensors(real_io(), out + "/adapter_model.safetensors", entries);
}

}  // namespace tern
