// The command as a person meets it: exit codes, and what goes to which stream.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "apps/options.h"
#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "base/source_dir_testing.h"

#include <nlohmann/json.hpp>

namespace tern {
namespace {

// `rest` may redirect.
Outcome tern(const std::string& rest) { return run_shell("env -u TERN_DATA " TERN_PROGRAM " " + rest); }

TEST(Command, AWrongVerbIsTwoAndTeachesOnStandardError) {
  const Outcome outcome = tern("trian 2>&1 >/dev/null");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.text, "tern: no verb 'trian'; did you mean 'train'? `" TERN_PROGRAM " help` lists all verbs\n");
  EXPECT_EQ(tern("trian 2>/dev/null").text, "") << "nothing but data on standard output";
}

TEST(Command, AWrongFlagAndNoVerbAreTwo) {
  EXPECT_EQ(tern("train m --stpes 5 2>/dev/null").code, 2);
  EXPECT_EQ(tern("doctor extra 2>/dev/null").code, 2);
  EXPECT_EQ(tern("2>/dev/null").code, 2) << "no verb at all";
}

TEST(Command, HelpWorksByEveryRoad) {
  const Outcome overview = tern("--help");
  EXPECT_EQ(overview.code, 0);
  EXPECT_EQ(overview.text, help_overview(tern_options()));
  EXPECT_EQ(tern("help").text, overview.text);
  EXPECT_EQ(tern("train --steps 3 --help").text, tern("help train").text);
  EXPECT_EQ(tern("help nothing 2>/dev/null").code, 2);
  for (const VerbSpec& verb : tern_options().verbs)
    EXPECT_EQ(tern(std::string(verb.name) + " --help").code, 0) << verb.name;
}

// A verb of two words is shown as it is typed, by every road.
TEST(Command, VerbsOfTwoWordsAreShownAsTheyAreTyped) {
  EXPECT_EQ(tern("help plan calibrate").text, tern("plan calibrate --help").text);
  EXPECT_EQ(tern("help plan calibrate").text.rfind("tern plan calibrate: Fit", 0), 0u);
  EXPECT_EQ(tern("plan-calibrate --help").text, tern("plan calibrate --help").text) << "its key is understood too";
  EXPECT_NE(tern("help").text.find("\n  plan table      Price the runs"), std::string::npos) << tern("help").text;
  EXPECT_EQ(tern("config show plan table").text.rfind("# tern plan table\n", 0), 0u);
  for (const char* words : {"help", "man", "help options", "help plan", "help plan table"})
    for (const char* key : {"plan-table", "plan\\-table", "plan-calibrate", "plan\\-calibrate"})
      EXPECT_EQ(tern(words).text.find(key), std::string::npos) << words;
  const Outcome wrong = tern("plan table runs.csv --calibratoin x 2>&1 >/dev/null");
  EXPECT_NE(wrong.text.find("plan table has no option --calibratoin; did you mean '--calibration'? `" TERN_PROGRAM
                            " help plan table`"),
            std::string::npos)
      << wrong.text;
  const Outcome other = tern("train --folds rows 2>&1 >/dev/null");
  EXPECT_NE(other.text.find("--folds: it belongs to plan calibrate; "), std::string::npos) << other.text;
}

// What bash offers behind the words, the last of them half typed.
TEST(Command, BashCompletesVerbsOfTwoWords) {
  const auto offered = [](const std::string& words) {
    return run_shell("bash -c 'source <(" TERN_PROGRAM " completion bash); COMP_WORDS=(" + words +
                     "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tern; echo ${COMPREPLY[@]}'")
        .text;
  };
  EXPECT_EQ(offered("tern pla"), "plan\n");
  EXPECT_EQ(offered("tern plan cal"), "calibrate\n");
  EXPECT_EQ(offered("tern plan table --cal"), "--calibration\n");
  EXPECT_EQ(offered("tern plan table --pare"), "\n") << "of plan alone";
  EXPECT_EQ(offered("tern plan MODEL --pare"), "--pareto\n");
  EXPECT_EQ(offered("tern plan calibrate --folds la"), "layout\n");
  EXPECT_EQ(offered("tern plan --offload st"), "states\n");
}

TEST(Command, VersionManAndCompletionPrint) {
  EXPECT_EQ(tern("--version").text, "tern " TERN_VERSION "\n");
  EXPECT_EQ(tern("version").code, 0);
  EXPECT_EQ(tern("man").text, man_page(tern_options(), TERN_VERSION));
  EXPECT_EQ(tern("completion bash").text, completion(tern_options(), "bash"));
  EXPECT_EQ(tern("completion bash | bash -n && echo fine").text, "fine\n") << "bash can read its script";
  EXPECT_EQ(tern("completion tcsh 2>/dev/null").code, 2);
}

TEST(Command, PlanAnswersOrSaysWhatIsWrong) {
  const std::string file = std::string(" --hardware ") + source_dir() + "/examples/hardware/h100-node.toml";
  const std::string job = " --batch 8 --seq 1024 --schedules 1f1b";
  EXPECT_EQ(tern("plan gpt2" + file + job + " 2>/dev/null").code, 0);
  const Outcome unknown = tern("plan llama-2-7x" + file + job + " 2>&1 >/dev/null");
  EXPECT_EQ(unknown.code, 4);
  EXPECT_NE(unknown.text.find("nor one of the presets"), std::string::npos) << unknown.text;
  EXPECT_NE(unknown.text.find("did you mean 'llama-2-7b'"), std::string::npos) << unknown.text;
  EXPECT_EQ(tern("plan gpt2 --hardware nowhere.toml" + job + " 2>/dev/null").code, 4);
  EXPECT_EQ(tern("plan gpt2" + job + " 2>/dev/null").code, 2) << "no --hardware";
  const Outcome large = tern("plan llama-3-70b" + file + " --batch 64 --seq 8192 --schedules 1f1b 2>&1 >/dev/null");
  EXPECT_EQ(large.code, 3);
  EXPECT_NE(large.text.find(" more there is a plan ("), std::string::npos) << large.text;
}

TEST(Command, AFullStandardOutputIsReported) {
  for (const char* command : {"help", "doctor", "doctor --json", "config show"})
    EXPECT_EQ(tern(std::string(command) + " >/dev/full 2>/dev/null").code, 3) << command;
}

TEST(Command, AMessageCannotSteerTheTerminal) {
  const Outcome outcome = tern("$(printf 'tr\\033[31mian') 2>&1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.text.find('\x1b'), std::string::npos) << outcome.text;
}

TEST(Command, AConfigurationUnderAnotherNameIsNoRecipe) {
  const Outcome outcome = tern("train " + source_dir() + "/tests/golden/hf_config/llama_default.json --dry-run 2>&1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("rename it to config.json"), std::string::npos) << outcome.text;
}

TEST(Command, StepsBeyondCountingAreRefusedNotWrappedAround) {
  const std::string train = "train " + source_dir() + "/examples/tiny/config.json --from-scratch --dry-run ";
  EXPECT_EQ(tern(train + "2>/dev/null").code, 0);
  EXPECT_EQ(tern(train + "--batch 2147483647 --seq 2147483647 2>/dev/null").code, 2);
  EXPECT_EQ(tern(train + "--batch 2147483647 --seq 2147483647 --micro-batch 1 2>/dev/null").code, 2);
  EXPECT_EQ(tern(train + "--batch 1 --seq 2147483647 --context 2147483647 2>/dev/null").code, 3);
}

TEST(Command, EvaluationWithoutItsDataIsNotIgnored) {
  const Outcome outcome =
      tern("train " + source_dir() + "/examples/tiny/config.json --from-scratch --dry-run --eval-every 5 2>&1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("--valid-data"), std::string::npos) << outcome.text;
}

// A folder of this test's own, gone with it.
struct Folder {
  std::string path;
  Folder() {
    std::string pattern = testing::TempDir() + "tern-main-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { remove_all(real_io(), path); }
};

TEST(Command, InspectOpensTheWeightsAndRefusesWhatIsCutShort) {
  const std::string golden = source_dir() + "/tests/golden/models/llama";
  EXPECT_EQ(tern("inspect " + golden + " 2>/dev/null").code, 0);
  const Folder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    write_file_atomically(real_io(), join_path(folder.path, name), real_io().read(join_path(golden, name)));
  const std::string weights = join_path(folder.path, "model.safetensors");
  real_io().truncate(weights, real_io().stat(weights)->size_bytes - 4);
  const Outcome text = tern("inspect " + folder.path + " 2>&1");
  EXPECT_EQ(text.code, 4);
  EXPECT_NE(text.text.find(weights), std::string::npos) << text.text;
  const Outcome json = tern("inspect " + folder.path + " --json 2>/dev/null");
  EXPECT_EQ(json.code, 4);
  EXPECT_FALSE(parse_json(json.text, "inspect")["weights"]["whole"].get<bool>()) << json.text;
}

TEST(Command, DoctorTellsTheSameInTextAndJson) {
  const Outcome text = tern("doctor");
  EXPECT_EQ(text.code, 0);
  const Outcome json = tern("doctor --json");
  EXPECT_EQ(json.code, 0);
  const Json report = parse_json(json.text, "doctor");
  ASSERT_GE(report["findings"].size(), 9u);
  for (const Json& finding : report["findings"]) {
    EXPECT_NE(text.text.find(finding["topic"].get<std::string>()), std::string::npos);
    EXPECT_EQ(finding["status"] == "warn", !finding["fix"].get<std::string>().empty()) << "a warning has a fix";
  }
}

// A wrong TERN_ISA is when one wants to see which sets there are.
TEST(Command, DoctorShowsEverySetWhateverTernIsaSays) {
  const Outcome right = run_shell("env -u TERN_ISA " TERN_PROGRAM " doctor"),
                wrong = run_shell("env TERN_ISA=sse9 " TERN_PROGRAM " doctor");
  EXPECT_EQ(wrong.code, 0);
  for (const char* set : {"kernels portable", "kernels avx2", "kernels avx512 ", "kernels avx512_vnni",
                          "kernels avx512_bf16", "kernels amx_bf16"}) {
    EXPECT_NE(right.text.find(set), std::string::npos) << right.text;
    EXPECT_NE(wrong.text.find(set), std::string::npos) << wrong.text;
  }
  EXPECT_NE(wrong.text.find("unset TERN_ISA"), std::string::npos) << wrong.text;
  EXPECT_NE(right.text.find("; in use"), std::string::npos);
  EXPECT_EQ(wrong.text.find("; in use"), std::string::npos);
}

TEST(Command, DoctorLooksAtAnEnvironmentThatEveryOtherVerbRefuses) {
  for (const char* variable : {"TERN_FOO=1", "TERN_ISA=foo", "TERN_THREADS=x"}) {
    const Outcome outcome = run_shell("env -u TERN_DATA " + std::string(variable) + " " TERN_PROGRAM " doctor --json");
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    bool told = false;
    const Json report = parse_json(outcome.text, "doctor");
    for (const Json& finding : report["findings"])
      told |= finding["topic"] == "environment" && finding["status"] == "warn" &&
              finding["fact"].get<std::string>().find(variable) != std::string::npos;
    EXPECT_TRUE(told) << outcome.text;
  }
  EXPECT_EQ(run_shell("TERN_FOO=1 " TERN_PROGRAM " doctor --what 2>/dev/null").code, 2) << "its own arguments count";
}

// OMP_DISPLAY_ENV makes libgomp print what it read when it was loaded.
TEST(Command, ThreadsSpinShortlyUnlessTheEnvironmentSaysOtherwise) {
  const auto shown = [](const std::string& settings) {
    return run_shell("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose " + settings +
                     " " TERN_PROGRAM " version 2>&1")
        .text;
  };
  const std::string text = shown("");
  if (text.find("GOMP_SPINCOUNT") == std::string::npos) GTEST_SKIP() << "another OpenMP library than libgomp";
  EXPECT_NE(text.find("GOMP_SPINCOUNT = '10000'"), std::string::npos) << text;
  EXPECT_NE(text.find("tern 0."), std::string::npos) << "and the verb still ran";
  EXPECT_EQ(shown("GOMP_SPINCOUNT=77").find("'10000'"), std::string::npos);
  EXPECT_EQ(shown("OMP_WAIT_POLICY=passive").find("'10000'"), std::string::npos);
}

}  // namespace
}  // namespace tern
