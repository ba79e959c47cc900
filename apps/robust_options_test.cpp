// tern train --aggregator: what is taken, and what is refused by name.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

TrainSettings settings_on_eight_ranks(std::vector<std::string> words) {
  if (std::ranges::count(words, "--ranks") == 0) words.insert(words.end(), {"--ranks", "8"});
  return settings_of_words(std::move(words));
}
std::string refusal_on_eight_ranks(const std::vector<std::string>& words) {
  return refusal_of([&] { settings_on_eight_ranks(words); });
}

TEST(RobustOptions, WhatIsGivenIsWhatIsMeant) {
  EXPECT_FALSE(settings_on_eight_ranks({}).robust);
  const RobustConfig c = *settings_on_eight_ranks({"--aggregator", "krum", "--byzantine", "2", "--local-momentum",
                                                   "0.9", "--attack", "alie"})
                              .robust;
  EXPECT_EQ(c.aggregator, Aggregator::krum);
  EXPECT_EQ(c.byzantine, 2);
  EXPECT_EQ(c.attackers, 2);
  EXPECT_EQ(c.local_momentum, 0.9);
  EXPECT_EQ(
      settings_on_eight_ranks({"--aggregator", "mean", "--attack", "bit-flip", "--attackers", "1"}).robust->attackers,
      1);
  EXPECT_EQ(settings_on_eight_ranks({"--aggregator", "median", "--byzantine", "1", "--mix", "buckets"}).robust->mixing,
            Mixing::buckets);
}

TEST(RobustOptions, TheRecipeReadsBack) {
  const std::string plain = settings_on_eight_ranks({}).recipe_toml;
  for (const char* name : {"byzantine", "mix", "local-momentum", "clip-radius", "attack"})
    EXPECT_EQ(plain.find(name), std::string::npos) << name;
  const std::string mean = settings_on_eight_ranks({"--aggregator", "mean"}).recipe_toml;
  EXPECT_NE(mean.find("aggregator = \"mean\""), std::string::npos) << mean;
  EXPECT_EQ(mean.find("clip-radius"), std::string::npos) << mean;
  EXPECT_NE(settings_on_eight_ranks({"--aggregator", "centered-clipping", "--byzantine", "1"})
                .recipe_toml.find("clip-radius = 1.0"),
            std::string::npos);
}

TEST(RobustOptions, ContradictionsAreRefusedByName) {
  const auto begins = [](const std::vector<std::string>& words, const std::string& with) {
    EXPECT_TRUE(refusal_on_eight_ranks(words).starts_with(with)) << refusal_on_eight_ranks(words);
  };
  for (const char* name : {"byzantine", "clip-radius", "attackers"})
    begins({"--" + std::string(name), "1"}, "--" + std::string(name) + ": without --aggregator");
  begins({"--local-momentum", "0.5"}, "--local-momentum: without --aggregator");
  begins({"--attack", "alie"}, "--attack: without --aggregator");
  begins({"--aggregator", "mean", "--mix", "nearest"}, "--mix: --aggregator mean has none");
  begins({"--aggregator", "krum", "--clip-radius", "2"}, "--clip-radius: --aggregator krum has none");
  begins({"--aggregator", "krum", "--attackers", "2"}, "--attackers: without --attack");
  begins({"--aggregator", "krum", "--attack", "garbage"}, "--attack garbage: nobody attacks");
  begins({"--aggregator", "mean", "--byzantine", "1"}, "--byzantine 1: the mean");
  begins({"--aggregator", "krum", "--byzantine", "3"}, "--byzantine 3: krum takes at least 9 vectors, 8 ranks");
  begins({"--aggregator", "median", "--byzantine", "4"}, "--byzantine 4: median");
  begins({"--aggregator", "median", "--zero", "1"}, "--aggregator median: --zero 1");
  begins({"--aggregator", "median", "--ranks", "1"}, "--aggregator median: there is one rank");
  begins({"--aggregator", "mean", "--local-momentum", "1"}, "--local-momentum: 1");
  begins({"--aggregator", "centered-clipping", "--clip-radius", "0"}, "--clip-radius: 0");
  begins({"--aggregator", "median", "--attack", "alie", "--attackers", "5", "--byzantine", "3"}, "--attackers 5: alie");
}

}  // namespace
}  // namespace tern
