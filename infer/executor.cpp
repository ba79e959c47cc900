#include "infer/executor.h"

#include "infer/ragged.h"

namespace tern {

BatchExecutor model_executor(const ModelSpec& spec, WeightSource weights, const RopeTable* rope, Arena& arena) {
  return [&spec, weights, rope, &arena](const Batch& batch, const KvPool& pool) {
    RaggedBatch ragged;
    std::vector<int32_t> logit_rows;
    std::vector<const KvPages*> caches;
    for (const Work& work : batch) {
      ragged.add(
          std::span(work.sequence->tokens).subspan(static_cast<size_t>(work.begin), static_cast<size_t>(work.count)),
          work.begin);
      caches.push_back(&work.sequence->kv);
      if (work.wants_logits) logit_rows.push_back(static_cast<int32_t>(ragged.num_rows()) - 1);
    }
    KvView view = pool.view(caches);
    const Compute compute{arena, Multiply::exact};
    const Tensor hidden = model_forward(spec, weights, ragged.rows(rope), &view, compute);
    return logit_rows.empty() ? Tensor() : head_logits(spec, weights, hidden, logit_rows, compute);
  };
}

}  // namespace tern
