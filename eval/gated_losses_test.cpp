// Texts under gated adapters: what sets the gates is scored by the model as it came, the rest with the gates.

#include "eval/gated_losses.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "eval/compare_models.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

constexpr int64_t kPrompt = 4;

// A model with two branches beside it, and gates in memory.
struct GatedText {
  ModelSpec base, adapted;
  Arena arena;
  ModelWeights weights;
  GatedAdapter gated{.prompt_tokens = kPrompt, .gates = {}, .branches = {"a", "b"}};
  std::vector<Window> windows;

  explicit GatedText(const char* family) : base(model_spec(tiny_config(family))), adapted(with_adapters(base, 3)) {
    weights = random_weights(base, DType::f32, arena, 7);
    std::mt19937 random(9);
    std::normal_distribution<double> number;
    std::vector<Linear*> places;
    for_each_linear(base, weights, [&](const ParameterInfo&, Linear& linear) { places.push_back(&linear); });
    for (int i = 0; i < 2; ++i) {
      ModelWeights branch = random_weights(adapted, DType::f32, arena, 20 + static_cast<uint64_t>(i));
      auto place = places.begin();
      for_each_linear(adapted, branch, [&](const ParameterInfo&, Linear& linear) {
        for (Branch& b : linear.branches) b.adapter = i, (*place)->branches.push_back(b);
        ++place;
      });
      const int64_t width = base.width;
      InputGate gate{.width = width, .hidden = 5, .first = {}, .second = {}, .key = {}};
      gate.first.resize(static_cast<size_t>(5 * width)), gate.second.resize(gate.first.size());
      gate.key.resize(static_cast<size_t>(width));
      for (std::vector<double>* list : {&gate.first, &gate.second, &gate.key})
        for (double& x : *list) x = number(random);
      gated.gates.push_back(std::move(gate));
    }
    // Longer and shorter than a prompt, scored from the beginning, from within it, from behind it.
    for (const auto& [length, first] : {std::pair{12, 1}, {9, 3}, {11, 7}, {4, 1}, {5, 4}, {2, 1}}) {
      Window w{.tokens = {}, .first_scored = first};
      for (int i = 0; i < length; ++i)
        w.tokens.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(base.vocab)));
      windows.push_back(std::move(w));
    }
  }
  // Of one window, its tokens from `first` on, by the model with branches as strong as these gates.
  double loss(Window w, int64_t first, int64_t end, const std::vector<double>& gates) {
    w.tokens.resize(static_cast<size_t>(std::min(end, std::ssize(w.tokens))));
    w.first_scored = std::max(w.first_scored, first);
    if (w.num_scored() <= 0) return 0;
    ModelWeights strong = weights;
    GatedBranches(base, strong, 0).set(gates);
    return window_losses(base, strong, {w}, 1, arena).front();
  }
};

TEST(GatedLosses, ThePromptIsTheModelsAndTheRestHasItsGates) {
  for (const char* family : {"llama", "gpt2"}) {
    SCOPED_TRACE(family);
    GatedText t(family);
    size_t called = 0;
    const std::vector<double> got =
        gated_window_losses(0, t.base, t.weights, t.gated, t.windows, {}, t.arena, [&](size_t first, auto part) {
          EXPECT_EQ(first, called++);
          EXPECT_EQ(part.size(), 1u);
          return true;
        });
    ASSERT_EQ(got.size(), t.windows.size());
    EXPECT_EQ(called, t.windows.size());
    bool noticed = false;
    for (size_t i = 0; i < got.size(); ++i) {
      const Window& w = t.windows[i];
      const auto prompt = std::min<size_t>(kPrompt, w.tokens.size() - 1);
      const std::vector<double> gates = gates_of(t.gated, t.base, t.weights, std::span(w.tokens).first(prompt));
      const auto end = static_cast<int64_t>(prompt);
      const double want = t.loss(w, 1, end, {0, 0}) + t.loss(w, end, std::ssize(w.tokens), gates);
      EXPECT_NEAR(got[i], want, 1e-4 * want) << i;
      noticed |= std::abs(t.loss(w, 1, std::ssize(w.tokens), gates) - want) > 1e-2 * want;
    }
    EXPECT_TRUE(noticed) << "gates would not be missed";
    // From a later window on, the same numbers.
    const std::vector<double> rest =
        gated_window_losses(2, t.base, t.weights, t.gated, t.windows, {}, t.arena, [](size_t, auto) { return true; });
    EXPECT_EQ(rest, std::vector(got.begin() + 2, got.end()));
  }
}

