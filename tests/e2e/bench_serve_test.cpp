// tern bench serve as a person starts it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {
namespace {

class BenchServe : public InFolder<BenchServe> {
 protected:
  static void SetUpTestSuite() { make_root("bench-serve"); }
  static Json json(const std::string& arguments) {
    const Outcome o = tern("bench serve --json " + arguments + " 2>stderr");
    EXPECT_EQ(o.code, 0) << o.text;
    return parse_json(o.text, "bench serve");
  }
};

TEST_F(BenchServe, MeasuresAModelThatItServes) {
  write("lengths", "length,count\n3,1\n9,2\n");
  const Json users = json(kNovels + " --users 3 --requests 12 --prompt-tokens 20 --output-lengths lengths --ttft 60s");
  EXPECT_EQ(users["model"], "novels-6m");
  EXPECT_EQ(users["answered"], 12);
  EXPECT_EQ(users["within_targets"], 1.0);
  EXPECT_EQ(users["server"]["ready"]["context"], 29) << "as long as prompt and answer";
  EXPECT_GT(users["output_tokens_per_s"], 0.0);
  EXPECT_LE(users["ttft_s"]["median"], users["whole_s"]["median"]);
  EXPECT_GT(users["server"]["after"]["resident_bytes"], 1 << 20);
  const Json rate =
      json(kNovels + " --rate 50 --requests 10 --prompt-tokens 5 --max-tokens 2 -- --max-running 4 --context 64");
  EXPECT_EQ(rate["answered"], 10);
  EXPECT_EQ(rate["server"]["ready"]["max_running"], 4);
  EXPECT_EQ(rate["server"]["ready"]["context"], 64);
}

TEST_F(BenchServe, FindsTheMostUsersAndWhatWasForetold) {
  const Json found =
      json(kNovels + " --ttft 60s --tpot 0.001ms --requests 3 --prompt-tokens 5 --max-tokens 4 --hardware h100");
  EXPECT_EQ(found["users_within_targets"], 0) << "nobody has a token in a microsecond";
  EXPECT_EQ(found["search"].size(), 1u);
  EXPECT_TRUE(found["forecast"].contains("users"));
}

TEST_F(BenchServe, SaysWhatIsWrong) {
  const std::pair<std::string, std::string> refusals[] = {
      {kNovels, "how much load"},
      {"--users 1", "neither is given"},
      {kNovels + " --url http://127.0.0.1:1 --users 1", "not both"},
      {kNovels + " --users 1 --rate 2", "not both"},
      {"--url http://127.0.0.1:1 --users 1 -- --page 4", "names one"},
      {"--url https://127.0.0.1 --users 1", "TLS"},
      {"--url http://127.0.0.1:1 --users 1 --hardware h100", "a forecast is for MODEL"},
      {kNovels + " --users 1 --share 0.5", "--share"},
      {kNovels + " --users 1 --prompt-tokens 600", "--context"},
      {kNovels + " --users 1 -- --port 9", "--port behind --"},
      {kNovels + " --users 1 -- --speculate maybe", "--speculate"}};
  for (const auto& [arguments, words] : refusals) {
    const Outcome o = tern("bench serve " + arguments + " 2>&1");
    EXPECT_EQ(o.code, 2) << arguments << ": " << o.text;
    EXPECT_NE(o.text.find(words), std::string::npos) << arguments << ": " << o.text;
  }
  const Outcome nobody = tern("bench serve --url http://127.0.0.1:1 --users 1 2>&1");
  EXPECT_EQ(nobody.code, 5) << nobody.text;
}

}  // namespace
}  // namespace tern
