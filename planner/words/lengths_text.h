#pragma once
// What the report says of sequences of unlike length.

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "spec/model_spec.h"

namespace tern {

/// What the plan's times assume about the job's sequence lengths, one sentence each; empty for a job without lengths.
std::vector<std::string> lengths_assumed(const Plan&);
/// How the lengths change the plan's work and waits, as JSON and as text; null and "" without lengths. Needs TrainJob::lengths.mix.
Json lengths_json(const ModelSpec&, const Plan&);
std::string lengths_words(const ModelSpec&, const Plan&);

}  // namespace tern
