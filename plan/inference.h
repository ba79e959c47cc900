#pragma once
// Planning inference: what a model's weights and its keys and values take on each tier, how long a prompt and a decoded
// token take, how many users a cluster serves within targets. Closed forms; plan/README.md has the formulas.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/kv_type.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "plan/request_lengths.h"
#include "spec/model_spec.h"
#include "spec/tier.h"

namespace tern {

/// How weights are kept. q8, q4: blocks of 32 with a 16-bit scale, 8.5 and 4.5 bits each. bf16 stands for f16 too.
enum class StoredType : uint8_t { f32, bf16, q8, q4 };
std::string_view name_of(StoredType);
int64_t stored_bytes(StoredType, int64_t numbers);
StoredType stored_as(DType);
/// The type of a cache that keeps keys and values as they are computed; f16 counts as bf16, f64 as f32.
KvType kv_kept_as(DType);

/// What is asked for.
struct InferenceJob {
  int64_t prompt = 2048, answer = 256;  // tokens of a request
  int64_t users = 0;                    // sequences at once; 0: as many as there is room and time for
  DType dtype = DType::bf16;            // computed in
  StoredType weights = StoredType::bf16;
  KvType kv = KvType::bf16;
  double ttft_s = 0, tpot_s = 0;               // targets: to the first token, per token after it; 0: none
  int64_t chunk = 512;                         // prompt tokens read at a time
  int64_t page = 16;                           // tokens in a page of the cache
  bool mapped_weights = false;                 // read from a file's pages, not copied to memory of their own
  bool spill = true;                           // weights, keys and values may go to the host and to disk
  bool latent_cache = true;                    // of latent attention the narrow rows are kept; false: whole heads
  int64_t most_tensor = 64, most_stages = 16;  // of a copy
  /// Requests of unlike length: `prompt` and `answer` are then the longest ones. nullptr: all requests are these.
  std::shared_ptr<const RequestLengths> lengths = {};
  int64_t context() const { return prompt + answer; }
  double mean_prompt() const { return lengths ? lengths->prompts().mean() : static_cast<double>(prompt); }
  double mean_answer() const { return lengths ? lengths->answers().mean() : static_cast<double>(answer); }
  int64_t high_prompt() const { return lengths ? lengths->high_prompt() : prompt; }  // of 99 in 100
};

/// Numbers kept per token: keys and values of all layers, on one of `tensor` ranks.
int64_t kv_numbers_per_token(const ModelSpec&, bool latent_cache, int64_t tensor = 1);
/// Bytes per token of one unit's keys and values: each head's numbers are a row of kv_row_bytes bytes; a latent row counts as
/// one such row.
int64_t kv_bytes_per_token(const Unit&, const InferenceJob&, int64_t tensor = 1);

/// One copy of the model on tensor × stages devices.
struct ServingLayout {
  int64_t tensor = 1, stages = 1;
  int64_t devices() const { return tensor * stages; }
  friend bool operator==(const ServingLayout&, const ServingLayout&) = default;
};
/// "" if legal, else the rule broken.
std::string why_illegal(const ModelSpec&, const Machine&, const ServingLayout&);

/// Bytes on the fullest device of a copy, and what of them went to the host and to disk.
struct ServingMemory {
  int64_t weights = 0, kv = 0, activations = 0, logits = 0;  // in all, wherever
  int64_t kv_per_user = 0;          // keys and values of one user; of unlike requests those of one in
                                    // flight, on average
  TierBytes weights_on{}, kv_on{};  // device, host, disk
  bool fits = false;
  Tier tier = Tier::device;   // if it does not fit: the last tier allowed; the device if activations do not fit
  int64_t missing_bytes = 0;  // and what it lacks there
  int64_t total() const { return weights + kv + activations + logits; }
};
/// Puts the weights, then keys and values, on the first tier with room: device, host, disk. `kv_first`: keys and values before
/// weights.
ServingMemory serving_memory(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&, int64_t users,
                             bool kv_first = false);

/// Times in ps of one copy of the model with nothing else on its devices.
struct ServingTimes {
  int64_t prefill_ps =
      0;  // a whole prompt, chunk by chunk, to its first token, on average over prompts of unlike length. What
          // is not on the device is transferred meanwhile
  int64_t high_prefill_ps = 0;                                      // of the prompt that 99 of 100 do not exceed
  int64_t decode_ps = 0;                                            // one token of each user
  int64_t compute_ps = 0, weights_ps = 0, kv_ps = 0, links_ps = 0;  // of decode_ps: products as measured or by FLOPs,
                                                                    // reading weights, reading keys and values, links
  int64_t spilled_ps = 0;  // a decoded token's transfer of what is not on the device; it runs beside the rest
  std::string_view binds;  // "products", "reading weights", "reading keys and values", "links", "the host link", "disk"
  int64_t swap_ps = 0;     // one user's keys and values to the host or back
};
ServingTimes serving_times(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&,
                           const ServingMemory&, int64_t users);
/// The time in ps of whole prompts with all on the device: the part of serving_times that depends neither on users nor on
/// tiers, so that callers compute it once. One entry, for the job's prompt; of unlike requests one for each of prompt_groups(),
/// then one for high_prompt(). Beyond the first 64 chunks times grow linearly and are summed in closed form, so long prompts
/// cost no more to price.
std::vector<int64_t> prompt_compute_ps(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&);
ServingTimes serving_times(const ModelSpec&, const InferenceJob&, const Machine&, const ServingLayout&,
                           const ServingMemory&, int64_t users, const std::vector<int64_t>& prompt_ps);

/// One role of the devices: copies of a layout, each with its users.
struct ServingRole {
  ServingLayout layout;
  int64_t copies = 0, users = 0;  // users: per copy, the largest share
  ServingMemory memory;
  ServingTimes times;
  int64_t devices() const { return layout.devices() * copies; }
};

/// How a cluster serves, requests arriving evenly.
struct ServingPlan {
  std::string node;
  bool split = false;             // prompts and decoding each have devices of their own
  ServingRole decode, prefill;    // prefill equals decode where both share the same devices
  int64_t users = 0;              // at once
  double ttft_s = 0, tpot_s = 0;  // as a user sees them; ttft of unlike prompts: of all but one in 100
  double mean_ttft_s = 0;
  double requests_per_s = 0;
  double tokens_per_s() const { return tpot_s > 0 ? static_cast<double>(users) / tpot_s : 0; }
};

struct ServingAnswer {
  bool found = false;
  ServingPlan plan;                  // the best: most users within the targets, or the fastest for the users asked for
  std::optional<ServingPlan> other;  // of the other kind (shared or split), for comparison
  int64_t most_users = 0;  // users that fit into memory, over all copies of the plan's layout, whatever the targets
  // Else: why nothing serves.
  bool memory = false;  // it does not fit; false: it fits and is too slow for the targets
  ServingMemory nearest;
  ServingLayout nearest_layout;
  double best_ttft_s = 0, best_tpot_s = 0;  // without targets
  int64_t layouts = 0;                      // looked at
};
/// Over every legal tensor × stages and every node type, copies on what is left. Errors: usage: an encoder, a model
/// with an encoder's part.
ServingAnswer plan_serving(const ModelSpec&, const Cluster&, const InferenceJob&);

}  // namespace tern
