#include "infer/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "infer/constrain/constraint.h"
#include "infer/fake_model_testing.h"

namespace tern {
namespace {

struct EngineSetting {
  int64_t budget = 64, chunk = 16, running = 64, pages = 200;
};
struct EngineRig {
  Arena arena;
  KvPool pool;
  VirtualClock clock;
  Engine engine;
  explicit EngineRig(const EngineSetting& s = {}, BatchExecutor execute = fake_model)
      : pool(kFakeShape, s.pages, arena),
        engine(pool, std::move(execute), nullptr,
               {{.token_budget = s.budget, .chunk = s.chunk, .max_running = s.running}, 120}, clock) {}
};

Request engine_request(uint64_t number) {
  Request r;
  std::mt19937 random(static_cast<uint32_t>(number));
  const size_t length = 1 + random() % 30;
  for (size_t i = 0; i < length; ++i) r.prompt.push_back(static_cast<int32_t>(random() % kFakeVocab));
  r.sampling.temperature = number % 3 ? 1.0 : 0.0;
  if (number % 4 == 1) r.sampling.repetition_penalty = 1.5;
  r.sampling.seed = number;
  r.num_samples = number % 3 ? 1 + static_cast<int64_t>(number % 2) : 1;
  r.max_tokens = 1 + static_cast<int64_t>(random() % 25);
  return r;
}

using Samples = std::map<std::pair<uint64_t, int64_t>, Sample>;  // by request and number

void take(const std::vector<Event>& events, Samples& samples) {
  for (const Event& event : events)
    if (event.finished) {
      EXPECT_TRUE(samples.emplace(std::pair(event.request, event.sample), *event.finished).second) << "ended twice";
    }
}
Samples run_alone(const Request& request) {
  EngineRig rig;
  Samples samples;
  rig.engine.submit(request);
  while (!rig.engine.idle()) take(rig.engine.step(), samples);
  return samples;
}

// The model waits for the mask of its step: it is made beside it, and once.
TEST(Engine, MasksAreMadeWhileTheModelComputes) {
  std::vector<std::string> letters;
  for (int i = 0; i < kFakeVocab; ++i) letters.emplace_back(1, static_cast<char>('a' + i % 26));
  const auto constraint = std::make_shared<Constraint>(std::make_shared<const TokenTexts>(token_texts(letters)),
                                                       parse_gbnf("root ::= [a-z]{20}", "g"));
  EXPECT_GT(constraint->grammar_bytes(), static_cast<int64_t>(20 * sizeof(GrammarNode)));
  int64_t made = 0, steps = 0;
  EngineRig rig({}, [&](const Batch& batch, const KvPool& pool) {
    const bool draws = std::ranges::any_of(batch, [](const Work& w) { return w.wants_logits; });
    const int64_t begin_ns = real_clock().now_ns();
    while (draws && constraint->num_made() == made && seconds_between(begin_ns, real_clock().now_ns()) < 5)
      std::this_thread::yield();
    if (draws) { EXPECT_EQ(constraint->num_made(), made + 1) << "step " << steps; }
    made = constraint->num_made(), ++steps;
    return fake_model(batch, pool);
  });
  Request request;
  request.prompt = {1, 2, 3}, request.max_tokens = 50;
  request.sampling.temperature = 1, request.sampling.seed = 3;
  request.constraint = constraint;
  rig.engine.submit(request);
  Samples samples;
  while (!rig.engine.idle()) take(rig.engine.step(), samples);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples.begin()->second.token_ids.size(), 20u);
  EXPECT_EQ(made, 20);
  EXPECT_EQ(constraint->num_made(), made) << "none was left to the draw";
}

// Requests come at random times, some leave before their end; caches from ample to tight.
TEST(Engine, ARequestSaysTheSameWhoeverJoinsAndLeaves) {
  std::map<uint64_t, Samples> alone;
  int64_t preemptions = 0, cancelled = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const EngineSetting s{.budget = 1 + static_cast<int64_t>(random() % 60),
                          .chunk = 1 + static_cast<int64_t>(random() % 20),
                          .running = 1 + static_cast<int64_t>(random() % 20),
                          .pages = 20 + static_cast<int64_t>(random() % 60)};
    EngineRig rig(s);
    std::map<uint64_t, uint64_t> number_of;  // by the engine's
    Samples samples;
    for (uint64_t number = 0; number < 30 || !rig.engine.idle();) {
      while (number < 30 && (rig.engine.idle() || random() % 3 == 0))
        number_of[rig.engine.submit(engine_request(number))] = number, ++number;
      if (random() % 8 == 0) {
        auto who = number_of.begin();
        std::advance(who, random() % number_of.size());
        rig.engine.cancel(who->first);
      }
      take(rig.engine.step(), samples);
    }
    EXPECT_EQ(rig.pool.num_free(), s.pages);
    EXPECT_EQ(rig.engine.num_running() + rig.engine.num_waiting(), 0);
    for (const auto& [key, sample] : samples) {
      const uint64_t number = number_of.at(key.first);
      if (!alone.contains(number)) alone[number] = run_alone(engine_request(number));
      const Sample& want = alone[number].at({0, key.second});
      preemptions += sample.num_preemptions;
      if (sample.reason == FinishReason::cancelled) {
        ++cancelled;
        ASSERT_LE(sample.token_ids.size(), want.token_ids.size());
        EXPECT_TRUE(std::equal(sample.token_ids.begin(), sample.token_ids.end(), want.token_ids.begin()));
        continue;
      }
      EXPECT_EQ(sample.reason, want.reason);
      EXPECT_EQ(sample.token_ids, want.token_ids);
      EXPECT_EQ(sample.sum_log_probability, want.sum_log_probability);
    }
    size_t expected = 0;
    for (uint64_t number = 0; number < 30; ++number)
      expected += static_cast<size_t>(engine_request(number).num_samples);
    EXPECT_EQ(samples.size(), expected) << "every sample ends once";
  }
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(cancelled, 100);
}

