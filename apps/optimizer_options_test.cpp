// tern train --optimizer: each rule's own defaults, and flags that would say nothing.
#include <gtest/gtest.h>

#include "apps/train_options_testing.h"

namespace tern {
namespace {

TrainSettings settings(std::vector<std::string> words) { return settings_of_words(std::move(words)); }
std::string refusal(const std::vector<std::string>& words) {
  return refusal_of([&] { settings(words); });
}

TEST(OptimizerOptions, EachRuleHasItsOwnDefaults) {
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig want = update_config(rule),
                       got = settings({"--optimizer", std::string(name_of(rule))}).optimizer;
    EXPECT_EQ(got.rule, rule);
    EXPECT_EQ(got.options, want.options) << name_of(rule);
    EXPECT_EQ(got.clip, want.clip) << name_of(rule);
  }
  EXPECT_EQ(settings({"--optimizer", "lion"}).optimizer.option("beta2"), 0.99);
  EXPECT_EQ(settings({}).optimizer.option("beta2"), 0.95);
  EXPECT_EQ(settings({"--optimizer", "lion", "--beta2", "0.5"}).optimizer.option("beta2"), 0.5);
  EXPECT_EQ(settings({"--optimizer", "meqmuon", "--clip", "2"}).optimizer.clip, 2);
}

TEST(OptimizerOptions, EveryFlagThatSaysNothingForTheRuleIsRefusedByName) {
  int refused = 0;
  for (const UpdateRule rule : kUpdateRules)
    for (const UpdateRule other : kUpdateRules)
      for (const RuleOption& o : row_of(other).options) {
        const bool own = std::ranges::count(row_of(rule).options, o.name, &RuleOption::name) > 0;
        const std::string flag = "--" + std::string(o.name);
        const std::string text = refusal({"--optimizer", std::string(name_of(rule)), flag, o.counts ? "7" : "0.5"});
        EXPECT_EQ(text == "taken", own) << name_of(rule) << " " << text;
        if (own) continue;
        ++refused;
        EXPECT_TRUE(text.starts_with(flag + ":")) << text;
        EXPECT_NE(text.find("--optimizer " + std::string(name_of(rule)) + " has none"), std::string::npos) << text;
      }
  EXPECT_GT(refused, 50);
  EXPECT_TRUE(refusal({"--optimizer", "sngm", "--clip", "1"}).starts_with("--clip:"));
  EXPECT_TRUE(refusal({"--optimizer", "lion", "--beta1", "1"}).starts_with("--beta1:"));
  for (const char* value : {"0", "2.5"})
    EXPECT_TRUE(refusal({"--optimizer", "soap", "--basis-every", value}).starts_with("--basis-every:")) << value;
  // With all of the velocity kept and nothing of the gradient, Muon's matrices would never move.
  EXPECT_TRUE(refusal({"--optimizer", "muon", "--momentum", "1"}).starts_with("--momentum:"));
}

TEST(OptimizerOptions, ZerothOrderIsPlainSgdUnlessSaidAndRefusesWhatNeedsGradients) {
  const std::vector<std::string> asked{"--gradients", "zeroth-order", "--learning-rate", "1e-6"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), asked.begin(), asked.end());
    return words;
  };
  EXPECT_FALSE(settings({}).perturbation);
  const TrainSettings s = settings(asked);
  EXPECT_EQ(s.perturbation, 1e-3);
  EXPECT_EQ(s.optimizer.rule, UpdateRule::sgd);
  EXPECT_EQ(s.optimizer.option("momentum"), 0);
  EXPECT_EQ(s.optimizer.clip, 0);
  EXPECT_NE(s.recipe_toml.find("gradients = \"zeroth-order\""), std::string::npos) << s.recipe_toml;
  EXPECT_NE(s.recipe_toml.find("momentum = 0.0  # --gradients zeroth-order"), std::string::npos) << s.recipe_toml;
  EXPECT_EQ(settings(with({"--optimizer", "adamw"})).optimizer.clip, 0);
  EXPECT_EQ(settings(with({"--momentum", "0.9"})).optimizer.option("momentum"), 0.9);
  EXPECT_TRUE(settings(with({"--states", "disk"})).states_on_disk);
  EXPECT_TRUE(refusal({"--perturbation", "1e-2"}).starts_with("--perturbation:"));
  EXPECT_NE(refusal({"--gradients", "zeroth-order"}).find("--learning-rate"), std::string::npos);
  const std::vector<std::vector<std::string>> refused{{"--clip", "1"},           {"--ranks", "2"},
                                                      {"--recompute", "full"},   {"--update-in-backward"},
                                                      {"--optimizer", "sngm"},   {"--optimizer", "schedule-free"},
                                                      {"--aggregator", "median"}};
  for (const std::vector<std::string>& words : refused)
    EXPECT_NE(refusal(with(words)), "taken") << words.front() << " " << words.back();
  EXPECT_TRUE(refusal(with({"--states", "disk", "--dtype", "bf16"})).starts_with("--states disk:"));
}

// The recipe that is written says every number that the rule reads, and nothing that it does not.
TEST(OptimizerOptions, TheRecipeHoldsTheRulesNumbersAndNoOthers) {
  const std::string sngm = settings({"--optimizer", "sngm"}).recipe_toml;
  EXPECT_NE(sngm.find("momentum = 0.9  # the default of --optimizer sngm"), std::string::npos) << sngm;
  EXPECT_NE(sngm.find("weight-decay = 1e-4"), std::string::npos) << sngm;
  EXPECT_EQ(sngm.find("clip"), std::string::npos) << sngm;
  EXPECT_EQ(sngm.find("beta1"), std::string::npos) << sngm;
  const std::string lion = settings({"--optimizer", "lion", "--beta1", "0.8"}).recipe_toml;
  EXPECT_NE(lion.find("beta1 = 0.8"), std::string::npos) << lion;
  EXPECT_NE(lion.find("beta2 = 0.99  # the default of --optimizer lion"), std::string::npos) << lion;
  EXPECT_NE(lion.find("clip = 1.0"), std::string::npos) << lion;
}

}  // namespace
}  // namespace tern
