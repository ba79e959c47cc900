#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/process_memory.h"
#include "base/utf8.h"
#include "formats/tokenizer/added.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/bpe_train.h"
#include "formats/tokenizer/golden_testing.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

Tokenizer golden_tokenizer(const std::string& name) { return Tokenizer::load(kTokenizerGolden / name); }

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path = std::filesystem::temp_directory_path() / ("tern_tokenizer_test." + std::to_string(::getpid()));
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
  }
  std::filesystem::path path;
};

std::string message_of(const std::filesystem::path& path) {
  try {
    Tokenizer::load(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    return e.what();
  }
  return "no error";
}

TEST(Tokenizer, ByteLevelDecodeUndoesEncode) {
  const Tokenizer t = golden_tokenizer("llama3_like");  // its NFC leaves what is composed already alone
  for (const std::string text :
       {"Hello, world!", " two  spaces ", "line\r\nend\n\n", "日本語 😀", "a\tb", "'tis don't", ""})
    EXPECT_EQ(t.decode(t.encode(text, {.add_special = false})), text);
}

TEST(Tokenizer, EveryByteSurvives) {
  const Tokenizer t = golden_tokenizer("llama3_like");
  std::string text;
  for (uint32_t c = 0; c < 0x180; ++c) append_utf8(text, c);
  EXPECT_EQ(t.decode(t.encode(text, {.add_special = false})), text);
}

TEST(Tokenizer, InvalidUtf8ReadsAsReplacementCharacters) {
  const Tokenizer t = golden_tokenizer("byte_level");
  EXPECT_EQ(t.encode("a\xFF\xC3z"), t.encode("a\xEF\xBF\xBD\xEF\xBF\xBDz"));
}

TEST(Tokenizer, SpecialTextIsPlainTextOnRequest) {
  const Tokenizer t = golden_tokenizer("byte_level");
  const int32_t eos = t.eos().value();
  EXPECT_EQ(t.encode("<|endoftext|>"), std::vector<int32_t>{eos});
  const auto plain = t.encode("<|endoftext|>", {.allow_special = false});
  EXPECT_EQ(std::ranges::count(plain, eos), 0);
  EXPECT_GT(plain.size(), 1u);
}

TEST(Tokenizer, AddsWhatTheTemplateSays) {
  const Tokenizer t = golden_tokenizer("sentencepiece_like");
  const auto with = t.encode("abc"), without = t.encode("abc", {.add_special = false});
  ASSERT_EQ(with.size(), without.size() + 2);
  EXPECT_EQ(with.front(), t.bos());
  EXPECT_EQ(with.back(), t.eos());
  EXPECT_TRUE(t.adds_bos());
  EXPECT_TRUE(t.adds_eos());
}

TEST(Tokenizer, SkipsSpecialTokensWhenDecoding) {
  const Tokenizer t = golden_tokenizer("sentencepiece_like");
  const auto ids = t.encode("hello");
  EXPECT_EQ(t.decode(ids), "<s> hello</s>");
  EXPECT_EQ(t.decode(ids, {.skip_special = true}), "hello");
}

TEST(Tokenizer, CleanUpRemovesSpacesBeforePunctuation) {
  const Tokenizer t = golden_tokenizer("llama3_like");
  const auto ids = t.encode("well , it 's done .", {.add_special = false});
  EXPECT_EQ(t.decode(ids), "well , it 's done .");
  EXPECT_EQ(t.decode(ids, {.clean_up = true}), "well, it's done.");
}

TEST(Tokenizer, StreamedPartsAreTheWholeAndEndAtCharacters) {
  for (const char* name : {"byte_level", "llama3_like", "sentencepiece_like", "metaspace", "splits"}) {
    const Tokenizer t = golden_tokenizer(name);
    Lcg rng(11);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids(1 + rng.below(30));
      for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint32_t>(t.vocab_size())));
      StreamingDecoder decoder(t);
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = decoder.push(id);
        ASSERT_TRUE(is_valid_utf8(part)) << name;
        text += part;
      }
      text += decoder.finish();
      ASSERT_EQ(text, t.decode(ids)) << name;
    }
  }
}

TEST(Tokenizer, AStreamShowsTextBeforeItEnds) {
  const Tokenizer t = golden_tokenizer("llama3_like");
  const auto ids = t.encode("Hello there 😀 you", {.add_special = false});
  StreamingDecoder decoder(t);
  std::string early;
  for (const int32_t id : ids) early += decoder.push(id);
  EXPECT_EQ(early, "Hello there 😀 you");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const Tokenizer t = golden_tokenizer("byte_level");
  std::vector<std::string> texts;
  ParityStrings strings(parity_alphabet(), 5);
  for (int i = 0; i < 400; ++i) texts.push_back(strings.next());
  std::vector<std::vector<int32_t>> want;
  for (const auto& text : texts) want.push_back(t.encode(text));
  std::atomic<int> different = 0;
  {
    std::vector<std::jthread> threads;
    for (int k = 0; k < 4; ++k)
      threads.emplace_back([&] {
        for (size_t i = 0; i < texts.size(); ++i) different += t.encode(texts[i]) != want[i];
      });
  }
  EXPECT_EQ(different, 0);
}

