#pragma once
// The numbers of a unit's codes in the place of its weights.

#include <functional>
#include <string>

#include "model/visit_weights.h"
#include "quantize/code_store.h"

namespace tern {

using TypeOfMatrix = std::function<WeightType(const ParameterInfo&)>;

/// Decodes the unit's matrices that have codes into their dense rows in `weights`.
/// Errors  bad_file: codes of another size than their matrix has, with `where` in the message.
void put_numbers(const ModelSpec&, int unit, ModelWeights& weights, const UnitCodes&, const TypeOfMatrix&,
                 const std::string& where);

}  // namespace tern
