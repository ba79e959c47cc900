#pragma once
// Where keys and values lie in `tern plan --inference` on tern's own engine. Where memory does not hold them, the plan puts them
// where `tern generate` would put them, by the same functions (apps/kv_place.h, infer/kv_on_disk.h), and prices it with the disk of the cluster file.

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "infer/kv_on_disk.h"
#include "infer/memory_fit.h"
#include "planner/words/serving.h"

namespace tern {

/// What `tern generate` needs for so many of the job's requests at once.
InferenceNeeds engine_needs(const InferenceJob&, int64_t users);

/// A step that decodes a token of each user.
struct KeysStep {
  KvMoved moved;            // of keys and values
  int64_t disk_ps = 0;      // the disk's work alone
  int64_t products_ps = 0;  // the device's work alone: as if all lay in memory
  int64_t step_ps = 0;      // both, as they overlap by the clock of the ring (store/image_pass_time.h)
};
/// The step of needs.sequences sequences with `past` keys each. The keys and values of needs.kv_on_disk layers lie on the
/// node's disk. moved = kv_step_bytes.
KeysStep keys_step(const ModelSpec&, const InferenceJob&, const Machine&, const InferenceNeeds&, int64_t past);

/// Bytes that move while a prompt is read, of one sequence of a cache with `on_disk` layers on the disk: each chunk reads the pages that stand before
/// it and writes the blocks of its own rows. Exact where a page is whole blocks and a chunk is whole pages.
KvMoved prompt_moved(const KvShape&, int64_t on_disk, int64_t prompt, int64_t chunk);

/// A plan with keys and values of some layers on a disk, or with weights that stream.
struct PlannedKeys {
  ServingPlan plan;      // of one copy on one device
  InferenceNeeds needs;  // of it
  InferenceFit fit;      // as `tern generate` counts it
  int64_t past = 0;      // keys of each user when the step is priced: half of the answer is written
  KeysStep step;         // with weights that stream, disk_ps has them too
  double weights_bytes =
      0;  // of weights, that the same disk reads for a step; above 0, step_ps is a bound: no step takes less
  bool weighed_weights =
      false;  // the model's files are there, so that it was weighed whether to stream weights instead
  double disk_read = 0, disk_write = 0;  // bytes/s
  int64_t missing_bytes = 0;             // of memory, for all to lie in it; 0: memory would hold all
  int64_t most_in_memory = 0;            // users whose keys and values memory holds
};

/// The answer to --kv-place.
struct KeysAnswer {
  std::optional<PlannedKeys> keys;
  std::string reason;  // if the disk was looked at and there are none: why
};
/// `place`: the value of --kv-place; `in_memory`: what plan_serving answered. auto: only if memory does not hold what is asked. disk: always, keys
/// of all layers. Errors: with disk, does_not_fit and usage, naming what is missing, such as the rate of a disk.
KeysAnswer plan_keys(const ServingQuestion&, const std::string& place, const ServingAnswer& in_memory);

/// Which layers' keys lie where, the bytes of a token, the time of a step and what binds it, and how much memory would do instead.
std::string keys_text(const ServingQuestion&, const PlannedKeys&);
Json keys_json(const ServingQuestion&, const PlannedKeys&);

}  // namespace tern
