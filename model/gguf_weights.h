#pragma once
// Loads ModelWeights from GGUF files.

#include <memory>
#include <string>
#include <vector>

#include "formats/gguf/gguf.h"
#include "model/check_weights.h"
#include "model/file_bands.h"
#include "model/given_weights.h"
#include "model/model_files.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// Loads every parameter of a GGUF file, dequantizing and converting to `dtype`. load_weights calls it for such files.
/// Memory  the weights and one row of floats per thread; the file's pages are given back tensor by tensor.
/// Errors  bad_file: a tensor that is missing, has another shape or a type that tern does not dequantize, or belongs to
///         no parameter; usage: a family that GGUF has no names for.
/// elsewhere: units whose parameters are not read (allocate_weights).
ModelWeights load_gguf_weights(const ModelSpec&, const Gguf&, DType, Arena&, const std::vector<bool>& elsewhere = {});
/// Reads one parameter into a tensor of its shape.
void read_gguf_parameter(const ModelSpec&, const Gguf&, const ParameterInfo&, const Tensor&);
/// Bytes of each matrix that stays coded for a computation in the DType, by the parameter's name. A matrix stays coded if its
/// coded rows are shorter than rows of that type and the kernels multiply them (multiplies_as_coded). Reads the header alone.
CodedBytes gguf_coded_bytes(const ModelSpec&, const Gguf&, DType, bool in_integers = false);
/// For a program that only infers: the matrices of gguf_coded_bytes as they lie in the file (a tied table and its head share
/// one storage), everything else loaded as by load_gguf_weights and then packed. The same bits as load_gguf_weights.
/// in_integers: matrices whose types have code groups are multiplied in integers
/// (CodedWeight). Errors: bad_file: in_integers is true, but no matrix has such a type.
/// Memory  coded matrices take what gguf_coded_bytes says: pages of the file, which the tensors keep mapped.
/// Hazard  the file must not shrink while the weights are in use.
ModelWeights load_gguf_as_coded(const ModelSpec&, std::shared_ptr<const Gguf>, DType, Arena&, bool in_integers = false);
/// load_weights of a model with Unit::stored: the matrices of these units stay as they lie in the file. Hazard and errors: as above.
ModelWeights load_gguf_stored(const ModelSpec&, std::shared_ptr<const Gguf>, DType, Arena&);
/// Where the rows of a matrix lie in the file, part by part; empty if the file does not hold the matrix as the parameter implies.
std::vector<FileBand> gguf_rows(const ModelSpec&, const Gguf&, const ParameterInfo&);
/// Does the work of load_weights_to_infer for a GGUF file: loads and packs everything that is not given.
ModelWeights load_gguf_beside(const ModelSpec&, std::shared_ptr<const Gguf>, DType, GivenWeights, Arena&);
/// Finds every fault for which load_gguf_weights would throw, not only the first.
WeightsCheck check_gguf_weights(const ModelSpec&, const Gguf&);

}  // namespace tern
