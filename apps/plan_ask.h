#pragma once
// The options of `tern plan` that ask for more than the plan.

#include <string>
#include <string_view>
#include <vector>

#include "apps/plan_story.h"
#include "base/options.h"

namespace tern {

/// --batch alone; --batches A:B (A, 2A, 4A, … and B) or A:B:STEP. Rising. Errors: usage, for anything else, an empty
/// range, more than 64 batches, both options.
std::vector<int64_t> batches_of(const Options&);

/// --emit. Errors: usage, naming what the framework has not of this model and job; --emit-output without --emit.
void refuse_other_models(const Options&, const ModelSpec&, const TrainJob&);

/// Learned positions are rows of a table: beyond them there is no model. `what`: the options that say so many tokens.
/// Errors: usage, with how many there are. Rotary and relative positions pass.
void require_positions(const ModelSpec&, int64_t tokens, std::string_view what);

/// The cluster with --price-per-hour for each of its devices, if that was given.
Cluster priced_as_asked(const Options&, Cluster);
/// What would be an error after a search that may take minutes. Errors: usage: terms of a run without --tokens;
/// --tokens without --checkpoint-time where some of the nodes have no disk; --pareto on nodes of several types.
void require_terms(const Options&, const Cluster&);
/// Errors: usage: an option that --check, which searches nothing, would not heed.
void refuse_beside_check(const Options&);

/// What the options ask for about a plan: --tokens and its terms, --explain, --pareto, --emit.
PlanStory tell_story(const Options&, const ModelSpec&, const Cluster&, const PlanRequest&, const PlanAnswer&);

/// --output (`plan`: its text), --emit-output, --html, --picture. Tells on standard error what was written.
void write_answer(const Options&, const std::string& plan, const ModelSpec&, const Cluster&, const PlanAnswer&,
                  const PlanStory&);

}  // namespace tern
