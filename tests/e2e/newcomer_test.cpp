// A newcomer's afternoon: the example, its tokenizer and its model, and what the program says to plausible mistakes.
#include <gtest/gtest.h>
#include <filesystem>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "base/system.h"
#include "formats/safetensors/safetensors.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

// A folder with text.txt, tokenizer/ and run/: the example of the README, six steps of it.
class Newcomer : public InFolder<Newcomer> {
 protected:
  static void SetUpTestSuite() {
    make_root("newcomer");
    std::string text;
    const std::array<const char*, 8> words = {"it", "was", "a", "bright", "cold", "day", "in", "April"};
    for (uint64_t i = 0; i < 6000; ++i)
      text += std::string(words[random_u64({5, 5}, i) % words.size()]) + (i % 11 == 10 ? ".\n" : " ");
    write("text.txt", text);
    ASSERT_EQ(tern("tokenize --train --vocab-size 300 --input text.txt --output tokenizer 2>&1").code, 0);
    const Outcome trained = tern("train " + source_dir() +
                                 "/examples/tiny/recipe.toml --data text.txt --tokenizer tokenizer --steps 6 "
                                 "--warmup-steps 2 --output run --json 2>errors");
    ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
    trained_ = trained.text;
  }

  struct Sizes {
    int vocab, width, hidden, layers, heads, positions;
  };
  static void write_llama(const std::string& folder, const Sizes& s) {
    make_dirs(real_io(), root_ + "/" + folder);
    write(folder + "/config.json", dump_json(Json{{"model_type", "llama"},
                                                  {"architectures", {"LlamaForCausalLM"}},
                                                  {"vocab_size", s.vocab},
                                                  {"hidden_size", s.width},
                                                  {"intermediate_size", s.hidden},
                                                  {"num_hidden_layers", s.layers},
                                                  {"num_attention_heads", s.heads},
                                                  {"num_key_value_heads", s.heads},
                                                  {"max_position_embeddings", s.positions},
                                                  {"rms_norm_eps", 1e-5},
                                                  {"tie_word_embeddings", true},
                                                  {"hidden_act", "silu"}}));
  }
  // From scratch: tensors as predicted to the byte, and what is resident within "at most".
  static void expect_training_within_prediction(const std::string& model, const std::string& flags) {
    const Outcome trained = tern("train " + model +
                                 "/config.json --from-scratch --tokenizer tokenizer --data text.txt --resume never "
                                 "--json --output " +
                                 model + "/run " + flags + " 2>errors");
    ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
    const Json json = parse_json(trained.text, "train --json");
    EXPECT_EQ(json["counted_peak_bytes"], json["predicted_bytes"]["tensors"]) << flags;
    EXPECT_LE(json["peak_resident_bytes"], json["predicted_bytes"]["total"]) << flags;
  }

  static inline std::string trained_;
};

TEST_F(Newcomer, TheExampleWorksFromAnyFolder) {
  // It was started in another folder than the recipe's and the configuration's: SetUpTestSuite has shown it.
  EXPECT_TRUE(real_io().stat(root_ + "/run/model/model.safetensors"));
  // Its record names everything whole, so that it too works from anywhere.
  EXPECT_EQ(tern("train run/recipe.toml --dry-run 2>/dev/null").code, 0);
  EXPECT_NE(real_io().read(root_ + "/run/recipe.toml").find("data = \"" + root_ + "/text.txt\""), std::string::npos);
}

TEST_F(Newcomer, TheWholeProgramStaysWithinThePrediction) {
  const Json train = parse_json(trained_, "train --json");
  EXPECT_EQ(train["counted_peak_bytes"], train["predicted_bytes"]["tensors"]);
  EXPECT_LE(train["peak_resident_bytes"], train["predicted_bytes"]["total"]);
  const Json written =
      parse_json(tern("generate run/model --prompt 'it was' --max-tokens 40 --json 2>/dev/null").text, "generate");
  EXPECT_LE(written["memory"]["peak_bytes"], written["memory"]["predicted_bytes"]);
  EXPECT_LE(written["memory"]["peak_resident_bytes"].get<int64_t>(),
            written["memory"]["predicted_bytes"].get<int64_t>() + written["memory"]["program_bytes"].get<int64_t>());
}

