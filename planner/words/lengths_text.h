#pragma once
// What the report says of sequences of unlike length.

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan_file.h"
#include "spec/model_spec.h"

namespace tern {

/// What the plan's times take for granted of these lengths, one sentence each; none without lengths.
std::vector<std::string> lengths_assumed(const Plan&);
/// Lines under a key of ten letters; null and "" without lengths. The plan's job has its distribution.
Json lengths_json(const ModelSpec&, const Plan&);
std::string lengths_words(const ModelSpec&, const Plan&);

}  // namespace tern
