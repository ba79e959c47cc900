#include "apps/model_engine.h"

#include "base/clock.h"

namespace tern {
namespace {

bool turns(const ModelSpec& spec) { return spec.rope.kind != RopeKind::none; }

}  // namespace

ModelEngine::ModelEngine(const ModelDescription& model, const ModelWeights& weights, const InferenceNeeds& needs,
                         const EngineLimits& limits, Arena& arena)
    : rope(turns(model.spec) ? rope_table(model.spec, limits.context, limits.context) : RopeTable{}),
      pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena),
      engine(pool,
             model_executor(model.spec, weights, turns(model.spec) ? &rope : nullptr, arena,
                            static_cast<int>(model.beside.size())),
             &*model.tokenizer, limits, real_clock()) {}

}  // namespace tern
