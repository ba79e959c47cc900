#pragma once
// Whether a model's weights are whole and belong to its config.json. Read from the files' headers alone, but for a head that is
// tied and stored as well: its numbers are compared with the table's.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

struct WeightsCheck {
  int64_t num_files = 0, num_tensors = 0, num_bytes = 0;  // of files that could be opened; bytes of tensors
  int64_t num_passed_over = 0;                            // tensors: of extra prediction layers, or beside an encoder
  std::map<std::string, int64_t> dtypes;                  // "BF16": tensors of that type
  std::vector<std::string> problems;                      // each names file and tensor; none: load_weights reads them
};

/// Opens every file's header (so its size, offsets and names are checked), then looks for tensors that are missing,
/// have another shape or an unreadable type, or belong to no parameter: all of them, where load_weights stops at the
/// first. `path`: a safetensors file or an index.
/// Traffic reads the headers; of a tied model whose files hold the head as well, both tables too.
/// Errors  none for what a file holds: it is in `problems`.
WeightsCheck check_weights(const ModelSpec&, const std::string& path);

}  // namespace tern
