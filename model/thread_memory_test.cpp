#include "model/thread_memory.h"

#include <omp.h>

#include "base/pages.h"
#include "base/threads_testing.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/thread_scratch.h"
#include "model/model_testing.h"
#include "model/rope_table.h"

namespace tern {
namespace {

ModelSpec wide_model(const std::string& family) {
  HfConfig c = tiny_config(family);
  c.hidden_size = 64, c.head_dim = 16, c.intermediate_size = 3000, c.max_position_embeddings = 1024;
  return model_spec(c);
}

/// What this thread's teams hold after a pass with gradients over sequences of 700 and 400 tokens.
int64_t held_after_a_pass(const ModelSpec& spec, DType dtype, Multiply multiply) {
#pragma omp parallel num_threads(8)  // all that there may be
  drop_thread_scratch();
  Arena arena;
  const ModelWeights weights = random_weights(spec, dtype, arena, 1);
  ModelWeights gradients = zero_gradients(spec, dtype, arena);
  const std::vector<int32_t> tokens = random_tokens(1100, spec.vocab, 2), targets = random_tokens(1100, spec.vocab, 3);
  const RopeTable rope = rope_table(spec, 700, 700);
  const Rows rows = make_rows(tokens, {0, 700, 750, 800, 850, 900, 1000, 1100}, &rope);
  add_gradients(spec, weights, rows, targets, 1.0 / 1100, gradients, {arena, multiply});
  int64_t held = 0;
#pragma omp parallel num_threads(8) reduction(+ : held)
  held += thread_scratch_held();
  return held;
}

TEST(ThreadMemory, APassHoldsWhatWasSaid) {
  for (const std::string family : {"llama", "gemma2", "mixtral"})
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const Multiply multiply : {Multiply::fast, Multiply::exact})
        for (const int threads : {2, 8})
          with_threads(threads, [&] {
            const ModelSpec spec = wide_model(family);
            const ThreadWork work{
                .dtype = dtype, .multiply = multiply, .tokens = 1100, .sequence = 700, .gradients = true};
            const int64_t said = thread_memory(spec, work).kept;
            const int64_t held = held_after_a_pass(spec, dtype, multiply);
            const std::string which = family + (dtype == DType::bf16 ? " bf16" : " f32") +
                                      (multiply == Multiply::fast ? " fast " : " exact ") + std::to_string(threads);
            EXPECT_LE(held, said + threads * static_cast<int64_t>(page_bytes())) << which;
            // A team of fewer ends the threads that it has no use for, and their buffers with them.
            if (threads == 2) { EXPECT_GE(2 * held, said) << which; }
          });
}

TEST(ThreadMemory, TablesOfRotationsAreCounted) {
  for_each_variant([](const std::string& name, const ModelSpec& spec) {
    int64_t bytes = 0;
    if (spec.turns()) {
      const RopeTable table = rope_table(spec, 33, 33);
      const auto count = [](const RopeTable& t) {
        return static_cast<int64_t>((t.cos.size() + t.sin.size()) * 4 + (t.cos64.size() + t.sin64.size()) * 8);
      };
      bytes = count(table);
      for (const RopeTable& local : table.local) bytes += count(local);
    }
    EXPECT_EQ(rope_table_bytes(spec, 33), bytes) << name;
  });
}

}  // namespace
}  // namespace tern
