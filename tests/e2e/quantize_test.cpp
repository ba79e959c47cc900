// tern quantize as a person uses it: the reference model in fewer bits, still itself; what cannot be is refused by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

class Quantize : public InFolder<Quantize> {
 protected:
  static void SetUpTestSuite() { make_root("quantize"); }
  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
};

TEST_F(Quantize, FewerBitsCostMoreAndTheFileIsWhatItIsSaidToBe) {
  write("t.txt",
        std::string("It was on a dreary night of November that I beheld the accomplishment of my toils. With an "
                    "anxiety that almost amounted to agony, I collected the instruments of life around me.\n"));
  for (const std::vector<std::string>& types :
       {std::vector<std::string>{"q8_0", "q5_1", "q4_1"}, {"q6_k", "q5_k", "q4_k"}}) {
    double error = 0, divergence = 0;
    for (const std::string& type : types) {
      const std::string file = type + ".gguf", tables = type.ends_with("k") ? " --table-type " + type : "";
      const Json q = json("quantize " + kNovels + " --type " + type + tables + " --output " + file);
      EXPECT_EQ(q["bytes"], static_cast<int64_t>(std::filesystem::file_size(root_ + "/" + file)));
      EXPECT_EQ(q["matrices_kept_wide"], 0);
      const Json e = json("eval " + file + " --data t.txt --reference " + kNovels);
      EXPECT_GT(q["relative_error"].get<double>(), error) << type;
      EXPECT_GT(e["kl_divergence"].get<double>(), divergence) << type;
      error = q["relative_error"], divergence = e["kl_divergence"];
    }
    EXPECT_LT(divergence, 0.1);
  }
}

TEST_F(Quantize, TheFileRunsAsItLiesWithTheTokensOfItsDecodedWeights) {
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output q.gguf");
  const std::string generate = "generate q.gguf --prompt 'The old man' --max-tokens 32 --dtype f32 --temperature 0";
  EXPECT_EQ(json(generate + " --weights mapped")["samples"], json(generate + " --weights copied")["samples"]);
  const std::string bytes = real_io().read(root_ + "/q.gguf");
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output one.gguf --threads 1");
  EXPECT_EQ(real_io().read(root_ + "/one.gguf"), bytes) << "the same bytes for any number of threads";
}

TEST_F(Quantize, BitsOfRtnAndGptqAreTheUniformTypes) {
  const std::string trained = source_dir() + "/tests/golden/eval/trained";
  for (const std::string method : {"rtn", "gptq"}) {
    const std::string of = "quantize " + trained + " --method " + method +
                           (method == "gptq" ? " --data " + trained + "/text.txt --calibration-tokens 128" : "");
    for (const std::string bits : {"4", "3", "2"}) {
      const std::string by_bits = method + "-bits" + bits, by_type = method + "-type" + bits;
      EXPECT_EQ(json(of + " --bits " + bits + " --output " + by_bits)["type"], "U" + bits);
      json(of + " --type u" + bits + " --output " + by_type);
      const auto weights = [&](const std::string& name) {
        return real_io().read(root_ + "/" + name + "/model.safetensors");
      };
      EXPECT_EQ(weights(by_bits), weights(by_type));
    }
  }
}

TEST_F(Quantize, IntegersAreCloseTheSameUnderEverySetAndRefusedWhereThereAreNoCodes) {
  json("quantize " + kNovels + " --type q4_0 --output i.gguf");
  write("i.txt", std::string("The horses were put to, and we drove off through the rain towards the old house on the "
                             "hill, where nobody had lived since the spring.\n"));
  const std::string eval = "eval i.gguf --data i.txt --dtype f32 ";
  const double kept = json(eval + "--reference " + kNovels)["kl_divergence"];
  const double int8 = json(eval + "--arithmetic int8 --reference " + kNovels)["kl_divergence"];
  EXPECT_NE(int8, kept);
  EXPECT_NEAR(int8, kept, 0.3 * kept);
  const std::string generate =
      "generate i.gguf --prompt 'The old man' --max-tokens 24 --temperature 0 --arithmetic int8";
  const Json here = json(generate);
  EXPECT_EQ(here["settings"]["arithmetic"], "int8");
  EXPECT_EQ(here["samples"], json(generate + " --threads 1 --chunk 2")["samples"]);
  expect_refusal(2, "generate " + kNovels + " --prompt x --arithmetic int8", {"--arithmetic int8", "holds none"});
  expect_refusal(2, generate + " --weights copied", {"--weights copied", "--arithmetic int8"});
}

