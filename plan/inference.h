#pragma once
// One served copy of a model: how many bytes its weights and its keys and values take on each tier, and how long a
// prompt and a decoded token take. Closed forms; plan/README.md has the formulas.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/machine.h"
#include "plan/inference_job.h"
#include "spec/model_spec.h"
#include "spec/tier.h"

namespace tern {

/// One copy of the model on tensor × stages devices.
struct ServingLayout {
  int64_t tensor = 1, stages = 1;
  int64_t devices() const { return tensor * stages; }
  friend bool operator==(const ServingLayout&, const ServingLayout&) = default;
};
/// "" if legal, else the rule broken.
std::string why_illegal(const ModelSpec&, const Machine&, const ServingLayout&);

/// Bytes of a copy on its fullest device, and the tiers on which they lie.
struct ServingMemory {
  int64_t weights = 0, kv = 0, activations = 0, logits = 0;  // on all tiers together
  int64_t kv_per_user = 0;          // keys and values of one user; if requests have unlike lengths, of
                                    // a request in flight, on average
  TierBytes weights_on{}, kv_on{};  // device, host, disk
  bool fits = false;
  Tier tier = Tier::device;   // if it does not fit: the last tier that it may use; the device if activations do not fit
  int64_t missing_bytes = 0;  // what it lacks on that tier
  int64_t total() const { return weights + kv + activations + logits; }
};
/// Puts the weights first, then keys and values, on the first tier that has room: device, host, disk. `kv_first`: keys
/// and values before weights.
ServingMemory serving_memory(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&, int64_t users,
                             bool kv_first = false);

/// Times in ps of one copy of the model with nothing else on its devices.
struct ServingTimes {
  int64_t prefill_ps =
      0;  // a whole prompt, chunk by chunk, to its first token, on average over prompts of unlike length. What
          // is not on the device is transferred meanwhile
  int64_t high_prefill_ps = 0;                                      // of the prompt that 99 of 100 do not exceed
  int64_t decode_ps = 0;                                            // one token for each user
  int64_t compute_ps = 0, weights_ps = 0, kv_ps = 0, links_ps = 0;  // parts of decode_ps: products (measured or FLOPs),
                                                                    // reading weights, reading keys and values, links
  int64_t spilled_ps = 0;  // a decoded token's transfers of what is not on the device; they run beside the rest
  std::string_view binds;  // "products", "reading weights", "reading keys and values", "links", "the host link", "disk"
  int64_t swap_ps = 0;     // one user's keys and values to the host or back
};
/// The times for `users` users of the copy, whose bytes lie where the ServingMemory says.
ServingTimes serving_times(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&,
                           const ServingMemory&, int64_t users);
/// The time in ps of whole prompts if everything is on the device. This part of serving_times depends neither on users
/// nor on tiers, so callers compute it once. One entry, for the job's prompt; for requests of unlike length one entry
/// for each of prompt_groups(), then one for high_prompt(). With more than 64 chunks, stretches whose times grow
/// linearly are summed in closed form, so long prompts take hardly longer to price.
std::vector<int64_t> prompt_compute_ps(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&);
/// The same, given prompt_ps: the result of prompt_compute_ps.
ServingTimes serving_times(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&,
                           const ServingMemory&, int64_t users, const std::vector<int64_t>& prompt_ps);

}  // namespace tern
