#include "apps/model_engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "infer/gated_executor.h"
#include "infer/kv_on_disk.h"

namespace tern {
namespace {

bool turns(const ModelSpec& spec) { return spec.rope.kind != RopeKind::none; }

BatchExecutor executor_of(const ModelDescription& model, const ModelWeights& weights, const RopeTable* rope,
                          Arena& arena, StepRecorder* recorder) {
  if (is_gated(model)) return gated_executor(model.spec, weights, read_gated_adapter(model.adapter), rope, arena);
  if (std::ranges::any_of(model.offered, &OfferedAdapter::gated)) {
    std::vector<SideAdapter> side;
    for (const OfferedAdapter& one : model.offered) {
      side.push_back({.first = one.first});
      if (one.gated) side.back().gates = read_gated_adapter(one.dir);
    }
    return side_executor(model.spec, weights, std::move(side), rope, arena);
  }
  return model_executor(model.spec, weights, rope, arena, static_cast<int>(model.beside.size()), recorder);
}

std::shared_ptr<KvOnDisk> keys_on_disk(const ModelDescription& model, const InferenceNeeds& needs,
                                       const std::string& directory, Arena& arena) {
  if (needs.kv_on_disk == 0) return nullptr;
  std::string note;
  auto disk = open_kv_on_disk(directory, kv_shape(model.spec, model.dtype, needs), kv_pages(needs), needs.kv_on_disk,
                              arena, note);
  if (!note.empty()) log_info("{}", note);
  return disk;
}

EngineLimits limits_for(const ModelDescription& model, EngineLimits limits) {
  if (is_gated(model)) limits.of_prompts.push_back(kNoAdapter);
  for (size_t i = 0; i < model.offered.size(); ++i)
    if (model.offered[i].gated) limits.of_prompts.push_back(static_cast<int>(i));
  return limits;
}

}  // namespace

bool is_gated(const ModelDescription& model) { return !model.adapter.empty() && is_gated_adapter(model.adapter); }

void refuse_gated_adapter(const ModelDescription& model, std::string_view what) {
  if (is_gated(model))
    throw Error(ErrorKind::usage, "--adapter {}: gated adapters, whose strength follows from the prompt; {}",
                model.adapter, what);
}

ModelEngine::ModelEngine(const ModelDescription& model, const ModelWeights& weights, const InferenceNeeds& needs,
                         const EngineLimits& limits, Arena& arena, const std::string& kv_directory,
                         StepRecorder* recorder)
    : rope(turns(model.spec) ? rope_table(model.spec, limits.context, limits.context) : RopeTable{}),
      pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena,
           keys_on_disk(model, needs, kv_directory, arena)),
      engine(pool, executor_of(model, weights, turns(model.spec) ? &rope : nullptr, arena, recorder), &*model.tokenizer,
             limits_for(model, limits), real_clock()) {}

}  // namespace tern
