// tern train --outer: what each kind reads, and what is refused by name.
#include <gtest/gtest.h>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

TrainSettings settings(std::vector<std::string> words) {
  words.insert(words.begin(), {"--ranks", "4"});
  return settings_of_words(std::move(words));
}
std::string refusal(const std::vector<std::string>& words) {
  return refusal_of([&] { settings(words); });
}

TEST(OuterOptions, EachKindHasItsOwnNumbers) {
  EXPECT_FALSE(settings({}).outer);
  const OuterConfig local = *settings({"--outer", "local-sgd", "--outer-every", "10", "--outer-codec", "int4"}).outer;
  EXPECT_EQ(local.every, 10);
  EXPECT_EQ(local.rate, 1);
  EXPECT_EQ(local.momentum, 0);
  EXPECT_EQ(local.codec, OuterCodec::int4);
  const OuterConfig diloco = *settings({"--outer", "diloco"}).outer;
  EXPECT_EQ(diloco.every, 500);
  EXPECT_EQ(diloco.rate, 0.7);
  EXPECT_EQ(diloco.momentum, 0.9);
  EXPECT_EQ(diloco.fragments, 1);
  EXPECT_EQ(diloco.delay, 0);
  EXPECT_EQ(diloco.mix, 0);
  const OuterConfig streaming =
      *settings({"--outer", "diloco", "--outer-fragments", "3", "--outer-delay", "5", "--outer-mix", "0.5"}).outer;
  EXPECT_EQ(streaming.fragments, 3);
  EXPECT_EQ(streaming.delay, 5);
  EXPECT_EQ(streaming.mix, 0.5);
}

TEST(OuterOptions, WhatSaysNothingOrContradictsIsRefusedByName) {
  EXPECT_TRUE(refusal({"--outer-every", "10"}).starts_with("--outer-every: without --outer"));
  EXPECT_TRUE(refusal({"--outer", "local-sgd", "--outer-rate", "0.5"}).starts_with("--outer-rate: --outer local-sgd"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--outer-momentum", "1"}).starts_with("--outer-momentum: 1"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--outer-mix", "1"}).starts_with("--outer-mix: 1"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--outer-rate", "0"}).starts_with("--outer-rate: 0"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--steps", "100"}).starts_with("--outer-every: 500, but the run has 100"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--zero", "1"}).starts_with("--zero 1: each rank of --outer"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--tensor-parallel", "2"}).starts_with("--tensor-parallel:"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--aggregator", "median"}).starts_with("--aggregator:"));
  EXPECT_TRUE(refusal({"--outer", "diloco", "--optimizer", "schedule-free"}).starts_with("--optimizer schedule-free"));
}

TEST(OuterOptions, TheRecipeHoldsWhatTheKindReads) {
  const std::string local = settings({"--outer", "local-sgd"}).recipe_toml, plain = settings({}).recipe_toml;
  EXPECT_NE(local.find("outer-every = 500"), std::string::npos) << local;
  EXPECT_EQ(local.find("outer-rate"), std::string::npos) << local;
  EXPECT_EQ(plain.find("outer"), std::string::npos) << plain;
}

}  // namespace
}  // namespace tern
