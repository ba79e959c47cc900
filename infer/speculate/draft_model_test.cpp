// A draft model: its guesses are the target's own draws where it is the same model, whatever the passes, pages and texts; and
// whatever it says, the target says what it says alone (speculation_test.cpp holds that over its settings).
#include "infer/speculate/draft_model.h"

#include <gtest/gtest.h>

#include <random>

#include "infer/engine.h"
#include "infer/fake_model_testing.h"

namespace tern {
namespace {

constexpr DraftLimits kLimits{.rows = 16, .context = 200, .vocab = kFakeVocab, .draws_from = kFakeVocab};

// Says the same whatever it reads.
Tensor stubborn_model(const Batch& batch, const KvPool&) {
  int64_t rows = 0;
  for (const Work& w : batch) rows += w.wants_logits ? 1 + w.guesses : 0;
  const auto logits = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * kFakeVocab), 0.f);
  for (int64_t r = 0; r < rows; ++r) (*logits)[static_cast<size_t>(r * kFakeVocab + 7)] = 20;
  return Tensor::borrow(DType::f32, {rows, kFakeVocab}, logits->data(), logits);
}

std::vector<std::vector<int32_t>> tokens_of(const std::vector<std::vector<Guess>>& guesses) {
  std::vector<std::vector<int32_t>> all;
  for (const auto& one : guesses)
    for (all.emplace_back(); const Guess& g : one) all.back().push_back(g.token);
  return all;
}

// What the fake model draws behind the tokens, one after another.
std::vector<int32_t> drawn(std::vector<int32_t> tokens, const SamplingOptions& sampling, int64_t generated,
                           uint64_t stream, int64_t count) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) {
    Arena arena;
    KvPool pool(kFakeShape, 60, arena);
    Sequence s{.tokens = tokens};
    EXPECT_TRUE(pool.reserve(s.kv, std::ssize(tokens)));
    const Tensor logits = fake_model({{&s, 0, std::ssize(tokens), WorkKind::prefill, true}}, pool);
    tokens.push_back(sample_token(sampling, tokens, generated + i, stream, tokens.size(), logits.span<float>()));
    out.push_back(tokens.back());
  }
  return out;
}

TEST(DraftModel, GuessesWhatItDrawsForTextsThatGrowByAcceptedAndOtherTokens) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  std::mt19937 random(3);
  const SamplingOptions greedy, sampled{.temperature = 0.8, .top_k = 9, .frequency_penalty = 0.6, .seed = 11};
  {
    DraftProposer draft(pool, fake_model, kLimits);
    std::vector<std::vector<int32_t>> texts = {{1, 2, 3}, std::vector<int32_t>(37, 4), {9}};
    for (int step = 0; step < 12; ++step) {
      std::vector<ProposalAsk> asks;
      for (size_t i = 0; i < texts.size(); ++i)
        if (step < 4 || i != 1 || step % 3 == 0)  // one is not asked for in every step
          asks.push_back({.sequence = i,
                          .tokens = texts[i],
                          .most = 1 + static_cast<int64_t>(random() % 5),
                          .sampling = i == 0 ? &greedy : &sampled,
                          .num_generated = step,
                          .stream = 40 + i});
      int64_t computed = draft.num_computed();
      for (const ProposalAsk& ask : asks) computed += draft.unread(ask) + ask.most - 1;
      const auto got = tokens_of(draft.propose(asks));
      EXPECT_EQ(draft.num_computed(), computed) << "step " << step;
      for (size_t a = 0; a < asks.size(); ++a) {
        const ProposalAsk& ask = asks[a];
        const std::vector<int32_t> want =
            drawn({ask.tokens.begin(), ask.tokens.end()}, *ask.sampling, ask.num_generated, ask.stream, ask.most);
        EXPECT_EQ(got[a], want) << "step " << step << ", text " << ask.sequence;
        // Some guesses are accepted; then comes what the target draws.
        auto& text = texts[ask.sequence];
        const size_t accepted = random() % (want.size() + 1);
        text.insert(text.end(), want.begin(), want.begin() + static_cast<std::ptrdiff_t>(accepted));
        if (accepted < want.size()) text.push_back((want[accepted] + 1) % kFakeVocab);
      }
    }
    EXPECT_LT(draft.num_computed(), 260) << "keys of accepted guesses are kept";
    draft.forget(0), draft.forget(17);
  }
  EXPECT_EQ(pool.num_free(), 60);
}

