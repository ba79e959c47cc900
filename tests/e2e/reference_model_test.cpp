// The reference model that lies in examples/: it loads, writes words, and knows English prose from its letters
// shuffled.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "base/source_dir_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {
namespace {

// Mary Shelley, Frankenstein, chapter 5 (1818): not among the books that the model was trained on.
constexpr std::string_view kPassage =
    "It was on a dreary night of November that I beheld the accomplishment of my toils. With an anxiety that almost "
    "amounted to agony, I collected the instruments of life around me, that I might infuse a spark of being into the "
    "lifeless thing that lay at my feet. It was already one in the morning; the rain pattered dismally against the "
    "panes, and my candle was nearly burnt out, when, by the glimmer of the half-extinguished light, I saw the dull "
    "yellow eye of the creature open; it breathed hard, and a convulsive motion agitated its limbs.";

double bits_per_byte(const std::string& text) {
  const std::string file = testing::TempDir() + "tern-passage.txt";
  write_file_atomically(real_io(), file, text);
  const Outcome out = run_shell(TERN_PROGRAM " eval " + kNovels + " --data " + file + " --json 2>/dev/null");
  std::filesystem::remove(file);
  EXPECT_EQ(out.code, 0) << out.text;
  return parse_json(out.text, "eval")["bits_per_byte"].get<double>();
}

TEST(ReferenceModel, KnowsProseFromItsLettersShuffled) {
  const double prose = bits_per_byte(std::string(kPassage));
  std::string shuffled(kPassage);
  std::mt19937_64 random(1);
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  std::printf("bits per byte: %.3f of the passage, %.3f of its letters shuffled\n", prose, bits_per_byte(shuffled));
  EXPECT_LT(prose, 2.2);  // xz takes 2.47 of the test books
  EXPECT_GT(bits_per_byte(shuffled), 4.0);
}

TEST(ReferenceModel, WritesWordsThatABookHas) {
  const Outcome out =
      run_shell(TERN_PROGRAM " generate " + kNovels +
                " --prompt 'The old man looked at the sea, and' --max-tokens 80 --temperature 0 2>/dev/null");
  ASSERT_EQ(out.code, 0) << out.text;
  std::istringstream words(out.text);
  int count = 0, common = 0;
  for (std::string word; words >> word; ++count)
    for (const char* known : {"the", "of", "and", "to", "a", "in", "was", "his", "he", "that", "had", "with"})
      common += word == known;
  EXPECT_GE(count, 40) << out.text;
  EXPECT_GE(common * 5, count) << out.text;
}

// The same in 4.25 bits per weight: near enough, and read as it lies, in integers, with a cache in 8 bits.
TEST(ReferenceModel, InLearnedTablesItIsNearlyItself) {
  const std::string coded = kNovels + "-lc4", file = testing::TempDir() + "tern-passage-lc4.txt";
  write_file_atomically(real_io(), file, std::string(kPassage));
  const Outcome out = run_shell(TERN_PROGRAM " eval " + coded + " --dtype f32 --arithmetic int8 --kv-dtype q8 --data " +
                                file + " --reference " + kNovels + " --json 2>/dev/null");
  std::filesystem::remove(file);
  ASSERT_EQ(out.code, 0) << out.text;
  const Json e = parse_json(out.text, "eval");
  std::printf("KL divergence %.5f nats\n", e["kl_divergence"].get<double>());
  EXPECT_GT(e["kl_divergence"].get<double>(), 1e-4) << "not the model itself";
  EXPECT_LT(e["kl_divergence"].get<double>(), 0.03);
  EXPECT_EQ(e["kv_dtype"], "q8");
  EXPECT_NE(run_shell(TERN_PROGRAM " inspect " + coded + " 2>&1").text.find("LC4"), std::string::npos);
}

// The card's figure is what the command measures: the first 20,000 bytes of the books' test text, in f32.
TEST(ReferenceModel, TheCardOfTheCodedOneSaysWhatEvalSays) {
  const char* data = std::getenv("TERN_DATA");
  const std::string packed = std::string(data ? data : "") + "/text/books/test.txt.xz";
  if (!data || !std::filesystem::exists(packed)) GTEST_SKIP() << "TERN_DATA has no text/books/test.txt.xz";
  const std::string coded = kNovels + "-lc4", card = real_io().read(coded + "/README.md"),
                    file = testing::TempDir() + "tern-card.txt";
  const std::string_view words = "KL divergence from novels-6m ";
  const size_t at = card.find(words);
  ASSERT_NE(at, std::string::npos);
  const double said = std::stod(card.substr(at + words.size()));
  ASSERT_EQ(run_shell("xz -dc " + packed + " | head -c 20000 >" + file).code, 0);
  const Outcome out = run_shell(TERN_PROGRAM " eval " + coded + " --dtype f32 --data " + file + " --reference " +
                                kNovels + " --json 2>/dev/null");
  std::filesystem::remove(file);
  ASSERT_EQ(out.code, 0) << out.text;
  const Json e = parse_json(out.text, "eval");
  EXPECT_EQ(e["scored_tokens"], 5668);
  EXPECT_NEAR(e["kl_divergence"].get<double>(), said, 2e-5);  // five digits, and sums that round otherwise
}

TEST(ReferenceModel, TheRecipeOfTheLargerOneTrains) {
  const std::filesystem::path dir = testing::TempDir() + "tern-novels-15m";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::string(kPassage) + "\n";
  write_file_atomically(real_io(), dir / "text.txt", text);
  const Outcome out =
      run_shell(TERN_PROGRAM " train " + source_dir() + "/examples/novels-15m/recipe.toml --data " +
                (dir / "text.txt").string() + " --valid-data " + (dir / "text.txt").string() + " --output " +
                (dir / "run").string() + " --steps 1 --warmup-steps 1 --batch 1 --seq 64 --eval-batches 1 2>&1");
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("15.3M parameters"), std::string::npos) << out.text;
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tern
