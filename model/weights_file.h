#pragma once
// Functions that the loading and the checking of weights share. For model/ alone.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/index.h"
#include "formats/safetensors/write.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// The path of a model's safetensors file or index; a path to a file is returned as it is. Errors: bad_file: the directory has
/// none.
std::string weights_file(const std::string& model_dir);
/// Finds a tensor by this name, by the name without the prefix that files of the bare model lack,
/// or by the name in BERT's first files (gamma, beta). The view has the name that was found.
std::optional<TensorView> find_parameter(const ModelSpec&, const Weights&, const std::string& name);
/// The shape in the file of a fragment of `info`.
std::vector<int64_t> fragment_shape(const ParameterInfo& info, const Fragment&);
/// fragments_by_tensor: the fragments of `info`, grouped by the tensor of the file that they name. rows_of_file: for each row
/// of such a tensor, the row of our parameter that it holds.
std::vector<std::vector<Fragment>> fragments_by_tensor(const ParameterInfo& info);
std::vector<int64_t> rows_of_file(std::span<const Fragment> fragments);
/// Copies the fragment's rows of `width` numbers from the file's tensor, which may have any of the types that weights have.
/// Errors  bad_file naming `path` and tensor: another type.
template <class To>
void copy_fragment(const TensorView&, const std::string& path, const Fragment&, int64_t width, To* to);
/// One tensor of the file (an entry of fragments_by_tensor), to be written in f32, bf16,
/// f16 or f64. `read` is called for the parameter's numbers when the tensor is written.
TensorToWrite dense_tensor(const ParameterInfo&, const std::vector<Fragment>& of_tensor,
                           const std::function<Tensor()>& read, DType);
/// Adds a tensor of the file. The matrices of a tensor that joins all experts are added one after the other, and become one tensor.
void add_tensor(std::vector<TensorToWrite>&, const Fragment&, TensorToWrite);
/// Checks the head that a tied model's files hold beside the table. Returns what is wrong with
/// it, or "" if it equals the table; nullopt if the model is not tied, or has no such tensor.
std::optional<std::string> judge_tied_head(const ModelSpec&, const Weights&);

/// The matrices that may stay as a file codes them: linears, and the table of tokens.
void for_each_codable(const ModelSpec&, const std::function<void(const ParameterInfo&)>& visit);
/// Whether kernels multiply rows of this type and width as coded, in this dtype; in_integers: integer products count too.
bool multiplies_as_coded(WeightType, int64_t columns, DType, bool in_integers);
/// Whether integer products serve rows of this type and width: types of groups (kernels/cpu/code_groups.h) up to kInt8Columns columns.
bool multiplies_in_integers(WeightType, int64_t columns);
/// Sets in_integers of each coded matrix if integer products serve all its pieces; returns whether there is such a matrix.
bool mark_integers(const ModelSpec&, ModelWeights&);
/// The same. Errors  bad_file: there is no such matrix; `path` names the file.
void multiply_in_integers(const ModelSpec&, const std::string& path, ModelWeights&);

inline constexpr std::string_view kTiedHead = "lm_head.weight";

}  // namespace tern
