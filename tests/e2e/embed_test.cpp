// tern embed as a person meets it, on the tiny BERT of the goldens.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/source_dir_testing.h"
#include "model/golden_weights_testing.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

class Embed : public InFolder<Embed> {
 protected:
  static void SetUpTestSuite() {
    make_root("embed-program");
    golden_ = read_json_file(source_dir() + "/tests/golden/embeddings/bert.json");
    std::filesystem::create_directories(root_ + "/bert/1_Pooling");
    write_golden_model(golden_, root_ + "/bert");
    std::filesystem::copy_file(source_dir() + "/tests/golden/tokenizers/families/bert_uncased.json",
                               root_ + "/bert/tokenizer.json");
    write("bert/modules.json", golden_["cases"][0]["modules"].dump());  // mean, normalized
    write("bert/1_Pooling/config.json", golden_["cases"][0]["pooling_config"].dump());
    std::string lines, records;
    for (const Json& text : golden_["texts"]) {
      lines += text.get<std::string>() + "\n";
      records += Json{{"text", text}}.dump() + "\n";
    }
    write("texts.txt", lines), write("texts.jsonl", records);
  }
  static inline Json golden_;
};

TEST_F(Embed, APromptWhoseRowsWouldBeLeftOutIsRefused) {
  std::filesystem::copy(root_ + "/bert", root_ + "/instruct", std::filesystem::copy_options::recursive);
  write("instruct/1_Pooling/config.json", R"({"pooling_mode":"mean","include_prompt":false})");
  write("instruct/config_sentence_transformers.json", R"({"prompts":{"q":"query: "},"default_prompt_name":null})");
  EXPECT_EQ(tern("embed instruct --text cat 2>/dev/null").code, 0);
  expect_refusal(4, "embed instruct --text cat --prefix 'query: '", {"include_prompt: false", "leave --prefix out"});
  write("instruct/config_sentence_transformers.json", R"({"prompts":{"q":"query: "},"default_prompt_name":"q"})");
  expect_refusal(4, "embed instruct --text cat", {"include_prompt: false", "--prefix \"\" leaves the prompt out"});
  EXPECT_EQ(tern("embed instruct --text cat --prefix '' 2>/dev/null").code, 0);
}

TEST_F(Embed, VectorsAreSentenceTransformersInEveryFormAndBatch) {
  const Outcome first = tern("embed bert --input texts.txt --json 2>/dev/null");
  ASSERT_EQ(first.code, 0);
  const Json out = parse_json(first.text, "output");
  EXPECT_EQ(out["pooling"], "mean");
  EXPECT_EQ(out["normalized"], true);
  const Json& want = golden_["cases"][0]["vectors"];
  ASSERT_EQ(out["embeddings"].size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(out["tokens"][i].get<size_t>(), golden_["ids"][i].size());
    double error = 0;
    for (size_t k = 0; k < want[i].size(); ++k)
      error += std::pow(out["embeddings"][i][k].get<double>() - want[i][k].get<double>(), 2);
    EXPECT_LE(std::sqrt(error), 1e-5) << golden_["texts"][i];
  }
  for (const char* how : {"--input texts.jsonl --batch 1", "--input - --batch 3 --threads 2 < texts.txt"})
    EXPECT_EQ(parse_json(tern(std::string("embed bert --json ") + how + " 2>/dev/null").text, how)["embeddings"],
              out["embeddings"]);
  const Outcome lines = tern("embed bert --input texts.txt 2>/dev/null");
  EXPECT_EQ(std::ranges::count(lines.text, '\n'), static_cast<ptrdiff_t>(want.size()));
  EXPECT_EQ(lines.text.substr(0, lines.text.find('\n')),
            tern("embed bert --text 'A cat sat on the mat.' 2>/dev/null").text.substr(0, lines.text.find('\n')));
  ASSERT_EQ(tern("embed bert --input texts.txt --output v.npy 2>/dev/null").code, 0);
  const std::string npy = real_io().read(root_ + "/v.npy");
  const size_t data = 10 + static_cast<uint8_t>(npy[8]) + 256 * static_cast<size_t>(static_cast<uint8_t>(npy[9]));
  ASSERT_EQ(npy.size(), data + want.size() * want[0].size() * sizeof(float));
  for (size_t i = 0; i < want.size(); ++i)
    for (size_t k = 0; k < want[i].size(); ++k) {
      float number = 0;
      std::memcpy(&number, npy.data() + data + (i * want[i].size() + k) * sizeof number, sizeof number);
      EXPECT_EQ(number, out["embeddings"][i][k].get<float>());
    }
  expect_refusal(2, "embed bert --input texts.txt --output v.npy", {"v.npy: is there already"});
  EXPECT_EQ(real_io().read(root_ + "/v.npy"), npy);
}

