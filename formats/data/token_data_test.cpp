#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/memory_io.h"
#include "base/process_memory.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/utf8.h"
#include "formats/chat/template_files.h"
#include "formats/chat/training.h"
#include "formats/data/pack.h"
#include "formats/data/text_data.h"
#include "formats/data/token_data.h"
#include "formats/format_test_support.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

class TokenDataTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tern_token_data_test." + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string message_of(const std::filesystem::path& input) {
    try {
      pack({input}, tokenizer_, folder_ / "out.safetensors");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file);
      return e.what();
    }
    return "no error";
  }
  std::vector<int32_t> all(const TokenData& d) {
    std::vector<int32_t> ids(static_cast<size_t>(d.num_tokens()));
    d.read(0, ids);
    return ids;
  }
  std::filesystem::path folder_;
  Tokenizer tokenizer_ = Tokenizer::load(std::filesystem::path(source_dir()) / "tests/golden/tokenizers/llama3_like");
};

TEST_F(TokenDataTest, DocumentsArePartedByTheLineAndEndWithEos) {
  const auto input =
      write("a.txt", "one\n<|endoftext|>\ntwo <|endoftext|> more\r\n<|endoftext|>\r\n<|endoftext|>\nthree");
  const TokenFileInfo info = pack({input}, tokenizer_, folder_ / "a.safetensors");
  const TokenData d = TokenData::open(folder_ / "a.safetensors");
  EXPECT_EQ(info.num_documents, 3);
  EXPECT_EQ(d.num_documents(), 3);
  EXPECT_EQ(d.info().tokenizer_hash, tokenizer_.hash());
  EXPECT_EQ(d.info().text_bytes, 4 + 24 + 5);
  EXPECT_FALSE(d.has_loss());
  const std::vector<std::string> texts = {"one\n", "two <|endoftext|> more\r\n", "three"};
  for (size_t k = 0; k < 3; ++k) {
    std::vector<int32_t> want = {tokenizer_.bos().value()};
    tokenizer_.encode_into(texts[k], {.add_special = false, .allow_special = false}, want);
    if (tokenizer_.eos()) want.push_back(*tokenizer_.eos());
    std::vector<int32_t> got(static_cast<size_t>(d.documents()[k + 1] - d.documents()[k]));
    d.read(d.documents()[k], got);
    EXPECT_EQ(got, want) << texts[k];
    EXPECT_EQ(d.document_of(d.documents()[k]), static_cast<int64_t>(k));
    EXPECT_EQ(d.document_of(d.documents()[k + 1] - 1), static_cast<int64_t>(k));
  }
}

TEST_F(TokenDataTest, OnlyAWholeLinePartsDocuments) {
  const auto input = write("a.txt", "one <|endoftext|>\n<|endoftext|> two\n");
  EXPECT_EQ(pack({input}, tokenizer_, folder_ / "a.safetensors").num_documents, 1);
}

TEST_F(TokenDataTest, LossFallsOnTheCompletionOnly) {
  const auto input = write("a.jsonl", "{\"prompt\": \"Q: x\", \"completion\": \" A\"}\n\n{\"text\": \"plain\"}\n");
  pack({input}, tokenizer_, folder_ / "a.safetensors");
  const TokenData d = TokenData::open(folder_ / "a.safetensors");
  ASSERT_TRUE(d.has_loss());
  const auto prompt = tokenizer_.encode("Q: x", {.add_special = false}),
             answer = tokenizer_.encode(" A", {.add_special = false});
  const int64_t first = 1 + static_cast<int64_t>(prompt.size());
  for (int64_t i = 0; i < d.num_tokens(); ++i) EXPECT_EQ(d.loss(i), i >= first) << i;
  EXPECT_EQ(all(d)[static_cast<size_t>(first)], answer[0]);
}