// Which kernels ran and where weights were read is in the record; what cannot be had is refused.
TEST_F(Newcomer, TheRecordNamesTheKernelsAndTheWeightsPlace) {
  const auto settings = [](const std::string& before, const std::string& flags) {
    const Outcome out = run_shell("cd " + root_ + " && env " + before +
                                  " " TERN_PROGRAM " generate run/model --prompt 'it was' --max-tokens 2 --json " +
                                  flags + " 2>/dev/null");
    return parse_json(out.text, "generate")["settings"];
  };
  EXPECT_EQ(settings("TERN_ISA=portable", "--dtype bf16")["instruction_set"], "portable");
  EXPECT_EQ(settings("TERN_ISA=portable", "--dtype bf16")["weights"], "packed");
  EXPECT_EQ(settings("-u TERN_ISA", "--dtype f32")["weights"], "packed");
  const Outcome evaluated = run_shell(
      "cd " + root_ + " && env TERN_ISA=portable " TERN_PROGRAM " eval run/model --data text.txt --json 2>errors");
  EXPECT_EQ(parse_json(evaluated.text, "eval")["instruction_set"], "portable");
  for (const std::string where : {"mapped", "copied"})
    expect_refusal(2, "generate run/model --prompt it --dtype f32 --weights " + where,
                   {"--weights " + where, "packed here", "leave --weights out"});
}

// --weights auto: from the mapped file for a short answer, from a copy where 256 tokens or a conversation pay for it.
TEST_F(Newcomer, WeightsAreCopiedWhereTokensPayForIt) {
  write_llama("half", {.vocab = 300, .width = 32, .hidden = 64, .layers = 1, .heads = 2, .positions = 512});
  const Outcome trained = tern(
      "train half/config.json --from-scratch --tokenizer tokenizer --data text.txt --output half/run --seq 64 --batch "
      "2 --dtype bf16 --steps 1 --warmup-steps 0 --resume never 2>&1");
  ASSERT_EQ(trained.code, 0) << trained.text;
  const auto settings = [](const std::string& flags) {
    const Outcome out = tern("generate half/run/model --prompt 'it was' --json " + flags + " 2>errors");
    EXPECT_EQ(out.code, 0) << real_io().read(root_ + "/errors");
    return parse_json(out.text, "generate")["settings"];
  };
  if (settings("--max-tokens 2")["instruction_set"] != "amx_bf16")
    GTEST_SKIP() << "without a tile unit weights are packed";
  const std::string pages = read_memory_facts().transparent_huge_pages;
  const std::string many = pages == "always" || pages == "madvise" ? "copied" : "mapped";
  EXPECT_EQ(settings("--max-tokens 255")["weights"], "mapped");
  EXPECT_EQ(settings("--max-tokens 256")["weights"], many);
  EXPECT_EQ(settings("--max-tokens 64 --samples 4 --temperature 1")["weights"], many);
  EXPECT_EQ(settings("--max-tokens 2 --weights copied")["weights"], "copied");
  EXPECT_EQ(settings("--max-tokens 256 --weights mapped")["weights"], "mapped");
  const auto chat = [](const std::string& flags) {
    return tern("chat half/run/model --chat-template chat.jinja " + flags + " </dev/null 2>&1").text;
  };
  write_file_atomically(real_io(), root_ + "/chat.jinja",
                        std::string_view("{% for m in messages %}{{ m['content'] }}\n{% endfor %}"));
  EXPECT_NE(chat("").find("weights " + many), std::string::npos) << chat("");
  EXPECT_NE(chat("--weights mapped").find("weights mapped"), std::string::npos) << chat("--weights mapped");
  EXPECT_NE(chat("--context 255").find("weights mapped"), std::string::npos) << "it cannot write as many";
  remove_all(real_io(), root_ + "/half");
}

