#pragma once
// The weights of a model directory, written as one safetensors file or as shards with an index.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors/write.h"

namespace tern {

/// Writes model.safetensors, or, where the tensors take more than max_shard_bytes, model-00001-of-0000N.safetensors and
/// last model.safetensors.index.json. Tensors go to shards in the given order; one larger than max_shard_bytes gets its
/// own shard. Weight files of an earlier export in `directory` that this one does not replace (*.safetensors named as
/// above, the index) are removed after the new ones are complete, so the directory never mixes two models. Returns the
/// file names written, in order. Errors: as write_safetensors.
std::vector<std::string> write_model_weights(Io&, const std::string& directory, std::span<const TensorToWrite> tensors,
                                             int64_t max_shard_bytes = int64_t{5'000'000'000},
                                             const SafetensorsMetadata& metadata = {{"format", "pt"}});

}  // namespace tern
