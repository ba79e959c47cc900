#include "infer/conversation.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "infer/fake_model_testing.h"

namespace tern {
namespace {

Request request_of(std::vector<int32_t> prompt, double temperature) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = temperature;
  r.sampling.seed = 5;
  r.max_tokens = 9;
  return r;
}

// What a fresh run says to the same prompt.
std::vector<int32_t> fresh(const Request& request) {
  Arena arena;
  KvPool pool(kFakeShape, 100, arena);
  VirtualClock clock;
  return run_request(request, nullptr, pool, fake_model, {{.token_budget = 64, .chunk = 64}, 120}, clock, {},
                     nullptr)[0]
      .token_ids;
}

TEST(Conversation, AnswersAreThoseOfAFreshRunAndOnlyNewTokensAreComputed) {
  for (const double temperature : {0.0, 1.0}) {
    Arena arena;
    KvPool pool(kFakeShape, 60, arena);
    VirtualClock clock;
    {
      Conversation c(pool, fake_model, 120, 4);
      std::vector<int32_t> history = {3, 1, 4, 1, 5, 9, 2};
      int64_t held = 0;
      for (int turn = 0; turn < 5; ++turn) {
        const Request r = request_of(history, temperature);
        TurnTimings t;
        const Sample s = c.answer(r, nullptr, clock, {}, {}, &t);
        EXPECT_EQ(s.token_ids, fresh(r)) << turn;
        EXPECT_EQ(t.reused_tokens, held);
        EXPECT_EQ(t.prompt_tokens, static_cast<int64_t>(history.size()) - held);
        held = static_cast<int64_t>(c.cached().size());
        EXPECT_EQ(held, static_cast<int64_t>(history.size() + s.token_ids.size()) - 1);
        history.insert(history.end(), s.token_ids.begin(), s.token_ids.end());
        history.insert(history.end(), {7, 8});  // the next question
      }
      // Another past: what differs is computed anew, and nothing of the old one is left in its pages.
      history[3] = 30;
      history.resize(20);
      TurnTimings t;
      const Request r = request_of(history, temperature);
      EXPECT_EQ(c.answer(r, nullptr, clock, {}, {}, &t).token_ids, fresh(r));
      EXPECT_EQ(t.reused_tokens, 3);
      // The same prompt again: its last token alone.
      EXPECT_EQ(c.answer(r, nullptr, clock, {}, {}, &t).token_ids, fresh(r));
      EXPECT_EQ(t.reused_tokens, 19);
      EXPECT_EQ(t.prompt_tokens, 1);
    }
    EXPECT_EQ(pool.num_free(), 60);
  }
}

TEST(Conversation, AStoppedAnswerKeepsWhatIsComputedAndTheNextOneIsRight) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  VirtualClock clock;
  Conversation c(pool, fake_model, 120, 4);
  const Request r = request_of({3, 1, 4, 1, 5, 9, 2, 6, 5}, 0);
  int asked = 0;
  const Sample stopped = c.answer(
      r, nullptr, clock, {}, [&] { return ++asked == 5; }, nullptr);
  EXPECT_EQ(stopped.reason, FinishReason::cancelled);
  EXPECT_EQ(stopped.token_ids.size(), 3u);  // three forwards for the prompt, two of decoding
  TurnTimings t;
  EXPECT_EQ(c.answer(r, nullptr, clock, {}, {}, &t).token_ids, fresh(r));
  EXPECT_EQ(t.reused_tokens, 8);
}

TEST(Conversation, AnOverlongPromptIsRefusedAndTheCacheStays) {
  Arena arena;
  KvPool pool(kFakeShape, 60, arena);
  VirtualClock clock;
  Conversation c(pool, fake_model, 12, 4);
  c.answer(request_of({1, 2, 3}, 0), nullptr, clock, {}, {}, nullptr);
  const size_t held = c.cached().size();
  EXPECT_THROW(c.answer(request_of(std::vector<int32_t>(12, 1), 0), nullptr, clock, {}, {}, nullptr), Error);
  EXPECT_EQ(c.cached().size(), held);
}

}  // namespace
}  // namespace tern