// The same with a model of a few million parameters, where what the arenas keep outweighs the program's own slack.
TEST_F(Newcomer, AModelOfMillionsStaysWithinThePredictionToo) {
  write_llama("of-millions", {.vocab = 4096, .width = 256, .hidden = 768, .layers = 4, .heads = 4, .positions = 512});
  for (const std::string every : {"0", "1"})
    expect_training_within_prediction("of-millions",
                                      "--seq 256 --batch 4 --steps 2 --warmup-steps 1 --checkpoint-every " + every);
  remove_all(real_io(), root_ + "/of-millions");
}

// Where rows are wide, what each thread keeps of packed factors outweighs the program's own slack: with eight threads a
// hundred MiB. Tensors stay exact, and what is resident within "at most".
TEST_F(Newcomer, ThreadsKeepNoMoreThanThePrediction) {
  write_llama("wide", {.vocab = 300, .width = 64, .hidden = 16384, .layers = 1, .heads = 1, .positions = 8192});
  for (const std::string threads : {"2", "8"}) {
    expect_training_within_prediction(
        "wide", "--seq 4096 --batch 1 --dtype bf16 --steps 1 --warmup-steps 0 --threads " + threads);
    const Outcome written =
        tern("generate wide/run/model --prompt-file text.txt --max-tokens 2 --chunk 4096 --json --threads " + threads +
             " 2>errors");
    ASSERT_EQ(written.code, 0) << real_io().read(root_ + "/errors");
    const Json memory = parse_json(written.text, "generate --json")["memory"];
    EXPECT_LE(memory["peak_bytes"], memory["predicted_bytes"]);
    EXPECT_LE(memory["peak_resident_bytes"].get<int64_t>(),
              memory["predicted_bytes"].get<int64_t>() + memory["program_bytes"].get<int64_t>())
        << threads << " threads";
  }
  remove_all(real_io(), root_ + "/wide");
}

TEST_F(Newcomer, TheMemoryLimitCountsTheProgramItself) {
  const Json dry = parse_json(tern("train run/recipe.toml --output other --steps 6 --dry-run --json 2>/dev/null").text,
                              "train --dry-run");
  const int64_t tensors = dry["predicted_bytes"]["tensors"], total = dry["predicted_bytes"]["total"];
  ASSERT_GT(total - tensors, 4 << 20);
  expect_refusal(3, "train run/recipe.toml --output other --dry-run --memory " + std::to_string(tensors + (1 << 20)),
                 {"process", "allowed by --memory"});
  expect_refusal(3, "generate run/model --prompt it --memory 8MiB",
                 {"--memory 8.00 MiB less", "of the program itself", "what would fit:\n  --memory "});
}

TEST_F(Newcomer, ASecondTokenizerDoesNotReplaceTheFirst) {
  const std::string command = "tokenize --train --input text.txt --output tokenizer --vocab-size ";
  EXPECT_EQ(tern(command + "300 2>/dev/null").code, 0) << "the same one again";
  const std::string before = real_io().read(root_ + "/tokenizer/tokenizer.json");
  expect_refusal(2, command + "270", {"tokenizer holds another tokenizer", "choose another --output"});
  EXPECT_EQ(real_io().read(root_ + "/tokenizer/tokenizer.json"), before);
}

