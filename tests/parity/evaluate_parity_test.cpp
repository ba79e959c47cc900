// Held-out loss while training is what `tern eval` finds: exact kernels, whatever the batch.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "eval/window_losses.h"
#include "formats/data/token_data_testing.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/linear.h"
#include "tests/e2e/train_process.h"
#include "train/evaluate.h"
#include "train/inputs.h"

namespace tern {
namespace {

TEST(EvaluateParity, HeldOutLossIsThatOfTheExactKernelsForAnyMicroBatch) {
  const TinyRun tiny;
  constexpr int64_t kSeq = 16, kWindows = 12;
  std::vector<uint16_t> tokens;
  for (uint64_t i = 0; i < kSeq * kWindows + 1; ++i)
    tokens.push_back(static_cast<uint16_t>(random_u64({9, 9}, i) % 64));
  const std::string path = tiny.root() + "/one.tokens";
  write_token_file(path, tokens, {0, static_cast<int64_t>(tokens.size())}, 64);
  TrainSettings s;
  s.model = tiny.root() + "/config.json", s.from_scratch = true, s.seq = kSeq, s.data = path;
  const TrainInputs in = load_inputs(s);
  Arena arena;
  ModelWeights weights = allocate_weights(in.spec, DType::f32, MemoryClass::weights, arena);
  initialize_weights(in.spec, weights, 5);
  const Feed feed = open_feed(s, in, path, tiny.root(), {.seq = kSeq, .shuffle = false});
  const RopeTable rope = rope_table(in.spec.rope, kSeq, kSeq);

  std::vector<Window> windows;
  for (int64_t w = 0; w < kWindows; ++w) {
    std::vector<int32_t> ids(kSeq + 1);
    feed.data().read(w * kSeq, ids);
    windows.push_back({ids, 1});
  }
  double want = 0;
  for (const double loss : window_losses(in.spec, weights, windows, 5, arena)) want += loss;
  want /= static_cast<double>(kSeq * kWindows);
  // Fast products differ from exact ones in the last bits of f32; sums of doubles do not by that much.
  for (const int64_t micro : {1, 4, 12}) {
    const Evaluation e = evaluate(in.spec, weights, feed, kSeq, 100, micro, DType::f32, &rope, arena);
    EXPECT_EQ(e.num_targets, kSeq * kWindows);
    EXPECT_NEAR(e.loss, want, 1e-13 * want) << micro << " windows at a time";
    ASSERT_TRUE(e.bits_per_byte);
    EXPECT_NEAR(*e.bits_per_byte, want / std::log(2.0), 1e-12) << "a byte a token, says the file";
  }
}

// The bytes of the text are those of all tokens: with a mask nobody knows those of the scored ones.
TEST(EvaluateParity, MaskedDataHaveNoBitsPerByte) {
  const TinyRun tiny;
  const std::string path = tiny.root() + "/masked.tokens";
  std::vector<uint8_t> mask(100, 1);
  for (size_t i = 0; i < 50; ++i) mask[i] = 0;
  write_token_file(path, std::vector<uint16_t>(100, 3), {0, 100}, 64, mask);
  TrainSettings s;
  s.model = tiny.root() + "/config.json", s.from_scratch = true, s.seq = 16, s.data = path;
  const TrainInputs in = load_inputs(s);
  Arena arena;
  ModelWeights weights = allocate_weights(in.spec, DType::f32, MemoryClass::weights, arena);
  initialize_weights(in.spec, weights, 5);
  const Feed feed = open_feed(s, in, path, tiny.root(), {.seq = 16, .shuffle = false});
  const RopeTable rope = rope_table(in.spec.rope, 16, 16);
  const Evaluation e = evaluate(in.spec, weights, feed, 16, 100, 2, DType::f32, &rope, arena);
  EXPECT_LT(e.num_targets, 96);
  EXPECT_FALSE(e.bits_per_byte);
}

}  // namespace
}  // namespace tern