// Calibration reads what training and evaluation read. This tokenizer adds nothing before a document, so all three files begin alike.
TEST_F(Quantize, CalibrationReadsTokenFilesAndJsonlAndRefusesWhatIsNoText) {
  const std::string text = "The horses were put to, and we drove off through the rain towards the old house.";
  write("c.txt", text);
  write("c.jsonl", "{\"text\": \"" + text + "\"}\n");
  EXPECT_EQ(tern("tokenize " + kNovels + " --pack --input c.jsonl --output c.tokens 2>errors").code, 0);
  const std::string quantize = "quantize " + kNovels + " --method gptq --type q4_0 --calibration-tokens 16 --data ";
  json(quantize + "c.txt --output text.gguf");
  json(quantize + "c.tokens --output tokens.gguf");
  json(quantize + "c.jsonl --output jsonl.gguf");
  const std::string bytes = real_io().read(root_ + "/text.gguf");
  EXPECT_EQ(real_io().read(root_ + "/tokens.gguf"), bytes);
  EXPECT_EQ(real_io().read(root_ + "/jsonl.gguf"), bytes);
  // No more is read than calibration wants; conversations are written by a template.
  write("long.jsonl", "{\"text\": \"" + text + "\"}\nno JSON\n");
  json(quantize + "long.jsonl --output long.gguf");
  EXPECT_EQ(real_io().read(root_ + "/long.gguf"), bytes);
  write("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  write("talk.jsonl",
        R"({"messages": [{"role": "user", "content": "The horses were put to, "},)"
        R"({"role": "assistant", "content": "and we drove off through the rain towards the old house."}]})");
  json(quantize + "talk.jsonl --chat-template t.jinja --output talk.gguf");
  EXPECT_EQ(real_io().read(root_ + "/talk.gguf"), bytes);
  expect_refusal(4, quantize + "talk.jsonl --output no.gguf", {"--chat-template FILE"});
  write("latin.txt", text + " caf\xe9");
  expect_refusal(4, quantize + "latin.txt --output no.gguf", {"latin.txt", "not UTF-8"});
  expect_refusal(4, quantize + kNovels + "/model.safetensors --output no.gguf", {"not a token file"});
}

