#pragma once
// The engine of a verb that writes text, with what it stands on.

#include <string>

#include "infer/engine.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/rope_table.h"

namespace tern {

/// Whether its adapter is one whose strength follows from the prompt.
bool is_gated(const ModelDescription&);
/// Refuses gated adapters where `what` ("chat: …") says why they do not serve. Errors: usage.
void refuse_gated_adapter(const ModelDescription&, std::string_view what);

/// Model, weights and arena must outlive it. The cache holds what the needs say, for every adapter beside the model.
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
