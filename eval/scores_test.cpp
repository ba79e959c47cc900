#include "eval/scores.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "base/utf8.h"
#include "infer/sampling.h"

namespace tern {
namespace {

const Json& golden_scores() {
  static const Json json = read_json_file(source_dir() + "/tests/golden/eval/scores.json");
  return json;
}

TEST(Scores, LogLikelihoodsAndPicksAreThoseOfTheHarness) {
  int checked = 0;
  for (const Json& item : golden_scores()["items"]) {
    std::vector<ChoiceScore> scores;
    for (const Json& choice : item["choices"]) {
      ChoiceScore s;
      const std::string text = choice["text"];
      s.bytes = static_cast<int64_t>(text.size());
      s.characters = static_cast<int64_t>(count_utf8(text));
      s.tokens = static_cast<int64_t>(choice["targets"].size());
      for (size_t t = 0; t < choice["targets"].size(); ++t)
        s.log_likelihood += log_probability(choice["logits"][t].get<std::vector<float>>(), choice["targets"][t]);
      EXPECT_NEAR(s.log_likelihood, choice["ll"].get<double>(), 1e-6);
      scores.push_back(s);
    }
    const ChoicePick pick = pick_choices(scores);
    EXPECT_EQ(pick.sum, item["sum"].get<int64_t>());
    EXPECT_EQ(pick.per_character, item["character"].get<int64_t>());
    EXPECT_EQ(pick.per_byte, item["byte"].get<int64_t>());
    EXPECT_EQ(pick.per_token, item["token"].get<int64_t>());
    ++checked;
  }
  EXPECT_EQ(checked, 12);
}

TEST(Scores, DivergenceAndLossesOfTwoModelsAreTheFormulas) {
  ASSERT_EQ(golden_scores()["rows"].size(), 4u);
  for (const Json& row : golden_scores()["rows"]) {
    const RowDifference d = compare_logits(row["reference"].get<std::vector<float>>(),
                                           row["logits"].get<std::vector<float>>(), row["target"]);
    EXPECT_NEAR(d.kl, row["kl"].get<double>(), 1e-6);
    EXPECT_NEAR(d.loss, row["loss"].get<double>(), 1e-6);
    EXPECT_NEAR(d.reference_loss, row["reference_loss"].get<double>(), 1e-6);
    EXPECT_EQ(d.same_top, row["same_top"].get<bool>());
  }
}

TEST(Scores, MeansHaveTheSampleStandardError) {
  for (const Json& m : golden_scores()["means"]) {
    const MeanFigure figure = mean_of(m["values"].get<std::vector<double>>());
    EXPECT_NEAR(figure.mean, m["mean"].get<double>(), 1e-12);
    EXPECT_NEAR(figure.standard_error, m["stderr"].get<double>(), 1e-12);
  }
}

TEST(Scores, ExactMatchFoldsWhatItIsAskedToFold) {
  int hits = 0;
  for (const Json& m : golden_scores()["matches"]) {
    const std::vector<std::string> answers = {"never this", m["answer"]};
    const bool match = exact_match(m["text"].get<std::string>(), answers, {m["ignore_case"], m["ignore_punctuation"]});
    EXPECT_EQ(match, m["match"].get<bool>()) << m.dump();
    hits += match;
  }
  EXPECT_GT(hits, 8);
}

}  // namespace
}  // namespace tern
