// SentencePiece models: the ids of their own library, damaged files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/process_memory.h"
#include "formats/format_test_support.h"
#include "formats/mutations_testing.h"
#include "formats/tokenizer/golden_testing.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/sentencepiece_file.h"
#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

constexpr EncodeOptions kAsText{.add_special = false, .allow_special = false};

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

Tokenizer tokenizer_of(const SentencePieceModel& model) {
  return finish_tokenizer(tokenizer_of_sentencepiece(model, "test"), {});
}

void expect_ids_of_the_library(const Tokenizer& t, const std::string& name) {
  const nlohmann::json golden =
      nlohmann::json::parse(bytes_of(kTokenizerGolden / "sentencepiece" / (name + ".ids.json")));
  const nlohmann::json alphabet = nlohmann::json::parse(bytes_of(kTokenizerGolden / "alphabet.json"));
  ParityStrings strings(alphabet);
  BlockHashes hashes(kParityBlock);
  for (int i = 0; i < kParityStrings; ++i) {
    const std::string text = strings.next();
    const std::vector<int32_t> ids = t.encode(text, kAsText);
    if (i < static_cast<int>(golden["first"].size())) {
      EXPECT_EQ(nlohmann::json(ids), golden["first"][static_cast<size_t>(i)]) << name << ": " << text;
    }
    hashes.add_list(ids);
  }
  EXPECT_EQ(nlohmann::json(hashes.hashes), golden["ids"]) << name;
}

class SentencePieceModels : public testing::TestWithParam<const char*> {};
TEST_P(SentencePieceModels, IdsAreTheLibrarys) {
  const std::filesystem::path path = kTokenizerGolden / "sentencepiece" / (std::string(GetParam()) + ".model");
  expect_ids_of_the_library(Tokenizer::load(path), GetParam());
}
TEST_P(SentencePieceModels, SavedOnesAreTheSame) {
  const Tokenizer t = Tokenizer::load(kTokenizerGolden / "sentencepiece" / (std::string(GetParam()) + ".model"));
  const TemporaryDirectory d;
  t.save(std::filesystem::path(d / "saved"));
  const Tokenizer again = Tokenizer::load(std::filesystem::path(d / "saved"));
  EXPECT_EQ(again.hash(), t.hash());
  EXPECT_EQ(again.encode("Hello tern, hell ½"), t.encode("Hello tern, hell ½"));
  EXPECT_THROW(t.to_json(), Error);
}
INSTANTIATE_TEST_SUITE_P(Golden, SentencePieceModels,
                         testing::Values("unigram_rules", "unigram_bytes", "unigram_user", "bpe_bytes", "bpe_rules",
                                         "bpe_user"));

// Of each golden model, with and without the flags that decide: pieces and the text that the library (0.2.3) makes of them.
TEST(SentencePiece, DecodesBlanksAtTheBeginningAsTheLibraryDoes) {
  SentencePieceModel model;
  model.is_unigram = true;
  for (const char* text : {"<unk>", "\u2581", "\u2581a", "a", "a\u2581", "\u2581\u2581a"})
    model.pieces.push_back({text, -static_cast<float>(model.pieces.size()),
                            model.pieces.empty() ? PieceType::unknown : PieceType::normal});
  const auto text_of = [&](bool dummy, bool remove, bool suffix, const std::vector<int32_t>& ids) {
    SentencePieceModel m = model;
    m.add_dummy_prefix = dummy, m.remove_extra_whitespaces = remove, m.whitespace_as_suffix = suffix;
    const Tokenizer t = tokenizer_of(m);
    StreamingDecoder decoder(t);
    std::string streamed;
    for (const int32_t id : ids) streamed += decoder.push(id);
    EXPECT_EQ(streamed + decoder.finish(), t.decode(ids));
    return t.decode(ids);
  };
  for (const bool suffix : {false, true}) {
    EXPECT_EQ(text_of(true, true, suffix, {1, 2}), "a");
    EXPECT_EQ(text_of(true, false, suffix, {1, 2}), " a");
    EXPECT_EQ(text_of(false, true, suffix, {1, 2}), "a");
    EXPECT_EQ(text_of(false, false, suffix, {1, 2}), "  a");
    EXPECT_EQ(text_of(true, true, suffix, {5, 2}), " a a");
    EXPECT_EQ(text_of(true, true, suffix, {3, 1, 2}), "a  a");
    EXPECT_EQ(text_of(true, true, suffix, {3, 4}), "aa ");
    EXPECT_EQ(text_of(true, false, suffix, {2, 4, 1}), "aa  ");
  }
}

