#pragma once
// `tern quantize --bits mixed`: chooses a type for each matrix, so that all weights together take --target-bytes.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "infer/load.h"
#include "model/save_gguf.h"
#include "quantize/layer_coder.h"

namespace tern {

/// The types that a matrix of a mixture may have, by their bits: LC types up to 4.25 bits a weight, block types of GGUF above: Q5_K,
/// Q6_K and Q8_0, or Q5_1 and Q8_0 where a matrix has rows that are no whole blocks of 256. Codes of all these types are chosen by
/// quantize/gptq.h.
std::span<const WeightType> mixture_types(const ModelSpec&);
/// A matrix, and its chosen type.
struct MixedMatrix {
  std::string parameter;
  WeightType type;
  // For each of Mixture::candidates: the model's divergence when only this matrix is coded, in this type.
  std::vector<double> divergence;
};
struct Mixture {
  std::vector<MixedMatrix> matrices;
  std::span<const WeightType> candidates;  // mixture_types of the model
  int64_t target_bytes = 0;
  double divergence = 0;  // the sum of the chosen types' divergences
  std::map<std::string, WeightType> types() const;
};

/// Checks that --target-bytes ± 1 % lies between the fewest and the most bytes of a mixture. Errors  usage: --target-bytes is
/// not given, or lies outside; the message says both bounds.
void require_target(const Options&, const ModelDescription&, const GgufTypes& types, DType dtype);
/// Measures on the text what each matrix costs in each type (SensitivityMeter, which keeps its measurements in the directory
/// `measures`), and chooses. `types`: for the tables of tokens, and for matrices that the mixture leaves out. `dtype`: of
/// tensors that are not coded. Errors: those of SensitivityMeter and require_target; usage: no mixture comes within 1 % of
/// --target-bytes.
Mixture choose_types(const Options&, const ModelDescription&, const CalibrationText&, const GgufTypes& types,
                     DType dtype, const std::string& measures, Arena&);

/// Errors: interrupted: a stop was requested. `kept`: the directory that has the first `done` of the units.
void stop_if_asked(int64_t done, int64_t units, const std::string& kept);
/// How many matrices have each type: "3 in LC2, 9 in LC3".
std::string counts_text(const Mixture&);
Json mixture_json(const Mixture&);

}  // namespace tern
