#pragma once
// `tern quantize --bits mixed`: chooses a type for each matrix, so that all weights together take --target-bytes.

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "infer/load.h"
#include "model/save_gguf.h"
#include "quantize/layer_coder.h"

namespace tern {

/// The types that a matrix of a mixture may have: LC types up to 4.25 bits a weight, block types of GGUF above. Codes of all
/// these types are chosen by quantize/gptq.h.
inline constexpr WeightType kMixtureTypes[] = {WeightType::lc2, WeightType::lc3, WeightType::lc4, WeightType::q5_1,
                                               WeightType::q8_0};
/// A matrix, and its chosen type.
struct MixedMatrix {
  std::string parameter;
  WeightType type;
  // For each of kMixtureTypes: the model's divergence when only this matrix is coded, in this type.
  std::vector<double> divergence;
};
struct Mixture {
  std::vector<MixedMatrix> matrices;
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
