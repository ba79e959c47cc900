// The front of a normalized text: what Metaspace's "first" sees of it, and text that a Replace puts before it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

Json with_steps(const char* normalizers, const char* pre_tokenizer) {
  Json vocab = Json::object();
  int id = 0;
  for (const char* piece : {"<unk>", "a", "b", "c", "x", "y", "\xE2\x96\x81"}) vocab[piece] = id++;
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", parse_json(normalizers, "n")}}},
          {"pre_tokenizer", parse_json(pre_tokenizer, "p")},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

constexpr const char* kNothing = "null";
constexpr const char* kFirst =
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})";
constexpr const char* kByteLevel =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";

std::vector<int32_t> ids_of(const char* normalizers, const char* pre_tokenizer, std::string_view text) {
  return Tokenizer::from_json(dump_json(with_steps(normalizers, pre_tokenizer)), "", "t")
      .encode(text, {.add_special = false});
}

TEST(TokenizerFront, PrependComesFromWhereTheFirstCharacterLeftComesFrom) {
  using Ids = std::vector<int32_t>;
  // Ids of tokenizers 0.23.3.
  EXPECT_EQ(ids_of(R"([{"type": "Prepend", "prepend": "xy"}])", kFirst, "ab"), (Ids{6, 4, 5, 1, 2}));
  EXPECT_EQ(
      ids_of(R"([{"type": "Strip", "strip_left": true, "strip_right": true}, {"type": "Prepend", "prepend": "x"}])",
             kFirst, " ab"),
      (Ids{4, 1, 2}))
      << "the space that stood first is gone";
  EXPECT_EQ(ids_of(R"([{"type": "Prepend", "prepend": "xy"},
                       {"type": "Replace", "pattern": {"Regex": "^xy"}, "content": ""}])",
                   kFirst, "ab"),
            (Ids{6, 1, 2}))
      << "what was put in front is gone, what stood first is not";
  EXPECT_EQ(ids_of(R"([{"type": "Replace", "pattern": {"String": "ab"}, "content": "x"}])", kFirst, "abc"), (Ids{4, 3}))
      << "x comes from the second character";
  EXPECT_EQ(ids_of(R"([{"type": "Replace", "pattern": {"String": "a"}, "content": "xy"}])", kFirst, "abc"),
            (Ids{6, 4, 5, 2, 3}));
}

// Each word that begins in what was made of the first character is the first one.
TEST(TokenizerFront, SeveralWordsOfTheFirstCharacterAreEachTheFirst) {
  using Ids = std::vector<int32_t>;
  const std::string split_first =
      std::string(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, )") + kFirst + "]}";
  const char* two = R"([{"type": "Replace", "pattern": {"String": "a"}, "content": "x y"}])";
  // Ids of tokenizers 0.23.3.
  EXPECT_EQ(ids_of(two, split_first.c_str(), "a"), (Ids{6, 4, 6, 5}));
  EXPECT_EQ(ids_of(two, split_first.c_str(), "aa"), (Ids{6, 4, 6, 5, 4, 5}));
  EXPECT_EQ(ids_of(two, split_first.c_str(), "ab"), (Ids{6, 4, 6, 5, 2}));
  EXPECT_EQ(ids_of(two, split_first.c_str(), "ba"), (Ids{6, 2, 4, 5}));
  EXPECT_EQ(ids_of(R"([{"type": "Prepend", "prepend": "x "}])", split_first.c_str(), "ab b"), (Ids{6, 4, 6, 1, 2, 2}));
}

// What steps add behind the first character comes from it, too; what they take away of it is not counted.
TEST(TokenizerFront, TheFrontIsWhatStepsLeaveOfTheFirstCharacter) {
  using Ids = std::vector<int32_t>;
  const auto ids = [](const char* normalizers, std::string split, const char* text) {
    return ids_of(normalizers, (R"({"type": "Sequence", "pretokenizers": [)" + split + ", " + kFirst + "]}").c_str(),
                  text);
  };
  const auto at = [](const char* text) {
    return std::string(R"({"type": "Split", "pattern": {"String": ")") + text +
           R"("}, "behavior": "Isolated", "invert": false})";
  };
  constexpr const char* kSpaces = R"({"type": "WhitespaceSplit"})";
  constexpr const char* kPunctuation = R"({"type": "Punctuation", "behavior": "Isolated"})";
  constexpr const char* kStrip = R"([{"type": "NFD"}, {"type": "StripAccents"}])";
  constexpr const char* kBert = R"([{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                                     "strip_accents": true, "lowercase": false}])";
  // Ids of tokenizers 0.23.3.
  EXPECT_EQ(ids(kStrip, kSpaces, "ǟ b"), (Ids{6, 1, 2})) << "three characters, then one again";
  EXPECT_EQ(ids(kStrip, kPunctuation, "ä,b"), (Ids{6, 1, 0, 2}));
  EXPECT_EQ(ids(kBert, kSpaces, "ǟ b"), (Ids{6, 1, 2}));
  EXPECT_EQ(ids(kBert, kSpaces, "一 b"), (Ids{6, 0, 2})) << "the space that is put before it is the first character's";
  EXPECT_EQ(ids(kBert, kSpaces, "a一 b"), (Ids{6, 1, 0, 2}));
  EXPECT_EQ(ids(R"([{"type": "ByteLevel"}])", at("©"), "éb"), (Ids{6, 0, 6, 0, 2}));
  EXPECT_EQ(ids(R"([{"type": "Prepend", "prepend": "\u0001xy"}, {"type": "Nmt"}])", at("y"), "ab"),
            (Ids{6, 4, 6, 5, 6, 1, 2}));
}

TEST(TokenizerFront, TextBeforeTheFrontIsRefusedWhereTheReferenceMiscountsIt) {
  const std::string before = R"({"type": "Replace", "pattern": {"Regex": "c|^"}, "content": "x"})";
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids_of(("[" + before + "]").c_str(), kNothing, "ab"), (Ids{4, 1, 2}));
  EXPECT_EQ(ids_of(("[" + before + R"(, {"type": "Prepend", "prepend": "y"}])").c_str(), kNothing, "ab"),
            (Ids{5, 4, 1, 2}));
  EXPECT_EQ(ids_of(("[" + before + "]").c_str(), kFirst, "ab"), (Ids{6, 4, 1, 2}));
  const std::string split_first =
      std::string(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, )") + kFirst + "]}";
  for (const char* splitter : {split_first.c_str(), kByteLevel}) {
    EXPECT_THROW(ids_of(("[" + before + "]").c_str(), splitter, "ab"), Error) << splitter;
    EXPECT_NO_THROW(ids_of(("[" + before + "]").c_str(), splitter, "cab")) << "a match of a character";
    EXPECT_NO_THROW(ids_of(("[" + before + "]").c_str(), splitter, "")) << "no match in an empty text";
  }
  for (const char* step : {"NFC", "Lowercase", "StripAccents", "Nmt", "ByteLevel"})
    EXPECT_THROW(ids_of(("[" + before + R"(, {"type": ")" + step + R"("}])").c_str(), kNothing, "ab"), Error) << step;
}

TEST(TokenizerFront, ByteLevelTextIsNotCutAtMetaspace) {
  Json j = with_steps("[]", kByteLevel);
  j["model"]["fuse_unk"] = true;
  EXPECT_EQ(Tokenizer::from_json(dump_json(j), "", "t").encode("\n▁b", {.add_special = false}),
            (std::vector<int32_t>{0, 2}))
      << "the bytes of the line's end and of the mark are one unknown piece";
}

}  // namespace
}  // namespace tern
