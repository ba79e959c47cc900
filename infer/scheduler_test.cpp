#include "infer/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "base/error.h"

namespace tern {
namespace {

const KvShape kSchedulerShape{.layers = {{1, 2}}, .page_tokens = 4, .type = KvType::f32};

std::unique_ptr<Sequence> make_sequence(uint64_t id, int64_t prompt) {
  auto s = std::make_unique<Sequence>();
  s->id = id;
  s->tokens.assign(static_cast<size_t>(prompt), 1);
  s->prompt_tokens = prompt;
  return s;
}

TEST(Scheduler, ChunksAPromptAndThenDecodes) {
  Arena arena;
  KvPool pool(kSchedulerShape, 16, arena);
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
  KvPool pool(kSchedulerShape, 4, arena);
  Scheduler scheduler(pool, {});
  auto s = make_sequence(1, 12);
  EXPECT_THROW(scheduler.submit(*s, 17), Error);
  EXPECT_NO_THROW(scheduler.submit(*s, 16));
}

TEST(Scheduler, SiblingsForkThePromptInsteadOfRunningItAgain) {
  Arena arena;
  KvPool pool(kSchedulerShape, 64, arena);
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
    KvPool pool(kSchedulerShape, num_pages, arena);
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
        ASSERT_GE(static_cast<int64_t>(w.sequence->kv.pages.size()) * kSchedulerShape.page_tokens, w.begin + w.count);
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

// A workload drawn from a seed: arrivals while others run, siblings of a prompt, requests that are cancelled, caches and
// budgets from tight to ample.
struct Workload {
  struct Job {
    int64_t arrives, prompt, generates, cancelled_at;  // in steps; cancelled_at -1: runs to its end
    uint64_t shares;
  };
  SchedulerLimits limits;
  int64_t num_pages = 0;
  std::vector<Job> jobs;

  explicit Workload(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    const bool many = seed % 4 == 0;
    num_pages = (many ? 60 : 20) + below(60);
    limits = {.token_budget = 1 + below(many ? 200 : 40), .chunk = 1 + below(12), .max_running = 1 + below(60)};
    int64_t now = 0;
    for (int i = 0; i < 80; ++i) {
      now += below(3) * below(3);
      Job job{now, 1 + below(below(4) == 0 ? 60 : 8), 1 + below(18), below(5) == 0 ? now + below(40) : -1,
              Sequence::kNone};
      if (i > 0 && below(3) == 0) job.prompt = jobs.back().prompt, job.shares = static_cast<uint64_t>(i - 1);
      jobs.push_back(job);
    }
  }
};

// A number of all batches that a scheduler makes of it: which sequences, which tokens, in which order.
uint64_t trace_of(const Workload& w, int64_t* preemptions) {
  Arena arena;
  KvPool pool(kSchedulerShape, w.num_pages, arena);
  Scheduler scheduler(pool, w.limits);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<bool> ended(w.jobs.size());
  uint64_t hash = 1469598103934665603ull;
  const auto add = [&](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211ull; };
  for (int64_t step = 0; sequences.size() < w.jobs.size() || !scheduler.idle(); ++step) {
    while (sequences.size() < w.jobs.size() && (scheduler.idle() || w.jobs[sequences.size()].arrives <= step)) {
      const Workload::Job& job = w.jobs[sequences.size()];
      sequences.push_back(make_sequence(sequences.size(), job.prompt));
      sequences.back()->shares_prompt_of = job.shares;
      scheduler.submit(*sequences.back(), job.prompt + job.generates);
    }
    for (size_t i = 0; i < sequences.size(); ++i)
      if (w.jobs[i].cancelled_at == step && !ended[i]) scheduler.finish(*sequences[i]), ended[i] = true;
    if (scheduler.idle()) continue;
    const Batch batch = scheduler.step();
    add(-1 - static_cast<int64_t>(batch.size()));
    for (const Work& work : batch) {
      add(static_cast<int64_t>(work.sequence->id)), add(work.begin), add(work.count);
      add(static_cast<int64_t>(work.kind)), add(work.wants_logits);
      for (const int32_t page : work.sequence->kv.pages) add(page);
    }
    scheduler.computed(batch);
    for (const Work& work : batch) {
      if (!work.wants_logits) continue;
      Sequence& s = *work.sequence;
      s.tokens.push_back(3);
      if (static_cast<int64_t>(s.tokens.size()) < s.prompt_tokens + w.jobs[s.id].generates) continue;
      scheduler.finish(s), ended[s.id] = true;
    }
  }
  for (const auto& s : sequences) *preemptions += s->num_preemptions;
  EXPECT_EQ(pool.num_free(), w.num_pages);
  return hash;
}

// Recorded from the first scheduler, which searched all running sequences for each of them.
TEST(Scheduler, BatchesAndPagesAreThoseOfTheFirstScheduler) {
  constexpr uint64_t kTraces[] = {0x71bf8a16620a0d7bu, 0x62823939041ac917u, 0x519ff115852138aeu, 0x0ca465df4efca7beu,
                                  0x99871f0e9d76df13u, 0xa7a02635b8622b31u, 0x1dde56ed0dc00e7au, 0xd945d49e78682d81u,
                                  0x2594d5bd9b65cbadu, 0x27edcc700a3b4a8du, 0x86d53615064e3be4u, 0x004b40d2f3449619u,
                                  0xf4878344cd7fb68fu, 0xe36c997586fbd376u, 0x42c432e4a349596eu, 0xec00c27fe994d2d2u,
                                  0xbc860105d8d8ff80u, 0xe068fe02bcb2b43cu, 0x1fa60da2d548cff0u, 0xe418984bff232dc4u,
                                  0x12102c52d62f8b0au, 0x1ac7c11ebc622359u, 0x344f0e9f222fe07du, 0x7e87e6727c862895u,
                                  0xbaecbe8c3f7a6413u, 0x3f0382774a2632cdu, 0x6d57b0f854d269fau, 0x47d90c24d0c48cc8u,
                                  0xbe5be3ed76d0244bu, 0xd6fe65bf05202862u, 0xe359097489bb470du, 0x9f507b6d9c0e496cu};
  int64_t preemptions = 0;
  for (uint32_t seed = 0; seed < std::size(kTraces); ++seed)
    EXPECT_EQ(trace_of(Workload(seed), &preemptions), kTraces[seed]) << "seed " << seed;
  EXPECT_GT(preemptions, 200);
}

}  // namespace
}  // namespace tern
