// Vocabularies of GGUF files: every kind, every splitting name, damaged ones.
#include "formats/gguf/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/process_memory.h"
#include "formats/gguf/split.h"
#include "formats/gguf/vocabulary.h"
#include "formats/gguf/write.h"
#include "formats/mutations_testing.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

struct Vocabulary {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "<|end|>"}, merges = {"a b"};
  std::vector<int32_t> types = {1, 1, 1, 3};
  std::vector<float> scores = {};
  uint32_t eos = 3;
};

std::string bytes_of(const Vocabulary& v) {
  const TemporaryDirectory d;
  GgufMetadata m;
  m.add("tokenizer.ggml.model", v.model);
  if (!v.pre.empty()) m.add("tokenizer.ggml.pre", v.pre);
  m.add("tokenizer.ggml.tokens", v.tokens);
  m.add("tokenizer.ggml.token_type", v.types);
  if (!v.merges.empty()) m.add("tokenizer.ggml.merges", v.merges);
  if (!v.scores.empty()) m.add("tokenizer.ggml.scores", v.scores);
  m.add("tokenizer.ggml.eos_token_id", v.eos);
  write_gguf(real_io(), d / "v.gguf", m, {});
  return read_bytes(d / "v.gguf");
}

Tokenizer read(const std::string& bytes) {
  return gguf_tokenizer(Gguf::over(std::as_bytes(std::span(bytes)), "v.gguf"));
}
Tokenizer read(const Vocabulary& v) { return read(bytes_of(v)); }

const Vocabulary kPieces = {.model = "llama",
                            .pre = "default",
                            .tokens = {"<unk>", "<s>", "</s>", "▁", "a", "▁a"},
                            .merges = {},
                            .types = {2, 3, 3, 1, 1, 1},
                            .scores = {0, 0, 0, -1, -2, -3},
                            .eos = 2};
const Vocabulary kWords = {.model = "bert",
                           .pre = "",
                           .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "b", "▁."},
                           .merges = {},
                           .types = {3, 2, 3, 3, 1, 1, 1}};

TEST(GgufTokenizer, EveryKindIsRead) {
  const Tokenizer bpe = read(Vocabulary{});
  EXPECT_EQ(bpe.encode("ab<|end|>"), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(bpe.eos(), 3);
  EXPECT_EQ(read(kWords).encode("Äbb. z", {.add_special = false}), (std::vector<int32_t>{4, 5, 5, 6, 1}));
  EXPECT_EQ(read(kPieces).encode("a a"), (std::vector<int32_t>{1, 5, 5})) << "with BOS, as the format means";
  Vocabulary t5 = kPieces;
  t5.model = "t5";
  EXPECT_EQ(read(t5).encode("a"), (std::vector<int32_t>{5, 2})) << "equal sums: the piece that begins first";
  t5.scores[5] = -3.5F;
  EXPECT_EQ(read(t5).encode("a"), (std::vector<int32_t>{3, 4, 2})) << "with EOS";
}

// As llama.cpp and SentencePiece merge: by score, and of equal scores the leftmost pair, whichever id it makes.
TEST(GgufTokenizer, OfEqualScoresTheLeftmostPairGoesFirst) {
  Vocabulary v = kPieces;
  v.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "c", "bc", "ab"};
  v.types = {2, 3, 3, 1, 1, 1, 1, 1, 1};
  v.scores = {0, 0, 0, -1, -2, -3, -4, -1000, -1000};
  EXPECT_EQ(read(v).encode("abc", {.add_special = false}), (std::vector<int32_t>{3, 8, 6}));
  v.scores[7] = -999;
  EXPECT_EQ(read(v).encode("abc", {.add_special = false}), (std::vector<int32_t>{3, 4, 7}));
}

TEST(GgufTokenizer, UnusedPiecesNeverComeOut) {
  Vocabulary v = kPieces;
  v.types[5] = 5;  // "▁a"
  EXPECT_EQ(read(v).encode("a", {.add_special = false}), (std::vector<int32_t>{3, 4}));
}

// Every beginning of a long row of one letter: each cut of each is a merge, a thousand times the file's bytes once.
TEST(GgufTokenizer, AVocabularyOfEveryPowerIsRefusedWithinItsMemory) {
  Vocabulary v = kPieces;
  for (size_t letter = 0; letter < 10; ++letter)
    for (size_t k = letter == 0 ? 2 : 1; k <= 512; ++k) {
      v.tokens.emplace_back(k, static_cast<char>('a' + letter));
      v.types.push_back(1);
      v.scores.push_back(-static_cast<float>(k));
    }
  const std::string bytes = bytes_of(v);
  const int64_t before = read_process_memory().resident_bytes;
  const bool reset = !kSanitized && reset_peak_resident();
  EXPECT_TRUE(throws(ErrorKind::bad_file, "merges of two others, at most", [&] { read(bytes); }));
  if (reset) {
    EXPECT_LE(read_process_memory().peak_resident_bytes - before, 16 * static_cast<int64_t>(bytes.size()) + (16 << 20));
  }
}

