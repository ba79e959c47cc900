#pragma once
// Two sets of weights of one model, number by number.

#include <cstdint>

#include "model/weights.h"

namespace tern {

struct WeightsDifference {
  int64_t num_elements = 0, num_different = 0;  // by their bits
  double largest = 0;                           // the largest difference; infinite where one of two numbers is NaN
  double largest_value = 0;                     // the largest magnitude in the first set
};
/// Both plain (not packed) and of one dtype. Errors: TERN_CHECK.
WeightsDifference compare_weights(const ModelSpec&, const ModelWeights&, const ModelWeights&);

}  // namespace tern
