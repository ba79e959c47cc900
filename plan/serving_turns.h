#pragma once
// How long users wait if prompts and decoding take turns on the same devices.

#include "plan/serving_search.h"

namespace tern {

/// Sets the waits and requests per second of a plan whose roles and users are set. First token: the prompt's pass, plus one decoding step
/// if the copy has other users. Each later token: one decoding step, plus (other users of the copy)·(a prompt's pass)/(mean answer).
void take_turns(const InferenceJob&, ServingPlan&);

}  // namespace tern
