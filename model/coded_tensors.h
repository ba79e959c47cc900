#pragma once
// Matrices as tern's own directories code them (docs/coded-directories.md): beside other tensors of model.safetensors
//   NAME.TYPE      U8 (rows, bytes of a row): the rows of tensor NAME as blocks of TYPE ("u4", "q8_0", "lc3")
//   NAME.levels    I8 (kCodeTables, levels): of types with learned tables
// Each row belongs to one output. Other directories hold GPT-2's matrices transposed; these directories do not.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "formats/safetensors/index.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// The type's name in the names of tensors and in options, such as "u4".
std::string lower_name(WeightType);

struct CodedTensor {
  WeightType type;
  TensorView rows;
  std::string tables_name;  // of the tensor that holds the tables; empty: none
  CodeTables tables;
};
/// Finds the coded tensor of a matrix's fragment; nothing if the file has none under the fragment's name. Errors
/// bad_file: its shape is not the one that the parameter implies; its tables are missing or of another shape.
std::optional<CodedTensor> find_coded(const ModelSpec&, const Weights&, const ParameterInfo&, const Fragment&);
/// The bytes of the fragment's rows. Errors: TERN_CHECK: the rows are not contiguous in the file (file_step is not 1).
std::span<const std::byte> coded_bytes_of(const CodedTensor&, const ParameterInfo&, const Fragment&);
/// Decodes the fragment's rows to `to` (rows, in), in the fragment's order.
template <class T>
void decode_fragment(const CodedTensor&, const ParameterInfo&, const Fragment&, T* to);

}  // namespace tern
