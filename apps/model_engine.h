#pragma once
// The engine of a verb that writes text, with its RoPE table and its KV cache.

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
/// An engine with a KV cache of the size that the needs give. It can run all adapters beside the model. Model, weights and arena must outlive it.
struct ModelEngine {
  /// `kv_directory`: the folder for the keys and values of the needs.kv_on_disk layers that lie on its disk. Errors:
  /// does_not_fit from the arena; those of open_kv_on_disk. `recorder`: told of each step; not of a model with gated adapters.
  ModelEngine(const ModelDescription&, const ModelWeights&, const InferenceNeeds&, const EngineLimits&, Arena&,
              const std::string& kv_directory = {}, StepRecorder* recorder = nullptr);

  RopeTable rope;  // empty: the model has no rotary positions
  KvPool pool;
  Engine engine;
};

}  // namespace tern
