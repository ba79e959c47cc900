#pragma once
// Why a cluster cannot serve a model as asked, and what near the question would do.

#include <string>

#include "base/error.h"
#include "planner/words/serving.h"

namespace tern {

/// What is thrown, and printed as JSON.
struct ServingRefusal {
  Error error;       // does_not_fit, with the tier that binds and what it lacks, or the times that the targets lack
  std::string json;  // the figures
};
/// The refusal of an answer without a plan. It names what near the question would do, the least intrusive change first.
ServingRefusal serving_refusal(const ServingQuestion&, const ServingAnswer&);

}  // namespace tern
