// What is resident stays within what was predicted, under every instruction set that runs here: each multiplies by
// other kernels, ours or a library's, which keep and take memory of their own.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

class MemorySlow : public InFolder<MemorySlow> {
 protected:
  static void SetUpTestSuite() {
    make_root("memory");
    std::string text;
    for (int i = 0; i < 3000; ++i) text += i % 11 == 10 ? "day.\n" : i % 3 == 0 ? "it was " : "a bright ";
    write("text.txt", text);
    write("prompt.txt", std::string_view(text).substr(0, 600));
    ASSERT_EQ(tern("tokenize --train --vocab-size 300 --input text.txt --output tokenizer 2>&1").code, 0);
  }

  static Outcome tern_with(const std::string& set, const std::string& rest) {
    return run_shell("cd " + root_ + " && env TERN_ISA=" + set + " " TERN_PROGRAM " " + rest);
  }
  std::vector<std::string> sets() {
    std::vector<std::string> found;
    const Outcome doctor = run_shell("env -u TERN_ISA " TERN_PROGRAM " doctor 2>&1");
    for (const std::string_view line : split(doctor.text, '\n')) {
      const auto words = split_words(line);
      for (size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i] == "kernels" && line.find("passed its self-test") != std::string_view::npos)
          found.emplace_back(words[i + 1]);
    }
    return found;
  }
  void write_config(int vocab, int width, int hidden, int layers) {
    make_dirs(real_io(), root_ + "/model");
    const Json config = {{"model_type", "llama"},
                         {"architectures", {"LlamaForCausalLM"}},
                         {"vocab_size", vocab},
                         {"hidden_size", width},
                         {"intermediate_size", hidden},
                         {"num_hidden_layers", layers},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", 4},
                         {"max_position_embeddings", 2048},
                         {"rms_norm_eps", 1e-5},
                         {"tie_word_embeddings", true},
                         {"hidden_act", "silu"}};
    write("model/config.json", config.dump());
  }
};

TEST_F(MemorySlow, WhatIsResidentIsPredictedUnderEverySet) {
  struct Case {
    int vocab, width, hidden, layers;
    std::string flags;
  };
  const std::vector<Case> cases = {
      {4096, 256, 768, 4, "--seq 256 --batch 4 --steps 2"},               // of millions
      {300, 64, 16384, 1, "--seq 256 --batch 1 --steps 1 --threads 3"},   // rows wide beyond a block
      {300, 64, 256, 1, "--seq 2048 --batch 1 --steps 1 --dtype bf16"}};  // long sequences
  const std::vector<std::string> known = sets();
  ASSERT_FALSE(known.empty());
  for (const Case& c : cases) {
    write_config(c.vocab, c.width, c.hidden, c.layers);
    for (const std::string& set : known) {
      SCOPED_TRACE(set + ": " + c.flags);
      const Outcome trained = tern_with(set,
                                        "train model/config.json --from-scratch --tokenizer tokenizer --data text.txt "
                                        "--output run --warmup-steps 0 --resume never --json " +
                                            c.flags + " 2>errors");
      ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
      const Json json = parse_json(trained.text, "train --json");
      EXPECT_EQ(json["counted_peak_bytes"], json["predicted_bytes"]["tensors"]);
      EXPECT_LE(json["peak_resident_bytes"], json["predicted_bytes"]["total"]);
      const Outcome written =
          tern_with(set, "generate run/model --prompt-file prompt.txt --max-tokens 2 --json 2>errors");
      ASSERT_EQ(written.code, 0) << real_io().read(root_ + "/errors");
      const Json memory = parse_json(written.text, "generate --json")["memory"];
      EXPECT_LE(memory["peak_bytes"], memory["predicted_bytes"]);
      EXPECT_LE(memory["peak_resident_bytes"].get<int64_t>(),
                memory["predicted_bytes"].get<int64_t>() + memory["program_bytes"].get<int64_t>());
      remove_all(real_io(), root_ + "/run");
    }
  }
}

}  // namespace
}  // namespace tern
