#pragma once
// Two sets of weights of one model, number by number.

#include <cstdint>

#include "model/weights.h"

namespace tern {

struct WeightsDifference {
  int64_t num_elements = 0, num_different = 0;  // num_different: elements whose bits differ
  double largest = 0;                           // the largest difference; infinite where one of two numbers is NaN
  double largest_value = 0;                     // the largest magnitude in the first set
};
/// Errors: TERN_CHECK: the weights are not both plain (unpacked), or not of one dtype.
WeightsDifference compare_weights(const ModelSpec&, const ModelWeights&, const ModelWeights&);

}  // namespace tern
