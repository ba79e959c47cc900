#pragma once
// Reads the parameters of a model from its safetensors files. For model/ alone.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/coded_tensors.h"
#include "model/fragment.h"
#include "model/hf_quantized.h"
#include "model/model_files.h"
#include "model/visit_weights.h"
#include "model/weights.h"
#include "model/weights_file.h"

namespace tern {

/// Loads the parameters of one model from its safetensors files: reads each into a tensor, or leaves it where it lies.
/// check_all_claimed then finds tensors of the files that were left over. Errors of all functions: bad_file naming file and tensor.
class WeightsLoader {
 public:
  WeightsLoader(const ModelSpec& spec, const std::string& path, WeightsIn in = WeightsIn::mapped_file);

  /// Reads the parameter into `t`, in the type of `t`, from any type that weights have.
  void load(const ParameterInfo& info, Tensor& t);
  /// For a parameter that other code reads: checks that the file has it, in its shape.
  void claim(const ParameterInfo& info);
  /// The matrix in coded form: its rows as the file codes them, or, if another program quantized it (model/hf_quantized.h),
  /// repacked without loss as blocks of one of our types. Nothing if the file has it in no such form, or if the coded rows take
  /// no fewer bytes than rows in `dtype`.
  std::optional<CodedWeight> stay_coded(const ParameterInfo& info, DType dtype, Arena& arena);
  /// Bytes of the matrix if it stays coded; 0: it does not.
  int64_t coded_size(const ParameterInfo& info, DType dtype) const;
  /// The rows of a matrix where they lie in the file, a tensor for each fragment; empty unless the file holds all of them
  /// as a computation in `dtype` reads them. With WeightsIn::own_memory the tensors are allocated, and finish() fills them.
  std::vector<Tensor> in_place(const ParameterInfo& info, DType dtype, Arena& arena);
  /// The packed form of a matrix, made straight from its rows in the file; nothing where in_place would return nothing. At most
  /// one matrix at a time holds both pages of the file and memory of its own.
  std::optional<Weight> pack(const ParameterInfo& info, DType dtype, const Linear& linear, Arena& arena);
  /// Maps the pages of all weights that are used where they lie, or copies these weights,
  /// with all threads. Large weights come first, as a thread takes one at a time.
  void finish();
  /// Checks a tied head that the files hold beside the table: both must be the same numbers.
  void check_tied_head();
  /// Checks that no tensor of the files is left over that this model should have read.
  void check_all_claimed() const;

 private:
  // Finds a tensor by its name with the prefix, or without it, as in files saved from the bare model.
  TensorView find(const std::string& name);
  std::optional<CodedTensor> coded_fragment(const ParameterInfo& info, const Fragment& f);
  // The matrix that holds the fragment's rows, where another program quantized it.
  std::optional<HfQuantizedMatrix> find_hf_quantized(const Fragment& f, const ParameterInfo& info) const;
  std::optional<HfQuantizedMatrix> hf_quantized_fragment(const ParameterInfo& info, const Fragment& f);
  TensorView fragment(const ParameterInfo& info, const Fragment& f);

  struct Use {
    std::string name;
    const std::byte* data;  // in the file
    Tensor copy;            // empty: used where it lies
  };
  void bring(const Use& use) const;

  const ModelSpec& spec_;
  std::string path_;
  WeightsIn in_;
  std::shared_ptr<Weights> shared_;  // shared with every tensor that lies in the files, which keeps them mapped
  const Weights& file_;
  std::optional<HfPacking> packing_;
  std::unordered_set<std::string> claimed_;
  std::vector<Use> uses_;
};

}  // namespace tern
