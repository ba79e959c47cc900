#pragma once
// An adapter from two models: what the second has beyond the first, cut to a low rank. It computes in f64; numbers are
// rounded once, when they are written (adapt/adapter_file.h).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapt/adapter_matrix.h"
#include "model/read_parameter.h"
#include "spec/model_spec.h"

namespace tern {

/// A difference of two matrices, as an adapter holds it.
struct CutDifference {
  AdapterMatrix factors;                 // scale 1
  double squares = 0, kept_squares = 0;  // Σ s² of the singular values: of all, and of those that are kept
};
/// The best approximation of a matrix by one of rank min(rank, out, in): b = U·√S, a = √S·Vᵀ of its leading singular values.
/// Shapes  difference (out, in), row-major; b (out, rank); a (rank, in). What is lost has the squared Frobenius norm squares − kept_squares.
/// Errors  bad_file: a number that is not finite. Source  Eckart and Young 1936 (Psychometrika 1, 211-218; not seen); dgesdd.
CutDifference cut_difference(std::vector<double> difference, int64_t out, int64_t in, int64_t rank);

/// How much of the difference of one matrix an adapter holds.
struct MatrixCut {
  std::string module;                    // "model.layers.0.self_attn.q_proj"
  double squares = 0, kept_squares = 0;  // as in CutDifference
  double share() const { return squares == 0 ? 1 : kept_squares / squares; }
};

struct ExtractedAdapter {
  AdapterMatrices matrices;           // of those matrices that differ
  std::vector<MatrixCut> cuts;        // the same matrices, in the order of the model
  int64_t same = 0;                   // matrices that could have an adapter and do not differ
  std::vector<std::string> left_out;  // tensors that differ and have no adapter, as the base's files name them
  /// All matrices taken together; its module is "".
  MatrixCut whole() const;
};

/// A model, and where its numbers come from.
struct ReadableModel {
  const ModelSpec& spec;
  ReadParameter read;
};
/// Extracts the difference tuned − base. The adapters of base.spec (model/adapter_files.h: with_adapters) say for which matrices, and of
/// what rank each; tuned.spec needs none. Each parameter is read once from either model; `progress` is called with the number of
/// parameters done; what is never trained (for_each_fixed) comes last and is counted too.
/// Memory  one parameter of each model, and of one matrix the difference in f64, its vectors and LAPACK's workspace (of a square one: seven
///         times the f64 matrix).
/// Errors  bad_file: those of require_same_parameters and of the readers; NotFinite, naming the tensor: a difference that is no finite number.
ExtractedAdapter extract_adapter(const ReadableModel& base, const ReadableModel& tuned,
                                 const std::function<void(int64_t done)>& progress);
/// Checks that both models have the same parameters. Errors  bad_file, naming the first that is unlike, and its shape in both.
void require_same_parameters(const ModelSpec& base, const ModelSpec& tuned);

}  // namespace tern
