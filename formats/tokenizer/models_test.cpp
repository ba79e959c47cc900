// Unigram, WordPiece and what stands around them: small cases by hand, damaged files, the laws of decoding.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/utf8.h"
#include "formats/mutations_testing.h"
#include "formats/tokenizer/byte_trie.h"
#include "formats/tokenizer/charsmap.h"
#include "formats/tokenizer/graphemes.h"
#include "formats/tokenizer/json_edit_testing.h"
#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

std::string base64(std::string_view bytes) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// One rule: "a" becomes "XY". The root leads to unit 0x61, that to unit 0x61 ^ 1, where the replacement's place stands.
std::string rule_bytes() {
  std::vector<uint32_t> units(128, 0);
  units[0x61] = 0x61 | 1u << 8 | 1u << 10;
  units[0x60] = 0x80000000u;
  std::string bytes;
  const auto put = [&](uint32_t v) {
    for (int k = 0; k < 4; ++k) bytes += static_cast<char>(v >> (8 * k));
  };
  put(4 * 128);
  for (const uint32_t u : units) put(u);
  return bytes + std::string("XY\0", 3);
}

const char* kWordPiece = R"({"added_tokens": [{"id": 1, "content": "[CLS]", "special": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 8,
    "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "ab": 5, "##bc": 6, ".": 7, "x": 8, "do": 9, "not": 10}}})";

std::string unigram_json() {
  return R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ")" + base64(rule_bytes()) +
         R"("}, "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
  "decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
    "vocab": [["<unk>", 0.0], ["_", -2.5], ["X", -3], ["Y", -3.25], ["XY", -5.5], ["b", -1], ["bb", -3.0], ["_b", -3.75]]}})";
}

TEST(ByteTrie, FindsEveryKeyAndNothingElse) {
  ByteTrie trie;
  Lcg rng(4);
  std::vector<std::pair<std::string, int32_t>> keys;
  for (int i = 0; i < 3000; ++i) {
    std::string key(1 + rng.below(6), ' ');
    for (char& c : key) c = static_cast<char>(rng.below(4) * 80);
    if (trie.add(key, i)) keys.emplace_back(key, i);
  }
  EXPECT_GT(keys.size(), 1000u);
  const auto find = [&](std::string_view key) {
    uint32_t node = ByteTrie::kRoot;
    for (const char c : key)
      if ((node = trie.child(node, static_cast<uint8_t>(c))) == ByteTrie::kRoot) return -1;
    return trie.value(node);
  };
  for (const auto& [key, value] : keys) EXPECT_EQ(find(key), value);
  EXPECT_EQ(find("no such key"), -1);
  EXPECT_FALSE(trie.add(keys[7].first, 1));
}

TEST(Unigram, TakesTheBestSumAndFusesTheUnknown) {
  const Tokenizer t = Tokenizer::from_json(unigram_json(), "");
  EXPECT_EQ(t.describe(), "Unigram, 8 pieces, 0 added tokens");
  EXPECT_EQ(t.encode("b"), (std::vector<int32_t>{1, 5}));          // -2.5 - 1 is more than -3.75
  EXPECT_EQ(t.encode("a"), (std::vector<int32_t>{1, 4}));          // "a" reads "XY": -5.5 is more than -3 - 3.25
  EXPECT_EQ(t.encode("bbb"), (std::vector<int32_t>{1, 5, 5, 5}));  // -1 - 1 is more than -3
  EXPECT_EQ(t.encode("zzb zz"), (std::vector<int32_t>{1, 0, 5, 1, 0}));
  EXPECT_EQ(t.decode(t.encode("b bb")), "b bb");
}

TEST(Unigram, WithoutAnUnknownPieceAnUnknownCharacterIsAnError) {
  Json j = Json::parse(unigram_json());
  j["model"]["unk_id"] = nullptr;
  const Tokenizer t = Tokenizer::from_json(j.dump(), "");
  EXPECT_EQ(t.encode("b").size(), 2u);
  EXPECT_THROW(t.encode("z"), Error);
}

