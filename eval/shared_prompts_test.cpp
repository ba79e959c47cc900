// Choices that share a prompt have the losses that each has by itself, to the bit.

#include "eval/batch_rows.h"
#include "eval/window_losses.h"
#include "model/model_testing.h"

namespace tern {
namespace {

// Two questions of three and two choices, whose prompts have 20 tokens, and one with a short prompt. The last tokens of a prompt may differ.
std::vector<Window> choices(const ModelSpec& spec) {
  std::vector<Window> windows;
  for (const auto& [question, number] : {std::pair{1, 3}, {2, 2}, {3, 2}}) {
    const std::vector<int32_t> prompt =
        random_tokens(question == 3 ? 5 : 20, spec.vocab, static_cast<uint64_t>(question));
    for (int c = 0; c < number; ++c) {
      Window w{prompt, std::ssize(prompt)};
      if (question == 2 && c == 1) w.tokens[17] = (w.tokens[17] + 1) % static_cast<int32_t>(spec.vocab);
      for (const int32_t token : random_tokens(1 + 2 * c, spec.vocab, static_cast<uint64_t>(10 * question + c)))
        w.tokens.push_back(token);
      windows.push_back(w);
    }
  }
  return windows;
}

std::vector<double> losses_of(const ModelSpec& spec, const ModelWeights& weights, const std::vector<Window>& windows,
                              int64_t batch, Arena& arena, std::optional<KvType> kv) {
  return window_losses_from(
      0, spec, weights, windows, {}, batch, arena, [](size_t, std::span<const double>) { return true; }, kv);
}

TEST(SharedPrompts, EveryChoiceHasTheLossItHasAlone) {
  for_each_variant([](const std::string& variant, const ModelSpec& spec) {
    if (!spec.predicts) return;
    SCOPED_TRACE(variant);
    const std::vector<Window> windows = choices(spec);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const std::optional<KvType> kv : {std::optional<KvType>{}, std::optional(KvType::q8)}) {
        if (kv && dtype == DType::f64) continue;
        Arena arena;
        const ModelWeights weights = random_weights(spec, dtype, arena, 1);
        std::vector<double> alone;
        for (const Window& w : windows) alone.push_back(losses_of(spec, weights, {w}, 1, arena, kv).front());
        for (const int64_t batch : {2, 3, 8})
          EXPECT_EQ(losses_of(spec, weights, windows, batch, arena, kv), alone)
              << name_of(dtype) << ", " << batch << " at once";
      }
  });
}

TEST(SharedPrompts, APromptsRowsAreThereOnce) {
  const ModelSpec spec = model_spec(tiny_config("llama"));
  const std::vector<Window> windows = choices(spec);
  const std::vector<std::vector<uint8_t>> none;
  const WindowBatches batches(windows, none, 8);
  const BatchRows plain = batches.rows(0), shared = batches.rows_with_prompts(0);
  EXPECT_EQ(plain.tokens.size(), 20u + 22 + 24 + 20 + 22 + 5 + 7);
  // 19 rows of the first prompt once, 17 of the second, whose choices differ from there on; the short one is not worth it.
  EXPECT_EQ(shared.tokens.size(), 19u + 1 + 3 + 5 + 17 + 3 + 5 + 5 + 7);
  EXPECT_EQ(shared.follows, (std::vector<int>{-1, 0, 0, 0, -1, 4, 4, -1, -1}));
  EXPECT_EQ(shared.of_window, (std::vector<size_t>{1, 2, 3, 5, 6, 7, 8}));
  const std::vector<std::vector<uint8_t>> masks(windows.size(), std::vector<uint8_t>(32, 1));
  EXPECT_TRUE(WindowBatches(windows, masks, 8).rows_with_prompts(0).of_window.empty());
}

}  // namespace
}  // namespace tern