TEST(Tokenizer, AMegabyteWithoutSpacesIsNotQuadratic) {
  for (const char* name : {"byte_level", "sentencepiece_like"}) {
    const Tokenizer t = golden_tokenizer(name);
    const auto seconds = [&](size_t bytes) {
      Lcg rng(1);
      std::string text(bytes, 'a');
      for (char& c : text) c = static_cast<char>('a' + rng.below(26));
      const std::clock_t start = std::clock();  // of this process: on a busy machine it waits for others
      EXPECT_GT(t.encode(text).size(), bytes / 8);
      return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    };
    const double small = seconds(1 << 17), large = seconds(1 << 20);
    EXPECT_LT(large, 30 * small + 0.5) << name << ": eight times the text";  // quadratic would be 64
  }
}

// Llama 2's way: every space is "▁", one more stands first, merges end before it.
Tokenizer metaspace_tokenizer(const TemporaryFolder& folder) {
  std::string vocab = R"("<unk>": 0)";
  int id = 0;
  for (const char* piece : {"▁", "q", "u", "i", "c", "k", "t", "h", "e", "▁q", "ui", "ck", "he", "▁qui", "▁t", "▁the"})
    vocab += fmt::format(R"(, "{}": {})", piece, ++id);
  folder.write("tokenizer.json",
               R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
          "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {)" +
                   vocab + R"(}, "merges": ["▁ q", "u i", "c k", "▁q ui", "h e", "▁ t", "▁t he"]}})");
  return Tokenizer::load(folder.path);
}

TEST(Tokenizer, CutsDoNotChangeIds) {
  Lcg rng(2);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i % 7 ? " quick" : i % 3 ? ".\n\n  the " : " 12 don't tern u\u0308 x";
  TemporaryFolder folder;
  for (const Tokenizer& t :
       {golden_tokenizer("byte_level"), golden_tokenizer("llama3_like"), metaspace_tokenizer(folder)}) {
    const auto whole = t.encode(text, {.add_special = false});
    for (int i = 0; i < 50; ++i) {
      const TextCut cut = t.find_cut(text, 200 + rng.below(9000));
      ASSERT_GT(cut.end, 0u) << t.describe();
      auto ids = t.encode(std::string_view(text).substr(0, cut.end), {.add_special = false});
      t.encode_into(std::string_view(text).substr(cut.next), {.add_special = false}, ids);
      ASSERT_EQ(ids, whole) << t.describe() << " " << cut.end;
    }
    EXPECT_EQ(t.find_cut(std::string(9000, 'x'), 5000).end, 0u) << "a text without words";
  }
  EXPECT_EQ(golden_tokenizer("sentencepiece_like").find_cut(text, 1000).end, 0u) << "its merges reach over spaces";
}

TEST(Tokenizer, ReadsTheConfigBesideIt) {
  TemporaryFolder folder;
  std::filesystem::copy(kTokenizerGolden / "byte_level/tokenizer.json", folder.path / "tokenizer.json");
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "tern"}, "eos_token": "<mask>", "chat_template": "x"})");
  const Tokenizer t = Tokenizer::load(folder.path);
  EXPECT_EQ(t.bos(), t.id_of("tern"));
  EXPECT_EQ(t.eos(), t.id_of("<mask>"));
  EXPECT_TRUE(t.has_chat_template());
  folder.write("tokenizer_config.json", R"({"eos_token": "nowhere"})");
  EXPECT_NE(message_of(folder.path).find("eos_token 'nowhere'"), std::string::npos);
}

TEST(Tokenizer, FlagsDecideForFilePairs) {
  TemporaryFolder folder;
  folder.write("vocab.json", R"({"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3})");
  folder.write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(Tokenizer::load(folder.path).encode("ab"), (std::vector<int32_t>{3}));
  folder.write("tokenizer_config.json",
               R"({"add_bos_token": true, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})");
  const Tokenizer t = Tokenizer::load(folder.path / "vocab.json");
  EXPECT_EQ(t.encode("ab"), (std::vector<int32_t>{0, 3}));
  EXPECT_TRUE(t.adds_bos());
  t.save(folder.path / "saved");
  EXPECT_EQ(Tokenizer::load(folder.path / "saved").encode("ab"), (std::vector<int32_t>{0, 3}));
}

