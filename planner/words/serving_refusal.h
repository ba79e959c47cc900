#pragma once
// Why a cluster cannot serve a model as asked, and what near the question would do.

#include <string>

#include "base/error.h"
#include "planner/words/serving.h"

namespace tern {

struct ServingRefusal {
  Error error;       // does_not_fit, with the tier that binds and what it lacks, or the times that the targets lack
  std::string json;  // the figures
};
/// Of an answer without a plan: what near the question would do, the least intrusive first.
ServingRefusal serving_refusal(const ServingQuestion&, const ServingAnswer&);

}  // namespace tern
