#include "train/settings.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/recompute.h"
#include "train/settings_facts.h"
#include "train/settings_ranks.h"

namespace tern {
namespace {

TrainSettings sample() {
  TrainSettings s;
  s.schedule = {.kind = LearningRateKind::cosine,
                .peak = 1e-3,
                .minimum = 1e-4,
                .warmup_steps = 10,
                .decay_steps = 0,
                .total_steps = 100};
  return s;
}
const RunIdentity kIdentity{"config 1", "tokenizer 1", "10 tokens"};
const Facts kMadeBy{{"tern", "0.1.0"}, {"threads", "2"}};

Manifest checkpoint_of(const TrainSettings& s) {
  return {.step = 40, .samples = 1280, .settings = settings_facts(s, kIdentity), .made_by = kMadeBy, .files = {}};
}
SettingsChange change_to(const TrainSettings& now, const RunIdentity& id = kIdentity, const Facts& made_by = kMadeBy) {
  return compare_settings(checkpoint_of(sample()), settings_facts(now, id), made_by);
}

TEST(Settings, AChoiceThatNobodyReadsIsRefusedNotTakenForAnother) {
  EXPECT_EQ(recompute_from_name("full"), Recompute::full);
  EXPECT_EQ(recompute_from_name("none"), Recompute::none);
  EXPECT_EQ(multiply_from_name("exact"), Multiply::exact);
  EXPECT_EQ(resume_from_name("auto"), Resume::automatic);
  EXPECT_EQ(resume_from_name("never"), Resume::never);
  EXPECT_THROW(recompute_from_name("half"), Error);
  EXPECT_THROW(multiply_from_name("faster"), Error);
  EXPECT_THROW(resume_from_name(""), Error);
}

// What does not divide is said before anything runs.
TEST(Settings, RanksAndGroupsThatDoNotDivideAreRefusedByName) {
  const auto refusal = [](int64_t batch, int64_t micro, int ranks, int64_t groups) {
    TrainSettings s = sample();
    s.batch = batch, s.micro_batch = micro, s.ranks = ranks, s.sum_order.groups = groups;
    try {
      check_ranks(s);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_FALSE(sums_in_order(s));
      return std::string(e.what());
    }
    EXPECT_TRUE(sums_in_order(s));
    return std::string();
  };
  EXPECT_EQ(refusal(8, 3, 1, 1), "") << "one rank, one group: the last may be smaller";
  EXPECT_EQ(refusal(8, 2, 2, 4), "");
  EXPECT_EQ(refusal(12, 1, 3, 6), "");
  EXPECT_NE(refusal(8, 3, 2, 2).find("--micro-batch: 3 does not divide the 8"), std::string::npos);
  EXPECT_NE(
      refusal(8, 4, 4, 4)
          .find("--ranks: 2 micro-batches of a step (--batch 8 in --micro-batch 4) cannot be shared out to 4 ranks"),
      std::string::npos);
  EXPECT_TRUE(refusal(8, 4, 4, 4).ends_with("equal parts; choose --micro-batch 2"));
  EXPECT_EQ(refusal(8, 2, 4, 4), "");
  EXPECT_TRUE(refusal(16, 16, 3, 3).ends_with("equal parts; choose --batch 18 and --micro-batch 6"));
  EXPECT_EQ(refusal(18, 6, 3, 3), "");
  EXPECT_NE(refusal(8, 4, 1, 4).find("--sum-groups: 2 micro-batches of a step"), std::string::npos);
  EXPECT_NE(refusal(8, 1, 4, 2).find("cannot be shared out to --ranks 4"), std::string::npos);
  EXPECT_NE(refusal(12, 1, 2, 6).find("3 to a rank, no power of two"), std::string::npos);
}

// Every refusal names numbers, and with them the same ranks train.
TEST(Settings, WhatARefusalOfRanksNamesIsTaken) {
  const auto refusal = [](const TrainSettings& s) -> std::string {
    try {
      check_ranks(s);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  int refused = 0;
  TrainSettings s = sample();
  for (const int zero : {0, 2, 3})
    for (s.zero = zero, s.batch = 1; s.batch <= 24; ++s.batch)
      for (s.micro_batch = 1; s.micro_batch <= s.batch; ++s.micro_batch)
        for (s.ranks = 1; s.ranks <= 6; ++s.ranks)
          for (s.sum_order.groups = 1; s.sum_order.groups <= 8; ++s.sum_order.groups) {
            const std::string text = refusal(s);
            if (text.empty()) continue;
            ++refused;
            ASSERT_NE(text.find("choose --"), std::string::npos) << text;
            TrainSettings changed = s;
            const auto named = [&](const std::string& option, int64_t& value) {
              const size_t at = text.find(option, text.find("choose --"));
              if (at != std::string::npos) value = std::stoll(text.substr(at + option.size()));
            };
            named("--batch ", changed.batch), named("--micro-batch ", changed.micro_batch);
            named("--sum-groups ", changed.sum_order.groups);
            ASSERT_LE(changed.micro_batch, s.micro_batch) << text;
            ASSERT_EQ(refusal(changed), "") << "after: " << text;
          }
  EXPECT_GT(refused, 1000);
}

TEST(CompareSettings, GroupsAreWarnedOfAndOlderCheckpointsHadOne) {
  TrainSettings s = sample();
  s.sum_order.groups = 4;
  EXPECT_TRUE(change_to(s).refused.empty());
  ASSERT_EQ(change_to(s).warned.size(), 1u);
  EXPECT_EQ(change_to(s).warned[0],
            "--sum-groups: 1 in the checkpoint, 4 now: sums are taken in another order from here on");
  Manifest older = checkpoint_of(sample());
  std::erase_if(older.settings, [](const auto& fact) { return fact.first == "sum-groups"; });
  const SettingsChange same = compare_settings(older, settings_facts(sample(), kIdentity), kMadeBy);
  EXPECT_TRUE(same.refused.empty() && same.warned.empty());
}

// What makes it another kind of run comes first, whatever else follows from it.
TEST(CompareSettings, TheKindOfRunIsNamedBeforeItsNumbers) {
  TrainSettings s = sample();
  s.optimizer = update_config(UpdateRule::sgd);
  s.seq = 17, s.batch = 5;
  s.async = AsyncSettings{.rule = {.workers = 3}, .replay = {}};
  RunIdentity other = kIdentity;
  other.data = "11 tokens";
  std::vector<std::string> names;
  for (const std::string& text : change_to(s, other).refused) names.push_back(text.substr(0, text.find(':')));
  EXPECT_EQ(names, (std::vector<std::string>{"data", "--optimizer", "--async-rule", "--workers", "--seq", "--batch",
                                             "--momentum", "--beta1", "--beta2", "--epsilon"}));
}

TEST(CompareSettings, TheSameCommandGoesOnSilently) {
  const SettingsChange c = change_to(sample());
  EXPECT_TRUE(c.refused.empty());
  EXPECT_TRUE(c.warned.empty());
}

TEST(CompareSettings, RefusesByNameWhatMakesAnotherRun) {
  const auto refuses = [](auto change, const std::string& name) {
    TrainSettings s = sample();
    change(s);
    const SettingsChange c = change_to(s);
    ASSERT_EQ(c.refused.size(), 1u) << name;
    EXPECT_TRUE(c.refused[0].starts_with("--" + name + ":")) << c.refused[0];
  };
  refuses([](TrainSettings& s) { s.seq = 128; }, "seq");
  refuses([](TrainSettings& s) { s.batch = 16; }, "batch");
  refuses([](TrainSettings& s) { s.seed = 2; }, "seed");
  refuses([](TrainSettings& s) { s.shuffle = false; }, "shuffle");
  refuses([](TrainSettings& s) { s.dtype = DType::bf16; }, "dtype");
  refuses([](TrainSettings& s) { s.schedule.peak = 2e-3; }, "learning-rate");
  refuses([](TrainSettings& s) { s.schedule.kind = LearningRateKind::linear; }, "schedule");
  refuses([](TrainSettings& s) { s.optimizer.set_option("weight-decay", 0); }, "weight-decay");
  refuses([](TrainSettings& s) { s.optimizer.set_option("beta2", 0.99); }, "beta2");
  refuses([](TrainSettings& s) { s.optimizer.clip = 0; }, "clip");
  refuses([](TrainSettings& s) { s.schedule.total_steps = 39; }, "steps");
}

TEST(CompareSettings, RefusesOtherModelDataAndTokenizer) {
  EXPECT_EQ(change_to(sample(), {"config 2", "tokenizer 1", "10 tokens"}).refused.size(), 1u);
  EXPECT_EQ(change_to(sample(), {"config 1", "tokenizer 2", "10 tokens"}).refused.size(), 1u);
  EXPECT_EQ(change_to(sample(), {"config 1", "tokenizer 1", "11 tokens"}).refused.size(), 1u);
}

TEST(CompareSettings, WarnsOfWhatOnlyTouchesBits) {
  TrainSettings s = sample();
  s.micro_batch = 8;
  s.multiply = Multiply::exact;
  s.schedule.total_steps = 200;
  const SettingsChange c = change_to(s, kIdentity, {{"tern", "0.1.0"}, {"threads", "4"}});
  EXPECT_TRUE(c.refused.empty());
  EXPECT_EQ(c.warned.size(), 4u);
}

TEST(CompareSettings, SaysNothingOfWhatChangesNoBit) {
  TrainSettings s = sample();
  s.recompute = Recompute::full;
  s.log_every = 1, s.eval_every = 7, s.checkpoint_every = 3, s.keep_checkpoints = 9;
  const SettingsChange c = change_to(s);
  EXPECT_TRUE(c.refused.empty());
  EXPECT_TRUE(c.warned.empty());
}

TEST(RecipeFacts, AreWhatRanksNeedAlike) {
  const Facts facts = recipe_facts(
      "# a comment = 1\nmodel = \"/a/config.json\"\noutput = \".\"  # here\nsteps = 60  # --steps\nschedule = "
      "\"cosine\"  # default\n"
      "threads = 1\ndata = [\"/a/b\", \"/a/c\"]\nshuffle = true");
  const Facts wanted = {
      {"model", "a path"}, {"steps", "60"}, {"schedule", "cosine"}, {"data", "a path"}, {"shuffle", "true"}};
  EXPECT_EQ(facts, wanted);
  EXPECT_TRUE(recipe_facts("").empty());
}

}  // namespace
}  // namespace tern
