#include "infer/executor.h"

#include <algorithm>

#include "base/error.h"
#include "infer/kv_on_disk.h"
#include "infer/ragged.h"

namespace tern {
namespace {

// The rows of one forward: the base's sequences first, then those of each adapter.
struct Laid {
  RaggedBatch ragged;
  std::vector<const KvPages*> caches;
  std::vector<int64_t> counts;        // of each cache's sequence: its tokens here
  std::vector<int32_t> logit_rows;    // in batch order
  std::vector<int64_t> adapter_rows;  // Compute::adapter_rows
};

Laid lay_out(const Batch& batch, int adapters) {
  Laid laid;
  std::vector<int32_t> last_rows(batch.size());
  size_t placed = 0;
  for (int adapter = kNoAdapter; adapter < adapters; ++adapter) {
    if (adapter != kNoAdapter) laid.adapter_rows.push_back(laid.ragged.num_rows());
    for (size_t i = 0; i < batch.size(); ++i) {
      const Work& work = batch[i];
      if (work.sequence->adapter != adapter) continue;
      laid.ragged.add(
          std::span(work.sequence->tokens).subspan(static_cast<size_t>(work.begin), static_cast<size_t>(work.count)),
          work.begin);
      laid.caches.push_back(&work.sequence->kv);
      laid.counts.push_back(work.count);
      last_rows[i] = static_cast<int32_t>(laid.ragged.num_rows()) - 1;
      ++placed;
    }
  }
  TERN_CHECK(placed == batch.size(), "model_executor: a sequence's adapter is none of {}", adapters);
  if (adapters > 0) laid.adapter_rows.push_back(laid.ragged.num_rows());
  for (size_t i = 0; i < batch.size(); ++i)
    for (auto behind = static_cast<int32_t>(batch[i].guesses); batch[i].wants_logits && behind >= 0; --behind)
      laid.logit_rows.push_back(last_rows[i] - behind);
  return laid;
}

int kv_layer_of(const Unit& unit) {
  const AttentionSpec* attention = attention_of(unit);
  return attention && !attention->cross ? unit.layer : -1;
}

// model_forward, with layers of keys and values that come and go.
Tensor forward_with_keys(const ModelSpec& spec, WeightSource weights, const Rows& rows, KvView& view, KvStep& step,
                         const Compute& c) {
  Tensor x;
  for (int unit = 0; unit + 1 < static_cast<int>(spec.units.size()); ++unit) {
    const WeightLease lease = weights.acquire(unit);
    const int layer = kv_layer_of(spec.units[static_cast<size_t>(unit)]);
    step.acquire(layer);
    x = unit_forward(spec, unit, *lease, rows, x, nullptr, &view, c);
    step.release(layer);
  }
  return x;
}

}  // namespace

BatchExecutor model_executor(const ModelSpec& spec, WeightSource weights, const RopeTable* rope, Arena& arena,
                             int adapters) {
  return [&spec, weights, rope, &arena, adapters](const Batch& batch, const KvPool& pool) {
    Laid laid = lay_out(batch, adapters);
    KvView view = pool.view(laid.caches);
    const Compute compute{.arena = arena, .multiply = Multiply::exact, .adapter_rows = laid.adapter_rows};
    KvStep step(pool, view, laid.counts);
    const Tensor hidden = forward_with_keys(spec, weights, laid.ragged.rows(rope), view, step, compute);
    return laid.logit_rows.empty() ? Tensor() : head_logits(spec, weights, hidden, laid.logit_rows, compute);
  };
}

}  // namespace tern