TEST(WordPiece, TakesTheLongestFromTheLeft) {
  const Tokenizer t = Tokenizer::from_json(kWordPiece, "");
  const auto ids = [&](std::string_view text) { return t.encode(text, {.add_special = false}); };
  EXPECT_EQ(t.describe(), "WordPiece, 11 pieces, 1 added token");
  EXPECT_EQ(ids("AB\u0301 abc"), (std::vector<int32_t>{5, 0}));  // "ab" leaves "c" alone; "a", "##bc" is not tried
  EXPECT_EQ(ids("abbbbbbb"), (std::vector<int32_t>{5, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(ids("abbbbbbbb"), (std::vector<int32_t>{0}));  // nine characters
  EXPECT_EQ(t.encode("a"), (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(t.decode(ids("ab. x do not")), "ab. x do not") << "cleaned piece by piece: \" do\" and \" not\" stay";
}

TEST(Charsmap, LooksUpAndRefusesWhatLeadsOutside) {
  const Charsmap map(rule_bytes(), "rules");
  EXPECT_EQ(apply_by_clusters(map, "banana", TextBudget(100)), "bXYnXYnXY");
  EXPECT_EQ(apply_by_clusters(map, "a\u0301b", TextBudget(100)), "XYb")
      << "a cluster of few bytes is replaced as a whole";
  EXPECT_EQ(apply_by_clusters(map, "a\u0301\u0302b", TextBudget(100)), "XYb");
  EXPECT_EQ(apply_by_clusters(map, "a\u0301\u0302\u0303b", TextBudget(100)), "XY\u0301\u0302\u0303b")
      << "one of more bytes is not";
  EXPECT_THROW(Charsmap("", "rules"), Error);
  EXPECT_THROW(Charsmap(rule_bytes().substr(0, 100), "rules"), Error);
  EXPECT_THROW(Charsmap(rule_bytes() + "\xFF", "rules"), Error);
  std::string far = rule_bytes();
  far[4 + 4 * 0x60] = 9;  // the replacement would begin behind the end
  EXPECT_THROW(apply_by_clusters(Charsmap(far, "rules"), "a", TextBudget(1)), Error);
  far = rule_bytes();
  far[4 + 4 * 0x61 + 2] = 0x7F;  // the leaf would lie behind the trie
  EXPECT_THROW(apply_by_clusters(Charsmap(far, "rules"), "a", TextBudget(1)), Error);
}

TEST(Graphemes, AreWhatPeopleTakeForOneCharacter) {
  for (const std::string cluster : {"a", "\r\n", "e\u0301\u0302", "각", "👨‍👩‍👧‍👦", "🇫🇷", "क्षि",
                                    "❤️", "\u0600a", "👍🏽", "1️⃣"}) {
    EXPECT_EQ(grapheme_end(cluster, 0), cluster.size()) << cluster;
    EXPECT_EQ(grapheme_end(cluster + "x", 0), cluster.size() + (cluster == "\u0600" ? 1 : 0)) << cluster;
  }
  EXPECT_EQ(grapheme_end("🇫🇷🇩🇪", 0), 8u) << "flags are pairs";
  EXPECT_EQ(grapheme_end("\n\u0301", 0), 1u);
}

std::string message_of(const std::string& sound, const JsonEdit& edit) {
  try {
    Tokenizer::from_json(with_edit(sound, edit), "", "t.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(TokenizerModelsMalformed, EveryEditIsAnErrorThatNamesIt) {
  const JsonEdit unigram[] = {
      {"/model/vocab", "", "'vocab' is missing"},
      {"/model/vocab", "{}", "vocab: object"},
      {"/model/vocab", "[]", "no pieces"},
      {"/model/vocab/1", "[\"_\"]", "vocab[1]"},
      {"/model/vocab/1", "[\"_\", \"1\"]", "vocab[1]"},
      {"/model/vocab/1", "[1, 1]", "vocab[1]"},
      {"/model/vocab/1", "[\"_\", 1, 2]", "vocab[1]"},
      {"/model/vocab/1", "[\"X\", 1]", "stands there twice"},
      {"/model/unk_id", "8", "out of range"},
      {"/model/unk_id", "-1", "out of range"},
      {"/model/unk_id", "\"0\"", "unk_id"},
      {"/model/byte_fallback", "1", "byte_fallback"},
      {"/model/merges", "[]", "unknown key 'merges'"},
      {"/model/type", "\"Unigramm\"", "Unigramm"},
      {"/normalizer/precompiled_charsmap", "", "'precompiled_charsmap' is missing"},
      {"/normalizer/precompiled_charsmap", "3", "precompiled_charsmap"},
      {"/normalizer/precompiled_charsmap", "\"A\"", "not base64"},
      {"/normalizer/precompiled_charsmap", "\"AAAA\"", "3 bytes of rules"},
      {"/normalizer/precompiled_charsmap", "\"/////w==\"", "trie of 4294967295 bytes"},
  };
  for (const JsonEdit& edit : unigram) {
    const std::string message = message_of(unigram_json(), edit);
    EXPECT_NE(message.find(edit.want), std::string::npos) << edit.path << " = " << edit.value << "\n  got: " << message;
  }
  const JsonEdit word_piece[] = {
      {"/model/vocab", "", "'vocab' is missing"},
      {"/model/vocab", "[]", "vocab"},
      {"/model/vocab/x", "7", "belongs to both"},
      {"/model/vocab/x", "-7", "has id -7"},
      {"/model/unk_token", "null", "unk_token"},
      {"/model/continuing_subword_prefix", "3", "continuing_subword_prefix"},
      {"/model/max_input_chars_per_word", "-1", "max_input_chars_per_word"},
      {"/model/max_input_chars_per_word", "\"many\"", "max_input_chars_per_word"},
      {"/model/more", "1", "unknown key 'more'"},
      {"/normalizer/lowercase", "3", "lowercase"},
      {"/normalizer/strip", "true", "unknown key 'strip'"},
      {"/pre_tokenizer/x", "1", "unknown key 'x'"},
      {"/decoder/prefix", "", "'prefix' is missing"},
      {"/decoder/cleanup", "", "'cleanup' is missing"},
      {"/decoder", R"({"type": "CTC", "pad_token": "a", "word_delimiter_token": "", "cleanup": true})", "empty"},
      {"/decoder", R"({"type": "CTC", "pad_token": "a", "cleanup": true})", "'word_delimiter_token' is missing"},
      {"/post_processor/sep", "[\"[SEP]\"]", "[token, id]"},
      {"/post_processor/cls", "[\"[CLS]\", 99]", "id 99"},
  };
  for (const JsonEdit& edit : word_piece) {
    const std::string message = message_of(kWordPiece, edit);
    EXPECT_NE(message.find(edit.want), std::string::npos) << edit.path << " = " << edit.value << "\n  got: " << message;
  }
}

TEST(TokenizerModels, AnUnknownTokenOutsideTheVocabularyIsAnErrorWhenItIsNeeded) {
  Json j = Json::parse(kWordPiece);
  j["model"]["unk_token"] = "nowhere";
  const Tokenizer t = Tokenizer::from_json(j.dump(), "");
  EXPECT_EQ(t.encode("a").size(), 3u);
  EXPECT_THROW(t.encode("z"), Error);
}

// As the reference does: a pattern that takes nothing finds nothing in an empty text, and a last piece of which the
// suffix leaves nothing is still a piece.
TEST(TokenizerModels, NothingIsReplacedInAnEmptyTextAndAnEmptyLastPieceCounts) {
  Json j = Json::parse(kWordPiece);
  j["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Strip", "strip_left": true, "strip_right": true},
      {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "a"}]})");
  j["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "BPEDecoder", "suffix": "ab"}, {"type": "WordPiece", "prefix": "##", "cleanup": true}]})");
  const Tokenizer t = Tokenizer::from_json(j.dump(), "");
  EXPECT_EQ(t.encode(" ", {.add_special = false}), (std::vector<int32_t>{}));
  EXPECT_EQ(t.encode("x", {.add_special = false}), (std::vector<int32_t>{3}));
  EXPECT_EQ(t.decode(std::vector<int32_t>{8, 5}), "x ");
}

// What decoding gives is fixed under encoding and decoding once more, and a stream says the same in whole characters.
TEST(TokenizerModels, DecodedTextDecodesToItselfAndStreamsInWholeCharacters) {
  const std::filesystem::path golden = std::filesystem::path(source_dir()) / "tests/golden/tokenizers";
  const nlohmann::json alphabet = nlohmann::json::parse(std::ifstream(golden / "alphabet.json"));
  for (const char* name : {"bert_uncased", "t5_like", "xlmr_like", "unigram_bytes", "gemma_like", "bloom_like"}) {
    const Tokenizer t = Tokenizer::load(golden / "families" / (std::string(name) + ".json"));
    ParityStrings strings(alphabet, 23);
    const bool has_all_bytes = t.id_of("<0x00>") || t.id_of("Ā");
    for (int i = 0; i < 400; ++i) {
      const std::string text = strings.next();
      const auto ids = t.encode(text, {.add_special = false, .allow_special = false});
      const std::string decoded = t.decode(ids);
      if (has_all_bytes && text.find("<0x") == text.npos && text.find("\u2581") == text.npos) {
        ASSERT_EQ(decoded, text) << name;
      }
      StreamingDecoder decoder(t);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        ASSERT_TRUE(is_valid_utf8(part)) << name;
        streamed += part;
      }
      ASSERT_EQ(streamed + decoder.finish(), decoded) << name;
    }
  }
}

// BERT's older directories have a list of pieces and no tokenizer.json.
TEST(WordPiece, AListOfPiecesIsTheSameTokenizer) {
  const std::filesystem::path source(source_dir());
  for (const bool lowercase : {true, false}) {
    std::ifstream file(source / "tests/golden/tokenizers/families" /
                       (lowercase ? "bert_uncased.json" : "bert_cased.json"));
    nlohmann::json json = nlohmann::json::parse(file);
    json["model"]["max_input_chars_per_word"] = 100;  // the list's own, which the cased file lowers
    const Tokenizer want = Tokenizer::from_json(json.dump(), "");
    std::vector<std::string> words(json["model"]["vocab"].size());
    for (const auto& [word, id] : json["model"]["vocab"].items()) words.at(id.get<size_t>()) = word;
    const std::filesystem::path folder = testing::TempDir() + "tern-word-list";
    std::filesystem::create_directories(folder);
    std::ofstream list(folder / "vocab.txt");
    for (const std::string& word : words) list << word << "\n";
    list.close();
    std::ofstream(folder / "tokenizer_config.json") << nlohmann::json{{"do_lower_case", lowercase}}.dump();
    const Tokenizer got = Tokenizer::load(folder);
    std::ifstream alphabet_file(source / "tests/golden/tokenizers/alphabet.json");
    const nlohmann::json alphabet = nlohmann::json::parse(alphabet_file);
    ParityStrings strings(alphabet);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = strings.next();
      ASSERT_EQ(got.encode(text), want.encode(text)) << text;
    }
    std::filesystem::remove_all(folder);
  }
}

class TokenizerModelsMutationsSlow : public testing::TestWithParam<const char*> {};
TEST_P(TokenizerModelsMutationsSlow, LoadOrAreErrorsWithinBoundedMemory) {
  survive_mutations({std::string_view(GetParam()) == "unigram" ? unigram_json() : kWordPiece},
                    [](const std::string& json) {
                      const Tokenizer t = Tokenizer::from_json(json, "");
                      t.decode(t.encode("a ab abc bbb [CLS] x. do not \u4e00e\u0301 \U0001F600 a\u0301"));
                    });
}
INSTANTIATE_TEST_SUITE_P(Files, TokenizerModelsMutationsSlow, testing::Values("unigram", "word_piece"));

}  // namespace
}  // namespace tern