TEST(SentencePiece, Llama2sOwnModelGivesTheLibrarysIds) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no Llama 2 model here";
  const Tokenizer t =
      tokenizer_of(read_sentencepiece(bytes_of(published_tokenizers() / "llama2/tokenizer.model"), "tokenizer.model"));
  EXPECT_EQ(t.bos(), 1);
  EXPECT_EQ(t.eos(), 2);
  EXPECT_EQ(t.decode(t.encode("Hello 🦙!", kAsText)), "Hello 🦙!");
  expect_ids_of_the_library(t, "llama2");
}

// tokenizer.json was converted from the model: what both can say is the same ids.
TEST(SentencePiece, Llama2sModelAndItsTokenizerJsonAgree) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no Llama 2 model here";
  const Tokenizer model = Tokenizer::load(published_tokenizers() / "llama2/tokenizer.model");
  const Tokenizer json = Tokenizer::load(published_tokenizers() / "llama2/tokenizer.json");
  const nlohmann::json alphabet = nlohmann::json::parse(bytes_of(kTokenizerGolden / "alphabet.json"));
  ParityStrings strings(alphabet);
  int different = 0;
  for (int i = 0; i < kParityStrings; ++i) {
    const std::string text = strings.next();
    different += model.encode(text, kAsText) != json.encode(text, kAsText);
  }
  EXPECT_EQ(different, 0);
}

TEST(SentencePiece, ControlTextIsAControlTokenOnlyWhereAllowed) {
  const Tokenizer t = Tokenizer::load(kTokenizerGolden / "sentencepiece/bpe_user.model");
  const int32_t sep = t.id_of("[SEP]").value();
  EXPECT_EQ(std::ranges::count(t.encode("a[SEP]b"), sep), 1);
  EXPECT_EQ(std::ranges::count(t.encode("a[SEP]b", kAsText), sep), 0);
  EXPECT_TRUE(t.is_special(sep));
}

SentencePieceModel small_model() {
  SentencePieceModel m;
  m.is_unigram = false;
  m.pieces = {{"<unk>", 0, PieceType::unknown},
              {"<s>", 0, PieceType::control},
              {"</s>", 0, PieceType::control},
              {"▁a", -1},
              {"ab", -2},
              {"▁", -3},
              {"a", -4},
              {"b", -5}};
  return m;
}

TEST(SentencePiece, MergesByScoreAndFusesTheUnknown) {
  const Tokenizer t = tokenizer_of(small_model());
  EXPECT_EQ(t.encode("ab", kAsText), (std::vector<int32_t>{3, 7})) << "\"▁a\" has the better score";
  EXPECT_EQ(t.encode("  bab  zz", kAsText), (std::vector<int32_t>{5, 7, 4, 5, 0}));
}

TEST(SentencePiece, AnUnusedPieceThatNoMergeMakesLeavesAHole) {
  SentencePieceModel m = small_model();
  m.pieces.push_back({"[PAD8]", 0, PieceType::unused});
  m.pieces.push_back({"bb", -7});
  const Tokenizer t = tokenizer_of(read_sentencepiece(write_sentencepiece(m), "m"));
  EXPECT_FALSE(t.has(8));
  EXPECT_EQ(t.encode("bb", kAsText), (std::vector<int32_t>{5, 9}));
  EXPECT_EQ(t.decode(t.encode("[PAD8]", kAsText)), t.decode(std::vector<int32_t>{5, 0})) << "text, not a piece";
}

