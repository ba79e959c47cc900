// Kept pages: who begins with the same tokens computes only what is new, and says what a fresh run says.
#include "infer/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "base/clock.h"
#include "infer/engine.h"
#include "infer/fake_model_testing.h"
#include "infer/run.h"

namespace tern {
namespace {

std::vector<int32_t> ids(int32_t first, size_t count) {
  std::vector<int32_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Pages of four tokens.
struct PrefixCacheRig {
  Arena arena;
  KvPool pool;
  PrefixCache cache{pool};
  explicit PrefixCacheRig(int64_t pages) : pool(kFakeShape, pages, arena) {}
  void write(const std::vector<int32_t>& tokens) {  // a sequence comes, computes and goes
    KvPages kv;
    ASSERT_TRUE(pool.reserve(kv, static_cast<int64_t>(tokens.size())));
    kv.length = static_cast<int64_t>(tokens.size());
    cache.keep(tokens, kv);
    pool.release(kv);
  }
  int64_t found(const std::vector<int32_t>& tokens) {
    KvPages kv = cache.match(tokens);
    const int64_t length = kv.length;
    EXPECT_EQ(static_cast<int64_t>(kv.pages.size()) * 4, length);
    pool.release(kv);
    return length;
  }
};

TEST(PrefixCache, FindsWholePagesAndLeavesTheLastToken) {
  PrefixCacheRig rig(20);
  rig.write(ids(0, 11));  // two whole pages, three tokens of a third
  EXPECT_EQ(rig.cache.num_pages(), 2);
  EXPECT_EQ(rig.pool.num_free(), 18);
  EXPECT_EQ(rig.found(ids(0, 11)), 8);
  EXPECT_EQ(rig.found(ids(0, 9)), 8);
  EXPECT_EQ(rig.found(ids(0, 8)), 4) << "its last token has to be computed";
  EXPECT_EQ(rig.found(ids(0, 4)), 0);
  EXPECT_EQ(rig.found(ids(1, 11)), 0) << "the same tokens at another place are other keys";
  std::vector<int32_t> parts = ids(0, 11);
  parts[6] = 30;
  EXPECT_EQ(rig.found(parts), 4);
  EXPECT_EQ(rig.cache.asked_tokens(), 11 + 9 + 8 + 4 + 11 + 11);
  EXPECT_EQ(rig.cache.found_tokens(), 8 + 8 + 4 + 4);
}

TEST(PrefixCache, WhatIsKeptAlreadyStaysOnce) {
  PrefixCacheRig rig(20);
  rig.write(ids(0, 8));
  rig.write(ids(0, 16));
  EXPECT_EQ(rig.cache.num_pages(), 4);
  EXPECT_EQ(rig.pool.num_free(), 16);
}

// Ends before beginnings, and those used longest ago first.
TEST(PrefixCache, GivesUpWhatWasUsedLongestAgo) {
  PrefixCacheRig rig(20);
  rig.write(ids(0, 12));
  rig.write(ids(20, 8));
  EXPECT_EQ(rig.found(ids(0, 13)), 12);
  EXPECT_TRUE(rig.cache.reclaim());
  EXPECT_EQ(rig.found(ids(20, 9)), 4);
  EXPECT_TRUE(rig.cache.reclaim());
  EXPECT_EQ(rig.found(ids(0, 13)), 8) << "its end, though its beginning is older than the second page of the other";
  EXPECT_EQ(rig.found(ids(20, 9)), 4);
  for (int left = 3; left > 0; --left) EXPECT_TRUE(rig.cache.reclaim());
  EXPECT_FALSE(rig.cache.reclaim());
  EXPECT_EQ(rig.pool.num_free(), 20);
}

TEST(PrefixCache, APageInUseIsNotFreedByGivingItUp) {
  PrefixCacheRig rig(4);
  rig.write(ids(0, 8));
  KvPages used = rig.cache.match(ids(0, 9));
  EXPECT_FALSE(rig.cache.reclaim());
  EXPECT_EQ(rig.pool.num_free(), 2);
  rig.pool.release(used);
  EXPECT_EQ(rig.pool.num_free(), 4);
}

Request prefix_cache_request(uint64_t number) {
  Request r;
  std::mt19937 random(static_cast<uint32_t>(number));
  r.prompt = ids(static_cast<int32_t>(number % 3), 4 + number % 17);  // three beginnings
  const size_t own = random() % 12;
  for (size_t i = 0; i < own; ++i) r.prompt.push_back(static_cast<int32_t>(random() % kFakeVocab));
  r.sampling.temperature = number % 2 ? 1.0 : 0.0;
  r.sampling.seed = number;
  r.num_samples = number % 5 == 1 ? 3 : 1;
  r.num_likeliest = 3;
  r.max_tokens = 1 + static_cast<int64_t>(random() % 25);
  return r;
}

struct PrefixCacheOutput {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<double> log_probabilities;
  bool operator==(const PrefixCacheOutput&) const = default;
};

PrefixCacheOutput alone(uint64_t number) {
  Arena arena;
  KvPool pool(kFakeShape, 200, arena);
  VirtualClock clock;
  Engine engine(pool, fake_model, nullptr, {{.token_budget = 64, .chunk = 64}, 120}, clock);
  PrefixCacheOutput said;
  for (const Sample& s : run_request(engine, prefix_cache_request(number), {}, {}, nullptr)) {
    said.tokens.push_back(s.token_ids);
    said.log_probabilities.push_back(s.sum_log_probability);
  }
  return said;
}

// Requests come and go; the pool from ample to so tight that pages are given up and sequences preempted.
TEST(PrefixCache, ARequestSaysTheSameWithAndWithoutIt) {
  std::map<uint64_t, PrefixCacheOutput> want;
  int64_t reused = 0, preemptions = 0, found = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Arena arena;
    const int64_t pages = 20 + static_cast<int64_t>(random() % 60);
    KvPool pool(kFakeShape, pages, arena);
    VirtualClock clock;
    {
      Engine engine(pool, fake_model, nullptr,
                    {{.token_budget = 1 + static_cast<int64_t>(random() % 60),
                      .chunk = 1 + static_cast<int64_t>(random() % 20),
                      .max_running = 1 + static_cast<int64_t>(random() % 20)},
                     120,
                     true},
                    clock);
      std::map<uint64_t, uint64_t> number_of;
      std::map<uint64_t, PrefixCacheOutput> said;
      for (uint64_t number = 0; number < 40 || !engine.idle();) {
        while (number < 40 && (engine.idle() || random() % 3 == 0)) {
          const Request r = prefix_cache_request(number);
          said[number].tokens.resize(static_cast<size_t>(r.num_samples));
          said[number].log_probabilities.resize(static_cast<size_t>(r.num_samples));
          number_of[engine.submit(r)] = number, ++number;
        }
        for (const Event& event : engine.step()) {
          if (event.drawn) {
            ASSERT_EQ(event.drawn->likeliest.size(), 3u);
            EXPECT_GE(event.drawn->likeliest[0].second, event.drawn->likeliest[1].second);
            EXPECT_GE(event.drawn->likeliest[0].second, event.drawn->log_probability);
          }
          if (!event.finished) continue;
          PrefixCacheOutput& s = said[number_of.at(event.request)];
          s.tokens[static_cast<size_t>(event.sample)] = event.finished->token_ids;
          s.log_probabilities[static_cast<size_t>(event.sample)] = event.finished->sum_log_probability;
          reused += event.finished->reused_tokens;
          preemptions += event.finished->num_preemptions;
        }
      }
      for (const auto& [number, s] : said) {
        if (!want.contains(number)) want[number] = alone(number);
        EXPECT_EQ(s, want[number]) << "request " << number;
      }
      found += engine.prefix_cache()->found_tokens();
      EXPECT_EQ(pool.num_free() + engine.prefix_cache()->num_pages(), pages);
    }
    EXPECT_EQ(pool.num_free(), pages);
  }
  EXPECT_GT(reused, 5000);
  EXPECT_GT(found, 5000);
  EXPECT_GT(preemptions, 50);
}

}  // namespace
}  // namespace tern
