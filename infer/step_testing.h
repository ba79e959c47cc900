#pragma once
// Tests only: a small model in files, larger than the memory that it is given, and what runs of it leave.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/format_test_support.h"
#include "infer/executor.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/stream_plan.h"
#include "model/coded_model_testing.h"
#include "model/load_streamed.h"
#include "model/model_testing.h"

namespace tern {

/// Of many layers: weights, not what threads keep, are most of what it takes.
struct StepModel {
  explicit StepModel(const char* family, DType stored = DType::bf16, DType computed = DType::bf16) {
    HfConfig config = tiny_config(family);
    config.hidden_size = 96, config.intermediate_size = 160, config.vocab_size = 400;
    config.num_hidden_layers = std::max<int64_t>(config.num_hidden_layers, 6);
    for (size_t i = 0;
         !config.windowed_layers.empty() && std::ssize(config.windowed_layers) < config.num_hidden_layers;)
      config.windowed_layers.push_back(config.windowed_layers[i++]);
    const ModelSpec spec = model_spec(config);
    Arena arena;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 3), stored, dir / "model", real_io());
    model = describe_model(dir / "model", computed);
  }
  /// A GGUF file, its matrices in turn of these types.
  StepModel(const std::vector<WeightType>& types, DType computed) {
    write_coded_model(coded_config("llama", false), types, dir / "model.gguf");
    model = describe_model(dir / "model.gguf", computed);
  }
  static InferenceNeeds needs(int64_t sequences = 1) {
    return {.context = 28, .sequences = sequences, .page_tokens = 4, .iteration_tokens = 7, .logit_rows = 1};
  }
  /// With so many percent of what it takes whole; nullopt: that is too little.
  std::optional<StreamPlan> plan(int64_t percent, const RingSettings& ring) const {
    const int64_t whole = inference_fit(model.spec, model.dtype, needs()).total();
    try {
      return plan_stream(model, needs(), {whole * percent / 100, "the test"}, ring, {.most = 4000, .least = 1});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
      return std::nullopt;
    }
  }
  TemporaryDirectory dir;
  ModelDescription model;
};

/// Its weights, whole (no plan) or those of a plan. `files`: reads them; null: the disk.
struct StepLoaded {
  StepLoaded(const StepModel& m, const StreamPlan* plan, std::unique_ptr<BlockFiles> files = nullptr) {
    if (!plan) {
      whole = load_for_inference(m.model, arena);
      return;
    }
    if (!files) files = open_blocks(plan->bands.paths).files;
    streamed = load_streamed(m.model.spec, m.model.dir.path, m.model.dtype, plan->bands, plan->stays, std::move(files),
                             plan->ring, arena, plan->cache);
    streams = true;
  }
  const ModelWeights& weights() const { return streams ? streamed.weights : whole; }
  Arena arena;
  ModelWeights whole;
  StreamedModel streamed;
  bool streams = false;
};

}  // namespace tern