TEST(GatedLosses, AMaskLeavesTokensOutAndAStopIsAnInterruption) {
  GatedText t("llama");
  std::vector<std::vector<uint8_t>> none;
  for (const Window& w : t.windows) none.emplace_back(w.tokens.size(), uint8_t{0});
  const auto all = [](size_t, auto) { return true; };
  for (const double loss : gated_window_losses(0, t.base, t.weights, t.gated, t.windows, none, t.arena, all))
    EXPECT_EQ(loss, 0);
  try {
    gated_window_losses(0, t.base, t.weights, t.gated, t.windows, {}, t.arena,
                        [](size_t first, auto) { return first < 1; });
    ADD_FAILURE() << "goes on";
  } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::interrupted); }
}

TEST(GatedLosses, ChoicesHaveTheGatesOfTheirPrompt) {
  GatedText t("llama");
  // Two choices behind each prompt, of lengths of their own.
  std::vector<Window> choices;
  for (const Window& w : t.windows) {
    choices.push_back(w);
    Window other = w;
    other.tokens.back() = (other.tokens.back() + 1) % static_cast<int32_t>(t.base.vocab);
    other.tokens.push_back(1);
    choices.push_back(std::move(other));
  }
  const std::vector<double> got = gated_choice_losses(t.base, t.weights, t.gated, choices, 3, t.arena);
  ASSERT_EQ(got.size(), choices.size());
  bool noticed = false;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto own = [&](const Window& w) {
      const std::span<const int32_t> prompt = std::span(w.tokens).first(static_cast<size_t>(w.first_scored));
      return t.loss(choices[i], 1, std::ssize(choices[i].tokens), gates_of(t.gated, t.base, t.weights, prompt));
    };
    EXPECT_NEAR(got[i], own(choices[i]), 1e-6 * got[i]) << i;
    noticed |= std::abs(own(choices[(i + 2) % choices.size()]) - got[i]) > 1e-2 * got[i];
  }
  EXPECT_TRUE(noticed) << "gates of another prompt would not be missed";
}

TEST(GatedLosses, ComparedWithTheModelAsItCameAPromptIsAlikeAndTheRestIsNot) {
  for (const char* family : {"llama", "gpt2"}) {
    SCOPED_TRACE(family);
    GatedText t(family);
    const GatedTexts texts(t.base, t.weights, t.gated);
    const auto compare = [&](const std::vector<std::vector<uint8_t>>& masks) {
      std::vector<WindowDifference> all;
      compare_windows({t.base, t.weights}, {t.base, t.weights, {}, &texts}, t.windows, masks, 1, t.arena, 0,
                      [&](size_t, const std::vector<WindowDifference>& part) {
                        all.insert(all.end(), part.begin(), part.end());
                        return true;
                      });
      return all;
    };
    const auto on = [](size_t, auto) { return true; };
    const std::vector<double> losses = gated_window_losses(0, t.base, t.weights, t.gated, t.windows, {}, t.arena, on);
    const std::vector<double> plain = window_losses(t.base, t.weights, t.windows, 1, t.arena);
    const std::vector<WindowDifference> all = compare({});
    ASSERT_EQ(all.size(), t.windows.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_NEAR(all[i].loss, losses[i], 1e-4 * losses[i]) << i;
      EXPECT_NEAR(all[i].reference_loss, plain[i], 1e-4 * plain[i]) << i;
    }
    EXPECT_GT(summarize(all).mean_kl, 1e-3);
    // Of prompts alone.
    std::vector<std::vector<uint8_t>> prompts;
    for (const Window& w : t.windows) {
      const int64_t prompt = std::min(kPrompt, std::ssize(w.tokens) - 1);
      auto& mask = prompts.emplace_back();
      for (int64_t k = 0; k < std::ssize(w.tokens); ++k) mask.push_back(k < prompt);
    }
    const CompareReport alike = summarize(compare(prompts));
    EXPECT_GT(alike.tokens, 0);
    EXPECT_NEAR(alike.max_kl, 0, 1e-9);
    EXPECT_EQ(alike.same_top, 1);
  }
}

}  // namespace
}  // namespace tern
