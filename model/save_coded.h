#pragma once
// Writes directories with coded matrices. model/coded_tensors.h defines
// their tensors in the file; docs/coded-directories.md explains them.

#include <optional>
#include <string>

#include "model/coded_matrix.h"
#include "model/read_parameter.h"
#include "model/save_gguf.h"
#include "model/visit_weights.h"

namespace tern {

struct CodedSaved {
  int64_t tensor_bytes = 0;  // of all tensors, that is of the weights' files without their headers
  int64_t matrix_bytes = 0;  // of rows and tables of coded matrices
  int64_t num_dense = 0;     // matrices that `types` would code, but whose rows are no whole blocks: written as numbers
};
/// The type in which a parameter is coded. Nothing if its numbers stay in the model's dtype, because
/// `types` does not code it (has_codes, is_token_table) or because its rows are no whole blocks.
std::optional<WeightType> type_in_directory(const ModelSpec&, const ParameterInfo&, const GgufTypes& types);
/// Bytes of a matrix's tensors: Σ rows·stored_bytes(type, 1, in) and the tables of each tensor. The matrix's rows must be whole blocks.
int64_t coded_matrix_bytes(const ParameterInfo&, WeightType);
/// CodedSaved::tensor_bytes, computed before anything is written: the bytes of all tensors that save_coded writes.
int64_t coded_model_bytes(const ModelSpec&, const GgufTypes& types, DType dtype);

/// Writes config.json and model.safetensors (sharded above max_shard_bytes). `code` codes the layers' matrices
/// (has_codes) as types.matrices, or as types.single for the matrices that it names, and the tables of tokens
/// as types.tables. If such a type is dense (f32, f16, bf16), the numbers are written in that type. Everything
/// else, and matrices whose rows are no whole blocks, are written from `read` in `dtype` (f32, bf16, f16).
/// Memory  what `read` and `code` keep. Errors: those of save_model.
CodedSaved save_coded(const ModelSpec&, const HfConfig&, const ReadParameter& read, const CodeMatrix& code,
                      const GgufTypes& types, DType dtype, const std::string& dir, Io&,
                      int64_t max_shard_bytes = int64_t{5} << 30);

}  // namespace tern
