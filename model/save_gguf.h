#pragma once
// Writes ModelWeights to a GGUF file.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "base/weight_type.h"
#include "formats/gguf/write.h"
#include "model/read_parameter.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

struct HfConfig;
class Io;

struct GgufSaved {
  int64_t file_bytes = 0;
  int64_t as_f16 = 0;  // matrices whose rows are no multiple of their type's block
};
/// The types in which numbers are written, to a file or (model/save_coded.h) a directory; save_gguf takes those that
/// rounds_to knows. In GGUF vectors, and GPT-2's positions, are f32 in any case, as llama.cpp's converter has it.
struct GgufTypes {
  WeightType matrices;  // of the layers
  WeightType tables;    // of the tokens: the embedding and the head
  // In directories: of single matrices of the layers, by their parameters' names, in the place of `matrices`.
  std::map<std::string, WeightType> single = {};
};
/// All rows of a layer's matrix as blocks of a type, with codes that the caller chose. Called for a parameter once for each
/// of its parts in the file, in the order of units.
using CodeParameter = std::function<std::span<const std::byte>(const ParameterInfo&, WeightType)>;

/// Writes `metadata` (by add_gguf_config, add_gguf_vocabulary), the file's type, and the weights to one file.
/// With `code` the layers' matrices are what it gives; all other tensors, and without `code` all tensors, are rounded.
/// Memory  what `read` and `code` keep, and one row.
/// Errors  usage: a family that GGUF has no names for; those of write_gguf.
GgufSaved save_gguf(const ModelSpec&, const HfConfig&, const ReadParameter& read, const GgufTypes&,
                    GgufMetadata metadata, const std::string& path, Io&, const CodeParameter& code = {});

}  // namespace tern
