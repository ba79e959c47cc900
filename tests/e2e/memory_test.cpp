// What is resident stays within what was predicted, under every instruction set that runs here: each multiplies by
// other kernels, ours or a library's, which keep and take memory of their own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
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

// The exit code of a shell's command, and the most memory that it or what it started had resident.
struct Counted {
  int code;
  int64_t peak_bytes;
};
Counted counted(const std::string& command) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  ::wait4(pid, &status, 0, &used);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, used.ru_maxrss * int64_t{1024}};
}

// A gigabyte of zeros that takes no room on the disk, and what each verb makes of it within 64 MiB.
TEST_F(MemorySlow, ATextBeyondTheLimitIsRefusedBeforeItIsTaken) {
  for (const char* name : {"hole.txt", "hole.jsonl"}) {
    write(name, "");
    std::filesystem::resize_file(root_ + "/" + name, uintmax_t{1} << 30);
  }
  write("config.json", R"({"model_type":"llama","vocab_size":300,"hidden_size":32,"intermediate_size":48,
    "num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64})");
  const Outcome made = tern(
      "train config.json --from-scratch --tokenizer tokenizer --data text.txt --seq 16 --batch 2 --steps 1 --output "
      "small "
      "--threads 1 2>&1");
  ASSERT_EQ(made.code, 0) << made.text;
  for (const std::string command :
       {"tokenize tokenizer --input hole.txt", "tokenize tokenizer <hole.txt --input -",
        "tokenize tokenizer --decode --input hole.txt", "tokenize --train --input hole.txt --output new",
        "tokenize tokenizer --pack --input hole.jsonl --output packed", "generate small/model --prompt-file hole.txt",
        "generate small/model --prompts hole.jsonl", "eval small/model --data hole.txt",
        "eval small/model --data hole.jsonl", "eval small/model --data hole.txt --convention llamacpp",
        "eval small/model --task hole.jsonl", "embed small/model --input hole.txt",
        "embed small/model --input hole.jsonl"}) {
    const Counted run = counted("cd " + root_ + " && TERN_DATA= XDG_CACHE_HOME=" + root_ + "/cache " TERN_PROGRAM " " +
                                command + " --memory 64MiB >out 2>errors");
    EXPECT_EQ(run.code, 3) << command << "\n" << real_io().read(root_ + "/errors");
    EXPECT_LE(run.peak_bytes, int64_t{64} << 20) << command;
  }
}

// 24 MiB without a blank that are no UTF-8 and twice as long repaired: 86 to 99 MiB were resident before the refusal.
TEST_F(MemorySlow, ATextThatIsNoUtf8IsRepairedWithinTheLimit) {
  std::string text;
  while (text.size() < size_t{24} << 20) text += "ab\xFF\xC3";
  write("broken.txt", text);
  write("short.txt", text.substr(0, size_t{1} << 20));
  write("config.json", R"({"model_type":"llama","vocab_size":300,"hidden_size":32,"intermediate_size":48,
    "num_hidden_layers":2,"num_attention_heads":2,"max_position_embeddings":64})");
  const std::vector<std::pair<std::string, int>> commands = {
      {"train config.json --from-scratch --tokenizer tokenizer --data broken.txt --seq 16 --batch 2 --steps 1 --output "
       "broken --threads 1 --invalid-utf8 replace",
       3},
      {"tokenize tokenizer --pack --input broken.txt --output packed --invalid-utf8 replace", 3},
      {"tokenize tokenizer --pack --input broken.txt --output packed --invalid-utf8 skip", 3},
      {"tokenize --train --input broken.txt --vocab-size 300 --output new --invalid-utf8 replace", 0},
      {"tokenize tokenizer --input broken.txt", 3},
      {"tokenize tokenizer --input short.txt --json", 3}};
  for (const auto& [command, code] : commands) {
    const Counted run = counted("cd " + root_ + " && TERN_DATA= XDG_CACHE_HOME=" + root_ + "/cache " TERN_PROGRAM " " +
                                command + " --memory 64MiB >out 2>errors");
    EXPECT_EQ(run.code, code) << command << "\n" << real_io().read(root_ + "/errors");
    EXPECT_LE(run.peak_bytes, int64_t{64} << 20) << command;
  }
}

}  // namespace
}  // namespace tern
