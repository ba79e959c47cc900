// A kept prefix: a conversation computes only what is new, and says what a fresh run says.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "infer/fake_model_testing.h"
#include "infer/run.h"

namespace tern {
namespace {

// One conversation: an engine for one sequence, its prompt read four tokens at a time.
struct Talk {
  Arena arena;
  KvPool pool;
  VirtualClock clock;
  Engine engine;
  uint64_t prefix = engine.keep_prefix();
  RunTimings timings;
  explicit Talk(int64_t context = 120, int64_t pages = 60)
      : pool(kFakeShape, pages, arena),
        engine(pool, fake_model, nullptr, {{.token_budget = 4, .chunk = 4, .max_running = 1}, context}, clock) {}
  Sample answer(Request request, const std::function<bool()>& stopped = {}) {
    request.prefix = prefix;
    return run_request(engine, request, {}, stopped, &timings).front();
  }
  int64_t kept() const { return engine.prefix_tokens(prefix); }
};

Request request_of(std::vector<int32_t> prompt, double temperature) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling.temperature = temperature;
  r.sampling.seed = 5;
  r.max_tokens = 9;
  return r;
}

std::vector<int32_t> fresh(const Request& request) {
  Arena arena;
  KvPool pool(kFakeShape, 100, arena);
  VirtualClock clock;
  Engine engine(pool, fake_model, nullptr, {{.token_budget = 64, .chunk = 64}, 120}, clock);
  return run_request(engine, request, {}, {}, nullptr)[0].token_ids;
}

TEST(KeptPrefix, AnswersAreThoseOfAFreshRunAndOnlyNewTokensAreComputed) {
  for (const double temperature : {0.0, 1.0}) {
    Talk talk;
    std::vector<int32_t> history = {3, 1, 4, 1, 5, 9, 2};
    int64_t held = 0;
    for (int turn = 0; turn < 5; ++turn) {
      const Request r = request_of(history, temperature);
      const Sample s = talk.answer(r);
      EXPECT_EQ(s.token_ids, fresh(r)) << turn;
      EXPECT_EQ(s.reused_tokens, held);
      EXPECT_EQ(talk.timings.prompt_tokens, static_cast<int64_t>(history.size()) - held);
      held = talk.kept();
      EXPECT_EQ(held, static_cast<int64_t>(history.size() + s.token_ids.size()) - 1);
      history.insert(history.end(), s.token_ids.begin(), s.token_ids.end());
      history.insert(history.end(), {7, 8});  // the next question
    }
    // Another past: what differs is computed anew, and nothing of the old one is left in its pages.
    history[3] = 30;
    history.resize(20);
    const Request r = request_of(history, temperature);
    Sample s = talk.answer(r);
    EXPECT_EQ(s.token_ids, fresh(r));
    EXPECT_EQ(s.reused_tokens, 3);
    // The same prompt again: its last token alone.
    s = talk.answer(r);
    EXPECT_EQ(s.token_ids, fresh(r));
    EXPECT_EQ(s.reused_tokens, 19);
    EXPECT_EQ(talk.timings.prompt_tokens, 1);
    talk.engine.drop_prefix(talk.prefix);
    EXPECT_EQ(talk.pool.num_free(), 60);
  }
}

TEST(KeptPrefix, AStoppedAnswerKeepsWhatIsComputedAndTheNextOneIsRight) {
  Talk talk;
  const Request r = request_of({3, 1, 4, 1, 5, 9, 2, 6, 5}, 0);
  int asked = 0;
  const Sample stopped = talk.answer(r, [&] { return ++asked == 5; });
  EXPECT_EQ(stopped.reason, FinishReason::cancelled);
  EXPECT_EQ(stopped.token_ids.size(), 3u);  // three forwards for the prompt, two of decoding
  const Sample next = talk.answer(r);
  EXPECT_EQ(next.token_ids, fresh(r));
  EXPECT_EQ(next.reused_tokens, 8);
}

TEST(KeptPrefix, AnOverlongPromptIsRefusedAndThePrefixStays) {
  Talk talk(12);
  talk.answer(request_of({1, 2, 3}, 0));
  const int64_t held = talk.kept();
  EXPECT_GT(held, 3);
  EXPECT_THROW(talk.answer(request_of(std::vector<int32_t>(12, 1), 0)), Error);
  EXPECT_EQ(talk.kept(), held);
}

// The whole context has just as many pages as there are: the kept ones are taken over, not copied.
TEST(KeptPrefix, AFullContextNeedsNoPageMore) {
  Talk talk(24, 6);
  Request r = request_of({1, 2, 3, 4, 5, 6}, 0);
  r.max_tokens = 100;
  EXPECT_EQ(talk.answer(r).reason, FinishReason::context);
  EXPECT_EQ(talk.kept(), 23);
  EXPECT_EQ(talk.answer(r).reused_tokens, 5);
  EXPECT_EQ(talk.timings.copied_pages, 0);
}

// Other requests need the pages: the prefix that was used longest ago goes first, nobody is preempted, and who comes back
// computes more and says the same.
TEST(KeptPrefix, PagesGoToRequestsThatRunBeforeAnybodyIsPreempted) {
  Talk talk(40, 10);
  const uint64_t first = talk.prefix, second = talk.engine.keep_prefix();
  const Request a = request_of({1, 2, 3, 4, 5, 6, 7}, 0), b = request_of({9, 8, 7, 6, 5}, 0);
  talk.answer(a);
  talk.prefix = second;
  talk.answer(b);
  EXPECT_EQ(talk.engine.prefix_tokens(first), 15);
  EXPECT_EQ(talk.engine.prefix_tokens(second), 13);
  Request large = request_of(std::vector<int32_t>(14, 3), 0);
  const Sample s = run_request(talk.engine, large, {}, {}, nullptr)[0];
  EXPECT_EQ(s.token_ids, fresh(large));
  EXPECT_EQ(s.num_preemptions, 0);
  EXPECT_EQ(talk.engine.prefix_tokens(first), 0);
  EXPECT_EQ(talk.engine.prefix_tokens(second), 13);
  EXPECT_EQ(talk.answer(b).reused_tokens, 4);
  talk.prefix = first;
  const Sample again = talk.answer(a);
  EXPECT_EQ(again.reused_tokens, 0);
  EXPECT_EQ(again.token_ids, fresh(a));
}

// A request that waits behind a full engine has given its prefix up when it is cancelled, or never touched it.
TEST(KeptPrefix, CancellingARequestThatWaitsLeavesThePrefix) {
  Talk talk;
  talk.answer(request_of({1, 2, 3, 4, 5, 6, 7}, 0));
  const uint64_t running = talk.engine.submit(request_of({9, 9}, 0));
  talk.engine.step();
  Request waits = request_of({1, 2, 3, 4, 8}, 0);
  waits.prefix = talk.prefix;
  const uint64_t waiting = talk.engine.submit(waits);
  talk.engine.step();
  EXPECT_TRUE(talk.engine.cancel(waiting));
  EXPECT_TRUE(talk.engine.cancel(running));
  EXPECT_EQ(talk.kept(), 15);
}

}  // namespace
}  // namespace tern
