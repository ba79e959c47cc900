// tern train --optimizer: each rule's own defaults, and flags that would say nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>

#include "apps/train_options_testing.h"
#include "base/io.h"
#include "base/text.h"
#include "spec/update_words.h"

namespace tern {
namespace {

TEST(OptimizerOptions, EachRuleHasItsOwnDefaults) {
  for (const UpdateRule rule : kUpdateRules) {
    const UpdateConfig want = update_config(rule),
                       got = settings_of_words({"--optimizer", std::string(name_of(rule))}).optimizer;
    EXPECT_EQ(got.rule, rule);
    EXPECT_EQ(got.options, want.options) << name_of(rule);
    EXPECT_EQ(got.clip, want.clip) << name_of(rule);
  }
  EXPECT_EQ(settings_of_words({"--optimizer", "lion"}).optimizer.option("beta2"), 0.99);
  EXPECT_EQ(settings_of_words({}).optimizer.option("beta2"), 0.95);
  EXPECT_EQ(settings_of_words({"--optimizer", "lion", "--beta2", "0.5"}).optimizer.option("beta2"), 0.5);
  EXPECT_EQ(settings_of_words({"--optimizer", "meqmuon", "--clip", "2"}).optimizer.clip, 2);
}

TEST(OptimizerOptions, EveryFlagThatSaysNothingForTheRuleIsRefusedByName) {
  int refused = 0;
  for (const UpdateRule rule : kUpdateRules)
    for (const UpdateRule other : kUpdateRules)
      for (const RuleOption& o : row_of(other).options) {
        const bool own = std::ranges::count(row_of(rule).options, o.name, &RuleOption::name) > 0;
        const std::string flag = "--" + std::string(o.name);
        const std::string text =
            refusal_of_words({"--optimizer", std::string(name_of(rule)), flag, o.counts ? "7" : "0.5"});
        EXPECT_EQ(text == "taken", own) << name_of(rule) << " " << text;
        if (own) continue;
        ++refused;
        EXPECT_TRUE(text.starts_with(flag + ":")) << text;
        EXPECT_NE(
            text.find("--optimizer " + std::string(name_of(rule)) + " has none, it reads " + flags_of(rule) + " ("),
            std::string::npos)
            << text;
      }
  EXPECT_GT(refused, 50);
  EXPECT_TRUE(refusal_of_words({"--optimizer", "sngm", "--clip", "1"}).starts_with("--clip:"));
  EXPECT_TRUE(refusal_of_words({"--optimizer", "lion", "--beta1", "1"}).starts_with("--beta1:"));
  for (const char* value : {"0", "2.5"})
    EXPECT_TRUE(refusal_of_words({"--optimizer", "soap", "--basis-every", value}).starts_with("--basis-every:"))
        << value;
  // With all of the velocity kept and nothing of the gradient, Muon's matrices would never move.
  EXPECT_TRUE(refusal_of_words({"--optimizer", "muon", "--momentum", "1"}).starts_with("--momentum:"));
}

// On either side of the open end the message is the same, with the whole range.
TEST(OptimizerOptions, AShareThatIsNotBelowOneIsRefusedInOneSentence) {
  const std::vector<std::vector<std::string>> shares{{"--optimizer", "sgd", "--momentum"},
                                                     {"--beta1"},
                                                     {"--optimizer", "lion", "--beta2"},
                                                     {"--ranks", "4", "--aggregator", "median", "--local-momentum"},
                                                     {"--ranks", "4", "--outer", "diloco", "--outer-momentum"},
                                                     {"--ranks", "4", "--outer", "diloco", "--outer-mix"},
                                                     {"--async", "--workers", "2", "--momentum"}};
  for (std::vector<std::string> words : shares)
    for (const char* value : {"1", "1.5", "-0.1"}) {
      const std::string want = words.back() + ": " + value + "; expected 0 up to, but not, 1";
      std::vector<std::string> all = words;
      all.push_back(value);
      EXPECT_EQ(refusal_of_words(all), want);
    }
}

TEST(OptimizerOptions, ARefusalNamesTheVariableOrTheRecipeThatSaysIt) {
  const auto refused = [](const std::vector<std::string>& words, const Environment& environment) {
    return refusal_of([&] { train_settings(resolve_options(tern_options(), "train", words, environment, false)); });
  };
  EXPECT_TRUE(refused({"MODEL", "--dry-run", "--optimizer", "sngm"}, {{"TERN_BETA1", "0.5"}})
                  .starts_with("--beta1 (of TERN_BETA1): --optimizer sngm has none, it reads --momentum, --epsilon, "
                               "--weight-decay ("));
  EXPECT_TRUE(refused({"MODEL", "--dry-run"}, {{"TERN_BYZANTINE", "1"}})
                  .starts_with("--byzantine (of TERN_BYZANTINE): without --aggregator"));
  EXPECT_TRUE(refused({"MODEL", "--dry-run"}, {{"TERN_OUTER_EVERY", "9"}})
                  .starts_with("--outer-every (of TERN_OUTER_EVERY): without --outer"));
  EXPECT_TRUE(refused({"MODEL", "--dry-run"}, {{"TERN_WORKERS", "3"}})
                  .starts_with("--workers (of TERN_WORKERS): without --async"));
  EXPECT_TRUE(refused({"MODEL", "--dry-run"}, {{"TERN_PERTURBATION", "1"}})
                  .starts_with("--perturbation (of TERN_PERTURBATION): only"));
  const std::string recipe = testing::TempDir() + "tern-optimizer-" + std::to_string(::getpid()) + ".toml";
  write_file_atomically(real_io(), recipe, "model = \"m\"\noptimizer = \"lion\"\n[train]\nmomentum = 0.9\n");
  EXPECT_TRUE(refused({recipe, "--dry-run"}, {}).starts_with("--momentum (of " + recipe + ":4): --optimizer lion"))
      << refused({recipe, "--dry-run"}, {});
  real_io().remove(recipe);
}

TEST(OptimizerOptions, TheHelpOfUpdatesHasEveryRuleItsFlagsItsStateAndItsRates) {
  const std::string help = help_topic(tern_options(), "updates");
  for (const UpdateRule rule : kUpdateRules) {
    const size_t begin = help.find(fmt::format("\n  {}\n", name_of(rule)));
    ASSERT_NE(begin, std::string::npos) << name_of(rule);
    const std::string about = help.substr(begin, help.find("\n\n", begin + 1) - begin);
    for (const RuleOption& o : row_of(rule).options)
      EXPECT_NE(about.find(fmt::format("--{} {}", o.name, o.fallback)), std::string::npos) << about;
    EXPECT_EQ(about.find("--clip") != std::string::npos, !row_of(rule).clip.empty()) << about;
    EXPECT_GT(rate_words(rule).size(), 20u) << name_of(rule);
    EXPECT_NE(about.find("rates  "), std::string::npos) << about;
  }
  for (const char* state :
       {"  adamw\n    reads  --beta1 0.9, --beta2 0.95, --epsilon 1e-8, --weight-decay 0.1, --clip 1.0\n"
        "    state  8 / 8 / 8\n",
        "    state  2.004 / 8 / 8\n", "    state  4 / 8 / 8\n", "    state  24 / 8 / 8\n"})
    EXPECT_NE(help.find(state), std::string::npos) << state << help;
  for (const std::string_view line : split(help, '\n')) EXPECT_LE(line.size(), 110u) << line;
  EXPECT_NE(refusal_of_words({"--gradients", "zeroth-order"}).find("arXiv:2305.17333"), std::string::npos);
}

TEST(OptimizerOptions, ZerothOrderIsPlainSgdUnlessSaidAndRefusesWhatNeedsGradients) {
  const std::vector<std::string> asked{"--gradients", "zeroth-order", "--learning-rate", "1e-6"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), asked.begin(), asked.end());
    return words;
  };
  EXPECT_FALSE(settings_of_words({}).perturbation);
  const TrainSettings s = settings_of_words(asked);
  EXPECT_EQ(s.perturbation, 1e-3);
  EXPECT_EQ(s.optimizer.rule, UpdateRule::sgd);
  EXPECT_EQ(s.optimizer.option("momentum"), 0);
  EXPECT_EQ(s.optimizer.clip, 0);
  EXPECT_NE(s.recipe_toml.find("gradients = \"zeroth-order\""), std::string::npos) << s.recipe_toml;
  EXPECT_NE(s.recipe_toml.find("momentum = 0.0  # --gradients zeroth-order"), std::string::npos) << s.recipe_toml;
  EXPECT_EQ(settings_of_words(with({"--optimizer", "adamw"})).optimizer.clip, 0);
  EXPECT_EQ(settings_of_words(with({"--momentum", "0.9"})).optimizer.option("momentum"), 0.9);
  EXPECT_TRUE(settings_of_words(with({"--states", "disk"})).states_on_disk);
  EXPECT_TRUE(refusal_of_words({"--perturbation", "1e-2"}).starts_with("--perturbation:"));
  EXPECT_NE(refusal_of_words({"--gradients", "zeroth-order"}).find("--learning-rate"), std::string::npos);
  const std::vector<std::vector<std::string>> refused{{"--clip", "1"},           {"--ranks", "2"},
                                                      {"--recompute", "full"},   {"--update-in-backward"},
                                                      {"--optimizer", "sngm"},   {"--optimizer", "schedule-free"},
                                                      {"--aggregator", "median"}};
  for (const std::vector<std::string>& words : refused)
    EXPECT_NE(refusal_of_words(with(words)), "taken") << words.front() << " " << words.back();
  EXPECT_TRUE(refusal_of_words(with({"--states", "disk", "--dtype", "bf16"})).starts_with("--states disk:"));
}

// The recipe that is written says every number that the rule reads, and nothing that it does not.
TEST(OptimizerOptions, TheRecipeHoldsTheRulesNumbersAndNoOthers) {
  const std::string sngm = settings_of_words({"--optimizer", "sngm"}).recipe_toml;
  EXPECT_NE(sngm.find("momentum = 0.9  # the default of --optimizer sngm"), std::string::npos) << sngm;
  EXPECT_NE(sngm.find("weight-decay = 1e-4"), std::string::npos) << sngm;
  EXPECT_EQ(sngm.find("clip"), std::string::npos) << sngm;
  EXPECT_EQ(sngm.find("beta1"), std::string::npos) << sngm;
  const std::string lion = settings_of_words({"--optimizer", "lion", "--beta1", "0.8"}).recipe_toml;
  EXPECT_NE(lion.find("beta1 = 0.8"), std::string::npos) << lion;
  EXPECT_NE(lion.find("beta2 = 0.99  # the default of --optimizer lion"), std::string::npos) << lion;
  EXPECT_NE(lion.find("clip = 1.0"), std::string::npos) << lion;
}

}  // namespace
}  // namespace tern