TEST_F(Quantize, ADirectoryOfOwnTypesRunsIsInspectedAndExported) {
  const Json u4 = json("quantize " + kNovels + " --type u4 --output own"),
             u2 = json("quantize " + kNovels + " --type u2 --output two");
  EXPECT_LT(u2["bytes"], u4["bytes"]);
  EXPECT_LT(u4["relative_error"], u2["relative_error"]);
  const std::string generate = "generate own --prompt 'The old man' --max-tokens 24 --dtype f32 --temperature 0";
  const Json samples = json(generate + " --weights mapped")["samples"];
  EXPECT_EQ(samples, json(generate + " --weights copied")["samples"]);
  json("export own --output numbers --dtype f32");
  EXPECT_EQ(samples,
            json("generate numbers --prompt 'The old man' --max-tokens 24 --dtype f32 --temperature 0")["samples"]);
  const Json nf4 = json("quantize " + kNovels + " --type nf4 --output normal");
  EXPECT_LT(nf4["bytes"], u4["bytes"]);
  EXPECT_LT(nf4["relative_error"], u2["relative_error"]);
  const std::string normal = "generate normal --prompt 'The old man' --max-tokens 24 --dtype f32 --temperature 0";
  EXPECT_EQ(json(normal + " --weights mapped")["samples"], json(normal + " --weights copied")["samples"]);
  EXPECT_NE(tern("inspect normal").text.find("NF4"), std::string::npos);
  const Json shifted = json("quantize " + kNovels + " --type nf4_1 --output shifted");
  EXPECT_EQ(shifted["type"], "NF4_1");
  EXPECT_EQ(shifted["matrix_bytes"], u4["matrix_bytes"]) << "scale, offset and codes of 4 bits both";
  EXPECT_LT(shifted["relative_error"], u2["relative_error"]);
  const std::string from = "generate shifted --prompt 'The old man' --max-tokens 24 --dtype f32 --temperature 0";
  EXPECT_EQ(json(from + " --weights mapped")["samples"], json(from + " --weights copied")["samples"]);
  EXPECT_NE(tern("inspect shifted").text.find("NF4_1"), std::string::npos);
  EXPECT_NE(tern("inspect own").text.find("U4"), std::string::npos);
  EXPECT_NE(json(generate + " --arithmetic int8")["samples"], Json());
  expect_refusal(2, "quantize " + kNovels + " --type u4 --output own", {"not empty"});
}

// The report's figures are those of tern eval, whose models are whole in memory; both computed in f32.
TEST_F(Quantize, TheReportSaysWhatEvalWouldOnEveryText) {
  write("one.txt", std::string("It was on a dreary night of November that I beheld the accomplishment of my toils.\n"));
  write("two.txt", std::string("The ship lay still; the captain counted the birds, and nobody spoke of the wind.\n"));
  const std::string asked = " --type u3 --valid-data one.txt --valid-data two.txt --output ";
  json("export " + kNovels + " --dtype f32 --output plain");
  const Json q = json("quantize plain" + asked + "r --report r.json");
  const Json report = parse_json(real_io().read(root_ + "/r.json"), "r.json");
  EXPECT_EQ(report["bytes"], q["bytes"]);
  ASSERT_EQ(report["texts"].size(), 2u);
  for (const Json& text : report["texts"]) {
    const Json e = json("eval r --dtype f32 --reference plain --data " + text["data"].get<std::string>());
    EXPECT_EQ(text["scored_tokens"], e["scored_tokens"]);
    for (const char* key : {"kl_divergence", "same_top", "perplexity", "reference_perplexity"})
      EXPECT_NEAR(text[key]["value"].get<double>(), e[key].get<double>(), 1e-5 * e[key].get<double>()) << key;
    EXPECT_NEAR(text["kl_divergence"]["stderr"].get<double>(), e["kl_divergence_stderr"].get<double>(), 1e-6);
    const Json alone = json("eval r --dtype f32 --data " + text["data"].get<std::string>());
    EXPECT_NEAR(text["bits_per_byte"]["value"].get<double>(), alone["bits_per_byte"].get<double>(), 1e-5);
    EXPECT_GT(text["bits_per_byte"]["stderr"].get<double>(), 0);
  }
  ASSERT_EQ(report["tensors"].size(), q["tensors"].size());
  std::set<std::string> types;
  for (const Json& t : report["tensors"]) types.insert(t["type"].get<std::string>());
  EXPECT_EQ(types, (std::set<std::string>{"U3", "Q8_0", "numbers"}));
  for (const auto& [name, word] : {std::pair{"r.txt", "two.txt  "}, {"r.html", "<svg"}}) {
    ASSERT_EQ(tern("quantize " + kNovels + asked + "of-" + name + " --report " + name + " 2>&1").code, 0);
    const std::string text = real_io().read(root_ + "/" + name);
    for (const char* each : {word, "KL divergence", "bits per byte", "layers.0.attention.qkv.weight", "±"})
      EXPECT_NE(text.find(each), std::string::npos) << name << " lacks " << each;
  }
  expect_refusal(2, "quantize " + kNovels + " --output z --report z.pdf", {"--report z.pdf", ".html"});
  expect_refusal(2, "quantize " + kNovels + " --output z --valid-data one.txt", {"--valid-data", "--report"});
  expect_refusal(4, "quantize " + kNovels + " --output z --report z.txt --valid-data none.txt", {"none.txt"});
  EXPECT_FALSE(real_io().stat(root_ + "/z"));
}

