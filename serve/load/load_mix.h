#pragma once
// What requests a load is made of: when each comes and how long it is, as a function of a seed and its number.

#include <cstdint>
#include <vector>

#include "plan/sequence_lengths.h"

namespace tern {

struct LoadMix {
  SequenceLengths prompts, answers;  // tokens; drawn independently of each other
  double rate = 0;                   // requests/s on average, at times of their own (Poisson); 0: users ask instead
  uint64_t seed = 1;
  std::vector<int32_t> ids;  // that prompts are drawn from
};

struct LoadRequest {
  double gap_s = 0;  // since the request before it; 0 where users ask
  int64_t answer_tokens = 0;
  std::vector<int32_t> prompt;
};

/// Request `number`, whatever others there are. Gaps are exponential.
LoadRequest request_of(const LoadMix&, uint64_t number);

}  // namespace tern