// The file with one more key: an array of bytes, which the writer has no form for.
std::string with_bytes(std::string file, std::string_view key, uint64_t count) {
  const auto number = [](uint64_t n, size_t size) { return std::string(reinterpret_cast<const char*>(&n), size); };
  const auto one_more = static_cast<uint64_t>(file[16]) + 1;
  std::string entry = number(key.size(), 8) + std::string(key) + number(9, 4) + number(0, 4);
  while ((entry.size() + 8 + count) % 32 != 0) ++count;
  entry += number(count, 8) + std::string(count, '\x01');
  return file.replace(16, 8, number(one_more, 8)).insert(24, entry);
}

// 32 MiB of bytes as rules, types or scores: refused by their length, or read where they lie.
TEST(GgufTokenizer, ArraysOfBytesAreNotSpreadOut) {
  constexpr uint64_t kCount = 32 << 20;
  const auto refused = [&](std::string_view key, const char* says) {
    Vocabulary v = kPieces;
    v.model = "t5";
    std::string bytes = bytes_of(v);
    if (const size_t at = bytes.find(key); at != std::string::npos) bytes[at + key.size() - 1] = 'x';
    bytes = with_bytes(std::move(bytes), key, kCount);
    const int64_t before = read_process_memory().resident_bytes;
    const bool reset = !kSanitized && reset_peak_resident();
    EXPECT_TRUE(throws(ErrorKind::bad_file, says, [&] { read(bytes); })) << key;
    if (reset) {
      EXPECT_LE(read_process_memory().peak_resident_bytes - before, int64_t{3} * kCount + (16 << 20)) << key;
    }
  };
  refused("tokenizer.ggml.precompiled_charsmap", "bytes of rules");
  refused("tokenizer.ggml.token_type", "entries, tokenizer.ggml.tokens has 6");
  refused("tokenizer.ggml.scores", "entries, tokenizer.ggml.tokens has 6");
}

TEST(GgufTokenizer, SaysWhatIsWrong) {
  const auto expect = [](const char* want, const std::function<void(Vocabulary&)>& change) {
    Vocabulary v;
    change(v);
    EXPECT_TRUE(throws(ErrorKind::bad_file, want, [&] { read(v); }));
  };
  expect("expected gpt2, llama, bert or t5", [](auto& v) { v.model = "rwkv"; });
  expect("a splitting rule tern does not know", [](auto& v) { v.pre = "other"; });
  expect("tokenizer.ggml.pre", [](auto& v) { v.pre = ""; });
  expect("3 entries, tokenizer.ggml.tokens has 4", [](auto& v) { v.types.pop_back(); });
  expect("has type 9", [](auto& v) { v.types[0] = 9; });
  expect("stands there twice", [](auto& v) { v.tokens[1] = "a"; });
  expect("'x' is not in the vocabulary", [](auto& v) { v.merges = {"x b"}; });
  expect("the vocabulary has 4 pieces", [](auto& v) { v.eos = 7; });
  expect("none of 4 pieces is the unknown piece", [](auto& v) { v.model = "llama", v.scores = {0, 0, 0, 0}; });
  expect("scores", [](auto& v) { v.model = "llama"; });
  expect("2 entries, tokenizer.ggml.tokens has 4", [](auto& v) { v.model = "llama", v.scores = {0, 0}; });
  expect("piece 2: inf", [](auto& v) { v.model = "llama", v.scores = {0, 0, INFINITY, 0}; });
  expect("none of 4 pieces is the unknown piece", [](auto& v) { v.model = "t5", v.scores = {0, 0, 0, 0}; });
}

TEST(GgufSplit, NamesAreFoundAgainByWhatTheyMean) {
  for (const char* name :
       {"gpt-2", "llama-bpe", "dbrx", "qwen2", "gpt-4o", "deepseek-v3", "starcoder", "falcon", "bloom", "default",
        "viking", "tekken", "qwen35", "kimi-k2", "seed-coder", "deepseek-llm", "deepseek-coder"}) {
    const Json steps = gguf_pre_tokenizer(name);
    ASSERT_FALSE(steps.is_null()) << name;
    EXPECT_EQ(gguf_pre_name(steps, gguf_takes_whole_words(name)), name);
    Vocabulary v;
    v.pre = name;
    EXPECT_EQ(read(v).encode("ab", {.add_special = false}), (std::vector<int32_t>{2})) << name;
  }
  EXPECT_TRUE(gguf_pre_tokenizer("llama").is_null()) << "no part of a name is a name";
  EXPECT_TRUE(gguf_pre_tokenizer("").is_null());
}

