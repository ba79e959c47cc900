#include "apps/model_engine.h"

#include "base/clock.h"
#include "base/error.h"
#include "infer/gated_executor.h"

namespace tern {
namespace {

bool turns(const ModelSpec& spec) { return spec.rope.kind != RopeKind::none; }

BatchExecutor executor_of(const ModelDescription& model, const ModelWeights& weights, const RopeTable* rope,
                          Arena& arena) {
  if (!model.adapter.empty() && is_gated_adapter(model.adapter))
    return gated_executor(model.spec, weights, read_gated_adapter(model.adapter), rope, arena);
  return model_executor(model.spec, weights, rope, arena, static_cast<int>(model.beside.size()));
}

}  // namespace

void refuse_gated_adapter(const ModelDescription& model, std::string_view what) {
  if (!model.adapter.empty() && is_gated_adapter(model.adapter))
    throw Error(ErrorKind::usage, "--adapter {}: gated adapters, whose strength follows from the prompt; {}",
                model.adapter, what);
}

ModelEngine::ModelEngine(const ModelDescription& model, const ModelWeights& weights, const InferenceNeeds& needs,
                         const EngineLimits& limits, Arena& arena)
    : rope(turns(model.spec) ? rope_table(model.spec, limits.context, limits.context) : RopeTable{}),
      pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena),
      engine(pool, executor_of(model, weights, turns(model.spec) ? &rope : nullptr, arena), &*model.tokenizer, limits,
             real_clock()) {}

}  // namespace tern
