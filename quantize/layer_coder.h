#pragma once
// The matrices of a model's layers coded by GPTQ, one unit after another: each against the inputs that it has when all before
// it are coded already, so that later units take back what earlier ones lost. Only one unit's weights are there at a time.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/coded_matrix.h"
#include "model/parameter_reader.h"
#include "model/rope_table.h"
#include "model/unit.h"
#include "model/visit_weights.h"
#include "quantize/code_store.h"
#include "quantize/learned_tables.h"
#include "quantize/reconstruction.h"

namespace tern {

/// The text that shows what inputs look like: tokens of windows one behind the other, each `window` long, the last perhaps
/// shorter.
struct CalibrationText {
  std::vector<int32_t> tokens;
  int64_t window = 512;
};

/// Codes a matrix, and puts in the place of its rows the numbers that the codes stand for. `factor` of error_factor; empty: each
/// block by itself. type: one that block_coder knows, or with learned tables, which are learned for each of table_parts.
/// No type holds codes of another GroupByte than the format's: `rows` are then the numbers themselves, in f32.
CodedMatrix code_matrix(WeightType, const ParameterInfo&, const Linear&, std::span<const double> factor,
                        const GroupByte& = {});

struct LayerCoding {
  // Types of single matrices, by their parameters' names, in the place of the model's.
  std::map<std::string, WeightType> single = {};
  // With steps the hidden rows of the model as it was are kept too.
  Reconstruction reconstruction = {};
  // Of types with learned tables; another than the format's is for studies alone.
  GroupByte byte = {};
};

class LayerCoder {
 public:
  /// `model_dir` as load_weights takes it; `type`: one that block_coder knows, or with learned tables. The arguments must outlive it.
  /// With a store each unit's codes are written there when they are chosen, and those that are there are not chosen again: the
  /// codes are the same. Errors: those of ParameterReader.
  LayerCoder(const ModelSpec&, const std::string& model_dir, const CalibrationText&, WeightType type, Arena&,
             CodeStore* = nullptr, LayerCoding = {});

  /// Codes the units up to `unit`. Errors  usage: inputs too few to tell columns apart; NotFinite: a weight that is no
  /// number; those of ParameterReader and CodeStore.
  void code_until(int unit);
  /// The codes of a layer's matrix, coded if they are not yet. Without a store: ask in the order of the units.
  const CodedMatrix& code(const ParameterInfo&);

  /// Bytes at most at once: hidden states, one unit's weights, codes and moments. reconstructs: also the hidden states of the
  /// model as it was, and what steps of reconstruction need.
  static int64_t peak_bytes(const ModelSpec&, int64_t tokens, int64_t window, bool reconstructs = false);

 private:
  WeightType type_of(const ParameterInfo&) const;
  TypeOfMatrix type_of_matrix() const {
    return [this](const ParameterInfo& info) { return type_of(info); };
  }
  void code_unit(int unit);
  UnitCodes choose_codes(int unit);
  uint32_t load(int unit);  // returns the weights' checksum
  void drop(int unit);
  /// Runs the hidden rows of all windows through `unit`, about kRows rows at a time; with `keep` the results take their place.
  void forward(int unit, Tensor& hidden, InputObserver*, bool keep);

  const ModelSpec& spec_;
  ParameterReader reader_;  // its own: what it reads is changed
  const CalibrationText& calibration_;
  WeightType type_;
  LayerCoding how_;
  Arena& arena_;
  CodeStore* store_;
  RopeTable rope_;
  ModelWeights weights_;
  Tensor hidden_;    // (T, D) f32, after the units coded so far
  Tensor plain_;     // the same of the model as it was, for reconstruction
  int next_ = 0;     // the unit to be coded
  UnitCodes coded_;  // of the last unit
};

}  // namespace tern
