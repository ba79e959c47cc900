#include "apps/options.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "train/settings.h"

namespace tern {
namespace {

constexpr uint64_t kSeed = 20261121;

std::string error_of(std::string_view verb, const std::vector<std::string>& arguments,
                     const Environment& environment = {}) {
  try {
    resolve_options(tern_options(), verb, arguments, environment, false);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "";
}

TEST(Options, AnotherVerbsOptionOneLetterOffIsMeantHere) {
  EXPECT_NE(error_of("profile", {"--rank", "2"}).find("; did you mean '--ranks'? `"), std::string::npos);
  EXPECT_NE(error_of("profile", {"--prompt", "x"}).find("generate; `"), std::string::npos);
}

TEST(OptionTable, IsConsistent) {
  const OptionTable& table = tern_options();
  std::set<std::string> verbs;
  for (const VerbSpec& verb : table.verbs) {
    EXPECT_TRUE(verbs.insert(verb_key(verb.name)).second) << verb.name << " twice";
    EXPECT_FALSE(verb.summary.empty() || verb.summary.ends_with('.')) << verb.name;
  }
  std::map<std::string_view, OptionType> types;
  std::map<std::string, std::string_view> names_of_env;
  std::set<std::string> rows;
  for (const OptionSpec& option : table.options) {
    EXPECT_EQ(option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << option.name;
    EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << option.name << ": one line without a full stop";
    // One directory, but of a server several, each with a name, and of a combination all; one file, but for a report several.
    const bool several = (option.name == "adapter" && (option.verbs == "serve" || option.verbs == "adapt-combine")) ||
                         (option.name == "valid-data" && option.verbs == "quantize");
    if (!several) {
      EXPECT_EQ(types.emplace(option.name, option.type).first->second, option.type)
          << option.name << " has one type everywhere";
    }
    EXPECT_EQ(names_of_env.emplace(env_name(option), option.name).first->second, option.name)
        << env_name(option) << " means two options";
    EXPECT_EQ(option.type == OptionType::choice, !option.choices.empty()) << option.name;
    EXPECT_FALSE(option.verbs.empty()) << option.name;
    for (const std::string_view verb : split_words(option.verbs)) {
      EXPECT_TRUE(verbs.contains(std::string(verb))) << option.name << " names verb " << verb;
      EXPECT_TRUE(rows.insert(std::string(verb) + " " + std::string(option.name)).second)
          << option.name << " twice in " << verb;
    }
  }
  for (const EnvironmentSpec& variable : table.environment)
    EXPECT_FALSE(names_of_env.contains(std::string(variable.name))) << variable.name << " is an option too";
}

TEST(OptionTable, EveryDefaultIsAValidValue) {
  for (const VerbSpec& verb : tern_options().verbs) EXPECT_EQ(error_of(verb.name, {}), "") << verb.name;
}

// The list grows by decision: a new option is added to this file in the same change, and its reason to the change.
TEST(OptionTable, NamesAreThoseOfTheFrozenList) {
  std::string now;
  for (const VerbSpec& verb : tern_options().verbs) {
    now += verb.name;
    for (const OptionSpec* option : options_of(tern_options(), verb.name)) now.append(" --").append(option->name);
    now += '\n';
  }
  EXPECT_EQ(real_io().read(source_dir() + "/apps/options_frozen.txt"), now);
}

// One typing mistake: a letter lost, doubled, replaced or swapped with its neighbour.
std::string mistype(std::string_view name, uint64_t index) {
  const RngKey key{kSeed, hash_name(name)};
  const auto draw = [&](uint64_t i, uint64_t below) { return random_u64(key, 16 * index + i) % below; };
  std::string word(name);
  const size_t at = draw(1, word.size());
  switch (draw(0, 4)) {
    case 0:
      word.erase(at, 1);
      break;
    case 1:
      word.insert(at, 1, word[at]);
      break;
    case 2:
      word[at] = static_cast<char>('a' + draw(2, 26));
      break;
    default:
      if (at + 1 < word.size())
        std::swap(word[at], word[at + 1]);
      else
        word.erase(at, 1);
  }
  return word;
}

TEST(Typos, AllAreRejectedAndNineInTenGetTheRightSuggestion) {
  const OptionTable& table = tern_options();
  RecordProperty("seed", std::to_string(kSeed));
  struct Row {
    std::string_view verb, name;
  };
  std::vector<Row> rows;
  std::set<std::string> valid;
  for (const VerbSpec& verb : table.verbs) {
    for (const OptionSpec* option : options_of(table, verb.name)) {
      rows.push_back({verb.name, option->name});
      valid.emplace(option->name);
    }
    for (const PositionalSpec& positional : verb.positionals) valid.insert(lowercase(positional.name));
  }
  valid.insert("help");
  const std::string recipe = testing::TempDir() + "tern-typo-" + std::to_string(::getpid()) + ".toml";
  int num_typos = 0, num_rejected = 0, num_right = 0;
  std::string wrong;
  for (uint64_t i = 0; num_typos < 600; ++i) {
    const Row& row = rows[random_u64({kSeed, 1}, i) % rows.size()];
    const std::string typo = mistype(row.name, i);
    if (valid.contains(typo) || typo.empty() || typo.starts_with('-'))
      continue;  // another real name is no mistake we can see
    ++num_typos;
    std::string message, want;
    if (i % 3 == 0) {
      message = error_of(row.verb, {"--" + typo, "1"});
      want = "'--" + std::string(row.name) + "'";
    } else if (i % 3 == 1) {
      const std::string env = "TERN_" + replace_all(uppercase(typo), "-", "_");
      message = error_of(row.verb, {}, {{env, "1"}});
      want = "'TERN_" + replace_all(uppercase(row.name), "-", "_") + (row.name == "data" ? "_FILE'" : "'");
    } else {
      const VerbSpec& verb = find_verb(table, row.verb);
      if (!verb.takes_recipe) {
        --num_typos;
        continue;
      }
      real_io().create(recipe)->append("\"" + typo + "\" = 1\n");
      message = error_of(row.verb, {recipe});
      want = "'" + std::string(row.name) + "'";
      if (typo.find('-') == std::string::npos) want = replace_all(want, "-", "_");
    }
    num_rejected += !message.empty();
    const bool right = message.find("did you mean " + want) != std::string::npos;
    num_right += right;
    if (!right) wrong += typo + " for " + std::string(row.name) + ": " + message + "\n";
  }
  real_io().remove(recipe);
  EXPECT_EQ(num_rejected, num_typos) << "seed " << kSeed;
  EXPECT_GE(num_right, num_typos * 9 / 10) << "seed " << kSeed << "\n" << wrong;
  RecordProperty("right_of_600", num_right);
}

TEST(Typos, OfVerbsGetTheRightSuggestion) {
  const OptionTable& table = tern_options();
  int num_typos = 0, num_right = 0;
  for (const VerbSpec& verb : table.verbs)
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string typo = mistype(verb.name, i);
      if (typo.empty() || std::any_of(table.verbs.begin(), table.verbs.end(),
                                      [&](const VerbSpec& v) { return v.name == typo || verb_key(v.name) == typo; }))
        continue;
      ++num_typos;
      try {
        find_verb(table, typo);
        ADD_FAILURE() << typo;
      } catch (const Error& error) {
        num_right +=
            std::string(error.what()).find("did you mean '" + std::string(verb.name) + "'") != std::string::npos;
      }
    }
  EXPECT_GT(num_typos, 200);
  EXPECT_GE(num_right, num_typos * 9 / 10);
}

TEST(Help, EveryVerbShowsEveryOneOfItsFlagsWithItsVariable) {
  for (const VerbSpec& verb : tern_options().verbs) {
    const std::string help = help_topic(tern_options(), verb.name);
    for (const OptionSpec* option : options_of(tern_options(), verb.name)) {
      EXPECT_NE(help.find("  --" + std::string(option->name)), std::string::npos) << verb.name;
      // The row may be broken between the words, so compare without line breaks.
      std::string flat;
      for (const std::string_view word : split_words(help)) flat.append(word) += ' ';
      EXPECT_NE(flat.find(env_name(*option) + ")"), std::string::npos) << verb.name << " " << option->name;
    }
    for (const std::string_view line : split(help, '\n')) EXPECT_LE(line.size(), 122u) << line;
  }
}

TEST(Help, TopicsExistAndAMistypedOneIsSuggested) {
  for (const char* topic : {"exit-codes", "environment", "files", "recipes", "machines", "updates", "options"})
    EXPECT_GT(help_topic(tern_options(), topic).size(), 200u) << topic;
  EXPECT_NE(help_topic(tern_options(), "environment").find("TERN_LOG"), std::string::npos);
  try {
    help_topic(tern_options(), "exit-code");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no help on 'exit-code'; did you mean 'exit-codes'? `tern help` lists verbs and topics");
  }
}

TEST(ConfigShow, PrintsValueAndOriginOfEveryKey) {
  const std::string text = show_config(tern_options(), {"show", "train", "--steps", "7"}, {{"TERN_SEQ", "64"}});
  EXPECT_NE(text.find("steps"), std::string::npos);
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split_words(line);
    if (words.empty()) continue;
    if (words[0] == "steps") { EXPECT_EQ(line.substr(line.size() - 12), "command line") << line; }
    if (words[0] == "seq") { EXPECT_TRUE(line.ends_with("environment TERN_SEQ")) << line; }
    if (words[0] == "batch") { EXPECT_TRUE(words[1] == "32" && line.ends_with("default")) << line; }
    if (words[0] == "memory") { EXPECT_TRUE(words[1] == "-" && line.ends_with("not set")) << line; }
  }
  EXPECT_EQ(show_config(tern_options(), {"show", "--steps", "7"}, {}),
            show_config(tern_options(), {"show", "train", "--steps", "7"}, {}));
  EXPECT_NE(show_config(tern_options(), {"show", "generate", "--stop", "a", "--json"}, {})
                .find("\"stop\": {\n      \"value\": [\n"),
            std::string::npos);
  EXPECT_THROW(show_config(tern_options(), {}, {}), Error);
  EXPECT_THROW(show_config(tern_options(), {"shwo"}, {}), Error);
  EXPECT_THROW(show_config(tern_options(), {"show", "trian"}, {}), Error);
}

TEST(ConfigShow, ShowsWhatHoldsWhereTheVerbDerivesIt) {
  const auto show = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"show", "train", "--json"});
    return parse_json(show_config(tern_options(), more, {}), "config")["options"];
  };
  Json options = show({"--steps", "70", "--learning-rate", "3", "--schedule", "wsd"});
  EXPECT_EQ(options["warmup-steps"]["value"], 7);
  EXPECT_EQ(options["warmup-steps"]["origin"], "derived: a tenth of --steps, as the run is short");
  EXPECT_EQ(options["decay-steps"]["value"], 7);
  EXPECT_EQ(options["micro-batch"]["value"], options["batch"]["value"]);
  EXPECT_EQ(options["min-learning-rate"]["value"].dump(), "0.3") << "not 0.30000000000000004";
  options = show({"--steps", "70", "--warmup-steps", "30"});
  EXPECT_EQ(options["warmup-steps"]["value"], 30);
  EXPECT_EQ(options["warmup-steps"]["origin"], "command line");
  EXPECT_TRUE(options["decay-steps"]["value"].is_null()) << "cosine has none";
  EXPECT_EQ(show({"--steps", "7000"})["warmup-steps"]["origin"], "default");
}

