// tern train --async: what is taken, and what is refused by name.
#include <gtest/gtest.h>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

TEST(AsyncOptions, WhatIsGivenIsWhatIsMeant) {
  EXPECT_FALSE(settings_of_words({}).async);
  const TrainSettings s = settings_of_words({"--async", "--workers", "4", "--momentum", "0.8"});
  EXPECT_EQ(s.async->rule.rule, AsyncRule::ormo);
  EXPECT_EQ(s.async->rule.workers, 4);
  EXPECT_EQ(s.async->rule.momentum, 0.8);
  EXPECT_EQ(s.optimizer.rule, UpdateRule::sgd);
  EXPECT_EQ(s.ranks, 1);
  const TrainSettings plain = settings_of_words({"--async", "--workers", "4", "--async-rule", "asgd"});
  EXPECT_EQ(plain.optimizer.option("momentum"), 0);
  EXPECT_EQ(settings_of_words({"--async", "--workers", "4", "--ranks", "5"}).ranks, 1) << "a launcher's processes";
}

TEST(AsyncOptions, TheRecipeReadsBack) {
  const std::string plain = settings_of_words({}).recipe_toml;
  EXPECT_EQ(plain.find("workers"), std::string::npos);
  EXPECT_EQ(plain.find("async-rule"), std::string::npos);
  const std::string text = settings_of_words({"--async", "--workers", "4", "--async-rule", "asgd"}).recipe_toml;
  EXPECT_NE(text.find("optimizer = \"sgd\"  # --async"), std::string::npos) << text;
  EXPECT_NE(text.find("momentum = 0.0  # --async-rule asgd"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nranks"), std::string::npos) << text;
}

TEST(AsyncOptions, ContradictionsAreRefusedByName) {
  const auto begins = [](std::vector<std::string> words, const std::string& with) {
    EXPECT_TRUE(refusal_of_words(words).starts_with(with)) << refusal_of_words(words);
  };
  begins({"--workers", "3"}, "--workers: without --async");
  begins({"--async-rule", "asgd"}, "--async-rule: without --async");
  begins({"--replay", "x"}, "--replay: without --async");
  begins({"--async"}, "--workers: missing");
  const auto async_begins = [&](std::vector<std::string> words, const std::string& with) {
    words.insert(words.begin(), {"--async", "--workers", "4"});
    begins(words, with);
  };
  async_begins({"--ranks", "4"}, "--ranks 4: --async has a server and 4 workers");
  async_begins({"--sum-groups", "2"}, "--sum-groups: --async");
  async_begins({"--aggregator", "median"}, "--aggregator: --async");
  async_begins({"--trace", "x.json"}, "--trace: --async");
  async_begins({"--zero", "1"}, "--zero 1: the server");
  async_begins({"--optimizer", "adamw"}, "--optimizer adamw: what comes late");
  async_begins({"--dtype", "bf16"}, "--dtype bf16: --async");
  async_begins({"--async-rule", "asgd", "--momentum", "0.5"}, "--momentum 0.5: --async-rule asgd");
  async_begins({"--momentum", "1"}, "--momentum: 1");
}

}  // namespace
}  // namespace tern
