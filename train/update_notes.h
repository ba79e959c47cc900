#pragma once
// What a run says at its start, and when it diverges, of how gradients become an update: the rule, ranks that may lie, workers, rare averages.

#include <string>
#include <vector>

#include "base/json.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Sentences for people before the first step; none for a plain run: the aggregator and who attacks; the asynchronous rule and
/// its workers; the kind of rare averages and, in a run of one rank, which has nobody to average with, what the outer step
/// still does; how many matrices are too small for a projection to save anything.
std::vector<std::string> update_notes(const ModelSpec&, const TrainSettings&);

/// The same as JSON, its members: "optimizer" with its numbers, and of runs that have them "aggregator", "async", "outer".
Json update_json(const TrainSettings&);

/// What helps a robust run whose gradient is not finite, if more ranks attack than the aggregator allows for; else "".
std::string robust_advice(const TrainSettings&);

}  // namespace tern
