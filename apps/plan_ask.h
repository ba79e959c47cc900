#pragma once
// The options of `tern plan` that ask for more than the plan.

#include <vector>

#include "apps/plan_story.h"
#include "base/options.h"

namespace tern {

/// --batch alone; --batches A:B (A, 2A, 4A, … and B) or A:B:STEP. Rising. Errors: usage, for anything else, an empty
/// range, more than 64 batches, both options.
std::vector<int64_t> batches_of(const Options&);

/// --emit. Errors: usage, naming what the framework has not of this model and job; --emit-output without --emit.
void refuse_other_models(const Options&, const ModelSpec&, const TrainJob&);

/// What the options ask for about a plan: --tokens and its terms, --explain, --pareto, --emit. Errors: usage, for terms
/// without --tokens.
PlanStory tell_story(const Options&, const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

/// --emit-output, --html, --picture. Tells on standard error what was written.
void write_story(const Options&, const ModelSpec&, const Cluster&, const PlanAnswer&, const PlanStory&);

}  // namespace tern
