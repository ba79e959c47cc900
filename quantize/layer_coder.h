#pragma once
// The matrices of a model's layers coded by GPTQ, one unit after another: each against the inputs that it has when all before
// it are coded already, so that later units take back what earlier ones lost. Only one unit's weights are there at a time.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/parameter_reader.h"
#include "model/rope_table.h"
#include "model/unit.h"

namespace tern {

/// The text that shows what inputs look like: tokens of windows one behind the other, each `window` long, the last perhaps
/// shorter.
struct CalibrationText {
  std::vector<int32_t> tokens;
  int64_t window = 512;
};

class LayerCoder {
 public:
  /// `model_dir` as load_weights takes it; `type`: one of levels_of. What it is given outlives it. Errors: those of
  /// ParameterReader.
  LayerCoder(const ModelSpec&, const std::string& model_dir, const CalibrationText&, WeightType type, Arena&);

  /// All rows of a layer's matrix as blocks. The first question about a unit codes it, and those before it: ask in the order
  /// of the units. Errors  usage: inputs too few to tell columns apart; NotFinite: a weight that is no number; those of
  /// ParameterReader.
  std::span<const std::byte> code(const ParameterInfo&);

  /// Bytes at most at once: hidden states, one unit's weights, codes and moments.
  static int64_t peak_bytes(const ModelSpec&, int64_t tokens, int64_t window);

 private:
  void code_unit(int unit);
  void load(int unit);
  void drop(int unit);
  /// The hidden rows of all windows through `unit`, as many windows at a time as kRows hold: back into them if `keep`.
  void forward(int unit, InputObserver*, bool keep);

  const ModelSpec& spec_;
  ParameterReader reader_;  // its own: what it reads is changed
  const CalibrationText& calibration_;
  WeightType type_;
  Arena& arena_;
  RopeTable rope_;
  ModelWeights weights_;
  Tensor hidden_;                                        // (T, D) f32, after the units coded so far
  int next_ = 0;                                         // the unit to be coded
  std::map<std::string, std::vector<std::byte>> coded_;  // of the last unit
};

}  // namespace tern