TEST_F(Newcomer, PackingSaysWhatItReplacesAndOneDocumentIsOne) {
  const std::string command = "tokenize tokenizer --pack --input text.txt --output packed.tokens 2>&1";
  const Outcome first = tern(command), second = tern(command);
  EXPECT_EQ(first.text.find("in place of"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find(" in 1 document,"), std::string::npos) << first.text;
  EXPECT_NE(second.text.find("(in place of the file that was there)"), std::string::npos) << second.text;
}

// The help's own example, under any name: packed, trained on, measured.
TEST_F(Newcomer, PackedDataTrainsAndIsMeasured) {
  ASSERT_EQ(tern("tokenize tokenizer --pack --input text.txt --output data.tokens 2>/dev/null").code, 0);
  const Outcome trained = tern("train run/recipe.toml --data data.tokens --output from-packed --json 2>errors");
  ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
  EXPECT_EQ(parse_json(trained.text, "train")["loss"], parse_json(trained_, "train")["loss"]) << "as from the text";
  const Outcome measured = tern("eval from-packed/model --data data.tokens --json 2>errors");
  ASSERT_EQ(measured.code, 0) << real_io().read(root_ + "/errors");
  EXPECT_GT(parse_json(measured.text, "eval")["bits_per_byte"], 0);
}

// What tern did not make, and what is being read, is not replaced.
TEST_F(Newcomer, WhatNoRunMadeIsNotReplaced) {
  const std::string weights = root_ + "/run/model/model.safetensors", before = real_io().read(weights);
  const std::string train = "train run/model --data text.txt --seq 32 --batch 2 --steps 2 --warmup-steps 1 --output ";
  for (const char* never : {"", " --resume never"}) {
    expect_refusal(2, train + "run" + never, {"in the place of", "run/model"});
    expect_refusal(2, train + "run/model" + never, {"lies in the model directory"});
    expect_refusal(2, train + "run/model/deeper" + never, {"lies in the model directory"});
  }
  EXPECT_EQ(real_io().read(weights), before);
  for (const char* name : {"model", "logs", "checkpoints"}) {
    make_dirs(real_io(), root_ + "/sources/" + name);
    expect_refusal(2, train + "sources", {std::string("holds ") + name, "no run of tern made"});
    EXPECT_TRUE(real_io().list(root_ + "/sources/" + name).empty());
    remove_all(real_io(), root_ + "/sources");
  }
  const std::string text = real_io().read(root_ + "/text.txt");
  expect_refusal(2, "tokenize tokenizer --input text.txt --output ./text.txt", {"is the file that is read"});
  expect_refusal(2, "tokenize tokenizer --pack --input text.txt --output text.txt", {"is the file that is read"});
  write_file_atomically(real_io(), root_ + "/notes", std::string_view("mine"));
  expect_refusal(2, "tokenize tokenizer --pack --input text.txt --output notes", {"something else than packed tokens"});
  ASSERT_EQ(tern("tokenize tokenizer --pack --input text.txt --output ids 2>/dev/null").code, 0);
  expect_refusal(2, "tokenize tokenizer --text a --output ids", {"holds packed tokens"});
  expect_refusal(2, train + "traced --trace notes", {"something else than a trace"});
  expect_refusal(2, train + "traced --trace text.txt", {"is the file that is read"});
  EXPECT_EQ(real_io().read(root_ + "/text.txt"), text);
}

TEST_F(Newcomer, AFailedDemoLeavesTheOneThatIsThere) {
  make_dirs(real_io(), root_ + "/demo");
  write_file_atomically(real_io(), root_ + "/demo/made-by-tern-demo", std::string_view("x"));
  write_file_atomically(real_io(), root_ + "/demo/report.html", std::string_view("x"));
  write_file_atomically(real_io(), root_ + "/short.txt", std::string_view("ten bytes\n"));
  for (const char* data : {"no-such-file", "short.txt"}) {
    EXPECT_NE(tern(std::string("demo --output demo --data ") + data + " >/dev/null 2>&1").code, 0);
    EXPECT_TRUE(real_io().stat(root_ + "/demo/report.html")) << data;
  }
}

TEST_F(Newcomer, AMovedRunGoesOnWhereItIs) {
  ASSERT_EQ(run_shell("cp -r " + root_ + "/run " + root_ + "/moved").code, 0);
  const Outcome again = tern("train moved/recipe.toml --json 2>errors");
  ASSERT_EQ(again.code, 0) << real_io().read(root_ + "/errors");
  const Json json = parse_json(again.text, "train");
  EXPECT_EQ(json["first_step"], 6);
  EXPECT_EQ(std::filesystem::path(json["model"].get<std::string>()).lexically_normal(), "moved/model");
}

TEST_F(Newcomer, AFolderWhereAFileIsReadIsABadFile) {
  expect_refusal(4, "eval run/model --data .", {"directory"});
  expect_refusal(4, "generate run/model --prompt-file .", {"directory"});
  expect_refusal(4, "tokenize tokenizer --input .", {"directory"});
  expect_refusal(4, "train run/recipe.toml --data no-such-file --dry-run --output none", {"no-such-file is not there"});
  write_file_atomically(real_io(), root_ + "/utf16.txt", std::string_view("\xff\xfeh\0i\0", 6));
  expect_refusal(4, "eval run/model --data utf16.txt", {"not UTF-8", "iconv"});
}

// A NaN in one weight: the file and the tensor are named, and nobody else is blamed.
TEST_F(Newcomer, WeightsThatAreNoNumbersAreABadFile) {
  ASSERT_EQ(run_shell("cp -r " + root_ + "/run/model " + root_ + "/nan").code, 0);
  const std::string path = root_ + "/nan/model.safetensors", name = "model.layers.0.mlp.down_proj.weight";
  std::string bytes = real_io().read(path);
  const TensorView view = Safetensors::over(std::as_bytes(std::span(bytes)), path).get(name);
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + (view.bytes.data() - reinterpret_cast<const std::byte*>(bytes.data())) + 8, &nan, 4);
  write_file_atomically(real_io(), path, bytes);
  const std::vector<std::string> words = {"nan/model.safetensors",
                                          "'" + name + "' holds 1 value that is not finite, the first at 2"};
  expect_refusal(4, "generate nan --prompt it --max-tokens 4", words);
  expect_refusal(4, "eval nan --data text.txt --json", words);
  expect_refusal(4, "train nan --data text.txt --seq 32 --batch 2 --steps 4 --warmup-steps 1 --output nan-run", words);
}

