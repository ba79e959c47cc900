#pragma once
// Matrices as tern's own directories code them (docs/coded-directories.md): beside other tensors of model.safetensors
//   NAME.TYPE      U8 (rows, bytes of a row): the rows of tensor NAME as blocks of TYPE ("u4", "q8_0", "lc3")
//   NAME.levels    I8 (kCodeTables, levels): of types with learned tables
// Each row belongs to one output: matrices that other directories hold transposed (GPT-2's) are not transposed in these.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "formats/safetensors/index.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// "u4": the type as names of tensors and options have it.
std::string lower_name(WeightType);

struct CodedTensor {
  WeightType type;
  TensorView rows;
  std::string tables_name;  // of the tensor; empty: none
  CodeTables tables;
};
/// The coded tensor of a fragment of a matrix; nothing where the file has none under the fragment's name. Errors  bad_file: one of
/// another shape than the parameter implies, tables that are missing or of another shape.
std::optional<CodedTensor> find_coded(const ModelSpec&, const Weights&, const ParameterInfo&, const Fragment&);
/// The bytes of the rows that the fragment takes, where they lie one behind the other (file_step 1).
std::span<const std::byte> coded_bytes_of(const CodedTensor&, const ParameterInfo&, const Fragment&);
/// Those rows decoded to `to` (rows, in), in the fragment's order.
template <class T>
void decode_fragment(const CodedTensor&, const ParameterInfo&, const Fragment&, T* to);

}  // namespace tern
