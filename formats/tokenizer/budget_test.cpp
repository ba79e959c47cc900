// What a stranger's small tokenizer.json may make of a text: every shape that once filled the memory or never ended, and
// random compositions of steps.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "formats/tokenizer/literal.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

Json sound() {
  Json vocab = Json::object();
  int id = 0;
  for (const char* piece : {"<unk>", "a", "b", "\xC4\xA0", "ab", "\xE2\x96\x81", "c", "1", "."}) vocab[piece] = id++;
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", Json::array({"a b"})}}}};
}

Json sequence(const char* list, const Json& step, int times) {
  Json steps = Json::array();
  for (int i = 0; i < times; ++i) steps.push_back(step);
  return {{"type", "Sequence"}, {list, steps}};
}

Tokenizer made(const Json& json) { return Tokenizer::from_json(dump_json(json), "", "t"); }

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "";
}

const Json kDoubling = {{"type", "Replace"}, {"pattern", {{"Regex", "(?=.)"}}}, {"content", "ab"}};

TEST(TokenizerBudget, DecodersThatDoubleTheTextAreRefused) {
  Json j = sound();
  j["decoder"] = sequence("decoders", kDoubling, 32);
  const Tokenizer t = made(j);
  const std::vector<int32_t> ids(50, 1);
  EXPECT_NE(refusal([&] { t.decode(ids); }).find("the decoder makes more than 64 bytes"), std::string::npos);
  j["decoder"] = sequence("decoders", {{"type", "Fuse"}}, 1);
  j["decoder"]["decoders"].push_back(kDoubling);
  EXPECT_EQ(made(j).decode(std::vector<int32_t>{1, 1}), "abaaba") << "one of them may";
}

TEST(TokenizerBudget, ByteLevelStepsThatDoubleTheTextAreRefused) {
  for (const char* part : {"normalizer", "pre_tokenizer"}) {
    Json j = sound();
    const bool normalizer = std::string_view(part) == "normalizer";
    j[part] =
        normalizer
            ? sequence("normalizers", {{"type", "ByteLevel"}}, 40)
            : sequence(
                  "pretokenizers",
                  {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}},
                  40);
    const Tokenizer t = made(j);
    EXPECT_NE(refusal([&] {
                t.encode("\xC3\xA4\xC3\xB6");
              }).find(normalizer ? "the normalizer makes" : "the pre-tokenizer makes"),
              std::string::npos)
        << part;
  }
}