// Without a chat template an instruction is Alpaca's own text; with one it is a conversation.
TEST_F(TokenDataTest, InstructionsAreAlpacasTextOrConversations) {
  const auto rows = write("a.jsonl", R"({"instruction": "Add.", "input": "1 2", "output": "3"})"
                                     "\n"
                                     R"({"instruction": "Speak.", "input": "", "output": "So."})"
                                     "\n");
  const std::string head = "Below is an instruction that describes a task",
                    ask = "Write a response that appropriately completes the request.\n\n### Instruction:\n";
  const Json with = {{"prompt", head + ", paired with an input that provides further context. " + ask +
                                    "Add.\n\n### Input:\n1 2\n\n### Response:"},
                     {"completion", "3"}},
             without = {{"prompt", head + ". " + ask + "Speak.\n\n### Response:"}, {"completion", "So."}};
  const auto pairs = write("b.jsonl", with.dump() + "\n" + without.dump() + "\n");
  const auto talks = write(
      "c.jsonl", R"({"messages": [{"role": "user", "content": "Add.\n1 2"}, {"role": "assistant", "content": "3"}]})"
                 "\n"
                 R"({"conversations": [{"from": "human", "value": "Speak."}, {"from": "gpt", "value": "So."}]})"
                 "\n");
  const auto packed = [&](const std::filesystem::path& from, const ChatTraining* chat) {
    PackOptions how;
    how.chat = chat;
    pack({from}, tokenizer_, folder_ / "packed.safetensors", how);
    const TokenData d = TokenData::open(folder_ / "packed.safetensors");
    std::vector<int32_t> tokens = all(d);
    for (int64_t i = 0; i < d.num_tokens(); ++i) tokens.push_back(d.loss(i));
    return tokens;
  };
  EXPECT_EQ(packed(rows, nullptr), packed(pairs, nullptr));
  ChatTemplates templates;
  templates.by_name["default"] = {
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      "t.jinja"};
  const ChatTraining chat(templates, tokenizer_);
  EXPECT_EQ(packed(rows, &chat), packed(talks, &chat));
  EXPECT_NE(packed(rows, &chat), packed(rows, nullptr));
  EXPECT_NE(message_of(write("d.jsonl", R"({"instruction": "i", "output": "o", "system": "s"})"
                                        "\n"))
                .find("needs a chat template"),
            std::string::npos);
}