TEST_F(Newcomer, FlagsThatWouldDoNothingWhenTrainingAreRefused) {
  const std::string train = "train run/recipe.toml --output none --dry-run ";
  expect_refusal(2, train + "--schedule constant --min-learning-rate 1e-5", {"--min-learning-rate", "constant"});
  EXPECT_EQ(tern("config show train --schedule constant 2>/dev/null").text.find("a tenth of --learning-rate"),
            std::string::npos);
  ASSERT_EQ(tern("train " + source_dir() +
                 "/examples/tiny/recipe.toml --data text.txt --tokenizer tokenizer --steps 2 "
                 "--warmup-steps 1 --schedule constant --output constant 2>errors")
                .code,
            0)
      << real_io().read(root_ + "/errors");
  EXPECT_EQ(tern("train constant/recipe.toml --dry-run 2>/dev/null").code, 0)
      << "its record leaves out what it has not";
  expect_refusal(2, train + "--trace no-such-folder/t.json", {"--trace no-such-folder/t.json", "no folder"});
  expect_refusal(4, "train run/recipe.toml --output none --data /dev/null", {"/dev/null is a device or a pipe"});
}

TEST_F(Newcomer, WhatWouldDoNothingWhenGeneratingIsRefused) {
  const std::string generate = "generate run/model --prompt it --max-tokens 4 ";
  expect_refusal(2, generate + "--samples 3", {"--samples 3", "all be the same text", "--temperature"});
  expect_refusal(2, generate + "--temperature 0 --top-k 5", {"--top-k: does nothing at temperature 0"});
  expect_refusal(2, generate + "--temperature 0 --min-p 0.1", {"--min-p"});
  expect_refusal(2, generate + "--stop ''", {"--stop: an empty text"});
  EXPECT_EQ(tern(generate + "--temperature 0 --top-k 0 >/dev/null 2>&1").code, 0) << "the neutral value asks nothing";
  EXPECT_NE(tern(generate + "--seed 4 2>&1 >/dev/null").text.find("--seed changes nothing at temperature 0"),
            std::string::npos);
  const Json json = parse_json(tern(generate + "--samples 3 --temperature 0.9 --json 2>/dev/null").text, "generate");
  EXPECT_EQ(json["samples"].size(), 3u);
}

