// The command as a person meets it: exit codes, and what goes to which stream.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "apps/options.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

namespace tern {
namespace {

struct Outcome {
  int code;
  std::string text;
};

// Runs the program by the shell; `rest` may redirect.
Outcome tern(const std::string& rest) {
  std::FILE* pipe = ::popen(("env -u TERN_DATA " TERN_PROGRAM " " + rest).c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(Command, AWrongVerbIsTwoAndTeachesOnStandardError) {
  const Outcome outcome = tern("trian 2>&1 >/dev/null");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.text, "tern: no verb 'trian'; did you mean 'train'? `tern help` lists all verbs\n");
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

TEST(Command, VersionManAndCompletionPrint) {
  EXPECT_EQ(tern("--version").text, "tern " TERN_VERSION "\n");
  EXPECT_EQ(tern("version").code, 0);
  EXPECT_EQ(tern("man").text, man_page(tern_options(), TERN_VERSION));
  EXPECT_EQ(tern("completion bash").text, completion(tern_options(), "bash"));
  EXPECT_EQ(tern("completion bash | bash -n && echo fine").text, "fine\n") << "bash can read its script";
  EXPECT_EQ(tern("completion tcsh 2>/dev/null").code, 2);
}

TEST(Command, AFullStandardOutputIsReported) { EXPECT_EQ(tern("help >/dev/full 2>/dev/null").code, 3); }

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

}  // namespace
}  // namespace tern