using QuantizeSlow = Quantize;

// A text of its own is enough here: what is checked are bytes.
TEST_F(QuantizeSlow, LcqGoesOnBehindAKillToTheSameBytesForAnyThreads) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "On day " + std::to_string(i) + " the ship lay still; the captain counted " + std::to_string(i * i) +
            " birds.\n";
  write("birds.txt", text);
  const std::string lcq = "quantize " + kNovels + " --method lcq --bits 2 --data birds.txt --calibration-tokens 512";
  const Json q = json(lcq + " --output whole");
  EXPECT_GT(q["matrix_bytes"], 0);
  EXPECT_FALSE(real_io().stat(root_ + "/whole.partial"));
  // Killed when a few units are there.
  run_shell("cd " + root_ + " && { " TERN_PROGRAM " " + lcq +
            " --output on >log 2>&1 & pid=$!; "
            "for i in $(seq 600); do [ -e on.partial/unit-00003.safetensors ] && break; sleep 0.05; done; kill -9 "
            "$pid; wait $pid; }");
  ASSERT_TRUE(real_io().stat(root_ + "/on.partial"));
  EXPECT_FALSE(real_io().stat(root_ + "/on"));
  expect_refusal(2,
                 "quantize " + kNovels + " --method lcq --bits 3 --data birds.txt --calibration-tokens 512 --output on",
                 {"on.partial", "another run"});
  json(lcq + " --output on --threads 1");
  const auto weights = [&](const char* name) { return real_io().read(root_ + "/" + name + "/model.safetensors"); };
  EXPECT_EQ(weights("on"), weights("whole"));
  EXPECT_FALSE(real_io().stat(root_ + "/on.partial"));
}

TEST_F(Quantize, ACtrlCKeepsWhatIsCodedSaysWhereAndGoesOn) {
  std::string prose;
  for (int i = 0; i < 40; ++i)
    prose += "The horses were put to, and we drove off through the rain towards the old house. ";
  write("prose.txt", prose);
  const std::vector<std::string> words = {
      TERN_PROGRAM, "quantize",  kNovels,  "--method",           "gptq",
      "--type",     "q4_0",      "--data", root_ + "/prose.txt", "--calibration-tokens",
      "512",        "--threads", "1"};
  const auto with = [&](const std::string& out) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--output", root_ + "/" + out});
    return all;
  };
  Child child(with("stopped.gguf"), root_ + "/said");
  while (child.running() && !real_io().stat(root_ + "/stopped.gguf.partial")) ::usleep(1000);
  child.signal(SIGINT);
  ASSERT_EQ(child.wait(), 75) << real_io().read(root_ + "/said");
  EXPECT_NE(real_io().read(root_ + "/said").find("stopped.gguf.partial keeps them, and the same command goes on"),
            std::string::npos);
  EXPECT_EQ(run_to_end(with("stopped.gguf"), root_), 0);
  EXPECT_EQ(run_to_end(with("whole.gguf"), root_), 0);
  EXPECT_EQ(real_io().read(root_ + "/stopped.gguf"), real_io().read(root_ + "/whole.gguf"));
}

