#pragma once
// A model as the chain of layers that the search places: embedding, one layer per block, bridge, head.

#include <vector>

#include "spec/model_spec.h"

namespace tern {

/// A run of units.
struct Layer {
  int first = 0, count = 1;  // units
  int kind = 0;              // layers with the same number have equal units
};
/// The layers of a model, in order.
std::vector<Layer> layers_of(const ModelSpec&);

}  // namespace tern
