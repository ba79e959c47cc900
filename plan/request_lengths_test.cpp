#include "plan/request_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "hardware/machine.h"
#include "hardware/machines.h"
#include "plan/inference.h"
#include "plan/inference_job.h"
#include "plan/serving_search.h"
#include "spec/presets.h"

namespace tern {
namespace {

constexpr int64_t kPage = 16;

SequenceLengths one(int64_t length) { return sequence_lengths({{length, 1}}); }

TEST(RequestLengths, MeansAreThoseOfBruteForce) {
  const RequestLengths r(sequence_lengths({{10, 3}, {1000, 1}}), sequence_lengths({{1, 5}, {7, 2}, {400, 1}}));
  // Every request once, every decoded token counted with what stands before it.
  double context = 0, tokens = 0, whole = 0;
  for (const auto& [prompt, prompts] : r.prompts().rows)
    for (const auto& [answer, answers] : r.answers().rows)
      for (int64_t t = 0; t < answer; ++t) {
        const auto times = static_cast<double>(prompts * answers);
        context += times * (static_cast<double>(prompt + t) + 0.5);
        whole += times * static_cast<double>(prompt + answer);
        tokens += times;
      }
  EXPECT_NEAR(r.decode_context(), context / tokens, 1e-9 * context / tokens);
  EXPECT_NEAR(r.mean_context(), whole / tokens, 1e-9 * whole / tokens) << "in flight as long as tokens are written";
  EXPECT_EQ(r.high_prompt(), 1000);
}

TEST(RequestLengths, RoomHoldsAtNinetyNineMomentsOfAHundredAndIsNotIdle) {
  const uint64_t seed = 5;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const RequestLengths r(sequence_lengths({{100, 60}, {700, 30}, {6000, 29}, {30000, 1}}),
                         sequence_lengths({{20, 50}, {300, 45}, {4000, 5}}));
  const auto draw = [&](const SequenceLengths& l, bool in_flight) {
    const int64_t all = in_flight ? l.tokens : l.sequences;
    auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(all));
    for (const auto& [length, count] : l.rows)
      if ((at -= in_flight ? length * count : count) < 0) return length;
    return l.longest();
  };
  int64_t last = 0;
  for (const int64_t users : {1, 2, 7, 40, 300, 2000}) {
    const int64_t room = r.room(users, kPage);
    EXPECT_GT(room, last) << "rises with users";
    last = room;
    const int moments = 2000;
    int over = 0;
    std::vector<int64_t> kept;
    for (int m = 0; m < moments; ++m) {
      int64_t tokens = 0;
      for (int64_t u = 0; u < users; ++u)
        tokens += (draw(r.prompts(), false) + draw(r.answers(), true) + kPage - 1) / kPage * kPage;
      over += tokens > room ? 1 : 0;
      kept.push_back(tokens);
    }
    // Four standard deviations of a share of one in a hundred.
    EXPECT_LE(over, moments / 100 + 4 * std::sqrt(moments / 100.0)) << users << " users, seed " << seed;
    std::nth_element(kept.begin(), kept.begin() + moments / 100 * 99, kept.end());
    const auto needed = static_cast<double>(kept[static_cast<size_t>(moments / 100 * 99)]);
    EXPECT_LT(static_cast<double>(room) / needed, users == 1 ? 1.2 : users < 40 ? 1.6 : 1.25) << users << " users";
    EXPECT_LE(room, users * (30000 + 4000 + kPage));
  }
}

// Closed forms without lengths; with those of one length the same numbers.
TEST(RequestLengths, RequestsOfOneLengthAreThoseWithoutLengths) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Cluster cluster = find_cluster("h100");
  for (const auto& [prompt, answer] :
       std::vector<std::pair<int64_t, int64_t>>{{2048, 256}, {1, 1}, {513, 33}, {5000, 7}})
    for (const int64_t users : {0, 3}) {
      InferenceJob plain{.prompt = prompt, .answer = answer, .users = users, .kv = KvType::q8};
      if (users == 0) plain.ttft_s = 2, plain.tpot_s = 0.05;
      InferenceJob job = plain;
      job.lengths = std::make_shared<RequestLengths>(one(prompt), one(answer));
      const ServingAnswer a = plan_serving(spec, cluster, plain), b = plan_serving(spec, cluster, job);
      ASSERT_TRUE(a.found && b.found);
      EXPECT_EQ(a.plan.users, b.plan.users);
      EXPECT_EQ(a.most_users, b.most_users);
      EXPECT_EQ(a.plan.decode.layout, b.plan.decode.layout);
      EXPECT_EQ(a.plan.decode.memory.kv, b.plan.decode.memory.kv);
      EXPECT_EQ(a.plan.decode.memory.kv_per_user, b.plan.decode.memory.kv_per_user);
      EXPECT_EQ(a.plan.prefill.times.prefill_ps, b.plan.prefill.times.prefill_ps);
      EXPECT_EQ(b.plan.prefill.times.high_prefill_ps, b.plan.prefill.times.prefill_ps);
      EXPECT_EQ(a.plan.decode.times.decode_ps, b.plan.decode.times.decode_ps);
      EXPECT_EQ(a.plan.requests_per_s, b.plan.requests_per_s);
      EXPECT_EQ(a.plan.ttft_s, b.plan.ttft_s);
    }
}

