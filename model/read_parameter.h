#pragma once
// The callback by which writers of model files get the numbers of a parameter, wherever they lie.

#include <functional>

#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// Returns a parameter's numbers: dense rows of any element type, valid until the next call.
/// A writer calls it once for each tensor of the files that holds a part of the parameter.
using ReadParameter = std::function<Tensor(const ParameterInfo&)>;
/// A ReadParameter that returns the parameters of weights in memory.
ReadParameter parameters_of(const ModelSpec&, const ModelWeights&);

}  // namespace tern