// 32 MiB of vectors: one copy more, or a JSON value for each number, would show.
TEST_F(Embed, MemoryIsWhatWasPredicted) {
  Json wide = {{"config",
                {{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 400},
                 {"hidden_size", 512},
                 {"intermediate_size", 8},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4},
                 {"tie_word_embeddings", true}}}};
  const auto tensor = [&](const std::string& name, const std::vector<int64_t>& shape) {
    wide["tensors"]["model." + name + ".weight"] = {{"shape", shape}, {"middle", 0}, {"spread", 0.1}};
  };
  tensor("embed_tokens", {400, 512}), tensor("norm", {512});
  for (const char* matrix : {"q", "k", "v", "o"}) tensor(fmt::format("layers.0.self_attn.{}_proj", matrix), {512, 512});
  tensor("layers.0.mlp.gate_proj", {8, 512}), tensor("layers.0.mlp.up_proj", {8, 512});
  tensor("layers.0.mlp.down_proj", {512, 8});
  tensor("layers.0.input_layernorm", {512}), tensor("layers.0.post_attention_layernorm", {512});
  std::filesystem::create_directories(root_ + "/wide");
  write_golden_model(wide, root_ + "/wide");
  std::filesystem::copy_file(root_ + "/bert/tokenizer.json", root_ + "/wide/tokenizer.json");
  std::string lines;
  for (int i = 0; i < 16384; ++i) lines += "a\n";
  write("many.txt", lines);
  for (const std::string how : {"--json --output many.npy", "--json"}) {
    ASSERT_EQ(tern("embed wide --input many.txt " + how + " >many.json 2>errors").code, 0)
        << real_io().read(root_ + "/errors");
    std::string text = real_io().read(root_ + "/many.json");
    if (const size_t at = text.find(",\n  \"embeddings\""); at != std::string::npos) text = text.substr(0, at) + "}";
    const Json memory = parse_json(text, how)["memory"];
    const auto at = [&](const char* key) { return memory[key].get<int64_t>(); };
    EXPECT_LE(at("peak_resident_bytes"), at("predicted_bytes") + at("program_bytes")) << how << memory;
    rusage used{};  // of the largest so far, to its end: printing is in it
    ASSERT_EQ(::getrusage(RUSAGE_CHILDREN, &used), 0);
    EXPECT_LE(used.ru_maxrss * 1024, at("predicted_bytes") + at("program_bytes")) << how << memory;
    EXPECT_EQ(at("predicted_bytes") > (32 << 20), how == "--json") << memory;
  }
}

TEST_F(Embed, AVectorThatIsNotFiniteIsRefusedInEveryForm) {
  std::filesystem::copy(root_ + "/bert", root_ + "/infinite", std::filesystem::copy_options::recursive);
  Json golden = golden_;
  for (auto& [name, about] : golden["tensors"].items())
    if (name.ends_with("embeddings.LayerNorm.bias")) about["middle"] = 1e39;  // no float
  write_golden_model(golden, root_ + "/infinite");
  for (const char* how : {"", "--json", "--output infinite.npy"}) {
    const Outcome o = tern(std::string("embed infinite --input texts.txt ") + how + " 2>errors");
    EXPECT_EQ(o.code, 4) << how;
    EXPECT_EQ(o.text, "") << how;
    EXPECT_NE(real_io().read(root_ + "/errors").find("not finite"), std::string::npos);
  }
  EXPECT_FALSE(real_io().stat(root_ + "/infinite.npy"));
}