TEST(AddedMatcher, TakesTheLongestAndOfEqualSpellingsTheLast) {
  AddedMatcher matcher;
  const std::vector<std::string> spellings = {"<a", "<", "<ab>", "<b", "<a", "x"};
  std::vector<AddedToken> tokens;
  for (uint32_t i = 0; i < spellings.size(); ++i) {
    matcher.add(spellings[i], i);
    tokens.push_back({static_cast<int32_t>(i), spellings[i], false, false, false, false, false});
  }
  matcher.seal();
  std::vector<AddedMatcher::Part> parts;
  matcher.split("<ab><ab<b-<", tokens, true, parts);
  std::vector<int32_t> found;
  for (const AddedMatcher::Part& part : parts) found.push_back(part.token);
  EXPECT_EQ(found, (std::vector<int32_t>{2, 4, -1, 3, -1, 1})) << "<ab> · <a · b · <b · - · <";
}

// A file of long added tokens must not take a multiple of itself: a node per byte took 60 bytes for each.
TEST(Tokenizer, AddedTokensTakeMemoryByTheFilesSize) {
  TemporaryFolder folder;
  std::string added;
  int64_t content = 0;
  constexpr int kTokens = 2000;
  for (int i = 0; i < kTokens; ++i) {
    const std::string token = fmt::format("<{:04}{}>", i, std::string(4000, 'x'));
    content += static_cast<int64_t>(token.size());
    added += fmt::format(R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false,)"
                         R"( "normalized": false, "special": true}})",
                         i ? "," : "", i + 1, token);
  }
  folder.write("tokenizer.json", R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" +
                                     added +
                                     R"(], "normalizer": null, "pre_tokenizer": null, "post_processor": null,)"
                                     R"( "decoder": null, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  const int64_t before = read_process_memory().resident_bytes;
  if (!reset_peak_resident()) GTEST_SKIP() << "this kernel does not let a process forget its peak memory";
  const Tokenizer t = Tokenizer::load(folder.path);
  EXPECT_EQ(t.vocab_size(), kTokens + 1);
  EXPECT_LE(read_process_memory().peak_resident_bytes - before, 8 * content + (64 << 20));
}

TEST(Tokenizer, SaysWhatIsMissing) {
  TemporaryFolder folder;
  EXPECT_NE(message_of(folder.path).find("no tokenizer in this directory"), std::string::npos);
  EXPECT_NE(message_of(folder.path / "nothing").find("no such file"), std::string::npos);
  folder.write("tokenizer.model", std::string("\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02", 16));
  EXPECT_EQ(Tokenizer::load(folder.path).describe(), "Unigram, 1 pieces, 1 added token");
  folder.write("tokenizer.model", "YQ== 1\n");
  EXPECT_NE(message_of(folder.path).find("rank 0"), std::string::npos);
  folder.write("vocab.json", "{}");
  EXPECT_NE(message_of(folder.path).find("merges.txt is missing"), std::string::npos);
}

// A file of ranks does not say its pattern: anybody's but Llama 3's is refused, by name where the number tells.
TEST(Tokenizer, ReadsTheRanksOfLlama3AndRefusesOthers) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto base64_of = [&](uint32_t a, uint32_t b, uint32_t c, int bytes) {
    const uint32_t bits = a << 16 | b << 8 | c;
    std::string out;
    for (int i = 0; i < 4; ++i) out += i <= bytes ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    return out;
  };
  std::string ranks;
  for (uint32_t i = 0; i < 50256; ++i)
    ranks += fmt::format("{} {}\n", i < 256 ? base64_of(i, 0, 0, 1) : base64_of(i >> 8, i & 255, 'x', 3), i);
  TemporaryFolder folder;
  folder.write("tokenizer.model", ranks);
  EXPECT_NE(message_of(folder.path).find("50256 ranks of tiktoken's, as many as GPT-2's"), std::string::npos);
  folder.write("tokenizer.model", ranks.substr(0, ranks.find(" 300\n") + 5));
  EXPECT_NE(message_of(folder.path).find("301 ranks of tiktoken's: such a file"), std::string::npos);
}

// The pieces by the engine: matches, and what lies between them.
std::vector<size_t> piece_ends(const Regex& engine, std::string_view text) {
  std::vector<TextSpan> matches;
  TextBudget budget(text.size());
  engine.find_all(text, matches, budget);
  std::vector<size_t> ends;
  size_t done = 0;
  for (const TextSpan m : matches) {
    if (m.begin > done) ends.push_back(m.begin);
    if (m.end > m.begin) ends.push_back(m.end);
    done = m.end;
  }
  if (done < text.size()) ends.push_back(text.size());
  return ends;
}

