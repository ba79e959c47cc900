#pragma once
// Saves a model whose weights are not all in memory at one time.

#include <cstdint>
#include <string>

#include "model/read_parameter.h"
#include "model/weights.h"

namespace tern {

struct HfConfig;
class Io;

/// As save_model (model/model_files.h). In addition, parameters whose tensors in the weights are empty are read by `read` when
/// they are written, once for each tensor of the files that holds a part of them. Errors: those of save_model and of `read`.
void save_model(const ModelSpec&, const HfConfig&, const ModelWeights&, DType, const std::string& dir, Io&,
                const ReadParameter& read, int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace tern
