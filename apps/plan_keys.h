#pragma once
// Where keys and values lie in `tern plan --inference` on tern's own engine. If memory does not hold them, the plan puts them where `tern
// generate` would, by the same functions (apps/kv_place.h, infer/kv_on_disk.h), and computes times with the disk rates of the cluster file.

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "infer/kv_on_disk.h"
#include "infer/memory_fit.h"
#include "planner/words/serving.h"

namespace tern {

/// What `tern generate` needs for `users` requests of the job at once.
InferenceNeeds engine_needs(const InferenceJob&, int64_t users);

/// A step that decodes a token of each user.
struct KeysStep {
  KvMoved moved;            // of keys and values
  int64_t disk_ps = 0;      // the disk's work alone
  int64_t products_ps = 0;  // the device's work alone, as if memory held all
  int64_t step_ps = 0;      // both, overlapped as image_pass_times predicts (store/image_pass_time.h)
};
/// The step of needs.sequences sequences with `past` keys each. The keys and values of needs.kv_on_disk layers lie on the
/// node's disk. `moved` equals kv_step_bytes.
KeysStep keys_step(const ModelSpec&, const InferenceJob&, const Machine&, const InferenceNeeds&, int64_t past);

/// The bytes that move while the prompt of one sequence is read, if `on_disk` layers of the cache lie on the disk: each chunk reads
/// the pages before its own and writes the blocks of its own rows. Exact if a page is whole blocks and a chunk is whole pages.
KvMoved prompt_moved(const KvShape&, int64_t on_disk, int64_t prompt, int64_t chunk);

/// A plan with keys and values of some layers on a disk, or with weights that stream.
struct PlannedKeys {
  ServingPlan plan;          // of one copy on one device
  InferenceNeeds needs;      // of `plan`
  InferenceFit fit;          // as `tern generate` counts it
  int64_t past = 0;          // keys of each user in the priced step: half of the answer is written
  KeysStep step;             // if weights stream, disk_ps includes them
  double weights_bytes = 0;  // of weights, read from the same disk for a step; above 0, step_ps is only a lower bound
  bool weighed_weights =
      false;  // whether streaming weights instead was considered, for which the model's files are needed
  double disk_read = 0, disk_write = 0;  // bytes/s
  int64_t missing_bytes = 0;             // how much memory is missing to hold all; 0: memory would hold all
  int64_t most_in_memory = 0;            // users whose keys and values memory holds
};

/// The answer to --kv-place.
struct KeysAnswer {
  std::optional<PlannedKeys> keys;
  std::string reason;  // why there are no `keys`, if the disk was considered
};
/// `place`: the value of --kv-place. `in_memory`: the answer of plan_serving. With auto, the disk is considered only if what is asked does not
/// fit in memory; with disk, the keys of all layers lie on the disk. Errors: with disk, does_not_fit and usage, naming what is missing, such as the rate of a disk.
KeysAnswer plan_keys(const ServingQuestion&, const std::string& place, const ServingAnswer& in_memory);

/// Which layers' keys lie where, the bytes of a token, the time of a step and its bottleneck, and how much memory would hold all.
std::string keys_text(const ServingQuestion&, const PlannedKeys&);
Json keys_json(const ServingQuestion&, const PlannedKeys&);

}  // namespace tern
