// --fast: guesses that are taken by rejection sampling leave every text as likely as it is without.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/rng.h"
#include "infer/engine.h"
#include "infer/speculate/draft_model.h"

namespace tern {
namespace {

constexpr int32_t kRejectionVocab = 4;
constexpr int64_t kLength = 4, kRejectionTexts = 25'000;  // 100,000 drawn tokens
const KvShape kRejectionShape{.layers = {{1, 1}}, .page_tokens = 4, .type = KvType::f32};

// What a model thinks of the token behind `last`.
std::vector<float> scores(uint64_t model, int32_t last, int64_t position) {
  std::vector<float> s;
  for (int32_t id = 0; id < kRejectionVocab; ++id)
    s.push_back(1.5f * static_cast<float>(random_normal({model, static_cast<uint64_t>(last + 10 * position)},
                                                        static_cast<uint64_t>(id))));
  return s;
}

// A step takes so long, and a row a twentieth of a millisecond.
BatchExecutor executor(uint64_t model, VirtualClock& clock, double step_ms) {
  return [model, &clock, step_ms](const Batch& batch, const KvPool&) {
    const auto logits = std::make_shared<std::vector<float>>();
    for (const Work& work : batch)
      for (int64_t i = work.begin + work.count - 1 - work.guesses; work.wants_logits && i < work.begin + work.count;
           ++i)
        for (const float x : scores(model, work.sequence->tokens[static_cast<size_t>(i)], i + 1)) logits->push_back(x);
    const auto rows = static_cast<int64_t>(logits->size()) / kRejectionVocab;
    clock.advance_ns(static_cast<int64_t>(1e6 * (step_ms + 0.05 * static_cast<double>(rows))));
    return Tensor::borrow(DType::f32, {rows, kRejectionVocab}, logits->data(), logits);
  };
}

using Counts = std::map<std::vector<int32_t>, double>;

// The chance of every text, by going through all of them.
void add_chances(const SamplingOptions& sampling, std::vector<int32_t>& history, double chance, Counts& chances) {
  const int64_t generated = std::ssize(history) - 1;
  if (generated == kLength) {
    chances[{history.begin() + 1, history.end()}] = chance;
    return;
  }
  std::vector<float> s = scores(1, history.back(), std::ssize(history));
  apply_penalties(sampling, history, generated, s);
  for (const auto& [id, p] : candidates(sampling, s)) {
    history.push_back(id);
    add_chances(sampling, history, chance * p, chances);
    history.pop_back();
  }
}

// Pearson's statistic less its mean, in standard deviations. Cells of fewer than five expected counts are one.
double surprise(const Counts& counted, const Counts& chances, double total) {
  double rare = 0, rare_seen = 0, chi = 0, seen = 0;
  int cells = 0;
  for (const auto& [text, chance] : chances) {
    const auto found = counted.find(text);
    const double want = chance * total, got = found == counted.end() ? 0 : found->second;
    seen += got;
    if (want < 5) {
      rare += want, rare_seen += got;
      continue;
    }
    chi += (got - want) * (got - want) / want, ++cells;
  }
  EXPECT_EQ(seen, total) << "texts that cannot be";
  if (rare > 0) chi += (rare_seen - rare) * (rare_seen - rare) / std::max(rare, 1.0), ++cells;
  const double freedom = cells - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

struct Outcome {
  double surprise = 0;
  SpeculationFigures figures;
};

Outcome write_texts(uint64_t draft_model, const SamplingOptions& sampling, bool fast, bool measured) {
  Arena arena;
  VirtualClock clock;
  KvPool pool(kRejectionShape, 400, arena), draft_pool(kRejectionShape, 400, arena);
  DraftProposer draft(draft_pool, executor(draft_model, clock, 0.1),
                      {.rows = 64, .context = 20, .vocab = kRejectionVocab, .draws_from = kRejectionVocab});
  Engine engine(pool, executor(1, clock, 20), nullptr,
                {{.token_budget = 128, .chunk = 64, .max_running = 32},
                 20,
                 false,
                 {.proposer = &draft, .most_tokens = 3, .budget = 64, .measured = measured, .fast = fast}},
                clock);
  Request request;
  request.prompt = {0}, request.sampling = sampling;
  request.num_samples = kRejectionTexts, request.max_tokens = kLength;
  engine.submit(request);
  Counts counted, chances;
  while (!engine.idle())
    for (const Event& e : engine.step())
      if (e.finished) ++counted[e.finished->token_ids];
  std::vector<int32_t> history = {0};
  add_chances(sampling, history, 1, chances);
  return {surprise(counted, chances, kRejectionTexts), *engine.speculation()};
}

TEST(RejectionSlow, TextsAreAsLikelyAsWithoutGuesses) {
  const SamplingOptions plain{.temperature = 1, .seed = 5},
      filtered{.temperature = 1.4, .top_k = 3, .frequency_penalty = 0.8, .seed = 6},
      sharp{.temperature = 0.6, .top_p = 0.9, .min_p = 0.02, .seed = 7};
  for (const SamplingOptions& sampling : {plain, filtered, sharp})
    for (const auto& [draft, measured] : {std::pair(1, false), std::pair(2, false), std::pair(3, true)}) {
      SCOPED_TRACE(testing::Message() << "seed " << sampling.seed << ", draft " << draft << ", measured " << measured);
      const Outcome fast = write_texts(static_cast<uint64_t>(draft), sampling, true, measured);
      EXPECT_LT(std::abs(fast.surprise), 4);
      EXPECT_GT(fast.figures.guessed, measured ? 5000 : 20'000);
      if (draft == 1) { EXPECT_GT(fast.figures.acceptance(), 0.999); }
      if (draft != 2) continue;
      const Outcome exact = write_texts(2, sampling, false, false);
      EXPECT_LT(std::abs(exact.surprise), 4);
      EXPECT_GT(fast.figures.acceptance(), exact.figures.acceptance()) << "what it is for";
    }
}

// The guess has odds that lack tokens of the model, and the other way round.
TEST(Rejection, AGuessIsAcceptedAsOftenAsBothAgree) {
  const SamplingOptions wide{.temperature = 1}, narrow{.temperature = 0.8, .top_k = 2};
  const std::vector<std::pair<SamplingOptions, SamplingOptions>> pairs = {{wide, narrow}, {narrow, wide}};
  for (const auto& [target, draft] : pairs) {
    const std::vector<float> p = scores(1, 0, 1), q = scores(2, 0, 1);
    const Odds want = candidates(target, p), odds = candidates(draft, q);
    double common = 0;
    for (const auto& [id, x] : want)
      for (const auto& [other, y] : odds)
        if (other == id) common += std::min(x, y);
    Counts counted, chances;
    constexpr int kDraws = 100'000;
    double accepted = 0;
    for (uint64_t stream = 0; stream < kDraws; ++stream) {
      std::vector<float> s = q;
      const DrawnGuess guess = draw_guess(draft, {}, 0, stream, 9, s);
      EXPECT_EQ(guess.odds, odds);
      s = p;
      const int32_t token = accept_or_draw(target, {}, 0, stream, 9, guess.token, guess.odds, s);
      accepted += token == guess.token;
      ++counted[{token}];
    }
    for (const auto& [id, x] : want) chances[{id}] = x;
    EXPECT_LT(std::abs(surprise(counted, chances, kDraws)), 4);
    EXPECT_NEAR(accepted / kDraws, common, 4 * std::sqrt(0.25 / kDraws));
  }
  const SamplingOptions greedy{};
  std::vector<float> s = {1, 3, 2, 0};
  EXPECT_EQ(accept_or_draw(greedy, {}, 0, 0, 0, 2, {}, s), 1);
}

}  // namespace
}  // namespace tern
