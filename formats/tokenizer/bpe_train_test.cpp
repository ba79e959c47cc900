#include "formats/tokenizer/bpe_train.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/tokenizer/strings_testing.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(TERN_SOURCE_DIR) / "tests/golden/tokenizers";

class BpeTrainParity : public testing::TestWithParam<std::pair<const char*, SplitPattern>> {};

// The merges of the reference's trainer on the first 6,000 parity strings, one hash per merge.
TEST_P(BpeTrainParity, MergesAreTheReferences) {
  const auto [name, pattern] = GetParam();
  const auto alphabet = nlohmann::json::parse(std::ifstream(kGolden / "alphabet.json"));
  const auto golden = nlohmann::json::parse(std::ifstream(kGolden / (std::string("trained_") + name + ".json")));
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
INSTANTIATE_TEST_SUITE_P(Patterns, BpeTrainParity,
                         testing::Values(std::pair("gpt2", SplitPattern::gpt2),
                                         std::pair("llama3", SplitPattern::llama3)));

}  // namespace
}  // namespace tern
