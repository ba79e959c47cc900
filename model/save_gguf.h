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
  int64_t as_f16 = 0;  // tensors written as f16, because their rows are no whole blocks of the type asked for
};
/// The types in which weights are written, to a GGUF file or to a directory (model/save_coded.h). Without a CodeParameter
/// save_gguf takes the types that rounds_to knows. In GGUF, vectors and GPT-2's positions are always f32, as llama.cpp's converter writes them.
struct GgufTypes {
  WeightType matrices;  // of the layers
  WeightType tables;    // of the tokens: the embedding and the head
  // In directories alone: types of single matrices of the layers, by the parameter's name. They replace `matrices`.
  std::map<std::string, WeightType> single = {};
};
/// Returns all rows of a matrix as blocks of a type, with codes that the caller chose.
/// It is called once for each part that a parameter has in the file, in the order of units.
using CodeParameter = std::function<std::span<const std::byte>(const ParameterInfo&, WeightType)>;

/// Writes `metadata` (by add_gguf_config, add_gguf_vocabulary), the file's type, and the weights to one file.
/// `code`, if given, supplies the blocks of the layers' matrices, and of tables in a type that rounds_to does not know. All
/// other tensors, or all tensors without `code`, are rounded.
/// Memory  what `read` and `code` keep, and one row.
/// Errors  usage: a family that GGUF has no names for; those of write_gguf.
GgufSaved save_gguf(const ModelSpec&, const HfConfig&, const ReadParameter& read, const GgufTypes&,
                    GgufMetadata metadata, const std::string& path, Io&, const CodeParameter& code = {});

}  // namespace tern
