#include "infer/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "base/error.h"

namespace tern {
namespace {

const KvShape kShape{.layers = 1, .kv_heads = 1, .head_dim = 2, .page_tokens = 4, .dtype = DType::f32};

std::unique_ptr<Sequence> make_sequence(uint64_t id, int64_t prompt) {
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->tokens.assign(static_cast<size_t>(prompt), 1);
  s->prompt_tokens = prompt;
  return s;
}

TEST(Scheduler, ChunksAPromptAndThenDecodes) {
  Arena arena;
  KvPool pool(kShape, 16, arena);
  Scheduler scheduler(pool, {.token_budget = 8, .chunk = 5, .max_running = 4});
  auto s = make_sequence(1, 12);
  scheduler.submit(*s, 20);
  std::vector<int64_t> counts;
  for (int i = 0; i < 5; ++i) {
    const Batch batch = scheduler.step();
    ASSERT_EQ(batch.size(), 1u);
    counts.push_back(batch[0].count);
    EXPECT_EQ(batch[0].wants_logits, i >= 2);
    EXPECT_EQ(batch[0].kind, i < 3 ? WorkKind::prefill : WorkKind::decode);
    scheduler.computed(batch);
    if (batch[0].wants_logits) s->tokens.push_back(2);
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{5, 5, 2, 1, 1}));
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  Arena arena;
  KvPool pool(kShape, 4, arena);
  Scheduler scheduler(pool, {});
  auto s = make_sequence(1, 12);
  EXPECT_THROW(scheduler.submit(*s, 17), Error);
  EXPECT_NO_THROW(scheduler.submit(*s, 16));
}

TEST(Scheduler, SiblingsForkThePromptInsteadOfRunningItAgain) {
  Arena arena;
  KvPool pool(kShape, 64, arena);
  Scheduler scheduler(pool, {.token_budget = 64, .chunk = 64, .max_running = 8});
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (uint64_t i = 0; i < 3; ++i) {
    sequences.push_back(make_sequence(i, 10));
    if (i > 0) sequences.back()->shares_prompt_of = 0;
    scheduler.submit(*sequences.back(), 20);
  }
  Batch batch = scheduler.step();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].count, 10);
  scheduler.computed(batch);
  sequences[0]->tokens.push_back(2);
  batch = scheduler.step();
  ASSERT_EQ(batch.size(), 3u);
  int64_t total = 0;
  for (const Work& w : batch) total += w.count;
  EXPECT_EQ(total, 3);  // one token each: nothing of the shared prompt again
  EXPECT_GT(pool.num_copied_pages(), 0);
}

// Random arrivals, lengths and a small cache: everybody ends, no page leaks, no budget is passed, preempted ones come
// back.
TEST(Scheduler, RandomEventsStarveNobodyAndLeakNothing) {
  int64_t preemptions = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Arena arena;
    const int64_t num_pages = 8 + random() % 20;
    KvPool pool(kShape, num_pages, arena);
    const SchedulerLimits limits{.token_budget = 1 + static_cast<int64_t>(random() % 24),
                                 .chunk = 1 + static_cast<int64_t>(random() % 9),
                                 .max_running = 1 + static_cast<int64_t>(random() % 8)};
    Scheduler scheduler(pool, limits);
    struct Job {
      std::unique_ptr<Sequence> sequence;
      int64_t target;
    };
    std::vector<Job> jobs;
    size_t next = 0;
    for (uint64_t i = 0; i < 25; ++i) {
      const int64_t prompt = 1 + random() % 15;
      jobs.push_back({make_sequence(i, prompt), prompt + 1 + static_cast<int64_t>(random() % 15)});
      if (i > 0 && random() % 3 == 0) {
        const Sequence& owner = *jobs[i - 1].sequence;
        jobs[i].sequence->shares_prompt_of = i - 1;
        jobs[i].sequence->tokens =
            std::vector<int32_t>(owner.tokens.begin(), owner.tokens.begin() + owner.prompt_tokens);
        jobs[i].sequence->prompt_tokens = owner.prompt_tokens;
        jobs[i].target = owner.prompt_tokens + 1 + static_cast<int64_t>(random() % 15);
      }
    }
    int steps = 0;
    while (next < jobs.size() || !scheduler.idle()) {
      ASSERT_LT(++steps, 20000);
      while (next < jobs.size() && (scheduler.idle() || random() % 2)) {
        scheduler.submit(*jobs[next].sequence, jobs[next].target);
        ++next;
      }
      const Batch batch = scheduler.step();
      ASSERT_FALSE(batch.empty());
      int64_t tokens = 0;
      for (const Work& w : batch) {
        tokens += w.count;
        ASSERT_EQ(w.begin, w.sequence->kv.length);
        ASSERT_GE(static_cast<int64_t>(w.sequence->kv.pages.size()) * kShape.page_tokens, w.begin + w.count);
      }
      ASSERT_LE(tokens, limits.token_budget);
      scheduler.computed(batch);
      for (const Work& w : batch) {
        if (!w.wants_logits) continue;
        w.sequence->tokens.push_back(3);
        if (static_cast<int64_t>(w.sequence->tokens.size()) >= jobs[w.sequence->id].target)
          scheduler.finish(*w.sequence);
      }
    }
    EXPECT_EQ(pool.num_free(), num_pages);
    for (const Job& job : jobs) {
      EXPECT_EQ(static_cast<int64_t>(job.sequence->tokens.size()), job.target);
      preemptions += job.sequence->num_preemptions;
    }
  }
  EXPECT_GT(preemptions, 0);  // the other road was taken
}

}  // namespace
}  // namespace tern
