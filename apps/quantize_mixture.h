#pragma once
// tern quantize --bits mixed: which matrix gets which type, so that all weights together take --target-bytes.

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"
#include "infer/load.h"
#include "model/save_gguf.h"
#include "quantize/layer_coder.h"

namespace tern {

/// What a matrix of a mixture may be: LC types, and above 4.25 bits blocks of GGUF's, by gptq.
inline constexpr WeightType kMixtureTypes[] = {WeightType::lc2, WeightType::lc3, WeightType::lc4, WeightType::q5_1,
                                               WeightType::q8_0};
struct MixedMatrix {
  std::string parameter;
  WeightType type;
  std::vector<double> divergence;  // of each of kMixtureTypes, where the matrix alone is coded so
};
struct Mixture {
  std::vector<MixedMatrix> matrices;
  int64_t target_bytes = 0;
  double divergence = 0;  // the sum of the chosen ones
  std::map<std::string, WeightType> types() const;
};

/// Errors  usage: --target-bytes is not given, or no mixture's tensors take it ± 1 %, which names the fewest and the most.
void require_target(const Options&, const ModelDescription&, const GgufTypes& types, DType dtype);
/// Measures what each matrix costs on the text (SensitivityMeter, which keeps what it measured in `measures`), and chooses.
/// types: what tables of tokens get; dtype: what is not coded.
/// Errors: those of SensitivityMeter and require_target.
Mixture choose_types(const Options&, const ModelDescription&, const CalibrationText&, const GgufTypes& types,
                     DType dtype, const std::string& measures, Arena&);

/// How many matrices have each type: "3 in LC2, 9 in LC3".
std::string counts_text(const Mixture&);
Json mixture_json(const Mixture&);

}  // namespace tern