// A prompt's mean time from groups of lengths, beside every prompt by itself.
TEST(RequestLengths, MeanPromptTimesAreThoseOfAllPrompts) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Machine m = machine_of(find_cluster("h100"), 0);
  const uint64_t seed = 3;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<LengthCount> rows;
  for (int i = 0; i < 60; ++i)
    rows.push_back({static_cast<int64_t>(std::exp(std::uniform_real_distribution<>(0, 10)(random))) + 1,
                    static_cast<int64_t>(random() % 9 + 1) * 10});
  rows.push_back({40000, 1});
  const SequenceLengths prompts = sequence_lengths(rows);
  InferenceJob job{.prompt = prompts.longest(), .answer = 10};
  job.lengths = std::make_shared<RequestLengths>(prompts, one(10));
  const auto times = [&](const InferenceJob& j) {
    return serving_times(spec, j, m, {}, serving_memory(spec, j, m, {}, 1), 1);
  };
  double want = 0;
  for (const auto& [length, count] : prompts.rows) {
    InferenceJob each{.prompt = length, .answer = 10};
    want += static_cast<double>(times(each).prefill_ps) * static_cast<double>(count) /
            static_cast<double>(prompts.sequences);
  }
  const ServingTimes got = times(job);
  EXPECT_NEAR(static_cast<double>(got.prefill_ps) / want, 1, 0.01) << "seed " << seed;
  ASSERT_LT(prompts.quantile(0.99), prompts.longest());
  InferenceJob high{.prompt = prompts.quantile(0.99), .answer = 10};
  EXPECT_EQ(got.high_prefill_ps, times(high).prefill_ps);
}

TEST(RequestLengths, LongTailsLeaveRoomForMoreUsersThanTheirLongest) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Cluster cluster = find_cluster("h100");
  const SequenceLengths prompts = sequence_lengths({{500, 95}, {2000, 4}, {32000, 1}});
  const auto users = [&](const SequenceLengths& p) {
    InferenceJob job{.prompt = p.longest(), .answer = 256, .users = 1, .spill = false};
    job.lengths = std::make_shared<RequestLengths>(p, one(256));
    return plan_serving(spec, cluster, job).most_users;
  };
  const int64_t mixed = users(prompts), longest = users(one(32000)), mean = users(one(880));
  EXPECT_GT(mixed, 10 * longest);
  EXPECT_LT(mixed, mean) << "a tail needs room";
}

}  // namespace
}  // namespace tern