// transformers fills a missing top_k with 50; tern follows what the file says and shows it (infer/README.md).
TEST_F(Newcomer, NoTopKIsTakenThatNoFileNames) {
  const std::string path = root_ + "/run/model/generation_config.json";
  write_file_atomically(real_io(), path, std::string_view(R"({"do_sample": true, "temperature": 0.7})"));
  const Json json =
      parse_json(tern("generate run/model --prompt it --max-tokens 4 --json 2>/dev/null").text, "generate");
  EXPECT_EQ(json["settings"]["top_k"]["value"], 0);
  EXPECT_EQ(json["settings"]["top_k"]["origin"], "default");
  EXPECT_EQ(json["settings"]["temperature"]["value"], 0.7);
  real_io().remove(path);
}

TEST_F(Newcomer, CompareShowsTheSettingsThatDiffer) {
  ASSERT_EQ(tern("train run/recipe.toml --learning-rate 1e-3 --output again 2>/dev/null").code, 0);
  const Json json = parse_json(tern("compare run again --json").text, "compare");
  ASSERT_FALSE(json["settings"].empty());
  bool found = false;
  for (const Json& row : json["settings"])
    if (row["key"] == "learning-rate") found = row["a"] == "0.003" && row["b"] == "0.001";
  EXPECT_TRUE(found) << json["settings"].dump();
  const std::string text = tern("compare run again").text;
  EXPECT_NE(text.find("learning-rate"), std::string::npos) << text;
  EXPECT_NE(text.find(" @ 6"), std::string::npos) << "values with their steps\n" << text;
}

TEST_F(Newcomer, AnEmptyTextIsABadFileForEveryVerb) {
  write_file_atomically(real_io(), root_ + "/empty.txt", std::string_view());
  expect_refusal(4, "eval run/model --data empty.txt", {"empty.txt"});
  expect_refusal(4, "train run/recipe.toml --data empty.txt --output none", {"empty.txt"});
  expect_refusal(4, "tokenize tokenizer --pack --input empty.txt --output none.tokens", {"empty.txt"});
}

TEST_F(Newcomer, ADivergingRunHasItsOwnExitCode) {
  expect_refusal(7, "train run/recipe.toml --learning-rate 1e6 --clip 0 --steps 60 --warmup-steps 0 --output diverged",
                 {"not finite", "--learning-rate"});
}

TEST_F(Newcomer, OverlappingWindowsArePricedBeforeTheyAreMade) {
  const std::string command = "eval run/model --data text.txt --window 256 --stride 1 --memory ";
  const int64_t program = parse_json(tern("generate run/model --prompt it --max-tokens 1 --json 2>/dev/null").text,
                                     "generate")["memory"]["program_bytes"];
  expect_refusal(3, command + std::to_string(program + (4 << 20)),
                 {"windows of 256 tokens every 1", "--stride", "--memory "});
  // Where the program itself takes all of it, fewer windows do not help.
  const Outcome none = tern(command + "1MiB 2>&1");
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.text.find("there are 0 B"), std::string::npos) << none.text;
  EXPECT_EQ(none.text.find("a larger --stride"), std::string::npos) << none.text;
}

TEST_F(Newcomer, ThePeakIsMeasuredOnceAndItsDateTold) {
  const Outcome again = tern("train run/recipe.toml --output cached --steps 3 2>&1 >/dev/null");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(again.text.find("measuring the machine's peak"), std::string::npos) << again.text;
  EXPECT_NE(again.text.find(" UTC, kept in "), std::string::npos) << again.text;
  EXPECT_NE(again.text.find("try: " TERN_PROGRAM " generate"), std::string::npos) << "as it was typed\n" << again.text;
}

}  // namespace
}  // namespace tern
