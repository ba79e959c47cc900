#pragma once
// What a run says of its update rule, at its start and when it diverges: the optimizer, the aggregator, the workers, the outer step.

#include <string>
#include <vector>

#include "base/json.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Sentences for people before the first step; none for a plain run. They tell the aggregator and who attacks; the asynchronous rule and
/// its workers; the kind of --outer and, in a run of one rank, which has nobody to average with, what its outer step
/// still does; and how many matrices are too small for a projection to save memory.
std::vector<std::string> update_notes(const ModelSpec&, const TrainSettings&);

/// The same as JSON. Members: "optimizer" with its numbers; and "aggregator", "async", "outer", if the run has them.
Json update_json(const TrainSettings&);

/// Advice for a robust run whose gradient is not finite, if more ranks attack than the aggregator allows for; else "".
std::string robust_advice(const TrainSettings&);

}  // namespace tern
