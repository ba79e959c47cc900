#pragma once
// What users wait for where prompts and decoding take turns on the same devices.

#include "plan/serving_search.h"

namespace tern {

/// Fills in the waits and the requests per second of a plan whose roles and number of users are set. A first token waits for its prompt and for
/// a decoding that is under way. A later token waits for a decoding, and for 1/answer of one prompt of each other user of the copy.
void take_turns(const InferenceJob&, ServingPlan&);

}  // namespace tern