// A word is merged, a cut is not: what each rule keeps together of a text, seen by the pairs that merge. Each row's
// string has one letter for each pair below, in its order: + where the rule leaves the pair in one word.
TEST(GgufSplit, RulesCutWhereTheirModelsDo) {
  struct Pair {
    std::string text, left, right;  // the pieces as byte-level vocabularies spell them
  };
  const std::vector<Pair> pairs = {
      {"12", "1", "2"},       // two digits
      {"12341", "4", "1"},    // and a fourth and a fifth
      {"aB", "a", "B"},       // a capital inside a word
      {" a", "Ġ", "a"},       // a space before a letter
      {"-a", "-", "a"},       // a sign before a letter
      {"b\u0301", "b", "Ì"},  // a letter with a mark, which nothing composes
      {"!\n", "!", "Ċ"},      // a line's end behind a sign
      {"!/\n/", "Ċ", "/"},    // and a slash behind it
      {"\u4e00a", "Ģ", "a"},  // a Chinese character before a letter
      {"b's", "b", "'"},      // an English ending
      {"  a", "Ġ", "Ġ"},      // two spaces before a letter
      {"a, b", "a", ","},     // a sign behind a letter
      {" ,", "Ġ", ","},       // a space before a sign
  };
  const auto together = [&](const char* rule) {
    std::string row;
    for (const Pair& p : pairs) {
      Vocabulary v;
      v.pre = rule;
      v.tokens.clear(), v.types.clear();
      for (const char* piece :
           {"1", "2", "3", "4", "a", "b", "s", "B", "Ġ", "-", "!", "/", "'", ",", "Ċ", "Ì", "ģ", "ä", "¸", "Ģ"})
        v.tokens.emplace_back(piece), v.types.push_back(1);
      v.merges = {p.left + " " + p.right};
      v.tokens.push_back(p.left + p.right), v.types.push_back(1);
      const auto both = static_cast<int32_t>(v.tokens.size()) - 1;
      v.tokens.emplace_back("<|end|>"), v.types.push_back(3);
      v.eos = static_cast<uint32_t>(v.tokens.size()) - 1;
      const std::vector<int32_t> ids = read(v).encode(p.text, {.add_special = false});
      row += std::find(ids.begin(), ids.end(), both) != ids.end() ? '+' : '.';
    }
    return row;
  };
  EXPECT_EQ(together("qwen2"), "..+++.+.+...+");
  EXPECT_EQ(together("qwen35"), "..+++++.+...+");
  EXPECT_EQ(together("tekken"), "...++++++...+");
  EXPECT_EQ(together("kimi-k2"), "++.++++..+..+");
  EXPECT_EQ(together("seed-coder"), "..+++...+...+");
  EXPECT_EQ(together("viking"), "..+++++.++..+");
  EXPECT_EQ(together("deepseek-llm"), "..++........+");
  EXPECT_EQ(together("deepseek-coder"), "..++........+");
  EXPECT_EQ(together("hunyuan-dense"), "+++++++.....+");
}

TEST(GgufSplit, WhatTheFilesOfFamiliesSayHasItsName) {
  const auto name_of = [](const char* text, bool whole = false) { return gguf_pre_name(parse_json(text, "t"), whole); };
  EXPECT_EQ(name_of(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})"), "gpt-2");
  EXPECT_EQ(name_of(R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})"), "");
  const char* smollm = R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
                       R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})";
  EXPECT_EQ(name_of(smollm), "starcoder") << "SmolLM, Granite, StarCoder: one rule";
  const char* falcon = R"({"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Contiguous"},)"
                       R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
                       R"({"type":"Digits","individual_digits":false},{"type":"Split","pattern":{"Regex":)"
                       R"("[0-9][0-9][0-9]"},"behavior":"Isolated","invert":false}]})";
  EXPECT_EQ(name_of(falcon), "falcon");
  EXPECT_EQ(name_of(R"({"type":"Whitespace"})"), "");
}

TEST(GgufVocabularyMutationsSlow, LoadOrAreErrorsWithinBoundedMemory) {
  Vocabulary t5 = kPieces;
  t5.model = "t5";
  survive_mutations({bytes_of(Vocabulary{}), bytes_of(kPieces), bytes_of(kWords), bytes_of(t5)},
                    [](const std::string& bytes) {
                      const Tokenizer t = read(bytes);
                      t.decode(t.encode("ab a. \U0001F600 <|end|>"));
                    });
}

}  // namespace
}  // namespace tern
