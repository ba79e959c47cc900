#pragma once
// The engine of a verb that writes text, with its table of rotations and its cache.

#include <string>

#include "infer/engine.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/rope_table.h"

namespace tern {

/// Whether the model's adapter is a gated one (model/gated_adapter.h).
bool is_gated(const ModelDescription&);
/// Refuses a model with a gated adapter. `what` ("chat: …") says why. Errors: usage.
void refuse_gated_adapter(const ModelDescription&, std::string_view what);
/// The cache has the size that the needs say, and the engine runs every adapter beside the model. Model, weights and arena must outlive it.
struct ModelEngine {
  /// `kv_directory`: on whose disk the keys and values of needs.kv_on_disk layers lie. Errors: does_not_fit from the arena; those of
  /// open_kv_on_disk.
  ModelEngine(const ModelDescription&, const ModelWeights&, const InferenceNeeds&, const EngineLimits&, Arena&,
              const std::string& kv_directory = {});

  RopeTable rope;  // empty: the model does not turn positions
  KvPool pool;
  Engine engine;
};

}  // namespace tern
