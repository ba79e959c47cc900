#pragma once
// The requests of a load: when each comes and how long it is. Both follow from a seed and the number of the request.

#include <cstdint>
#include <vector>

#include "plan/sequence_lengths.h"

namespace tern {

struct LoadMix {
  SequenceLengths prompts, answers;  // in tokens; drawn independently of each other
  double rate = 0;                   // mean requests per second, which come as a Poisson process; 0: users send them
  uint64_t seed = 1;
  std::vector<int32_t> ids;  // among which the tokens of prompts are drawn
};
struct LoadRequest {
  double gap_s = 0;  // seconds after the request before it, exponentially distributed; 0: users send requests
  int64_t answer_tokens = 0;
  std::vector<int32_t> prompt;
};

/// Request `number`. It does not depend on other requests.
LoadRequest request_of(const LoadMix&, uint64_t number);

}  // namespace tern
