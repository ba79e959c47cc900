#pragma once
// How a model's tensors may lie on many ranks, in words, for `tern inspect --layouts`.

#include <string>

#include "base/json.h"
#include "spec/derived_layouts.h"
#include "spec/model_spec.h"

namespace tern {

/// A line for each parameter ("layers.*" for those that lie alike in all layers), one for the rows between units, one for the
/// bytes. Errors: as derive_layouts.
std::string layout_words(const ModelSpec&, const LayoutQuestion&);
/// The same as values: "ranks", "rows", "parameters" [{"name", "unit", "kept", "used"}], "rows_between_units", bytes.
Json layout_json(const ModelSpec&, const LayoutQuestion&);

}  // namespace tern