TEST_F(TokenDataTest, SaysWhatIsWrongAndWhere) {
  EXPECT_NE(message_of(write("a.jsonl", "{\"text\": \"x\"}\n{\"txt\": \"x\"}\n")).find("line 2: unknown key 'txt'"),
            std::string::npos);
  EXPECT_NE(message_of(write("b.jsonl", "{\"prompt\": \"x\"}\n")).find("both 'prompt' and 'completion'"),
            std::string::npos);
  EXPECT_NE(message_of(write("c.jsonl", "{\"text\": 3}\n")).find("line 1"), std::string::npos);
  EXPECT_NE(message_of(write("d.jsonl", "[1]\n")).find("instead of an object"), std::string::npos);
  EXPECT_NE(message_of(write("e.txt", "")).find("empty"), std::string::npos);
  EXPECT_NE(message_of(write("f.txt", "a\nb\xFF")).find("not UTF-8"), std::string::npos);
  EXPECT_NE(message_of(write("g.txt", "\x1F\x8B\x08")).find("gzip"), std::string::npos);
  EXPECT_NE(message_of(write("h.txt", "<|endoftext|>\n")).find("no text to pack"), std::string::npos);
  EXPECT_NE(message_of(folder_ / "none.txt").find("none.txt"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
}

// A changed id within the vocabulary is as good as any other, but for the checksum.
TEST_F(TokenDataTest, SeesEveryChangedByteOfWhatWasPacked) {
  const auto path = folder_ / "out.safetensors";
  pack({write("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"text\": \"efg\"}\n")}, tokenizer_, path);
  const std::string whole = read_bytes(path.string());
  const size_t header = 8 + static_cast<uint8_t>(whole[0]) + 256 * static_cast<uint8_t>(whole[1]);
  int refused = 0;
  for (size_t i = 8; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    write_bytes(path.string(), changed);
    bool opens = true;
    try {
      TokenData::open(path);
    } catch (const Error&) { opens = false; }
    refused += !opens;
    if (i >= header) { EXPECT_FALSE(opens) << "byte " << i << " of the data"; }
    const bool blank = i < header && (whole[i] == ' ' || changed[i] == ' ');
    if (i < header && !blank) { EXPECT_FALSE(opens) << "byte " << i << " of the header, '" << whole[i] << "'"; }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(TokenDataTest, ALongDocumentIsRefusedBeforeItTakesMoreThanItMay) {
  const auto outcome = [&](const std::filesystem::path& input, int64_t memory_bytes) -> std::string {
    int64_t most = 0;
    try {
      pack({input}, tokenizer_, folder_ / "out.safetensors", {.memory_bytes = memory_bytes, .most_bytes = &most});
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
      return e.what();
    }
    return std::to_string(most);
  };
  std::string words;
  while (words.size() < size_t{5} << 20) words += "some words ";
  const auto json = write("long.jsonl", "{\"text\": \"short\"}\n{\"text\": \"" + words + "\"}\n");
  const auto line = static_cast<int64_t>(words.size()) + 12;
  EXPECT_NE(outcome(json, 4 * line - 1).find("long.jsonl: line 2: a document of 5.00 MiB, which takes up to 20.0 MiB"),
            std::string::npos)
      << outcome(json, 4 * line - 1);
  EXPECT_EQ(outcome(json, 4 * line), std::to_string(4 * (line - 12))) << "encoded in parts of a mebibyte";
  const auto text = write("long.txt", words);
  EXPECT_EQ(outcome(text, 0), "0") << "a text that can be cut takes no more than any other";
  const auto solid = write("solid.txt", std::string(size_t{2} << 20, 'x'));
  EXPECT_NE(outcome(solid, 79 << 20).find("up to 80.0 MiB"), std::string::npos) << outcome(solid, 79 << 20);
}

// Longer than the reader repairs at once.
TEST_F(TokenDataTest, ALongTextThatIsNoUtf8IsPackedAsTheRepairedWhole) {
  const std::vector<std::string> parts = {"some ",    "wo\xFFrds ", "caf\xC3\xA9 ", "\xE2\x82 ",
                                          "\x80\x80", "a b c ",     "\xF0\x9F"};
  std::string text;
  for (uint64_t i = 0; text.size() < size_t{9} << 19; ++i) text += parts[random_u64({18, 5}, i) % parts.size()];
  for (const char* name : {"broken", "whole"}) std::filesystem::create_directories(folder_ / name);
  const auto packed = [&](const std::string& of, const char* name, InvalidUtf8 how) {
    const auto input = write(std::string(name) + "/a.txt", of);
    const auto output = folder_ / (std::string(name) + ".safetensors");
    int told = 0;
    pack({input}, tokenizer_, output, {.invalid_utf8 = how, .tell = [&](const std::string&) { ++told; }});
    EXPECT_EQ(told, of == text) << "documents that were changed are counted";
    return read_bytes(output.string());
  };
  EXPECT_EQ(packed(text, "broken", InvalidUtf8::replace), packed(make_valid_utf8(text), "whole", InvalidUtf8::error));
  EXPECT_EQ(packed(text, "broken", InvalidUtf8::skip), packed(without_invalid_utf8(text), "whole", InvalidUtf8::error));
}

TEST_F(TokenDataTest, ALongTextThatIsNoUtf8IsRefusedBeforeItIsRepaired) {
  std::string text;
  while (text.size() < size_t{24} << 20) text += "ab\xFF\xC3";  // nothing to cut it at, and twice as long repaired
  const auto input = write("broken.txt", text);
  const auto bytes = static_cast<int64_t>(text.size());
  text = {};
  const int64_t before = read_process_memory().resident_bytes;
  const bool counted = !kSanitized && reset_peak_resident();
  std::string message;
  try {
    pack({input}, tokenizer_, folder_ / "out.safetensors",
         {.invalid_utf8 = InvalidUtf8::replace, .memory_bytes = 80 * bytes - 1});
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    message = e.what();
  }
  EXPECT_NE(message.find("a document of 24.0 MiB, which takes up to 1.8"), std::string::npos) << message;
  if (counted) { EXPECT_LT(read_process_memory().peak_resident_bytes - before, int64_t{16} << 20); }
}

TEST_F(TokenDataTest, ManyValuesOfALineAndManyDocumentsAreCountedToo) {
  const auto refusal = [&](const std::filesystem::path& input, int64_t memory_bytes) -> std::string {
    try {
      pack({input}, tokenizer_, folder_ / "out.safetensors", {.memory_bytes = memory_bytes});
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  std::string values = "{\"text\": \"a\", \"list\": [1";
  for (int i = 0; i < 100'000; ++i) values += ",1";  // 200 kB that are 16 bytes each once they are parsed
  const auto json = write("values.jsonl", values + "]}\n");
  EXPECT_NE(refusal(json, 4 << 20).find("line 1: a document of 195 KiB, which takes up to 6.87 MiB"), std::string::npos)
      << refusal(json, 4 << 20);
  EXPECT_NE(refusal(json, 64 << 20).find("unknown key 'list'"), std::string::npos) << refusal(json, 64 << 20);
  std::string documents;
  for (int i = 0; i < 70'000; ++i) documents += "a\n<|endoftext|>\n";
  const auto text = write("many.txt", documents);
  EXPECT_NE(refusal(text, 1'500'000).find("65536 documents so far, whose ends take up to 1.50 MiB"), std::string::npos)
      << refusal(text, 1'500'000);
  EXPECT_EQ(refusal(text, 1'600'000), "");
}

TEST_F(TokenDataTest, ADamagedCacheIsPackedAgain) {
  const auto text = write("a.txt", "some text to pack");
  const std::filesystem::path cache = folder_ / "cache";
  const TokenData first = load_or_pack(text, tokenizer_, cache);
  const std::string packed = std::filesystem::directory_iterator(cache)->path().string();
  const std::string whole = read_bytes(packed);
  std::string changed = whole;
  changed.back() ^= 1;
  write_bytes(packed, changed);
  load_or_pack(text, tokenizer_, cache);
  EXPECT_EQ(read_bytes(packed), whole);
}

TEST_F(TokenDataTest, RefusesDamagedTokenFiles) {
  const auto path = (folder_ / "t.safetensors").string();
  const auto refuse = [&](std::vector<uint16_t> tokens, std::vector<int64_t> documents, SafetensorsMetadata metadata) {
    const std::vector<TensorToWrite> tensors = {
        {"tokens", DType::u16, {static_cast<int64_t>(tokens.size())}, std::as_bytes(std::span(tokens)), {}},
        {"documents", DType::i64, {static_cast<int64_t>(documents.size())}, std::as_bytes(std::span(documents)), {}}};
    write_safetensors(real_io(), path, tensors, metadata);
    try {
      TokenData::open(path);
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("no error");
  };
  const SafetensorsMetadata good = {{"format", "tern-tokens-1"}, {"vocab_size", "10"}, {"text_bytes", "3"}};
  EXPECT_EQ(refuse({1, 2, 3}, {0, 1, 3}, good), "no error");
  EXPECT_NE(refuse({1, 2, 3}, {0, 1, 3}, {{"format", "pt"}}).find("not a token file"), std::string::npos);
  EXPECT_NE(refuse({1, 10, 3}, {0, 1, 3}, good).find("token 1 is 10"), std::string::npos);
  EXPECT_NE(refuse({1, 2, 3}, {0, 2, 2, 3}, good).find("do not rise"), std::string::npos);
  EXPECT_NE(refuse({1, 2, 3}, {0, 2}, good).find("end at 3"), std::string::npos);
  EXPECT_NE(refuse({1, 2, 3}, {1, 3}, good).find("begin at 0"), std::string::npos);
  EXPECT_NE(refuse({1, 2, 3}, {0, 3}, {{"format", "tern-tokens-1"}, {"vocab_size", "x"}}).find("vocab_size"),
            std::string::npos);
}

TEST_F(TokenDataTest, PacksOnceAndFindsItAgain) {
  const auto input = write("a.txt", "some text\n");
  const TokenData first = load_or_pack(input, tokenizer_, folder_ / "cache");
  int files = 0;
  std::filesystem::file_time_type stamp;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache"))
    ++files, stamp = entry.last_write_time();
  EXPECT_EQ(files, 1);
  const TokenData second = load_or_pack(input, tokenizer_, folder_ / "cache");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache"))
    EXPECT_EQ(entry.last_write_time(), stamp);
  EXPECT_EQ(all(first), all(second));
  const Tokenizer other = Tokenizer::load(std::filesystem::path(source_dir()) / "tests/golden/tokenizers/byte_level");
  pack({input}, tokenizer_, folder_ / "a.safetensors");
  EXPECT_THROW(load_or_pack(folder_ / "a.safetensors", other, folder_ / "cache"), Error);
}

// A tokenizer whose EOS is another one ends documents otherwise: what was packed with the first is not taken for it.
TEST_F(TokenDataTest, AnotherEndTokenOrBosRuleIsAnotherTokenizer) {
  const std::string json = tokenizer_.to_json();
  const auto with = [&](const std::string& config) { return Tokenizer::from_json(json, config, "test"); };
  const std::string eos(tokenizer_.piece(34)), bos(tokenizer_.piece(35));  // letters will do
  ASSERT_NE(eos, bos);
  const Tokenizer a = with(R"({"bos_token": ")" + bos + R"(", "eos_token": ")" + eos + R"("})"),
                  b = with(R"({"bos_token": ")" + bos + R"(", "eos_token": ")" + bos + R"("})"),
                  c = with(R"({"bos_token": ")" + eos + R"(", "eos_token": ")" + eos + R"("})");
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_NE(a.hash(), c.hash());
  const auto input = write("a.txt", "some text\n");
  const auto last = [&](const Tokenizer& t) {
    const TokenData d = load_or_pack(input, t, folder_ / "cache");
    return d.token(d.num_tokens() - 1);
  };
  EXPECT_EQ(last(a), a.eos());
  EXPECT_EQ(last(b), b.eos());
}

TEST_F(TokenDataTest, ATokenFileIsKnownByItsContentAndNotByItsName) {
  const auto input = write("a.txt", "some text\n");
  pack({input}, tokenizer_, folder_ / "data.tokens");
  pack({input}, tokenizer_, folder_ / "data.bin");
  EXPECT_EQ(all(load_or_pack(folder_ / "data.tokens", tokenizer_, folder_ / "cache")),
            all(load_or_pack(folder_ / "data.bin", tokenizer_, folder_ / "cache")));
  EXPECT_TRUE(is_token_file(folder_ / "data.bin"));
  EXPECT_FALSE(is_token_file(input));
  EXPECT_FALSE(is_token_file(folder_));
  EXPECT_FALSE(is_token_file(folder_ / "none"));
  EXPECT_FALSE(is_token_file(write("a.tokens", "text that says \"tern-tokens-1\"\n")));
  EXPECT_FALSE(is_token_file(write("b.tokens", "")));
  const Tokenizer other = Tokenizer::load(std::filesystem::path(source_dir()) / "tests/golden/tokenizers/byte_level");
  EXPECT_THROW(load_or_pack(folder_ / "data.tokens", other, folder_ / "cache"), Error);
}

// 48 MiB in one document and in many: neither the text nor what became of it is resident as a whole, while packing,
// while writing, when opened.
TEST_F(TokenDataTest, LongTextsArePackedInBoundedMemory) {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::string line;
  for (int i = 0; i < 100; ++i) line += "word" + std::string(1 + i % 5, static_cast<char>('a' + i * 7 % 26)) + " ";
  line += "\n";
  const auto write_text = [&](const char* name, int lines_of_a_document) {
    std::string text;
    for (int i = 1; text.size() < size_t{48} << 20; ++i) {
      text += line;
      if (lines_of_a_document > 0 && i % lines_of_a_document == 0) text += std::string(kDocumentLine) + "\n";
    }
    return write(name, text);
  };
  for (const auto& input : {write_text("one.txt", 0), write_text("many.txt", 100)}) {
    SCOPED_TRACE(input);
    int64_t calls = 0;
    const PackOptions options{
        .progress = [](void* count, int64_t, int64_t) { return ++*static_cast<int64_t*>(count) > 0; },
        .context = &calls};
    const int64_t before = read_process_memory().resident_bytes;
    if (!reset_peak_resident()) GTEST_SKIP() << "this kernel does not let a process forget its peak memory";
    const TokenData d = load_or_pack(input, tokenizer_, folder_ / "cache", options);
    EXPECT_LE(read_process_memory().peak_resident_bytes - before, int64_t{20} << 20);
    EXPECT_GE(calls, 20) << "told on the way";
    d.let_go();  // what opening checked is mapped, and the page cache's
    EXPECT_LE(read_process_memory().resident_bytes - before, int64_t{20} << 20);
    EXPECT_GT(d.num_tokens(), 1 << 20);
  }
#endif
}

// Nothing is written but through the Io.
TEST_F(TokenDataTest, PacksIntoAnotherIo) {
  const auto input = write("a.jsonl", R"({"prompt": "a b", "completion": "c d"})"
                                      "\n");
  MemoryIo io;
  const TokenData packed = load_or_pack(input, tokenizer_, "cache", {}, io);
  EXPECT_EQ(io.list("cache").size(), 1u) << "and the temporary files are gone";
  EXPECT_EQ(all(packed), all(load_or_pack(input, tokenizer_, folder_ / "cache")));
  EXPECT_TRUE(packed.has_loss());
  EXPECT_EQ(all(load_or_pack(input, tokenizer_, "cache", {}, io)), all(packed));
}

// Each answer is a window of its own, the loss on the answer alone; what is no pair, or too long, is named.
TEST_F(TokenDataTest, PairsOfAnswersFillWindows) {
  const auto pairs = write("p.jsonl",
                           "{\"prompt\": \"one two\", \"chosen\": \" three\", \"rejected\": \" four five\"}\n"
                           "{\"prompt\": \"six\", \"chosen\": \"\", \"rejected\": \" seven\"}\n");
  const auto single = write("s.jsonl",
                            "{\"prompt\": \"one two\", \"completion\": \" three\"}\n"
                            "{\"prompt\": \"one two\", \"completion\": \" four five\"}\n"
                            "{\"prompt\": \"six\", \"completion\": \"\"}\n"
                            "{\"prompt\": \"six\", \"completion\": \" seven\"}\n");
  pack({pairs}, tokenizer_, folder_ / "p.safetensors", {.window = 9});
  pack({single}, tokenizer_, folder_ / "s.safetensors");
  const TokenData p = TokenData::open(folder_ / "p.safetensors"), s = TokenData::open(folder_ / "s.safetensors");
  ASSERT_EQ(p.num_documents(), 5);
  ASSERT_EQ(p.num_tokens(), 4 * 9 + 1);
  const std::vector<int32_t> padded = all(p), plain = all(s);
  for (size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(p.documents()[d], static_cast<int64_t>(9 * d));
    const int64_t begin = s.documents()[d], count = s.documents()[d + 1] - begin;
    for (int64_t i = 0; i < 9; ++i) {
      const auto at = static_cast<int64_t>(9 * d) + i;
      EXPECT_EQ(padded[static_cast<size_t>(at)], i < count ? plain[static_cast<size_t>(begin + i)] : 0);
      EXPECT_EQ(p.loss(at), i < count && s.loss(begin + i));
    }
  }
  const auto message = [&](const std::filesystem::path& file, int64_t window) {
    try {
      pack({file}, tokenizer_, folder_ / "x.safetensors", {.window = window});
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("no error");
  };
  EXPECT_NE(message(pairs, 0).find("p.jsonl: line 1: a pair of answers"), std::string::npos) << message(pairs, 0);
  EXPECT_NE(message(single, 9).find("s.jsonl: line 1: no pair"), std::string::npos) << message(single, 9);
  EXPECT_NE(message(pairs, 4).find("p.jsonl: line 1"), std::string::npos);
  EXPECT_NE(message(pairs, 4).find("--seq 4"), std::string::npos) << message(pairs, 4);
  for (const auto& [line, word] :
       {std::pair{R"({"prompt": "a", "chosen": "b"})", "rejected"},
        {R"({"prompt": "a", "chosen": "b", "rejected": 3})", "rejected"},
        {R"({"chosen": "b", "rejected": "c"})", "prompt"},
        {R"({"prompt": "a", "chosen": "b", "rejected": "c", "score": 1})", "score"},
        {R"({"prompt": "a", "chosen": [{"role": "user", "content": "z"}], "rejected": []})", "prompt"}})
    EXPECT_NE(message(write("bad.jsonl", std::string(line) + "\n"), 9).find(word), std::string::npos) << line;
}

}  // namespace
}  // namespace tern