// A mebibyte of pieces that begin alike, each long: time and memory follow the bytes.
TEST(SentencePiece, LongPiecesTakeTimeByTheirBytes) {
  SentencePieceModel m = small_model();
  for (int k = 0; k < 64; ++k) m.pieces.push_back({std::string(16'000, 'b') + std::to_string(100 + k), -6});
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = !kSanitized && reset_peak_resident();
  const Tokenizer t = tokenizer_of(m);
  EXPECT_EQ(t.encode("b", kAsText), (std::vector<int32_t>{5, 7}));
  if (reset) { EXPECT_LE(read_process_memory().peak_resident_bytes - before, 64 << 20); }
}

TEST(SentencePieceMalformed, SaysWhatIsWrong) {
  const auto message = [](const SentencePieceModel& m) -> std::string {
    try {
      tokenizer_of(read_sentencepiece(write_sentencepiece(m), "m"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(small_model()), "no error");
  const auto expect = [&](const char* want, const std::function<void(SentencePieceModel&)>& change) {
    SentencePieceModel m = small_model();
    change(m);
    EXPECT_NE(message(m).find(want), std::string::npos) << message(m) << "\n  want: " << want;
  };
  expect("no pieces", [](auto& m) { m.pieces.clear(); });
  expect("is the unknown piece", [](auto& m) { m.pieces[0].type = PieceType::control; });
  expect("both the unknown piece", [](auto& m) { m.pieces[1].type = PieceType::unknown; });
  expect("stands there twice", [](auto& m) { m.pieces[7].text = "a"; });
  expect("an empty piece", [](auto& m) { m.pieces[7].text = ""; });
  expect("not UTF-8", [](auto& m) { m.pieces[7].text = "\xFF"; });
  expect("not finite", [](auto& m) { m.pieces[7].score = NAN; });
  expect("no byte fallback", [](auto& m) { m.pieces[7].type = PieceType::byte; });
  expect("unused, and merges make it", [](auto& m) { m.pieces[7].type = PieceType::unused; });
  expect("unused, and merges make it", [](auto& m) { m.pieces[4].type = PieceType::unused; });
  expect("bytes of rules", [](auto& m) { m.charsmap = "ab"; });
  expect("merges of two others, at most", [](auto& m) {
    for (int k = 2; k < 105; ++k) m.pieces.push_back({std::string(static_cast<size_t>(k), 'a'), -6});
  });
  for (const std::string bytes :
       {"\x0A\x7F", "\x0A", "\x0B", "\x12\x02\x18\x03", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        "\x2A\x03\x12\x01x", "\x0A\x03\x15\x01\x02"})
    EXPECT_THROW(read_sentencepiece(bytes, "m"), Error) << testing::PrintToString(bytes);
}

class SentencePieceMutationsSlow : public testing::TestWithParam<const char*> {};
TEST_P(SentencePieceMutationsSlow, LoadOrAreErrorsWithinBoundedMemory) {
  const std::string sound = std::string_view(GetParam()) == "small"
                                ? write_sentencepiece(small_model())
                                : bytes_of(kTokenizerGolden / "sentencepiece" / (std::string(GetParam()) + ".model"));
  survive_mutations({sound},
                    [](const std::string& bytes) {
                      const Tokenizer t = tokenizer_of(read_sentencepiece(bytes, "m"));
                      t.decode(t.encode("ab  ba tern ｆｕｌｌ e\u0301 \U0001F600 <s>"));
                    },
                    {.least_fine = 20, .change = MutateNumbers{.header = sound.size(), .plain = 4}});
}
INSTANTIATE_TEST_SUITE_P(Files, SentencePieceMutationsSlow, testing::Values("small", "unigram_rules", "bpe_user"));

}  // namespace
}  // namespace tern
