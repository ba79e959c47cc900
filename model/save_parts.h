#pragma once
// Saves a model of which not all is in memory at one time.

#include <cstdint>
#include <string>

#include "model/read_parameter.h"
#include "model/weights.h"

namespace tern {

struct HfConfig;
class Io;

/// save_model (model/model_files.h), where parameters without a tensor in the weights are read when they are written: once for each tensor of
/// the files that holds a part of one. Errors: those of save_model and of `read`.
void save_model(const ModelSpec&, const HfConfig&, const ModelWeights&, DType, const std::string& dir, Io&,
                const ReadParameter& read, int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace tern