TEST(Engine, EventsTellEachTokenAndAddUpToTheSample) {
  EngineRig rig;
  Request r = engine_request(7);
  r.num_samples = 3;
  const uint64_t id = rig.engine.submit(r);
  std::map<int64_t, std::vector<int32_t>> tokens;
  std::map<int64_t, double> log_probability;
  int64_t ended = 0;
  while (!rig.engine.idle()) {
    for (const Event& event : rig.engine.step()) {
      EXPECT_EQ(event.request, id);
      ASSERT_TRUE(event.drawn);
      tokens[event.sample].push_back(event.drawn->id);
      log_probability[event.sample] += event.drawn->log_probability;
      if (!event.finished) continue;
      ++ended;
      EXPECT_EQ(event.finished->token_ids, tokens[event.sample]);
      EXPECT_EQ(event.finished->sum_log_probability, log_probability[event.sample]);
    }
    EXPECT_TRUE(rig.engine.last_step().ran);
  }
  EXPECT_EQ(ended, 3);
  EXPECT_TRUE(rig.engine.step().empty());
  EXPECT_FALSE(rig.engine.last_step().ran);
}

// The second request's logits are no numbers from its third token on.
TEST(Engine, ARequestThatFailsEndsAlone) {
  const Request good = engine_request(4), bad = engine_request(8);
  const size_t poisoned_at = bad.prompt.size() + 3;
  EngineRig rig({}, [&](const Batch& batch, const KvPool& pool) {
    const Tensor logits = fake_model(batch, pool);
    int64_t row = 0;
    for (const Work& work : batch)
      if (work.wants_logits && row++ >= 0 && work.sequence->id == 1 && work.sequence->tokens.size() >= poisoned_at)
        logits.rows_view(row - 1, row).span<float>()[5] = NAN;
    return logits;
  });
  rig.engine.submit(good);
  rig.engine.submit(bad);
  Samples samples;
  while (!rig.engine.idle()) take(rig.engine.step(), samples);
  EXPECT_EQ(samples.at({0, 0}).token_ids, run_alone(good).at({0, 0}).token_ids);
  const Sample& failed = samples.at({1, 0});
  EXPECT_EQ(failed.reason, FinishReason::failed);
  EXPECT_EQ(failed.token_ids.size(), 3u);
  EXPECT_THROW(std::rethrow_exception(failed.error), Error);
  EXPECT_EQ(rig.pool.num_free(), 200);
}

TEST(Engine, ARefusedRequestChangesNothing) {
  EngineRig rig({.pages = 10});
  const uint64_t id = rig.engine.submit(engine_request(4));
  Request long_prompt = engine_request(5), large = engine_request(5), odd = engine_request(5);
  long_prompt.prompt.assign(200, 1);
  large.max_tokens = 60;  // more than ten pages hold
  odd.sampling.top_p = 2;
  for (const Request& refused : {long_prompt, large, odd}) EXPECT_THROW(rig.engine.submit(refused), Error);
  EXPECT_EQ(rig.engine.num_waiting(), 1);
  Samples samples;
  while (!rig.engine.idle()) take(rig.engine.step(), samples);
  EXPECT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples.at({id, 0}).token_ids, run_alone(engine_request(4)).at({0, 0}).token_ids);
}

// An executor that fails once: nothing has moved, and stepping again goes on.
TEST(Engine, AStepThatThrowsCanBeRunAgain) {
  int steps = 0;
  EngineRig rig({}, [&](const Batch& batch, const KvPool& pool) {
    if (++steps == 4) throw Error(ErrorKind::does_not_fit, "no room");
    return fake_model(batch, pool);
  });
  const Request r = engine_request(11);
  ASSERT_GT(r.max_tokens, 5);
  rig.engine.submit(r);
  Samples samples;
  int thrown = 0;
  while (!rig.engine.idle()) try {
      take(rig.engine.step(), samples);
    } catch (const Error&) { ++thrown; }
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(samples.at({0, 0}).token_ids, run_alone(r).at({0, 0}).token_ids);
}

TEST(Engine, ACancelledRequestGivesItsPagesBackAtOnceAndEndsOnce) {
  EngineRig rig;
  Request r = engine_request(7);
  r.num_samples = 4;
  r.max_tokens = 60;
  const uint64_t id = rig.engine.submit(r);
  for (int i = 0; i < 8; ++i) rig.engine.step();
  EXPECT_LT(rig.pool.num_free(), 200);
  EXPECT_TRUE(rig.engine.cancel(id));
  EXPECT_EQ(rig.pool.num_free(), 200);
  EXPECT_FALSE(rig.engine.cancel(id));
  EXPECT_FALSE(rig.engine.idle()) << "its last events are to come";
  Samples samples;
  take(rig.engine.step(), samples);
  ASSERT_EQ(samples.size(), 4u);
  for (const auto& [key, sample] : samples) EXPECT_EQ(sample.reason, FinishReason::cancelled);
  EXPECT_TRUE(rig.engine.idle());
  EXPECT_FALSE(rig.engine.cancel(id + 100));
}

TEST(Engine, GivesBackItsPagesWhenItGoes) {
  Arena arena;
  KvPool pool(kFakeShape, 50, arena);
  VirtualClock clock;
  {
    Engine engine(pool, fake_model, nullptr, {{.token_budget = 64, .chunk = 64}, 120}, clock);
    engine.submit(engine_request(7));
    engine.step();
    EXPECT_LT(pool.num_free(), 50);
  }
  EXPECT_EQ(pool.num_free(), 50);
}

}  // namespace
}  // namespace tern
