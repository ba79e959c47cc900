#pragma once
// What users wait for where prompts and decoding take turns on the same devices.

#include "plan/serving_search.h"

namespace tern {

/// Fills the waits and the requests per second of a plan whose roles and number of users stand: a first token waits for its prompt and for a
/// decoding that is under way; a token after it for a decoding and, for each answer of each other user of the copy, for a prompt.
void take_turns(const InferenceJob&, ServingPlan&);

}  // namespace tern