TEST(DraftModel, ShortPagesGiveUpTextsThatWait) {
  Arena arena;
  KvPool pool(kFakeShape, 6, arena);  // 24 tokens
  DraftProposer draft(pool, fake_model, kLimits);
  const SamplingOptions greedy;
  const std::vector<int32_t> a(14, 1), b(14, 2);
  const auto ask = [&](uint64_t id, const std::vector<int32_t>& text) {
    return ProposalAsk{.sequence = id, .tokens = text, .most = 3, .sampling = &greedy};
  };
  for (int round = 0; round < 3; ++round)
    for (const auto& [id, text] : {std::pair(uint64_t{1}, a), std::pair(uint64_t{2}, b)}) {
      const ProposalAsk one = ask(id, text);
      EXPECT_EQ(tokens_of(draft.propose({&one, 1}))[0], drawn(text, greedy, 0, 0, 3)) << round;
      EXPECT_EQ(draft.unread(ask(3 - id, id == 1 ? b : a)), 14) << "the other has no pages";
    }
  // Both at once do not fit: the second has no guesses.
  const ProposalAsk both[] = {ask(1, a), ask(2, b)};
  const auto guesses = draft.propose(both);
  EXPECT_EQ(guesses[0].size() + guesses[1].size(), 3u);
  draft.forget(1), draft.forget(2);
  EXPECT_EQ(pool.num_free(), 6);
}

TEST(DraftModel, GuessesNothingBeyondItsContextAndVocabulary) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  DraftProposer draft(pool, fake_model, {.rows = 4, .context = 10, .vocab = 30, .draws_from = kFakeVocab});
  const SamplingOptions greedy;
  const auto count = [&](uint64_t id, const std::vector<int32_t>& text) {
    const ProposalAsk ask{.sequence = id, .tokens = text, .most = 8, .sampling = &greedy};
    const auto guesses = draft.propose({&ask, 1})[0];
    if (guesses.empty()) { EXPECT_EQ(draft.unread(ask), 0); }
    for (size_t i = 0; i + 1 < guesses.size(); ++i) EXPECT_LT(guesses[i].token, 30) << "it could not read on";
    return guesses.size();
  };
  EXPECT_LE(count(1, std::vector<int32_t>(8, 1)), 3u);
  EXPECT_GE(count(2, std::vector<int32_t>(10, 1)), 1u);
  EXPECT_EQ(count(3, std::vector<int32_t>(11, 1)), 0u);
  EXPECT_EQ(count(4, {1, 35, 2}), 0u);
  EXPECT_EQ(count(4, {1, 35, 2, 3}), 0u);
}

TEST(DraftModel, WhatTokensTakeIsLearnedByPasses) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  VirtualClock clock;
  const BatchExecutor execute = [&clock](const Batch& batch, const KvPool& pages) {
    for (const Work& w : batch) clock.advance_ns(100'000 * w.count);
    clock.advance_ns(1'000'000);
    return fake_model(batch, pages);
  };
  DraftProposer draft(pool, execute, kLimits, clock);
  EXPECT_EQ(draft.compute_s(3), 0);
  const SamplingOptions greedy;
  const std::vector<int32_t> text(33, 1);
  const ProposalAsk ask{.sequence = 1, .tokens = text, .most = 1, .sampling = &greedy};
  draft.propose({&ask, 1});  // in passes of 16, 16 and 1
  for (const int64_t n : {1, 8, 16}) EXPECT_NEAR(draft.compute_s(n), 1e-3 + 1e-4 * static_cast<double>(n), 1e-9) << n;
  EXPECT_NEAR(draft.compute_s(40), 3e-3 + 40e-4, 1e-9);
}

TEST(DraftModel, ASteadyModelIsSaidToBeSure) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  DraftProposer draft(pool, stubborn_model, kLimits);
  const SamplingOptions greedy;
  const std::vector<int32_t> text = {1, 2};
  const ProposalAsk ask{.sequence = 1, .tokens = text, .most = 4, .sampling = &greedy};
  const auto guesses = draft.propose({&ask, 1});
  EXPECT_EQ(guesses[0].size(), 4u);
  for (const Guess& g : guesses[0]) {
    EXPECT_EQ(g.token, 7);
    EXPECT_EQ(g.kind, kGuessClasses - 1);
  }
}

}  // namespace
}  // namespace tern
