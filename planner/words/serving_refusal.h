#pragma once
// Why a cluster cannot serve a model as asked, and which similar questions it can answer.

#include <string>

#include "base/error.h"
#include "planner/words/serving.h"

namespace tern {

/// The error that is thrown, and the JSON that is printed.
struct ServingRefusal {
  Error error;       // does_not_fit, with the tier that binds and what it lacks, or the times that the targets lack
  std::string json;  // the figures
};
/// The refusal of an answer without a plan. It names similar questions that have a plan, the least intrusive change first.
ServingRefusal serving_refusal(const ServingQuestion&, const ServingAnswer&);

}  // namespace tern