void expect_same_pieces(ScanKind kind, const Regex& engine, const std::string& text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size(); ends.push_back(at)) at = scan_piece(kind, text, at);
  ASSERT_EQ(ends, piece_ends(engine, text)) << pattern_of(kind) << "\n" << quote_json(text);
}

class Scanners : public testing::TestWithParam<int> {};
TEST_P(Scanners, AgreeWithOniguruma) {
  const auto kind = static_cast<ScanKind>(GetParam());
  Regex engine(pattern_of(kind), "test");
  ASSERT_EQ(engine.scanner(), kind);
  engine.without_scanner();
  ASSERT_FALSE(engine.scanner());
  ParityStrings strings(parity_alphabet(), 17);
  for (int i = 0; i < 3000; ++i) expect_same_pieces(kind, engine, strings.next());
  // What the patterns hesitate about, in every order.
  const std::vector<std::string> parts = {" ",   "  ", "\n", "\r", "\t",     "\u00a0", "a",  "B",  "é",  "Ǆ",
                                          "ǅ",   "ʰ",  "日", "々", "\u0301", "'",      "'s", "'S", "'ſ", "'ll",
                                          "'RE", "1",  "٣",  "½",  "12",     "!",      ".",  "/",  "…",  "。",
                                          "(",   "|",  "+",  "😀",  "\u0001", "\u200d", "ー", "ܐ"};
  Lcg rng(9);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = 1 + rng.below(9); n > 0; --n) text += parts[rng.below(static_cast<uint32_t>(parts.size()))];
    expect_same_pieces(kind, engine, text);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Scanners, testing::Range(0, kNumScanKinds));

// Random merges over four letters, ranks with ties: looking through all pairs and the heap must agree.
TEST(Bpe, FewAndManyMergeAlike) {
  Lcg rng(31);
  for (int round = 0; round < 300; ++round) {
    BpeModel m;
    std::vector<std::string> texts = {"a", "b", "c", "d"};
    for (const std::string& text : texts) m.pieces.add(text, static_cast<int32_t>(m.pieces.num_ids()));
    for (uint32_t rank = 0; rank < 30; ++rank) {
      const std::string left = texts[rng.below(static_cast<uint32_t>(texts.size()))],
                        right = texts[rng.below(static_cast<uint32_t>(texts.size()))], both = left + right;
      if (m.pieces.add(both, static_cast<int32_t>(m.pieces.num_ids()))) texts.push_back(both);
      m.merge_list.push_back({*m.pieces.find(left), *m.pieces.find(right), *m.pieces.find(both), rank / 3});
    }
    m.finish();
    for (int i = 0; i < 20; ++i) {
      BpeScratch s;
      for (uint32_t n = 1 + rng.below(40); n > 0; --n) {
        const auto id = static_cast<int32_t>(rng.below(4));
        const auto at = static_cast<int32_t>(s.symbols.size());
        if (at > 0) s.symbols.back().next = at;
        s.symbols.push_back({id, at - 1, -1});
        s.pairs.push_back({id, -1, 0});
      }
      merge_few(m, s);
      merge_many(m, s);
      std::vector<int32_t> few, many;
      for (const BpeScratch::Pair& pair : s.pairs) few.push_back(pair.id);
      for (const BpeScratch::Symbol& symbol : s.symbols)
        if (symbol.id >= 0) many.push_back(symbol.id);
      ASSERT_EQ(few, many) << "round " << round;
    }
  }
}

TEST(Regex, RefusesWhatItCannotRun) {
  EXPECT_THROW(Regex("(", "test"), Error);
  EXPECT_THROW(Regex(std::string(70000, 'a'), "test"), Error);
  std::vector<TextSpan> matches;
  TextBudget budget(62);
  EXPECT_THROW(Regex("(x+x+)+y", "test").find_all(std::string(60, 'x') + " y", matches, budget), Error);
}

TEST(BpeTrain, LearnsTheMostFrequentPairFirst) {
  bool given = false;
  const Tokenizer t = train_bpe(
      [&](std::string_view& text) {
        text = "low low low lower lower newest newest newest newest widest widest";
        return !std::exchange(given, true);
      },
      {.vocab_size = 265});
  EXPECT_EQ(t.vocab_size(), 265);
  EXPECT_EQ(t.piece(0), "<|endoftext|>");
  EXPECT_EQ(t.piece(257), "es");  // 6 times, as "st": the pair of smaller ids
  EXPECT_EQ(t.piece(258), "est");
  EXPECT_EQ(t.eos(), 0);
  EXPECT_EQ(t.decode(t.encode("newest lows")), "newest lows");
}

TEST(BpeTrain, RefusesTooFewPieces) {
  EXPECT_THROW(train_bpe([](std::string_view&) { return false; }, {.vocab_size = 256}), Error);
}

}  // namespace
}  // namespace tern
