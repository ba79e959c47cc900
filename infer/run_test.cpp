#include "infer/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "infer/best_sample.h"
#include "infer/fake_model_testing.h"
#include "infer/sampling.h"

namespace tern {
namespace {

constexpr int32_t kVocab = kFakeVocab;

struct RunSetting {
  int64_t budget = 64, chunk = 64, pages = 200, page_tokens = 4;
};
std::vector<Sample> run(const Request& request, const RunSetting& s, RunTimings* timings = nullptr,
                        int64_t context = 120) {
  Arena arena;
  KvShape shape = kFakeShape;
  shape.page_tokens = s.page_tokens;
  KvPool pool(shape, s.pages, arena);
  VirtualClock clock;
  Engine engine(pool, fake_model, nullptr, {{.token_budget = s.budget, .chunk = s.chunk, .max_running = 64}, context},
                clock);
  const auto samples = run_request(engine, request, {}, {}, timings);
  EXPECT_EQ(pool.num_free(), s.pages);
  return samples;
}

Request request(int64_t samples, double temperature) {
  Request r;
  for (int32_t i = 0; i < 23; ++i) r.prompt.push_back((i * 7) % kVocab);
  r.sampling.temperature = temperature;
  r.sampling.seed = 11;
  r.num_samples = samples;
  r.max_tokens = 30;
  return r;
}

TEST(Run, OneSequenceIsTheSameForAnyChunkPageAndBudget) {
  for (const double temperature : {0.0, 1.0}) {
    const auto plain = run(request(1, temperature), {});
    ASSERT_EQ(plain[0].token_ids.size(), 30u);
    EXPECT_EQ(plain[0].reason, FinishReason::length);
    for (const int64_t chunk : {1, 3, 16, 128})
      for (const int64_t page : {1, 4, 16, 64})
        EXPECT_EQ(run(request(1, temperature), {.budget = chunk + 1, .chunk = chunk, .page_tokens = page})[0].token_ids,
                  plain[0].token_ids);
  }
}

// The first sample that ends by itself is the one it is alone, and the others' pages are free in the next step.
TEST(Run, TheFirstToFinishEndsTheOthers) {
  Request r = request(6, 1.0);
  r.eos = {3, 9, 21};
  r.max_tokens = 60;
  const std::vector<Sample> whole = run(r, {});
  size_t want = 0, shortest = 1000;
  for (size_t i = 0; i < whole.size(); ++i)
    if (whole[i].reason == FinishReason::eos && whole[i].token_ids.size() < shortest)
      want = i, shortest = whole[i].token_ids.size();
  ASSERT_LT(shortest, 50u);
  Arena arena;
  KvPool pool(kFakeShape, 200, arena);
  VirtualClock clock;
  Engine engine(pool, fake_model, nullptr, {{.token_budget = 64, .chunk = 64, .max_running = 64}, 120}, clock);
  std::vector<int64_t> seen;
  int64_t steps_after = -1;
  const auto stopped = [&] {
    if (!seen.empty()) ++steps_after;
    return false;
  };
  const std::vector<Sample> got = run_request(engine, r, {}, stopped, nullptr, [&](int64_t index, const Sample& s) {
    seen.push_back(index);
    return !ended_by_itself(s);
  });
  EXPECT_EQ(seen, std::vector<int64_t>{static_cast<int64_t>(want)});
  EXPECT_EQ(got[want].token_ids, whole[want].token_ids);
  EXPECT_LE(steps_after, 1);
  EXPECT_EQ(pool.num_free(), 200);
  for (size_t i = 0; i < got.size(); ++i)
    if (i != want) {
      EXPECT_EQ(got[i].reason, FinishReason::cancelled) << i;
      EXPECT_TRUE(std::equal(got[i].token_ids.begin(), got[i].token_ids.end(), whole[i].token_ids.begin())) << i;
    }
}

TEST(Run, TheLikeliestSampleIsTheOneWithTheMostProbabilityAToken) {
  const auto sample = [](size_t tokens, double sum, FinishReason reason) {
    Sample s;
    s.token_ids.resize(tokens), s.sum_log_probability = sum, s.reason = reason;
    return s;
  };
  std::vector<Sample> samples = {sample(10, -10, FinishReason::length), sample(4, -4.5, FinishReason::eos),
                                 sample(2, -1.7, FinishReason::stop), sample(9, -0.1, FinishReason::cancelled)};
  EXPECT_EQ(likeliest_sample(samples), 2u) << "-0.85 a token";
  EXPECT_DOUBLE_EQ(mean_log_probability(samples[1]), -0.9) << "with the token that ended it";
  samples.push_back(sample(0, 0, FinishReason::failed));
  EXPECT_EQ(likeliest_sample(samples), 2u);
  EXPECT_EQ(mean_log_probability(samples.back()), 0);
}

TEST(Run, SampleOfABatchIsTheSampleAlone) {
  RunTimings timings;
  const auto together = run(request(5, 1.0), {}, &timings);
  EXPECT_GT(timings.copied_pages, 0);
  EXPECT_EQ(timings.most_running, 5);
  EXPECT_EQ(timings.prompt_tokens, 23 + 4);  // the prompt once, its last token again for each sibling
  for (uint64_t i = 0; i < 5; ++i) {
    Request alone = request(1, 1.0);
    alone.first_sequence = i;
    EXPECT_EQ(run(alone, {})[0].token_ids, together[i].token_ids) << i;
    if (i > 0) { EXPECT_NE(together[i].token_ids, together[0].token_ids); }
  }
}

// Siblings get their first token from an iteration that reads the prompt's last token: that is no decoding.
TEST(Run, DecodedTokensAreThoseOfIterationsThatOnlyDecode) {
  Arena arena;
  KvPool pool(kFakeShape, 200, arena);
  VirtualClock clock;
  int64_t decoded = 0, iterations = 0;
  const BatchExecutor one_second = [&](const Batch& batch, const KvPool& p) {
    clock.advance_ns(1'000'000'000);
    const bool only = std::all_of(batch.begin(), batch.end(), [](const Work& w) { return w.kind == WorkKind::decode; });
    iterations += only;
    decoded += only ? static_cast<int64_t>(batch.size()) : 0;
    return fake_model(batch, p);
  };
  RunTimings t;
  Engine engine(pool, one_second, nullptr, {{.token_budget = 64, .chunk = 64, .max_running = 64}, 120}, clock);
  run_request(engine, request(5, 1.0), {}, {}, &t);
  EXPECT_EQ(t.first_token_s, 1.0);
  EXPECT_EQ(t.generated_tokens, 150);
  EXPECT_EQ(t.decode_tokens, decoded);
  EXPECT_EQ(t.decode_s, static_cast<double>(iterations));
  EXPECT_LE(static_cast<double>(t.decode_tokens) / t.decode_s, 5);
  EXPECT_LE(t.decode_tokens, 145);
}

// Penalties choose the token and leave its probability alone.
TEST(Run, LogProbabilitiesAreOfTheModelWithoutPenalties) {
  Arena arena;
  KvPool pool(kFakeShape, 200, arena);
  VirtualClock clock;
  std::vector<std::vector<float>> seen;
  const BatchExecutor keeping = [&](const Batch& batch, const KvPool& p) {
    const Tensor logits = fake_model(batch, p);
    for (int64_t r = 0; r < logits.rows(); ++r) {
      const auto row = logits.rows_view(r, r + 1).span<float>();
      seen.emplace_back(row.begin(), row.end());
    }
    return logits;
  };
  Request r = request(1, 0.0);
  r.sampling.repetition_penalty = 1.7, r.sampling.presence_penalty = 0.5, r.sampling.frequency_penalty = 0.25;
  Engine engine(pool, keeping, nullptr, {{.token_budget = 64, .chunk = 64}, 120}, clock);
  const Sample s = run_request(engine, r, {}, {}, nullptr)[0];
  EXPECT_NE(s.token_ids, run(request(1, 0.0), {})[0].token_ids) << "the penalties do something";
  ASSERT_EQ(seen.size(), s.token_ids.size());
  double sum = 0;
  for (size_t i = 0; i < seen.size(); ++i) sum += log_probability(seen[i], s.token_ids[i]);
  EXPECT_EQ(s.sum_log_probability, sum);
}

TEST(Run, ScoresThatAreNoNumbersAreTheFilesFault) {
  Arena arena;
  for (const float bad : {NAN, INFINITY}) {
    KvPool pool(kFakeShape, 200, arena);
    VirtualClock clock;
    const BatchExecutor broken = [&](const Batch& batch, const KvPool& p) {
      const Tensor logits = fake_model(batch, p);
      for (int64_t r = 0; r < logits.rows(); ++r) logits.rows_view(r, r + 1).span<float>()[3] = bad;
      return logits;
    };
    Engine engine(pool, broken, nullptr, {{.token_budget = 64, .chunk = 64, .max_running = 1}, 120}, clock);
    try {
      run_request(engine, request(1, 0), {}, {}, nullptr);
      FAIL() << "a token was drawn";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      EXPECT_NE(std::string(e.what()).find("not finite (1 of 40)"), std::string::npos) << e.what();
    }
  }
}

TEST(Run, PreemptionChangesNothing) {
  const auto plain = run(request(4, 1.0), {});
  int64_t preemptions = 0;
  const auto tight = run(request(4, 1.0), {.budget = 16, .chunk = 8, .pages = 30});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tight[i].token_ids, plain[i].token_ids) << i;
    preemptions += tight[i].num_preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST(Run, EndsForTheRightReason) {
  const auto plain = run(request(1, 0), {})[0];
  Request r = request(1, 0);
  r.eos = {plain.token_ids[4]};
  const auto first = std::find(plain.token_ids.begin(), plain.token_ids.end(), r.eos[0]) - plain.token_ids.begin();
  const auto ended = run(r, {})[0];
  EXPECT_EQ(ended.reason, FinishReason::eos);
  EXPECT_EQ(ended.token_ids, std::vector<int32_t>(plain.token_ids.begin(), plain.token_ids.begin() + first));
  EXPECT_EQ(run(request(1, 0), {}, nullptr, 40)[0].reason, FinishReason::context);
  EXPECT_EQ(run(request(1, 0), {}, nullptr, 40)[0].token_ids.size(), 17u);
}

TEST(Run, StopsOnRequestWhileThePromptIsRead) {
  Arena arena;
  KvPool pool(kFakeShape, 200, arena);
  VirtualClock clock;
  int asked = 0;
  Engine engine(pool, fake_model, nullptr, {{.token_budget = 4, .chunk = 4, .max_running = 1}, 120}, clock);
  const Sample sample = run_request(
      engine, request(1, 0), {}, [&] { return ++asked == 2; }, nullptr)[0];
  EXPECT_EQ(sample.reason, FinishReason::cancelled);
  EXPECT_TRUE(sample.token_ids.empty());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(pool.num_free(), 200);
}

TEST(Run, AnOverlongPromptIsRefusedWithBothNumbers) {
  try {
    run(request(1, 0), {}, nullptr, 23);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("23 tokens, the context holds 23"), std::string::npos) << e.what();
  }
  Request empty = request(1, 0);
  empty.prompt.clear();
  EXPECT_THROW(run(empty, {}), Error);
}

}  // namespace
}  // namespace tern
