#include "eval/windows.h"
#include "eval/wikitext.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/rng.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

std::vector<int32_t> count_up(int64_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}
std::vector<int32_t> scored(const std::vector<Window>& windows) {
  std::vector<int32_t> result;
  for (const Window& w : windows) result.insert(result.end(), w.tokens.begin() + w.first_scored, w.tokens.end());
  return result;
}

TEST(Windows, StrideScoresEachTokenOnce) {
  for (int64_t n : {1, 2, 5, 16, 17, 40, 100})
    for (int64_t stride : {1, 3, 7}) {
      const auto tokens = count_up(n);
      const auto with_bos = stride_windows(tokens, 8, stride, 1);
      EXPECT_EQ(scored(with_bos), tokens) << n << " " << stride;
      EXPECT_EQ(scored(stride_windows(tokens, 8, stride, -1)), std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
      for (const Window& w : with_bos) EXPECT_LE(w.tokens.size(), 8u);
    }
}

TEST(Windows, DisjointStrideLeavesTheFirstOfEachWindowUnscored) {
  const auto windows = stride_windows(count_up(10), 4, 4, -1);
  EXPECT_EQ(scored(windows), (std::vector<int32_t>{101, 102, 103, 105, 106, 107, 109}));
}

TEST(Windows, HarnessIsDisjointAndExtendsTheLastToTheLeft) {
  const auto tokens = count_up(11);
  const auto windows = harness_windows(tokens, 4, 7);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(scored(windows), tokens);
  EXPECT_EQ(windows[0].tokens, (std::vector<int32_t>{7, 100, 101, 102, 103}));
  EXPECT_EQ(windows[1].tokens, (std::vector<int32_t>{103, 104, 105, 106, 107}));
  EXPECT_EQ(windows[2].tokens, (std::vector<int32_t>{106, 107, 108, 109, 110}));
  EXPECT_EQ(windows[2].first_scored, 2);
  EXPECT_EQ(harness_windows(count_up(2), 4, 7).at(0).tokens, (std::vector<int32_t>{7, 100, 101}));
}

TEST(Windows, GptqDropsTheTail) {
  const auto windows = gptq_windows(count_up(11), 4);
  EXPECT_EQ(scored(windows), (std::vector<int32_t>{101, 102, 103, 105, 106, 107}));
}

TEST(Windows, LlamaCppScoresTheSecondHalfAfterBos) {
  const auto windows = llamacpp_windows(count_up(17), 8, 1);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].tokens, (std::vector<int32_t>{1, 109, 110, 111, 112, 113, 114, 115}));
  EXPECT_EQ(scored(windows), (std::vector<int32_t>{105, 106, 107, 113, 114, 115}));
}

TEST(Windows, ThePriceOfOverlappingWindowsIsABoundOnWhatTheyTake) {
  const auto tokens = count_up(1000);
  for (const int64_t stride : {1, 7, 64, 127, 128})
    for (const int32_t bos : {-1, 1}) {
      double taken = 0;
      const auto windows = stride_windows(tokens, 128, stride, bos);
      for (const Window& w : windows) taken += static_cast<double>(w.tokens.size() * 4 + sizeof(Window));
      const double price = stride_window_bytes(1000, 1, 128, stride, false);
      EXPECT_LE(taken, price) << stride;
      EXPECT_LT(price, 2 * taken) << stride;
      EXPECT_LT(price, stride_window_bytes(1000, 1, 128, stride, true));
    }
}

TEST(Wikitext, DetokenizesByRule) {
  EXPECT_EQ(wikitext_detokenize("a @-@ b @,@ c 1 @.@ 5 , ( x ) [ y ] \" z \" it 's"), "a-b,c 1.5, (x) [y] \"z\" it's");
  EXPECT_EQ(wikitext_detokenize(" = = Head = = \n text"), " == Head ==\ntext");
  EXPECT_EQ(harness_words(" a  b \n"), 4);
  EXPECT_EQ(harness_words("ab"), 1);
}

// The counts of the published conventions, and hashes that Python's own re produced (dev/golden/wikitext.py).
TEST(Wikitext, TestSplitCountsAsTheHarnessDoes) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set: the WikiText-2 test split is not at hand";
  std::ifstream file(std::string(data) + "/text/wikitext2_test.raw", std::ios::binary);
  std::stringstream raw;
  raw << file.rdbuf();
  const auto pages = wikitext_pages(raw.str());
  EXPECT_EQ(pages.size(), 62u);
  int64_t words = 0;
  std::string joined;
  for (const auto& page : pages) {
    words += harness_words(page);
    if (!joined.empty()) joined += '\0';
    joined += wikitext_detokenize(page);
  }
  EXPECT_EQ(words, 241335);
  EXPECT_EQ(joined.size(), 1240586u);
  EXPECT_EQ(hash_name(joined), 0x64f4c38d97e1c755ull);
  const std::string gptq = gptq_text(raw.str());
  EXPECT_EQ(gptq.size(), 1296370u);
  EXPECT_EQ(hash_name(gptq), 0x8521b84b68568ffbull);
}

TEST(WikitextSlow, Llama2CountsReproduce) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set: the Llama 2 tokenizer is not at hand";
  const Tokenizer tokenizer = Tokenizer::load(std::string(data) + "/tokenizers/llama2");
  std::ifstream file(std::string(data) + "/text/wikitext2_test.raw", std::ios::binary);
  std::stringstream raw;
  raw << file.rdbuf();
  const auto gptq = tokenizer.encode(gptq_text(raw.str()));
  EXPECT_EQ(gptq.size(), 341469u);
  EXPECT_EQ(gptq_windows(gptq, 2048).size(), 166u);
  const auto plain = tokenizer.encode(raw.str());
  EXPECT_EQ(plain.size(), 335688u);
  EXPECT_EQ(llamacpp_windows(plain, 512, 1).size(), 655u);
}

}  // namespace
}  // namespace tern
