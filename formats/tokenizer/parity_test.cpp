// The ids and texts of the reference libraries, by the hashes that dev/tokenizers/make_goldens.py left.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/tokenizer/golden_testing.h"
#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer.h"

namespace tern {
namespace {

nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(kTokenizerGolden / name);
  EXPECT_TRUE(file.good()) << (kTokenizerGolden / name);
  return nlohmann::json::parse(file);
}

void expect_blocks(const std::vector<std::string>& got, const nlohmann::json& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  ASSERT_FALSE(got.empty());
  int different = 0;
  for (size_t i = 0; i < got.size(); ++i) different += got[i] != want[i].get<std::string>();
  EXPECT_EQ(different, 0) << what << ": blocks that differ, of " << got.size();
}

void expect_reference_ids(const Tokenizer& t, const std::string& name, bool add_special) {
  const nlohmann::json golden = read_golden(name + ".ids.json");
  ParityStrings strings(parity_alphabet());
  BlockHashes hashes(kParityBlock);
  for (int i = 0; i < kParityStrings; ++i) {
    const std::string text = strings.next();
    const std::vector<int32_t> ids = t.encode(text, {.add_special = add_special});
    if (i < static_cast<int>(golden["first"].size())) {
      EXPECT_EQ(nlohmann::json(ids), golden["first"][static_cast<size_t>(i)])
          << name << " string " << i << ": " << text;
    }
    hashes.add_list(ids);
  }
  expect_blocks(hashes.hashes, golden["ids"], name + " ids");
}

std::vector<std::vector<int32_t>> random_streams(uint32_t size, int32_t smallest = 0) {
  Lcg rng(7);
  std::vector<std::vector<int32_t>> streams(1000);
  for (auto& s : streams) {
    s.resize(1 + rng.below(24));
    for (int32_t& id : s) id = std::max(smallest, static_cast<int32_t>(rng.below(size)));
  }
  return streams;
}

void expect_reference_text(const Tokenizer& t, const std::string& name, uint32_t size, int32_t smallest = 0) {
  const nlohmann::json golden = read_golden(name + ".ids.json");
  BlockHashes hashes(100);
  for (const auto& stream : random_streams(size, smallest)) {
    const std::string text = t.decode(stream);
    hashes.add_list(std::vector<uint8_t>(text.begin(), text.end()));
  }
  expect_blocks(hashes.hashes, golden["decoded"], name + " texts");
}

void expect_saved_ones_give_the_same_ids(const Tokenizer& t) {
  const Tokenizer again = Tokenizer::from_json(t.to_json(), t.config_json());
  EXPECT_EQ(again.hash(), t.hash());
  ParityStrings strings(parity_alphabet(), 3);
  for (int i = 0; i < 500; ++i) {
    const std::string text = strings.next();
    ASSERT_EQ(again.encode(text), t.encode(text)) << text;
  }
}

TEST(TokenizerParity, StringsAreTheOracles) {
  const nlohmann::json golden = read_golden("strings.json");
  ParityStrings strings(parity_alphabet());
  BlockHashes hashes(kParityBlock);
  for (int i = 0; i < kParityStrings; ++i) {
    const std::string text = strings.next();
    if (i < 24) { EXPECT_EQ(text, golden["first"][static_cast<size_t>(i)].get<std::string>()) << i; }
    hashes.add_list(std::vector<uint8_t>(text.begin(), text.end()));
  }
  expect_blocks(hashes.hashes, golden["blocks"], "strings");
}

class SmallTokenizers : public testing::TestWithParam<const char*> {};
TEST_P(SmallTokenizers, IdsAndTextsAreTheReferences) {
  const std::string name = GetParam();
  const Tokenizer t = Tokenizer::load(kTokenizerGolden / name);
  expect_reference_ids(t, name, true);
  expect_reference_text(t, name, static_cast<uint32_t>(t.vocab_size()));
}
TEST_P(SmallTokenizers, SavedOnesGiveTheSameIds) {
  expect_saved_ones_give_the_same_ids(Tokenizer::load(kTokenizerGolden / GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Golden, SmallTokenizers,
                         testing::Values("byte_level", "llama3_like", "sentencepiece_like", "metaspace", "splits"));

// One per set of components that a family of models uses (dev/tokenizers/make_family_goldens.py).
class FamilyTokenizers : public testing::TestWithParam<const char*> {};
TEST_P(FamilyTokenizers, IdsAndTextsAreTheReferences) {
  const std::string name = std::string("families/") + GetParam();
  const Tokenizer t = Tokenizer::load(kTokenizerGolden / (name + ".json"));
  expect_reference_ids(t, name, true);
  expect_reference_text(t, name, static_cast<uint32_t>(t.vocab_size()));
}
TEST_P(FamilyTokenizers, SavedOnesGiveTheSameIds) {
  const Tokenizer t = Tokenizer::load(kTokenizerGolden / (std::string("families/") + GetParam() + ".json"));
  expect_saved_ones_give_the_same_ids(t);
}
INSTANTIATE_TEST_SUITE_P(Golden, FamilyTokenizers,
                         testing::Values("bert_uncased", "bert_cased", "word_piece_parts", "t5_like", "xlmr_like",
                                         "albert_like", "unigram_bytes", "bloom_like", "falcon_like", "neox_like",
                                         "roberta_like", "smollm_like", "qwen2_like", "olmo2_like", "o200k_like",
                                         "deepseek_like", "deepseek_v2_like", "gemma_like", "mistral_like"),
                         [](const auto& family) { return std::string(family.param); });

TEST(TokenizerParity, Gpt2IdsAndTextsAreTheReferences) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no GPT-2 vocabulary here";
  const Tokenizer t = Tokenizer::load(published_tokenizers() / "gpt2");
  EXPECT_EQ(t.vocab_size(), 50257);
  EXPECT_EQ(t.eos(), 50256);
  expect_reference_ids(t, "gpt2", true);
  expect_reference_text(t, "gpt2", 50257);
}

TEST(TokenizerParity, Llama2IdsAndTextsAreTheReferences) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no Llama 2 tokenizer here";
  const Tokenizer t = Tokenizer::load(published_tokenizers() / "llama2");
  EXPECT_EQ(t.vocab_size(), 32000);
  EXPECT_EQ(t.bos(), 1);
  EXPECT_EQ(t.eos(), 2);
  EXPECT_TRUE(t.adds_bos());
  EXPECT_FALSE(t.adds_eos());
  expect_reference_ids(t, "llama2", true);
  expect_reference_text(t, "llama2", 32000, 3);
}

TEST(TokenizerParity, Llama3IdsAndTextsAreTheReferences) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no Llama 3 ranks here";
  const Tokenizer t = Tokenizer::load(published_tokenizers() / "llama3");
  EXPECT_EQ(t.vocab_size(), 128256);
  EXPECT_EQ(t.bos(), 128000);
  EXPECT_TRUE(t.adds_bos());
  expect_reference_ids(t, "llama3", false);
  expect_reference_text(t, "llama3", 128256);
}

TEST(TokenizerParity, Gpt2AgreesWithPublishedVectors) {
  if (published_tokenizers().empty()) GTEST_SKIP() << "TERN_DATA is not set: no test vectors here";
  std::ifstream inputs(published_tokenizers() / "vectors/gpt-2.inp"),
      outputs(published_tokenizers() / "vectors/gpt-2.out");
  const Tokenizer t = Tokenizer::load(published_tokenizers() / "gpt2");
  const std::string all((std::istreambuf_iterator<char>(inputs)), {});
  const std::string mark = "\n__ggml_vocab_test__\n";
  int count = 0;
  for (size_t begin = 0; begin <= all.size(); ++count) {
    const size_t end = std::min(all.find(mark, begin), all.size());
    std::string line;
    std::getline(outputs, line);
    std::istringstream numbers(line);
    std::vector<int32_t> want;
    for (int32_t id; numbers >> id;) want.push_back(id);
    EXPECT_EQ(t.encode(all.substr(begin, end - begin)), want) << all.substr(begin, end - begin);
    begin = end + mark.size();
  }
  EXPECT_GT(count, 40);
}

}  // namespace
}  // namespace tern