TEST(TokenizerBudget, PrependOfAMegabyteToEveryPartOrAddedTokenIsRefused) {
  Json j = sound();
  j["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(1'000'000, 'a')}};
  for (int i = 0; i < 2000; ++i)
    j["added_tokens"].push_back({{"id", 100 + i},
                                 {"content", "<" + std::to_string(i) + ">"},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", true},
                                 {"special", false}});
  EXPECT_NE(refusal([&] { made(j); }), "");
  for (Json& token : j["added_tokens"]) token["normalized"] = false;
  const Tokenizer t = made(j);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "a<1>";
  EXPECT_NE(refusal([&] { t.encode(text); }), "") << "each part of the text has a megabyte in front";
}

TEST(TokenizerBudget, TemplatesOfManyIdsAndListsOfManyStepsAreRefused) {
  Json j = sound();
  Json single = Json::array(), ids = Json::array();
  for (int i = 0; i < 10'000; ++i) {
    single.push_back({{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}});
    ids.push_back(1);
  }
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  j["post_processor"] = {{"type", "TemplateProcessing"},
                         {"single", single},
                         {"pair", single},
                         {"special_tokens", {{"x", {{"id", "x"}, {"ids", ids}, {"tokens", Json::array()}}}}}};
  EXPECT_NE(refusal([&] { made(j); }).find("ids around every text"), std::string::npos);
  j = sound();
  j["normalizer"] = sequence("normalizers", {{"type", "Lowercase"}}, 257);
  EXPECT_NE(refusal([&] { made(j); }).find("257 steps"), std::string::npos);
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(TokenizerBudget, StepsOfAPatternAreCountedOverTheWholeText) {
  const Regex slow("(?:(a+)+b|a)", "t");  // on each run of a's exponential, and then the next run
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::string(21, 'a') + " ";
  std::vector<TextSpan> matches;
  TextBudget budget(text.size());
  std::string message;
  const double seconds = seconds_of([&] { message = refusal([&] { slow.find_all(text, matches, budget); }); });
  EXPECT_NE(message.find("simpler pattern"), std::string::npos) << matches.size() << " matches";
  EXPECT_LT(seconds, 3) << "4.9 s for 89 bytes before";
  // What tokenizers have in truth is far below: words, numbers and a lookahead over a long text.
  const Regex usual(R"(\s+(?!\S)|\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]+|\s+)", "t");
  std::string prose;
  while (prose.size() < 200'000) prose += "The quick brown fox, 12345 of them,   jumped.\n";
  TextBudget plenty(prose.size());
  const int64_t before = plenty.steps_left();
  EXPECT_EQ(refusal([&] { usual.find_all(prose, matches, plenty); }), "");
  EXPECT_GT(plenty.steps_left(), before - static_cast<int64_t>(prose.size())) << "under a step a byte is paid";
}

// Parts of a text share its budget: what a pre-tokenizer makes of each is spent.
TEST(TokenizerBudget, WhatThePreTokenizerMakesOfAllPartsIsCountedTogether) {
  Json j = sound();
  j["added_tokens"].push_back({{"id", 9},
                               {"content", "<x>"},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", false},
                               {"special", true}});
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  j["pre_tokenizer"] = sequence("pretokenizers", bytes, 18);
  const Tokenizer t = made(j);
  EXPECT_EQ(refusal([&] { t.encode("\xC3\xA4<x>"); }), "");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "\xC3\xA4<x>";
  EXPECT_NE(refusal([&] { t.encode(text); }).find("the pre-tokenizer makes more than 64 bytes"), std::string::npos);
}

TEST(TokenizerBudget, TheWorkOfAllStepsIsCounted) {
  Json j = sound();
  j["normalizer"] = sequence("normalizers", {{"type", "Lowercase"}}, 250);
  j["normalizer"]["normalizers"][0] = {{"type", "Prepend"}, {"prepend", std::string(900'000, 'b')}};
  const Tokenizer grown = made(j);
  EXPECT_NE(refusal([&] { grown.encode("a"); }).find("the normalizer takes more than 2048 times the work"),
            std::string::npos);
  j = sound();
  const Json each = {{"type", "Split"}, {"pattern", {{"Regex", "(?=.)"}}}, {"behavior", "Isolated"}, {"invert", false}};
  j["pre_tokenizer"] = sequence("pretokenizers", each, 250);
  const Tokenizer searched = made(j);
  EXPECT_EQ(searched.encode("aaaa").size(), 4u);
  EXPECT_NE(refusal([&] { searched.encode(std::string(7'000, 'a')); }).find("is searched for more than 128 times"),
            std::string::npos)
      << "some three searches for each word and step";
}

// Pieces that begin as the text does, and end otherwise.
TEST(TokenizerBudget, LookingForLongPiecesIsCounted) {
  const std::string text(20'000, 'a'), nearly = text + "b";
  Json j = sound();
  j["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", false}};
  j["model"]["vocab"] =
      Json::array({Json::array({"<unk>", 0.0}), Json::array({"a", -1.0}), Json::array({nearly, -2.0})});
  EXPECT_NE(refusal([&] { made(j).encode(text); }).find("finding pieces takes more than"), std::string::npos);
  EXPECT_EQ(made(j).encode(text.substr(0, 1000)).size(), 1000u);
  j["model"] = {{"type", "WordPiece"},
                {"unk_token", "<unk>"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 1'000'000},
                {"vocab", {{"<unk>", 0}, {"a", 1}, {"##a", 2}, {"##" + nearly, 3}}}};
  EXPECT_NE(refusal([&] { made(j).encode(text); }).find("finding pieces takes more than"), std::string::npos);
  EXPECT_EQ(made(j).encode(text.substr(0, 1000)).size(), 1000u);
  j = sound();
  j["added_tokens"].push_back({{"id", 9},
                               {"content", std::string(4095, 'a') + "b"},  // as long as is read
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", false},
                               {"special", false}});
  EXPECT_NE(refusal([&] { made(j).encode(text); }).find("finding added tokens takes more than"), std::string::npos);
}

TEST(TokenizerBudget, StepsBehindFuseLookAtEachByteOnce) {
  Json j = sound();
  j["decoder"] = sequence("decoders", {{"type", "Fuse"}}, 1);
  // This one waits for all of the text and hands it on as one part.
  j["decoder"]["decoders"].push_back({{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", "b"}});
  j["decoder"]["decoders"].push_back({{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", "cc"}});
  const Tokenizer literal = made(j);
  std::string text;
  EXPECT_LT(seconds_of([&] { text = literal.decode(std::vector<int32_t>(400'000, 1)); }), 3)
      << "9 s for 240,000 bytes before";
  EXPECT_EQ(text, std::string(800'000, 'c'));
  j["decoder"] = sequence("decoders", {{"type", "Fuse"}}, 1);
  j["decoder"]["decoders"].push_back({{"type", "Strip"}, {"content", "a"}, {"start", 0}, {"stop", 1'000'000}});
  const Tokenizer strip = made(j);
  std::vector<int32_t> ids(100'000, 1);
  ids[0] = 2;
  EXPECT_LT(seconds_of([&] { text = strip.decode(ids); }), 3);
  EXPECT_EQ(text, "b");
}

// What `literal`, found from the left, becomes in `text`; then up to `start` and `stop` a's go from its ends.
std::string replaced_and_stripped(std::string text, const std::string& literal, const std::string& content,
                                  size_t start, size_t stop) {
  for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + content.size()))
    text.replace(at, literal.size(), content);
  for (; start > 0 && text.starts_with('a'); --start) text.erase(0, 1);
  for (; stop > 0 && text.ends_with('a'); --stop) text.pop_back();
  return text;
}

TEST(TokenizerBudget, LiteralsAndStripsInPartsAreThoseOfTheWhole) {
  const std::vector<std::string> pieces = {"a", "b", "\xC4\xA0", "ab", "\xE2\x96\x81", "c"};  // ids from 1 on
  const std::vector<std::string> literals = {"a",
                                             "ab",
                                             "aa",
                                             "aba",
                                             "abab",
                                             "aabaaa",
                                             "bab",
                                             "abac",
                                             "cab",
                                             "\xC4\xA0"
                                             "a",
                                             "a\xC4\xA0",
                                             "\xE2\x96\x81\xC4\xA0"};
  const std::vector<std::string> contents = {"", "a", "ab", "ca", "\xC4\xA0"};
  uint64_t drawn = 0;
  const auto draw = [&](uint64_t below) { return random_u64({18, 9}, drawn++) % below; };
  for (int round = 0; round < 1500; ++round) {
    const std::string literal = literals[draw(literals.size())], content = contents[draw(contents.size())];
    const size_t start = draw(4), stop = draw(4);
    Json j = sound();
    j["decoder"] = sequence("decoders", {{"type", "Fuse"}}, 1);
    j["decoder"]["decoders"].push_back({{"type", "Replace"}, {"pattern", {{"String", literal}}}, {"content", content}});
    j["decoder"]["decoders"].push_back({{"type", "Strip"}, {"content", "a"}, {"start", start}, {"stop", stop}});
    std::vector<int32_t> ids;
    std::string text;
    for (uint64_t n = draw(30); n-- > 0;) {
      const uint64_t piece = draw(draw(2) ? 2 : pieces.size());  // mostly a and b
      ids.push_back(static_cast<int32_t>(piece) + 1);
      text += pieces[piece];
    }
    ASSERT_EQ(made(j).decode(ids), replaced_and_stripped(text, literal, content, start, stop))
        << "round " << round << ": '" << literal << "' -> '" << content << "' in '" << text << "'";
  }
}

// What literals find, beside the standard library: in texts that repeat, and long enough for their own search.
TEST(TokenizerBudget, LongLiteralsAreFoundWhereTheyStandInTheTimeOfTheText) {
  uint64_t drawn = 0;
  const auto draw = [&](uint64_t below) { return random_u64({18, 10}, drawn++) % below; };
  for (int round = 0; round < 300; ++round) {
    std::string unit, text;
    for (uint64_t n = 1 + draw(6); n-- > 0;) unit += "ab"[draw(2)];
    while (text.size() < 400) text += draw(12) == 0 ? std::string(1, "abc"[draw(3)]) : unit;
    const std::string literal = text.substr(draw(300), 1 + draw(60));
    std::vector<TextSpan> want, got;
    for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
      want.push_back({at, at + literal.size()});
    find_literal(text, literal, got);
    ASSERT_EQ(got, want) << "'" << literal << "' in '" << text << "'";
  }
  std::vector<TextSpan> none;
  find_literal("short", std::string(40, 's'), none);
  EXPECT_TRUE(none.empty());
  Json j = sound();
  j["normalizer"] =
      sequence("normalizers",
               {{"type", "Replace"}, {"pattern", {{"String", std::string(20'000, 'a') + "b"}}}, {"content", "c"}}, 40);
  const Tokenizer t = made(j);
  size_t num_ids = 0;
  EXPECT_LT(seconds_of([&] { num_ids = t.encode(std::string(400'000, 'a')).size(); }), 3);
  EXPECT_EQ(num_ids, 400'000u);
}

TEST(TokenizerBudget, StepsOfALongPatternCostMore) {
  const Regex brief("a(?=b)|zz", "t"), lengthy("a(?=b)|" + std::string(3000, 'z'), "t");
  const auto paid = [](const Regex& regex) {
    int64_t steps = 0;
    for (size_t n = 500; n <= 12'000; n += 500) {
      std::vector<TextSpan> matches;
      TextBudget budget(0);
      const int64_t before = budget.steps_left();
      regex.find_all(std::string(n, 'a'), matches, budget);
      steps += before - budget.steps_left();
    }
    return steps;
  };
  EXPECT_GT(paid(brief), 0);
  EXPECT_GT(5 * paid(lengthy), 6 * paid(brief));
}

// Compositions of steps drawn at random: whatever a small file strings together, the text stays within its bound.
TEST(TokenizerBudget, RandomCompositionsStayWithinTheirBounds) {
  constexpr uint64_t kSeed = 20261123;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  uint64_t drawn = 0;
  const auto draw = [&](uint64_t below) { return random_u64({kSeed, 7}, drawn++) % below; };
  const std::vector<std::string> texts = {"",      "a",      "ab", "aaaa", "(?=.)", "x*",
                                          "[ab]?", "(a|b)*", ".",  "$",    "\\b",   " "};
  const auto pick = [&] { return texts[draw(texts.size())]; };
  const auto pattern = [&]() -> Json { return {{draw(2) ? "Regex" : "String", pick()}}; };
  const auto normalizer = [&]() -> Json {
    switch (draw(7)) {
      case 0:
        return {{"type", "Prepend"}, {"prepend", pick() + std::string(draw(2) ? 40'000 : 0, 'b')}};
      case 1:
        return {{"type", "ByteLevel"}};
      case 2:
        return {{"type", "NFKD"}};
      case 3:
        return {{"type", "BertNormalizer"}};
      default:
        return {
            {"type", "Replace"}, {"pattern", pattern()}, {"content", pick() + std::string(draw(2) ? 3'000 : 0, 'a')}};
    }
  };
  const auto splitter = [&]() -> Json {
    switch (draw(4)) {
      case 0:
        return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", draw(2) == 0}};
      case 1:
        return {{"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "always"}, {"split", true}};
      default:
        return {{"type", "Split"},
                {"pattern", pattern()},
                {"behavior", draw(2) ? "Isolated" : "MergedWithNext"},
                {"invert", draw(2) == 0}};
    }
  };
  const auto decoder = [&]() -> Json {
    switch (draw(6)) {
      case 0:
        return {{"type", "Fuse"}};
      case 1:
        return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
      case 2:
        return {{"type", "WordPiece"}, {"prefix", pick()}, {"cleanup", draw(2) == 0}};
      case 3:
        return {{"type", "BPEDecoder"}, {"suffix", pick()}};
      default:
        return {
            {"type", "Replace"}, {"pattern", pattern()}, {"content", pick() + std::string(draw(2) ? 3'000 : 0, 'a')}};
    }
  };
  const auto list = [&](const char* name, const auto& one) {
    Json steps = Json::array();
    for (uint64_t n = draw(draw(4) == 0 ? 60 : 6); n-- > 0;) steps.push_back(one());
    return Json{{"type", "Sequence"}, {name, steps}};
  };
  const char* given = std::getenv("TERN_COMPOSITIONS");  // 20,000 for the long run
  const int rounds = given ? std::atoi(given) : 16;
  int accepted = 0, refused = 0;
  double slowest = 0;
  for (int round = 0; round < rounds; ++round) {
    Json j = sound();
    j["normalizer"] = list("normalizers", normalizer);
    j["pre_tokenizer"] = list("pretokenizers", splitter);
    j["decoder"] = list("decoders", decoder);
    const std::string text = std::string(draw(4) == 0 ? 4'000 : 40, draw(2) ? 'a' : 'b') + " 1.\xC3\xA4";
    size_t made_bytes = 0;
    const double seconds = seconds_of([&] {
      const std::string message = refusal([&] {
        const Tokenizer t = made(j);
        const std::vector<int32_t> ids = t.encode(text);
        made_bytes = ids.size();
        made_bytes = std::max(made_bytes, t.decode(ids.size() > 5000 ? std::vector<int32_t>(5000, 1) : ids).size());
      });
      (message.empty() ? accepted : refused) += 1;
    });
    slowest = std::max(slowest, seconds);
    ASSERT_LE(made_bytes, 64 * std::max<size_t>(text.size(), 64 * text.size()) + (4 << 20))
        << dump_json(j).substr(0, 2000);
    ASSERT_LT(seconds, 10) << "round " << round << ": " << dump_json(j).substr(0, 2000);
  }
  EXPECT_GT(accepted, rounds / 10);
  EXPECT_GT(refused, rounds / 20);
  std::printf("%d accepted, %d refused, the slowest %.2f s\n", accepted, refused, slowest);
}

}  // namespace
}  // namespace tern
