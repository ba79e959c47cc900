#include "formats/gguf/vocabulary.h"

#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/format_test_support.h"
#include "formats/gguf/tokenizer.h"
#include "formats/gguf/write.h"
#include "formats/tokenizer/strings_testing.h"

namespace tern {
namespace {

// A trained tokenizer of the goldens, changed by replacing text of its file.
Tokenizer changed(const std::string& name, const std::string& from = "", const std::string& to = "",
                  bool plain_added = true) {
  Json json = read_json_file(golden("tokenizers/" + name + "/tokenizer.json"));
  std::string text = dump_json(json);
  if (!from.empty()) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  // GGUF has no word for what an added token does to its neighbours (a note says so).
  if (plain_added)
    for (const char* flag : {"\"lstrip\":", "\"rstrip\":", "\"single_word\":", "\"normalized\":"})
      text = replace_all(text, std::string(flag) + "true", std::string(flag) + "false");
  return Tokenizer::from_json(text, "");
}

Tokenizer through_gguf(const Tokenizer& t, const TemporaryDirectory& dir, int64_t vocab_size) {
  GgufMetadata metadata;
  add_gguf_vocabulary(metadata, t, vocab_size);
  write_gguf(real_io(), dir / "vocabulary.gguf", metadata, {});
  return gguf_tokenizer(Gguf(dir / "vocabulary.gguf"));
}

TEST(GgufVocabulary, ExportedTokenizersGiveTheSameIdsAndTexts) {
  const TemporaryDirectory dir;
  const nlohmann::json alphabet = nlohmann::json::parse(read_bytes(golden("tokenizers/alphabet.json")));
  const Tokenizer tokenizers[] = {changed("sentencepiece_like"),
                                  changed("llama3_like", "\"normalizer\":{\"type\":\"NFC\"}", "\"normalizer\":null"),
                                  changed("byte_level", "\"add_prefix_space\":true", "\"add_prefix_space\":false")};
  for (const Tokenizer& t : tokenizers) {
    SCOPED_TRACE(t.describe());
    const Tokenizer again = through_gguf(t, dir, t.vocab_size() + 3);
    EXPECT_EQ(again.bos(), t.bos());
    EXPECT_EQ(again.eos(), t.eos());
    EXPECT_EQ(again.adds_bos(), t.adds_bos());
    EXPECT_EQ(again.adds_eos(), t.adds_eos());
    ParityStrings strings(alphabet);
    for (int i = 0; i < 1500; ++i) {
      const std::string text = strings.next();
      const std::vector<int32_t> ids = t.encode(text);
      ASSERT_EQ(again.encode(text), ids) << quote_json(text);
      ASSERT_EQ(again.decode(ids), t.decode(ids)) << quote_json(text);
    }
  }
}

TEST(GgufVocabulary, WhatIsLostOfAddedTokensIsNoted) {
  GgufMetadata m;
  const Tokenizer t = changed("byte_level", "\"add_prefix_space\":true", "\"add_prefix_space\":false", false);
  const std::vector<std::string> notes = add_gguf_vocabulary(m, t, t.vocab_size());
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("added token"), std::string::npos) << notes[0];
}

TEST(GgufVocabulary, WhatGgufHasNoNameForIsRefusedByItsReason) {
  GgufMetadata m;
  const auto refused = [&](const char* why, const Tokenizer& t) {
    return throws(ErrorKind::usage, why, [&] { add_gguf_vocabulary(m, t, t.vocab_size()); });
  };
  EXPECT_TRUE(refused("normalizes texts", changed("llama3_like")));
  EXPECT_TRUE(refused("a space before every text", changed("byte_level")));
  EXPECT_TRUE(refused("neither byte-level BPE nor BPE with byte fallback", changed("splits")));
  EXPECT_TRUE(refused("a rule of its own", changed("llama3_like", "{1,3}", "{1,2}")));
}

// The vocabularies that llama.cpp tests itself with, and the ids it expects.
TEST(GgufVocabulary, ReadsTheVectorsOfLlamaCpp) {
  const char* data = std::getenv("TERN_DATA");
  if (!data) GTEST_SKIP() << "TERN_DATA is not set";
  int checked = 0;
  for (const char* name : {"gpt-2", "llama-spm", "phi-3"}) {
    const std::string base = std::string(data) + "/tokenizers/vectors/" + name;
    const Tokenizer t = gguf_tokenizer(Gguf(base + ".gguf"));
    const std::string input = read_bytes(base + ".inp"), output = read_bytes(base + ".out");
    const std::string mark = "\n__ggml_vocab_test__\n";
    const std::vector<std::string_view> lines = split(output, '\n');
    size_t at = 0;
    for (size_t k = 0; at <= input.size() && k < lines.size(); ++k) {
      const size_t end = std::min(input.find(mark, at), input.size());
      std::vector<int32_t> want;
      for (const std::string_view id : split_words(lines[k])) want.push_back(std::stoi(std::string(id)));
      if (end == input.size() && lines[k].empty()) break;
      EXPECT_EQ(t.encode(input.substr(at, end - at), {.add_special = false}), want) << name << " string " << k;
      ++checked;
      at = end + mark.size();
    }
  }
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace tern