// Of a model that knows its text. What was measured before a stop is not measured again, nor for another target.
TEST_F(Quantize, AMixtureTakesItsBytesAndIsTheSameForAnyThreadsAndBehindAStop) {
  const std::string trained = source_dir() + "/tests/golden/eval/trained";
  const std::string of = "quantize " + trained + " --method lcq --bits mixed --data " + trained + "/text.txt ",
                    mixed = of + "--calibration-tokens 256 --target-bytes ";
  const Json q = json(mixed + "20000 --output mix"), wide = json(mixed + "24000 --output wide --threads 1");
  std::set<std::string> types;
  for (const auto& [result, target] : {std::pair{&q, 20'000}, {&wide, 24'000}}) {
    EXPECT_NEAR((*result)["tensor_bytes"].get<double>(), target, 0.01 * target);
    ASSERT_EQ((*result)["mixture"]["matrices"].size(), 8u);
    double sum = 0;
    for (const Json& m : (*result)["mixture"]["matrices"]) {
      const std::string type = m["type"].get<std::string>();
      types.insert(type);
      sum += m["kl_divergence_alone"][type].get<double>();
    }
    EXPECT_NEAR((*result)["mixture"]["kl_divergence_sum"].get<double>(), sum, 1e-12);
  }
  EXPECT_GE(types.size(), 3u);
  EXPECT_LT(wide["mixture"]["kl_divergence_sum"].get<double>(), q["mixture"]["kl_divergence_sum"].get<double>());
  for (size_t i = 0; i < 8; ++i)  // the target does not change what is measured, nor do threads
    EXPECT_EQ(q["mixture"]["matrices"][i]["kl_divergence_alone"],
              wide["mixture"]["matrices"][i]["kl_divergence_alone"]);
  const std::string weights = real_io().read(root_ + "/mix/model.safetensors");
  json(mixed + "24000 --output kept --sensitivity measures");
  std::filesystem::remove(root_ + "/measures/sensitivity-00003.safetensors");  // as if it had been stopped there
  json(mixed + "20000 --output again --sensitivity measures --threads 1");
  EXPECT_EQ(real_io().read(root_ + "/again/model.safetensors"), weights);
  EXPECT_TRUE(real_io().stat(root_ + "/measures/sensitivity-00003.safetensors"));
  EXPECT_FALSE(real_io().stat(root_ + "/again.partial"));
  expect_refusal(2, of + "--calibration-tokens 128 --target-bytes 20000 --output z --sensitivity measures",
                 {"measures", "another run"});
  const std::string generate = "generate mix --prompt 'Licensed' --max-tokens 16 --dtype f32 --temperature 0";
  EXPECT_EQ(json(generate + " --weights mapped")["samples"], json(generate + " --weights copied")["samples"]);
}

// The reference model reads what it wrote itself: prose for calibration, other prose to measure on.
TEST_F(QuantizeSlow, GptqIsNearerAtTheSameBytesAndThreadsChangeNone) {
  const auto prose = [&](int seed, int samples) {
    const Json out = json("generate " + kNovels + " --prompt 'The old man' --max-tokens 400 --temperature 0.9 --seed " +
                          std::to_string(seed) + " --samples " + std::to_string(samples));
    std::string all;
    for (const Json& sample : out["samples"]) all += sample["text"].get<std::string>() + "\n";
    return all;
  };
  write("calibration.txt", prose(1, 8));
  write("t.txt", prose(2, 4));
  const Json rtn = json("quantize " + kNovels + " --type q4_0 --output rtn.gguf");
  const std::string gptq = "quantize " + kNovels + " --type q4_0 --method gptq --data calibration.txt";
  const Json near = json(gptq + " --output gptq.gguf");
  EXPECT_EQ(near["bytes"], rtn["bytes"]);
  EXPECT_GT(near["calibration_tokens"].get<int>(), 1000);
  const auto divergence = [&](const char* file) {
    return json(std::string("eval ") + file + " --data t.txt --reference " + kNovels)["kl_divergence"].get<double>();
  };
  const double before = divergence("rtn.gguf"), after = divergence("gptq.gguf");
  std::printf("KL divergence: %.4f rounded, %.4f by gptq\n", before, after);
  EXPECT_LT(after, 0.9 * before);
  json(gptq + " --output one.gguf --threads 1");
  EXPECT_EQ(real_io().read(root_ + "/one.gguf"), real_io().read(root_ + "/gptq.gguf"));
}

