// tern train --outer: what each kind reads, and what is refused by name.
#include <gtest/gtest.h>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

TrainSettings settings_on_four_ranks(std::vector<std::string> words) {
  words.insert(words.begin(), {"--ranks", "4"});
  return settings_of_words(std::move(words));
}
std::string refusal_on_four_ranks(const std::vector<std::string>& words) {
  return refusal_of([&] { settings_on_four_ranks(words); });
}

TEST(OuterOptions, EachKindHasItsOwnNumbers) {
  EXPECT_FALSE(settings_on_four_ranks({}).outer);
  const OuterConfig local =
      *settings_on_four_ranks({"--outer", "local-sgd", "--outer-every", "10", "--outer-codec", "int4"}).outer;
  EXPECT_EQ(local.every, 10);
  EXPECT_EQ(local.rate, 1);
  EXPECT_EQ(local.momentum, 0);
  EXPECT_EQ(local.codec, OuterCodec::int4);
  const OuterConfig diloco = *settings_on_four_ranks({"--outer", "diloco"}).outer;
  EXPECT_EQ(diloco.every, 500);
  EXPECT_EQ(diloco.rate, 0.7);
  EXPECT_EQ(diloco.momentum, 0.9);
  EXPECT_EQ(diloco.fragments, 1);
  EXPECT_EQ(diloco.delay, 0);
  EXPECT_EQ(diloco.mix, 0);
  const OuterConfig streaming = *settings_on_four_ranks({"--outer", "diloco", "--outer-fragments", "3", "--outer-delay",
                                                         "5", "--outer-mix", "0.5"})
                                     .outer;
  EXPECT_EQ(streaming.fragments, 3);
  EXPECT_EQ(streaming.delay, 5);
  EXPECT_EQ(streaming.mix, 0.5);
  const OuterConfig pairs = *settings_on_four_ranks({"--outer", "noloco", "--outer-delay", "2", "--seed", "9"}).outer;
  EXPECT_TRUE(pairs.pairs && !pairs.nesterov);
  EXPECT_EQ(pairs.rate, 0.7);
  EXPECT_EQ(pairs.momentum, 0.5);
  EXPECT_EQ(pairs.delay, 2);
  EXPECT_EQ(pairs.seed, 9u);
  const OuterConfig late =
      *settings_on_four_ranks({"--outer", "co2", "--outer-every", "48", "--outer-codec", "sign"}).outer;
  EXPECT_TRUE(!late.pairs && !late.nesterov);
  EXPECT_EQ(late.rate, 1);
  EXPECT_EQ(late.momentum, 0.5);
  EXPECT_EQ(late.delay, 48);
  EXPECT_EQ(late.codec, OuterCodec::sign);
  const OuterConfig factors =
      *settings_on_four_ranks({"--outer", "diloco", "--outer-codec", "powersgd", "--outer-rank", "2"}).outer;
  EXPECT_EQ(factors.codec, OuterCodec::power_sgd);
  EXPECT_EQ(factors.codec_rank, 2);
  const OuterConfig away = *settings_on_four_ranks({"--outer", "diloco", "--outer-away", "2@10-29,0@5-5"}).outer;
  ASSERT_EQ(away.away.size(), 2u);
  EXPECT_EQ(away.away[0].rank, 2);
  EXPECT_EQ(away.away[0].to, 29);
  EXPECT_EQ(away.away[1].from, 5);
}

TEST(OuterOptions, WhatSaysNothingOrContradictsIsRefusedByName) {
  EXPECT_TRUE(refusal_on_four_ranks({"--outer-every", "10"}).starts_with("--outer-every: without --outer"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "local-sgd", "--outer-rate", "0.5"})
                  .starts_with("--outer-rate: --outer local-sgd"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-momentum", "1"}).starts_with("--outer-momentum: 1"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-mix", "1"}).starts_with("--outer-mix: 1"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "noloco", "--outer-codec", "int8"})
                  .starts_with("--outer-codec: --outer noloco"));
  EXPECT_TRUE(
      refusal_on_four_ranks({"--outer", "co2", "--outer-delay", "3"}).starts_with("--outer-delay: --outer co2 counts"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-delay", "500"})
                  .starts_with("--outer-delay: 500, but an average"));
  EXPECT_TRUE(
      refusal_on_four_ranks({"--outer", "diloco", "--outer-rank", "2"}).starts_with("--outer-rank: of --outer-codec"));
  for (const char* wrong : {"2", "2@5", "2@5-4", "2@0-4", "-1@2-3", "2@5-9x", "2@5-9,", ""})
    EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-away", wrong}).find("outer-away") !=
                std::string::npos)
        << wrong;
  EXPECT_TRUE(
      refusal_on_four_ranks({"--outer", "diloco", "--outer-away", "4@1-2"}).starts_with("--outer-away: rank 4"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-away", "0@1-9,1@2-9,2@3-9,3@4-4"})
                  .starts_with("--outer-away: in step 4 all ranks are away"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--outer-rate", "0"}).starts_with("--outer-rate: 0"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--steps", "100"})
                  .starts_with("--outer-every: 500, but the run has 100"));
  EXPECT_TRUE(
      refusal_on_four_ranks({"--outer", "diloco", "--zero", "1"}).starts_with("--zero 1: each rank of --outer"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--tensor-parallel", "2"}).starts_with("--tensor-parallel:"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--aggregator", "median"}).starts_with("--aggregator:"));
  EXPECT_TRUE(refusal_on_four_ranks({"--outer", "diloco", "--optimizer", "schedule-free"})
                  .starts_with("--optimizer schedule-free"));
}

TEST(OuterOptions, TheRecipeHoldsWhatTheKindReads) {
  const std::string local = settings_on_four_ranks({"--outer", "local-sgd"}).recipe_toml,
                    plain = settings_on_four_ranks({}).recipe_toml;
  EXPECT_NE(local.find("outer-every = 500"), std::string::npos) << local;
  EXPECT_EQ(local.find("outer-rate"), std::string::npos) << local;
  EXPECT_EQ(plain.find("outer"), std::string::npos) << plain;
  const std::string late = settings_on_four_ranks({"--outer", "co2"}).recipe_toml;
  EXPECT_NE(late.find("outer-rate = 1.0"), std::string::npos) << late;
  EXPECT_NE(late.find("outer-momentum = 0.5"), std::string::npos) << late;
  EXPECT_EQ(late.find("outer-delay"), std::string::npos) << late;
  EXPECT_EQ(late.find("outer-rank"), std::string::npos) << late;
  const std::string plain_outer =
      settings_on_four_ranks({"--outer", "diloco", "--outer-rate", "1", "--outer-momentum", "0"}).recipe_toml;
  EXPECT_NE(plain_outer.find("outer-momentum = 0"), std::string::npos) << plain_outer;
}

}  // namespace
}  // namespace tern
