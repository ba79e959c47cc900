#include "base/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "base/bug.h"
#include "base/error.h"
#include "base/io.h"

namespace tern {
namespace {

const OptionTable kTable = {
    .verbs = {{.name = "train",
               .summary = "Train",
               .positionals = {{"MODEL", "a model"}},
               .examples = {{"tern train m --steps 3", "an example"}},
               .takes_recipe = true},
              {.name = "generate", .summary = "Generate", .positionals = {{"MODEL", "a model"}}, .takes_recipe = true},
              {.name = "doctor", .summary = "Check"}},
    .options = {{.name = "steps",
                 .verbs = "train",
                 .type = OptionType::integer,
                 .fallback = "100",
                 .unit = "N",
                 .help = "how many",
                 .min = 1,
                 .max = 1000},
                {.name = "learning-rate",
                 .verbs = "train",
                 .type = OptionType::real,
                 .fallback = "3e-4",
                 .help = "rate",
                 .min = 0},
                {.name = "memory", .verbs = "train generate", .type = OptionType::bytes, .help = "limit"},
                {.name = "max-seconds", .verbs = "train", .type = OptionType::seconds, .help = "time"},
                {.name = "shuffle", .verbs = "train", .type = OptionType::toggle, .fallback = "on", .help = "order"},
                {.name = "dry-run", .verbs = "train", .type = OptionType::flag, .help = "nothing is written"},
                {.name = "dtype",
                 .verbs = "train generate",
                 .type = OptionType::choice,
                 .fallback = "f32",
                 .help = "type",
                 .choices = {"f32", "bf16"}},
                {.name = "data", .verbs = "train", .type = OptionType::path, .help = "data", .env = "TERN_DATA_FILE"},
                {.name = "prompt", .verbs = "generate", .type = OptionType::text, .help = "text"},
                {.name = "stop", .verbs = "generate", .type = OptionType::list, .help = "stops"}},
    .environment = {{"TERN_LOG", "level"}},
};

using Arguments = std::vector<std::string>;

Options train(const Arguments& arguments, const Environment& environment = {}) {
  return resolve_options(kTable, "train", arguments, environment);
}
Options generate(const Arguments& arguments, const Environment& environment = {}) {
  return resolve_options(kTable, "generate", arguments, environment);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "(no error)";
}

class RecipeTest : public testing::Test {
 protected:
  std::string recipe(const std::string& text, const std::string& ending = ".toml") {
    const std::string path =
        testing::TempDir() + "tern-recipe-" + std::to_string(::getpid()) + "-" + std::to_string(paths_.size()) + ending;
    real_io().create(path)->append(text);
    paths_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : paths_) real_io().remove(path);
  }
  std::vector<std::string> paths_;
};

TEST(Options, DefaultsHoldUntilSomethingIsGiven) {
  const Options o = train({"m"});
  EXPECT_EQ(o.positional("MODEL"), "m");
  EXPECT_EQ(o.integer("steps"), 100);
  EXPECT_DOUBLE_EQ(o.real("learning-rate"), 3e-4);
  EXPECT_TRUE(o.flag("shuffle"));
  EXPECT_FALSE(o.flag("dry-run"));
  EXPECT_EQ(o.text("dtype"), "f32");
  EXPECT_TRUE(o.has("steps"));
  EXPECT_FALSE(o.given("steps"));
  EXPECT_FALSE(o.has("memory"));
}

TEST(Options, EveryTypeIsReadFromTheCommandLine) {
  const Options o = train({"--steps", "5", "m", "--learning-rate=1e-3", "--memory", "2GiB", "--max-seconds", "10m",
                           "--shuffle", "off", "--dry-run", "--dtype", "bf16"});
  EXPECT_EQ(o.integer("steps"), 5);
  EXPECT_DOUBLE_EQ(o.real("learning-rate"), 1e-3);
  EXPECT_EQ(o.integer("memory"), int64_t{2} << 30);
  EXPECT_DOUBLE_EQ(o.real("max-seconds"), 600);
  EXPECT_FALSE(o.flag("shuffle"));
  EXPECT_TRUE(o.flag("dry-run"));
  EXPECT_EQ(o.text("dtype"), "bf16");
  EXPECT_EQ(o.positional("MODEL"), "m");
  EXPECT_TRUE(o.given("steps"));
  EXPECT_FALSE(train({"m", "--dry-run=off"}).flag("dry-run"));
}

TEST(Options, ValuesMayLookOdd) {
  EXPECT_EQ(generate({"m", "--prompt", ""}).text("prompt"), "");
  EXPECT_TRUE(generate({"m", "--prompt", ""}).has("prompt"));
  EXPECT_EQ(generate({"m", "--prompt=--steps"}).text("prompt"), "--steps");
  EXPECT_EQ(generate({"m", "--prompt", "-5"}).text("prompt"), "-5");
  EXPECT_EQ(generate({"m", "--prompt", "-"}).text("prompt"), "-");
  EXPECT_EQ(generate({"--", "--m"}).positional("MODEL"), "--m");
  EXPECT_EQ(generate({"-"}).positional("MODEL"), "-");
  EXPECT_EQ(generate({"m", "--stop", "a,b", "--stop", "c"}).list("stop"), (Arguments{"a,b", "c"}));
}

TEST_F(RecipeTest, CommandLineBeatsEnvironmentBeatsRecipeBeatsDefault) {
  const std::string path = recipe("steps = 7\nlearning_rate = 0.5\nmodel = \"r\"\ndry-run = true\nmemory = 1024\n");
  const Environment environment = {{"TERN_STEPS", "8"}, {"TERN_DTYPE", "bf16"}, {"HOME", "/"}};
  Options o = train({path, "--steps", "9"}, environment);
  EXPECT_EQ(o.integer("steps"), 9);
  EXPECT_EQ(o.value("steps").origin, Origin::command_line);
  EXPECT_EQ(o.value("dtype").where, "TERN_DTYPE");
  EXPECT_DOUBLE_EQ(o.real("learning-rate"), 0.5);
  EXPECT_EQ(o.value("learning-rate").where, path + ":2: learning_rate");
  EXPECT_EQ(o.positional("MODEL"), "r");
  EXPECT_TRUE(o.flag("dry-run"));
  EXPECT_EQ(o.integer("memory"), 1024);
  EXPECT_EQ(o.recipe(), path);
  o = train({path}, environment);
  EXPECT_EQ(o.integer("steps"), 8);
  o = train({path});
  EXPECT_EQ(o.integer("steps"), 7);
  EXPECT_EQ(o.value("shuffle").origin, Origin::fallback);
  EXPECT_EQ(train({path, "other"}).positional("MODEL"), "other");
}

TEST_F(RecipeTest, AVerbsTableIsStrongerAndOtherVerbsTablesAreTheirs) {
  const std::string path = recipe(
      "memory = \"1GiB\"\nmodel = \"m\"\n[generate]\nmemory = \"2GiB\"\nstop = [\"a\", \"b\"]\n[train]\nsteps = 5\n");
  EXPECT_EQ(train({path}).integer("memory"), int64_t{1} << 30);
  EXPECT_EQ(train({path}).integer("steps"), 5);
  const Options o = generate({path});
  EXPECT_EQ(o.integer("memory"), int64_t{2} << 30);
  EXPECT_EQ(o.list("stop"), (Arguments{"a", "b"}));
  EXPECT_EQ(generate({path, "--stop", "c"}).list("stop"), Arguments{"c"})
      << "the command line replaces a recipe's list";
  EXPECT_EQ(generate({path}, {{"TERN_STOP", "[\"x\",\"y\"]"}}).list("stop"), (Arguments{"x", "y"}));
}

TEST_F(RecipeTest, RelativePathsAreRelativeToTheRecipe) {
  const std::string folder = testing::TempDir() + "tern-recipe-folder-" + std::to_string(::getpid());
  make_dirs(real_io(), folder);
  const std::string path = join_path(folder, "r.toml");
  real_io().create(path)->append("model = \"config.json\"\ndata = \"../text.txt\"\n");
  EXPECT_EQ(train({path}).positional("MODEL"), "config.json") << "nothing beside the recipe: a name";
  real_io().create(join_path(folder, "config.json"))->append("{}");
  EXPECT_EQ(train({path}).positional("MODEL"), join_path(folder, "config.json"));
  EXPECT_EQ(train({path}).text("data"), join_path(folder, "../text.txt"));
  EXPECT_EQ(train({path, "--data", "text.txt"}).text("data"), "text.txt") << "the command line's own";
  EXPECT_EQ(train({path}, {{"TERN_DATA_FILE", "text.txt"}}).text("data"), "text.txt");
  real_io().create(path)->append("model = \"/a/config.json\"\ndata = \"/b\"\n");
  EXPECT_EQ(train({path}).positional("MODEL"), "/a/config.json");
  EXPECT_EQ(train({path}).text("data"), "/b");
  remove_all(real_io(), folder);
}

TEST_F(RecipeTest, ReadAsValuesForComparison) {
  const auto values = read_recipe_values(recipe("steps = 7\nmodel = \"m\"\n\n[generate]\nstop = [\"a\", \"b\"]\n"));
  const std::vector<std::pair<std::string, std::string>> want = {
      {"generate.stop", "a, b"}, {"model", "m"}, {"steps", "7"}};
  EXPECT_EQ(values, want);
}

TEST_F(RecipeTest, JsonRecipesMeanTheSame) {
  const std::string path =
      recipe(R"({"model": "m", "steps": 6, "shuffle": false, "generate": {"stop": ["q"]}})", ".json");
  EXPECT_EQ(train({path}).integer("steps"), 6);
  EXPECT_FALSE(train({path}).flag("shuffle"));
  EXPECT_NE(error_of([&] {
              train({recipe(R"({"model": "m", "stesp": 6})", ".json")});
            }).find("stesp: train has no option 'stesp'; did you mean 'steps'?"),
            std::string::npos);
}

TEST_F(RecipeTest, ConfigJsonIsAModelAndNoRecipe) {
  EXPECT_EQ(train({"dir/config.json"}).positional("MODEL"), "dir/config.json");
}

TEST_F(RecipeTest, UnknownKeysAndBadValuesAreErrors) {
  const auto error = [&](const std::string& text) {
    return error_of([&] { train({recipe("model = \"m\"\n" + text)}); });
  };
  EXPECT_NE(error("stepz = 5").find(":2: stepz: train has no option 'stepz'; did you mean 'steps'?"), std::string::npos)
      << error("stepz = 5");
  EXPECT_NE(error("learning_rat = 5").find("did you mean 'learning_rate'?"), std::string::npos);
  EXPECT_NE(error("prompt = \"x\"").find("belongs to generate"), std::string::npos);
  EXPECT_NE(error("[genrate]\nprompt = \"x\"")
                .find("no verb has the name of this table, 'genrate'; did you mean 'generate'?"),
            std::string::npos);
  EXPECT_NE(error("[generate]\nprompf = \"x\"").find("generate has no option 'prompf'; did you mean 'prompt'?"),
            std::string::npos);
  EXPECT_NE(error("steps = 2.5").find("'2.5' is not a whole number"), std::string::npos);
  EXPECT_NE(error("steps = [1, 2]").find("an array is given, one value is expected"), std::string::npos);
  EXPECT_NE(error("steps = 2026-01-01").find("a date or time"), std::string::npos);
  EXPECT_NE(error("steps = 5000").find("5000 is too large; it must be at most 1000"), std::string::npos);
  EXPECT_NE(error("learning-rate = 1\nlearning_rate = 2").find("given twice"), std::string::npos);
  EXPECT_NE(error("learning-rate = inf").find("not finite"), std::string::npos);
  EXPECT_THROW(train({recipe("steps = = 5")}), Error);
  EXPECT_THROW(train({"absent.toml"}), Error);
}

TEST(Options, WrongCommandLinesGetMessagesThatTeach) {
  EXPECT_EQ(error_of([] {
              train({"m", "--stpes", "5"});
            }),
            "train has no option --stpes; did you mean '--steps'? `tern help train` lists all options");
  EXPECT_EQ(error_of([] {
              train({"m", "--zzzzzz", "5"});
            }),
            "train has no option --zzzzzz; `tern help train` lists all options");
  EXPECT_EQ(error_of([] {
              train({"m", "-steps", "5"});
            }),
            "train has no option -steps; did you mean '--steps'? `tern help train` lists all options");
  EXPECT_EQ(error_of([] {
              train({"m", "--prompt", "x"});
            }),
            "train has no option --prompt: it belongs to generate; `tern help train` lists what there is");
  EXPECT_EQ(error_of([] { train({"m", "--steps"}); }), "--steps needs a value (N)");
  EXPECT_EQ(error_of([] {
              generate({"m", "--prompt", "--dtype"});
            }),
            "--prompt needs a value; if '--dtype' is meant, write --prompt=--dtype");
  EXPECT_EQ(error_of([] { train({"m", "--steps", "many"}); }), "--steps: 'many' is not a whole number");
  EXPECT_EQ(error_of([] { train({"m", "--steps", "0"}); }), "--steps: 0 is too small; it must be at least 1");
  EXPECT_EQ(error_of([] { train({"m", "--steps", "1", "--steps", "2"}); }), "--steps is given twice; keep one");
  EXPECT_EQ(error_of([] {
              train({"m", "--dtype", "bf61"});
            }),
            "--dtype: 'bf61' is not one of f32, bf16; did you mean 'bf16'?");
  EXPECT_EQ(error_of([] { train({"m", "--shuffle", "maybe"}); }), "--shuffle: 'maybe' is neither on nor off");
  EXPECT_EQ(error_of([] { train({"m", "--data", ""}); }), "--data: the path is empty");
  EXPECT_EQ(error_of([] { train({}); }), "train needs MODEL: a model; for example: tern train m --steps 3");
  EXPECT_EQ(error_of([] {
              train({"a", "b"});
            }),
            "'b' is one argument too many: train takes MODEL; put quotes around a text with blanks");
  EXPECT_EQ(error_of([] { find_verb(kTable, "trian"); }),
            "no verb 'trian'; did you mean 'train'? `tern help` lists all verbs");
  EXPECT_EQ(error_of([] { find_verb(kTable, "xyz"); }), "no verb 'xyz'; `tern help` lists all verbs");
}

TEST(Options, TheEnvironmentIsAsStrictAsTheCommandLine) {
  EXPECT_EQ(error_of([] {
              train({"m"}, {{"TERN_STPES", "5"}});
            }),
            "environment: TERN_STPES is no variable of tern; did you mean 'TERN_STEPS'? Unset it, or see `tern help "
            "environment`");
  EXPECT_EQ(error_of([] { train({"m"}, {{"TERN_STEPS", "x"}}); }), "TERN_STEPS: 'x' is not a whole number");
  EXPECT_EQ(train({"m"}, {{"TERN_STEPS", ""}}).integer("steps"), 100) << "an empty variable is an unset one";
  EXPECT_NO_THROW(train({"m"}, {{"TERN_PROMPT", "of another verb"}, {"TERN_LOG", "info"}, {"TERNARY", "x"}}));
  EXPECT_EQ(train({"m"}, {{"TERN_DATA_FILE", "d"}}).text("data"), "d");
  EXPECT_THROW(train({"m"}, {{"TERN_DATA", "d"}}), Error) << "--data states another name";
  EXPECT_EQ(train({}, {{"TERN_MODEL", "m"}}).positional("MODEL"), "m");
}

TEST(Options, AskingForWhatIsNotThereIsABug) {
  const Options o = train({"m"});
  for (const auto& call : std::vector<std::function<void()>>{[&] { o.integer("prompt"); }, [&] { o.text("steps"); },
                                                             [&] { o.integer("memory"); }, [&] { o.positional("B"); },
                                                             [&] { o.flag("steps"); }, [&] { o.list("data"); }})
    EXPECT_THROW(call(), Bug);
}

TEST(Options, ConfigShowMayLeavePositionalsOut) {
  EXPECT_EQ(resolve_options(kTable, "train", {}, {}, false).positional("MODEL"), "");
}

TEST(Help, ShowsDefaultUnitAndVariableOfEveryFlag) {
  const std::string help = help_verb(kTable, kTable.verbs[0]);
  EXPECT_NE(help.find("Usage: tern train MODEL [options]"), std::string::npos);
  EXPECT_NE(help.find("  --steps N                 how many (default 100, TERN_STEPS)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--dtype f32|bf16"), std::string::npos);
  EXPECT_NE(help.find("TERN_DATA_FILE"), std::string::npos);
  EXPECT_EQ(help.find("--prompt"), std::string::npos);
  EXPECT_NE(help.find("  # an example\n  tern train m --steps 3\n"), std::string::npos);
}

TEST(Completion, KnowsVerbsFlagsAndValuesAndRefusesOtherShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion(kTable, shell);
    for (const char* word : {"train", "generate", "learning-rate", "bf16"})
      EXPECT_NE(script.find(word), std::string::npos) << shell << " " << word;
  }
  EXPECT_EQ(error_of([] { completion(kTable, "bsh"); }),
            "completion: no script for shell 'bsh'; there are bash, zsh and fish; did you mean 'bash'?");
}

TEST(ManPage, NamesEveryVerbAndFlagAndEscapesRoff) {
  const std::string page = man_page(kTable, "1.2");
  EXPECT_NE(page.find(".TH TERN 1"), std::string::npos);
  EXPECT_NE(page.find(".SS train"), std::string::npos);
  EXPECT_NE(page.find("learning\\-rate"), std::string::npos);
  EXPECT_EQ(page.find("learning-rate"), std::string::npos);
}

TEST(MarkdownTable, HasARowPerOption) {
  const std::string table = markdown_table(kTable);
  EXPECT_NE(table.find("| `--steps N` | `100` | `TERN_STEPS` | how many |"), std::string::npos) << table;
  EXPECT_NE(table.find("`--dtype f32\\|bf16`"), std::string::npos);
}

}  // namespace
}  // namespace tern
