#include "formats/tokenizer/bpe_train.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "formats/tokenizer/golden_testing.h"
#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

class BpeTrainParity : public testing::TestWithParam<std::pair<const char*, SplitPattern>> {};

// The merges of the reference's trainer on the first 6,000 parity strings, one hash per merge.
TEST_P(BpeTrainParity, MergesAreTheReferences) {
  const auto [name, pattern] = GetParam();
  const auto alphabet = nlohmann::json::parse(std::ifstream(kTokenizerGolden / "alphabet.json"));
  const auto golden =
      nlohmann::json::parse(std::ifstream(kTokenizerGolden / (std::string("trained_") + name + ".json")));
  ParityStrings strings(alphabet);
  std::string text;
  int left = 6000;
  const Tokenizer t = train_bpe(
      [&](std::string_view& out) {
        while (left-- > 0) {
          text = strings.next();
          out = text;
          if (text.find("<|endoftext|>") == std::string::npos) return true;
        }
        return false;
      },
      {.vocab_size = 1200, .pattern = pattern});
  BlockHashes hashes(1);
  for (const Merge& m : t.data().model.merge_list) hashes.add_list(std::vector<int32_t>{m.left, m.right});
  ASSERT_EQ(hashes.hashes.size(), golden["merges"].size());
  for (size_t i = 0; i < hashes.hashes.size(); ++i)
    ASSERT_EQ(hashes.hashes[i], golden["merges"][i].get<std::string>())
        << "merge " << i << ": " << t.piece(t.data().model.merge_list[i].left) << " + "
        << t.piece(t.data().model.merge_list[i].right);
}
// Blanks, line ends, numbers and marks in every order, five mebibytes without a blank before a letter among them.
std::string long_text() {
  constexpr uint64_t kSeed = 18;
  const std::vector<std::string> parts = {" ",  "  ", "\n", "\r\n",     "\t", "a",  "word",         "Ab",
                                          "12", ".",  "'s", "\xC3\xA4", "x ", " y", "\xE4\xB8\x80", "\n\xE4\xBA\x8C"};
  std::string text;
  for (uint64_t i = 0; text.size() < size_t{10} << 20; ++i) {
    text += parts[random_u64({kSeed, 0}, i) % parts.size()];
    if (i == 900'000) text += std::string(size_t{5} << 20, '.');
  }
  return text;
}

TEST(BpeTrain, PartsOfALongTextGiveTheWordsOfTheWhole) {
  const std::string text = long_text();
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::llama3}) {
    const auto merges = [&](const std::string& special, std::string* read) {
      int left = 1;
      BpeTrainOptions how{.vocab_size = 300, .pattern = pattern, .special_tokens = {special}};
      how.read = [&](std::string_view part) {
        if (read) *read += part;
      };
      const Tokenizer t = train_bpe(
          [&](std::string_view& out) {
            out = text;
            return left-- > 0;
          },
          how);
      std::vector<std::pair<int32_t, int32_t>> all;
      for (const Merge& m : t.data().model.merge_list) all.emplace_back(m.left, m.right);
      return all;
    };
    std::string read;
    EXPECT_EQ(merges("<|end|>", &read), merges("<|the end|>", nullptr)) << "with a blank in it, texts are not parted";
    EXPECT_EQ(read, text) << "each part once, in order";
  }
}

// Bytes that are no UTF-8 among words, and behind letters.
std::string broken_text() {
  constexpr uint64_t kSeed = 19;
  const std::vector<std::string> parts = {" ",  "\n",     "a",    "word", "Ab",           "\xFF",   "\xC3",
                                          "12", "ab\xE2", "\x82", "x ",   "\xE4\xB8\x80", "\n\xE4", "\xF0\x9F\x98\x80"};
  std::string text;
  for (uint64_t i = 0; text.size() < size_t{10} << 20; ++i) text += parts[random_u64({kSeed, 0}, i) % parts.size()];
  return text;
}

TEST(BpeTrain, PartsOfABrokenTextGiveTheWordsOfTheRepairedWhole) {
  const std::string text = broken_text();
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::llama3})
    for (const Utf8Repair repair : {Utf8Repair::mark, Utf8Repair::leave_out}) {
      const auto merges = [&](const std::string& of, const std::string& special) {
        int left = 1;
        const Tokenizer t = train_bpe(
            [&](std::string_view& out) {
              out = of;
              return left-- > 0;
            },
            {.vocab_size = 290, .pattern = pattern, .special_tokens = {special}, .repair = repair});
        std::vector<std::pair<int32_t, int32_t>> all;
        for (const Merge& m : t.data().model.merge_list) all.emplace_back(m.left, m.right);
        return all;
      };
      const std::string whole = repair == Utf8Repair::mark ? make_valid_utf8(text) : without_invalid_utf8(text);
      EXPECT_EQ(merges(text, "<|end|>"), merges(whole, "<|the end|>")) << "with a blank in it, texts are not parted";
    }
}

// Without a blank: it was 86 MiB of 24 before it was refused.
TEST(BpeTrain, ABrokenTextIsReadWithinAFewParts) {
  std::string text;
  while (text.size() < size_t{12} << 20) text += "ab\xFF\xC3";
  int left = 1;
  BpeTrainOptions how{.vocab_size = 260, .memory_bytes = int64_t{1} << 20};
  size_t longest = 0;
  how.read = [&](std::string_view part) { longest = std::max(longest, part.size()); };
  const Tokenizer t = train_bpe(
      [&](std::string_view& out) {
        out = text;
        return left-- > 0;
      },
      how);
  EXPECT_EQ(t.vocab_size(), 260);
  EXPECT_GT(longest, 0u);
  EXPECT_LE(longest, size_t{4} << 20);
}

TEST(BpeTrain, DistinctWordsTakeNoMoreThanTheyMay) {
  const auto outcome = [](int64_t memory_bytes) -> std::string {
    int number = 0;
    std::string text;
    try {
      train_bpe(
          [&](std::string_view& out) {
            out = text = std::to_string(10'000 + number);
            return number++ < 10'000;
          },
          {.vocab_size = 257, .memory_bytes = memory_bytes});
    } catch (const Error& e) { return e.kind() == ErrorKind::does_not_fit ? e.what() : "another error"; }
    return "";
  };
  EXPECT_EQ(outcome(10'000 * (256 + 5 * 48)), "");
  EXPECT_NE(outcome(10'000 * (256 + 5 * 48) - 1).find("9999 distinct words so far"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Patterns, BpeTrainParity,
                         testing::Values(std::pair("gpt2", SplitPattern::gpt2),
                                         std::pair("llama3", SplitPattern::llama3)));

}  // namespace
}  // namespace tern