// Of a recipe that is tried with few steps the warm-up alone would make the run impossible.
TEST(ConfigShow, AShortRunOfARecipeHasAShorterWarmup) {
  const std::string path = testing::TempDir() + "tern-warmup-recipe.toml";
  write_file_atomically(real_io(), path, std::string_view("model = \"MODEL\"\nsteps = 60\nwarmup-steps = 10\n"));
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {path, "--dry-run"});
    return resolve_options(tern_options(), "train", more, {});
  };
  const auto warmup = [&](const std::vector<std::string>& more) {
    return train_settings(of(more)).schedule.warmup_steps;
  };
  EXPECT_EQ(warmup({}), 10);
  EXPECT_EQ(warmup({"--steps", "10"}), 10);
  EXPECT_EQ(warmup({"--steps", "9"}), 0);
  EXPECT_EQ(overruled_options(of({"--steps", "9"})),
            std::vector<std::string>{
                "--warmup-steps 0: a tenth of --steps, as the 10 of the recipe are more than the run has"});
  EXPECT_EQ(overruled_options(of({"--steps", "10"})), std::vector<std::string>{});
  EXPECT_NE(train_settings(of({"--steps", "9"})).recipe_toml.find("warmup-steps = 0  # a tenth of --steps"),
            std::string::npos)
      << "which the run's own recipe says, so that it goes on with the same bits";
  EXPECT_THROW(warmup({"--steps", "9", "--warmup-steps", "10"}), Error) << "both were asked for";
  write_file_atomically(real_io(), path, std::string_view("model = \"MODEL\"\nsteps = 9\nwarmup-steps = 10\n"));
  EXPECT_THROW(warmup({}), Error) << "the recipe contradicts itself";
}

}  // namespace
}  // namespace tern
