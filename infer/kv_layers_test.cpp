// A model whose layers have unlike heads: the cache is sized layer by layer.
#include <gtest/gtest.h>

#include <algorithm>

#include "infer/executor.h"
#include "infer/memory_fit.h"
#include "model/model_testing.h"
#include "model/pack_weights.h"

namespace tern {
namespace {

// 1, 4 and 2 heads of keys and values; the last layer's are wider.
ModelSpec unlike_layers() {
  HfConfig config = tiny_config("gpt2");
  config.num_hidden_layers = 3;
  ModelSpec spec = model_spec(config);
  const int64_t kv_heads[] = {1, 4, 2}, head_dims[] = {6, 6, 10};
  for (Unit& unit : spec.units)
    if (auto* u = std::get_if<AttentionSpec>(&unit.spec))
      u->kv_heads = kv_heads[unit.layer], u->head_dim = head_dims[unit.layer];
  return spec;
}

TEST(KvLayers, EachLayerHasItsOwnHeads) {
  const ModelSpec spec = unlike_layers();
  const KvShape shape = kv_shape(spec, 4, DType::f32);
  EXPECT_EQ(shape.bytes_per_token(), 2 * (1 * 6 + 4 * 6 + 2 * 10) * 4);
  Arena arena;
  const KvPool pool(shape, 6, arena);
  EXPECT_EQ(arena.current_total(), 6 * shape.bytes_per_page());
  const InferenceNeeds needs{.context = 24, .page_tokens = 4};
  EXPECT_EQ(inference_fit(spec, DType::f32, needs).kv_cache, arena.current_total());
}

// Over pages, in chunks, with a neighbour: the bits of one pass without a cache.
TEST(KvLayers, UnlikeLayersReadAndWriteTheirOwnPages) {
  const ModelSpec spec = unlike_layers();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Arena arena;
    ModelWeights weights = random_weights(spec, dtype, arena, 5);
    pack_weights(spec, weights, arena);
    const Compute c{arena, Multiply::exact};
    const std::vector<int32_t> prompt = random_tokens(21, spec.vocab, 1), other = random_tokens(9, spec.vocab, 2);
    const Rows rows = make_rows(prompt, {0, 21}, nullptr);
    const std::vector<int32_t> last{20};
    const Tensor want = head_logits(spec, weights, model_forward(spec, weights, rows, nullptr, c), last, c);

    KvPool pool(kv_shape(spec, 4, dtype), 12, arena);
    const BatchExecutor execute = model_executor(spec, weights, nullptr, arena);
    Sequence ours{.id = 0, .tokens = prompt, .prompt_tokens = 21, .kv = {}};
    Sequence neighbour{.id = 1, .tokens = other, .prompt_tokens = 9, .kv = {}};
    Scheduler scheduler(pool, {.token_budget = 8, .chunk = 5, .max_running = 2});
    scheduler.submit(neighbour, 9);
    scheduler.submit(ours, 21);
    std::vector<float> got;
    while (got.empty()) {
      const Batch batch = scheduler.step();
      const Tensor logits = execute(batch, pool);
      scheduler.computed(batch);
      int64_t row = 0;
      for (const Work& work : batch) {
        if (!work.wants_logits) continue;
        const Tensor mine = logits.rows_view(row, row + 1);
        ++row;
        if (work.sequence == &ours) got.assign(mine.span<float>().begin(), mine.span<float>().end());
        scheduler.finish(*work.sequence);
      }
    }
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.span<float>().begin(), want.span<float>().end()));
  }
}

}  // namespace
}  // namespace tern
