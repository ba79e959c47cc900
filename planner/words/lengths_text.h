#pragma once
// What the report says of sequences of unlike length.

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "spec/model_spec.h"

namespace tern {

/// What the plan's times assume about these lengths, one sentence each; none without lengths.
std::vector<std::string> lengths_assumed(const Plan&);
/// What the lengths do to the plan, as JSON and as lines of text; null and "" without lengths. The job needs its `mix`.
Json lengths_json(const ModelSpec&, const Plan&);
std::string lengths_words(const ModelSpec&, const Plan&);

}  // namespace tern
