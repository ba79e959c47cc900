#pragma once
// Block-wise reconstruction: what codes of learned types are multiplied by (the tables of each matrix, the scale of each row) is
// trained so that a coded unit's output comes near the output that the model as it was has there. Codes, and blocks' signs, scales
// and choices of a table stay. Source: LCQ trains its codebooks on the outputs of blocks (Cai et al. 2024, arXiv:2405.20973, the
// abstract); as a method for one block at a time BRECQ (Li et al. 2021, arXiv:2102.05426, recalled). What is trained, and Adam with
// a linear decay, are ours.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/rope_table.h"
#include "quantize/coded_unit.h"
#include "tensor/arena.h"

namespace tern {

struct Reconstruction {
  int64_t steps = 0;  // for each unit; 0: nothing is trained
  // Of the first step, falling linearly to 0; in parts of a table's largest level, and of a row's scale.
  double learning_rate = 2e-3;
};
/// The rows of the calibration text on both sides of a unit. T tokens in windows of `window`, the last perhaps shorter; D width.
struct UnitExamples {
  std::span<const int32_t> tokens;
  int64_t window;
  const RopeTable* rope;  // nullptr: positions are learned
  Tensor x_TD;            // what the unit gets when all units before it are coded
  Tensor target_TD;       // what it gives in the model as it was
};
/// Σ(y − target)²/Σ(target − x)² over all rows, before and after. What was trained is kept only if it is smaller after.
struct ReconstructionErrors {
  double before = 0, after = 0;
};

/// Trains the tables and row scales of `codes`, and leaves their numbers in the unit's weights. A step takes as many windows as hold 2,048
/// rows, or all: in an order of their own, keyed by the unit, and none comes again before all others. Levels of a table stay ascending
/// whole numbers within ±127, rows' scales bf16.
/// Order   the same bytes for any number of threads.
ReconstructionErrors reconstruct(const ModelSpec&, int unit, ModelWeights& weights, UnitCodes& codes,
                                 const TypeOfMatrix&, const UnitExamples&, const Reconstruction&, Arena&);
/// Bytes at most at once of the arena, beside weights and examples.
int64_t reconstruction_bytes(const ModelSpec&, int64_t tokens, int64_t window);

}  // namespace tern