TEST_F(Quantize, WhatCannotBeIsRefusedAndLeavesNothing) {
  write("there.gguf", "x");
  expect_refusal(2, "quantize " + kNovels + " --output there.gguf", {"is there already"});
  expect_refusal(2, "quantize " + kNovels + " --type u4 --output q.gguf", {"--output q.gguf", "GGUF has no type U4"});
  expect_refusal(2, "quantize " + kNovels + " --type nf4 --output q.gguf", {"--output q.gguf", "GGUF has no type NF4"});
  expect_refusal(2, "quantize " + kNovels + " --type nf4_1 --output q.gguf", {"GGUF has no type NF4_1"});
  expect_refusal(2, "quantize " + kNovels + " --bits 3 --output q.gguf", {"GGUF has no type U3"});
  expect_refusal(2, "quantize " + kNovels + " --bits 3 --type q4_0 --output q",
                 {"--bits 3 is --type u3", "one of the two"});
  expect_refusal(2, "quantize " + kNovels + " --bits mixed --output q", {"--bits mixed is of --method lcq"});
  expect_refusal(2, "quantize " + kNovels + " --bits mixed --target-bytes 3MiB --data there.gguf --output q",
                 {"--bits mixed is of --method lcq"});
  expect_refusal(2, "quantize " + kNovels + " --method lcq --bits 3 --data there.gguf --output q.gguf",
                 {"GGUF has no type LC3", "another --method"});
  expect_refusal(2, "quantize " + kNovels + " --method gptq --rank 8 --output q", {"--rank", "choose --method loftq"});
  expect_refusal(2, "quantize " + kNovels + " --method lcq --type u4 --output q", {"--type", "--bits"});
  expect_refusal(2, "quantize " + kNovels + " --method lcq --bits 5 --output q", {"--bits", "2, 3"});
  const std::string mixed = "quantize " + kNovels + " --method lcq --bits mixed --data there.gguf --output q ";
  expect_refusal(2, mixed, {"--target-bytes is not given"});
  expect_refusal(2, mixed + "--target-bytes 1000", {"--target-bytes", "no mixture", "Q8_0"});
  expect_refusal(2, mixed + "--target-bytes 1GB", {"--target-bytes", "no mixture"});
  expect_refusal(2, "quantize " + kNovels + " --method lcq --bits 3 --data there.gguf --target-bytes 3MB --output q",
                 {"--target-bytes", "--bits mixed"});
  expect_refusal(2, "quantize " + kNovels + " --target-bytes 3MB --output q", {"--target-bytes", "--method rtn"});
  expect_refusal(2, "quantize " + kNovels + " --method lcq --bits 3 --data there.gguf --sensitivity s --output q",
                 {"--sensitivity", "--bits mixed"});
  expect_refusal(2, "quantize " + kNovels, {"--output is not given"});
  expect_refusal(2, "quantize " + kNovels + " --type q3_k --output q.gguf", {"--type", "q4_0"});
  expect_refusal(3, "quantize " + kNovels + " --output q.gguf --memory 4MiB", {"--memory"});
  expect_refusal(2, "quantize " + kNovels + " --method gptq --output q.gguf", {"--data is not given"});
  write("few.txt", "a few words\n");
  expect_refusal(2, "quantize " + kNovels + " --method gptq --data few.txt --output q.gguf",
                 {"at least a window of 512"});
  expect_refusal(2, "quantize " + kNovels + " --data few.txt --output q.gguf", {"--method gptq"});
  expect_refusal(2, "quantize " + kNovels + " --calibration-tokens 9 --output q.gguf",
                 {"--calibration-tokens", "--method rtn"});
  EXPECT_FALSE(real_io().stat(root_ + "/q.gguf"));
}

}  // namespace
}  // namespace tern
