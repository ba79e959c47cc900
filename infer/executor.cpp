#include "infer/executor.h"

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "infer/kv_on_disk.h"
#include "infer/ragged.h"
#include "infer/step_program.h"
#include "infer/step_recorder.h"
#include "program/validate.h"
#include "spec/attended_pairs.h"

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

// What the order of a step's FORWARDs depends on, and which of them read keys of the disk.
struct ListShape {
  bool makes_logits;
  std::vector<int> layers_on_disk;
  friend auto operator<=>(const ListShape&, const ListShape&) = default;
};

bool reads_keys(const Instruction& i) { return std::ranges::count(i.reads, BufferKind::keys, &Buffer::kind) > 0; }

bool only_single_tokens(const Batch& batch) {
  return std::ranges::all_of(batch, [](const Work& w) { return w.kind == WorkKind::decode && w.guesses == 0; });
}

class ListExecutor {
 public:
  ListExecutor(const ModelSpec& spec, WeightSource weights, const RopeTable* rope, Arena& arena, int adapters,
               StepRecorder* recorder)
      : spec_(spec), weights_(weights), rope_(rope), arena_(arena), adapters_(adapters), recorder_(recorder) {}

  Tensor run(const Batch& batch, const KvPool& pool) {
    Laid laid = lay_out(batch, adapters_);
    KvView view = pool.view(laid.caches);
    const StepBatch shape = shape_of(laid, view, pool);
    const Program& list = list_of(shape, pool);
    StepRecorder* const recorder = recorder_ && !recorder_->complete() ? recorder_ : nullptr;
    if (recorder && !step_weights_) step_weights_ = step_weights(spec_, weights_);
    if (recorder) recorder->begin_step(shape, only_single_tokens(batch), *step_weights_, pool.on_disk(), arena_);
    Tensor logits;
    {
      KvStep keys(pool, view, laid.counts);
      logits = follow(list, laid, view, keys, recorder);
    }
    if (recorder) recorder->end_step();
    return logits;
  }

 private:
  StepBatch shape_of(const Laid& laid, const KvView& view, const KvPool& pool) const {
    StepBatch shape{.tokens = laid.ragged.num_rows(), .logit_rows = std::ssize(laid.logit_rows)};
    if (const KvOnDisk* disk = pool.on_disk())
      shape.layers_on_disk.assign(disk->layers().begin(), disk->layers().end());
    if (recorder_)
      for (size_t i = 0; i < laid.counts.size(); ++i)
        shape.attended_pairs += attended_pairs(laid.counts[i], view.past[i], 0);  // as if no layer had a window
    return shape;
  }

  const Program& list_of(const StepBatch& shape, const KvPool& pool) {
    ListShape key{shape.logit_rows > 0, shape.layers_on_disk};
    if (const auto found = lists_.find(key); found != lists_.end()) return found->second;
    const StepBatch one{.tokens = 1, .logit_rows = key.makes_logits, .layers_on_disk = key.layers_on_disk};
    Program list = step_program(spec_, StepWeights{}, {&one, 1}, &pool);
    check_valid(list, ProgramKind::inference);
    return lists_.emplace(std::move(key), std::move(list)).first->second;
  }

  // LOADs and STOREs are done by the rings; a part behind part 0 begins within its unit's forward, with the lease of its extent.
  Tensor follow(const Program& list, Laid& laid, KvView& view, KvStep& keys, StepRecorder* recorder) {
    const Compute c{.arena = arena_, .multiply = Multiply::exact, .adapter_rows = laid.adapter_rows};
    const Rows& rows = laid.ragged.rows(rope_);
    const int head = static_cast<int>(spec_.units.size()) - 1, last = laid.logit_rows.empty() ? head - 1 : head;
    Tensor x;
    for (const Instruction& i : list.instructions) {
      if (i.op != Opcode::forward) continue;
      const int layer = reads_keys(i) ? kv_layer_of(spec_.units[static_cast<size_t>(i.unit)]) : -1;
      if (i.unit == head) {
        if (recorder) recorder->begin_unit(i.unit);
        x = head_logits(spec_, weights_, x, laid.logit_rows, c);
      } else {
        const WeightLease lease = weights_.acquire(i.unit);
        keys.acquire(layer);
        if (recorder) recorder->begin_unit(i.unit);
        x = unit_forward(spec_, i.unit, *lease, rows, x, nullptr, &view, c);
      }
      if (recorder) recorder->end_unit(i.unit == last ? x.bytes() : 0);
      keys.release(layer);
    }
    return laid.logit_rows.empty() ? Tensor() : x;
  }

  const ModelSpec& spec_;
  WeightSource weights_;
  const RopeTable* rope_;
  Arena& arena_;
  int adapters_;
  StepRecorder* recorder_;
  std::optional<StepWeights> step_weights_;  // that the recorder was told of
  std::map<ListShape, Program> lists_;       // without parts, batches of one token: as long whatever a step has
};

}  // namespace

BatchExecutor model_executor(const ModelSpec& spec, WeightSource weights, const RopeTable* rope, Arena& arena,
                             int adapters, StepRecorder* recorder) {
  const auto executor = std::make_shared<ListExecutor>(spec, weights, rope, arena, adapters, recorder);
  return [executor](const Batch& batch, const KvPool& pool) { return executor->run(batch, pool); };
}

}  // namespace tern
