#pragma once
// Checks that a model's weight files are complete and fit its config.json. Reads only the files' headers,
// except where a tied head is stored beside the table of tokens: then the numbers of both are compared.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

struct WeightsCheck {
  int64_t num_files = 0, num_tensors = 0, num_bytes = 0;  // of files that could be opened; num_bytes: of their tensors
  int64_t num_passed_over = 0;                            // ignored tensors: extra prediction layers, beside an encoder
  std::map<std::string, int64_t> dtypes;                  // number of tensors of each type, such as "BF16"
  std::vector<std::string> problems;                      // each names file and tensor; none: load_weights reads them
};

/// Opens every file, which checks the size, offsets and names in its header, then looks for tensors
/// that are missing, have another shape or an unreadable type, or belong to no parameter. It
/// reports all of them; load_weights stops at the first. `path`: a safetensors file or an index.
/// Traffic reads the headers, and of a tied model whose files hold the head as well, the table of tokens and the head.
/// Errors  none for faults in the files, which are in `problems`.
WeightsCheck check_weights(const ModelSpec&, const std::string& path);

}  // namespace tern