TEST_F(Embed, InspectShowsWhatTheModelSaysAndRefusesWhatEmbedRefuses) {
  const Json said = parse_json(tern("inspect bert --json").text, "inspect")["embedding"];
  EXPECT_EQ(said["pooling"], "mean");
  EXPECT_EQ(said["normalize"], true);
  EXPECT_EQ(said["max_tokens"], 64);
  std::filesystem::copy(root_ + "/bert", root_ + "/dense", std::filesystem::copy_options::recursive);
  write("dense/modules.json", R"([{"type":"sentence_transformers.models.Transformer","path":""},)"
                              R"({"type":"sentence_transformers.models.Pooling","path":"1_Pooling"},)"
                              R"({"type":"sentence_transformers.models.Dense","path":"2_Dense"}])");
  expect_refusal(4, "embed dense --text a", {"\"Dense\" as module 2"});
  expect_refusal(4, "inspect dense", {"\"Dense\" as module 2"});
}

TEST_F(Embed, OptionsOverrideWhatTheModelSays) {
  const Json raw =
      parse_json(tern("embed bert --input texts.txt --pooling pooler --normalize never --json 2>/dev/null").text, "o");
  EXPECT_NEAR(raw["embeddings"][0][0].get<double>(), golden_["pooler"][0][0].get<double>(), 1e-5);
  EXPECT_EQ(raw["normalized"], false);
  const std::string prefixed = tern("embed bert --text 'the mat.' --prefix 'A cat sat on ' 2>/dev/null").text;
  EXPECT_EQ(prefixed, tern("embed bert --text 'A cat sat on the mat.' 2>/dev/null").text);
}

TEST_F(Embed, WhatIsTooLongIsRefusedOrCutAndSaidSo) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x ";
  write("long.txt", "x\n" + text + "\n");
  expect_refusal(2, "embed bert --input long.txt", {"long.txt line 2 has 102 tokens", "takes 64", "--truncate"});
  const Outcome cut = tern("embed bert --input long.txt --truncate --json 2>errors");
  ASSERT_EQ(cut.code, 0);
  EXPECT_EQ(parse_json(cut.text, "o")["tokens"], (Json{3, 64}));
  EXPECT_NE(real_io().read(root_ + "/errors").find("1 of 2 texts cut to 64 tokens"), std::string::npos);
}

TEST_F(Embed, PlausibleMistakesAreExplained) {
  expect_refusal(2, "embed bert", {"--text", "--input"});
  expect_refusal(2, "embed bert --text a --input texts.txt", {"one of"});
  expect_refusal(2, "embed bert --text a --output v.txt", {".npy"});
  expect_refusal(2, "embed bert --text a --pooling median", {"median", "mean"});
  expect_refusal(4, "embed bert --input missing.txt", {"missing.txt"});
  expect_refusal(3, "embed bert --text a --memory 1KiB", {"does not fit"});
  write("chat.jsonl", R"({"messages":[{"role":"user","content":"x"}]})"
                      "\n");
  expect_refusal(4, "embed bert --input chat.jsonl", {"chat.jsonl line 1", "text"});
  for (const char* verb : {"generate bert --prompt a", "chat bert", "eval bert --data texts.txt",
                           "train bert --data texts.txt --output run", "export bert --output out"})
    expect_refusal(2, verb, {"an encoder"});
  EXPECT_NE(tern("embed --help").text.find("--pooling"), std::string::npos);
  EXPECT_EQ(tern("inspect bert 2>&1").code, 0);
}

}  // namespace
}  // namespace tern
