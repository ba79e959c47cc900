// Models larger than their memory, as a person meets them: each verb says the same with the least memory that its refusal names.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/source_dir_testing.h"
#include "base/system.h"
#include "model/model_files.h"
#include "model/model_testing.h"
#include "serve/client_testing.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

const std::string kSmall = source_dir() + "/examples/novels-6m", kModel = "deep", kMixtureModel = "mixture";

class Streaming : public InFolder<Streaming> {
 protected:
  static void SetUpTestSuite() {
    make_root("streaming");
    write_deep_model();
    write("t.txt", "The wind rose in the night, and by the morning the sea was white as far as the island. " +
                       std::string(400, 'a') + " She said nothing.");
    write("t.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}");
    write("q.jsonl", "{\"prompt\": \"She said\", \"choices\": [\" nothing\", \" xq\"], \"answer\": 0}\n");
  }
  // Of so many layers that in 4 bits too a ring of bands is far smaller than all of them.
  static void write_deep_model() {
    Json json = parse_json(real_io().read(kSmall + "/config.json"), "config.json");
    json["num_hidden_layers"] = 32;
    write_model(kModel, json);
  }
  // 80 experts, which in 4 bits too are large enough to be read one by one.
  static void write_mixture() {
    Json json = parse_json(real_io().read(kSmall + "/config.json"), "config.json");
    json["architectures"] = {"MixtralForCausalLM"};
    json["model_type"] = "mixtral";
    json["num_hidden_layers"] = 10, json["intermediate_size"] = 512;
    json["num_local_experts"] = 8, json["num_experts_per_tok"] = 2;
    json["tie_word_embeddings"] = false;
    for (const char* key : {"attention_bias", "mlp_bias", "head_dim"}) json.erase(key);  // which Mixtral has not
    write_model(kMixtureModel, json);
  }
  static void write_model(const std::string& name, const Json& json) {
    const HfConfig config = parse_hf_config(json.dump(), "config.json");
    const ModelSpec spec = model_spec(config);
    Arena arena;
    save_model(spec, config, random_weights(spec, DType::f32, arena, 3, 0.05), DType::bf16, root_ + "/" + name,
               real_io());
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      write(name + "/" + file, real_io().read(kSmall + "/" + file));
  }
  // The limit that a refusal names, and two megabytes.
  static std::string least_memory(const std::string& command) {
    const Outcome refused = tern(command + " --memory 1MiB 2>&1 >/dev/null </dev/null");
    EXPECT_EQ(refused.code, 3) << command << "\n" << refused.text;
    const std::string before = "what would fit:\n  --memory ";
    const size_t at = refused.text.find(before);
    EXPECT_NE(at, std::string::npos) << refused.text;
    if (at == std::string::npos) return "1MiB";
    const size_t begin = at + before.size();
    // What the program itself takes differs by some pages between two starts, under load by more than a megabyte.
    return std::to_string(std::stoll(refused.text.substr(begin)) + 2) + "MiB";
  }
  static Json run(const std::string& command) {
    const Outcome o = tern(command + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << command << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, command) : Json::object();
  }
  static std::string said() { return real_io().read(root_ + "/errors"); }
};

TEST_F(Streaming, EveryVerbSaysTheSameOfDenseAndOfCodedWeights) {
  run("quantize " + kModel + " --type q8_0 --output q.gguf");
  run("quantize " + kModel + " --type u4 --output own");
  struct Verb {
    std::string before, after, key;
  };
  const Verb verbs[] = {{"generate ", " --prompt 'It was a dark' --max-tokens 12", "token_ids"},
                        {"eval ", " --data t.txt --window 200 --batch 4", "sum_loss"},
                        {"eval ", " --task q.jsonl", "results"},
                        {"embed ", " --text 'It was a dark night'", "embeddings"},
                        {"chat ", " --chat-template t.jinja --temperature 0 --max-tokens 9 < t.txt", "answer"}};
  for (const std::string& model : {kModel, std::string("q.gguf"), std::string("own")})
    for (const Verb& verb : verbs) {
      const std::string plain = verb.before + model;
      const bool chats = verb.before == "chat ";
      const std::string options = chats ? verb.after.substr(0, verb.after.find(" <")) : verb.after;
      const std::string input = chats ? " < t.txt" : "";
      const Json whole = run(plain + options + input);
      const std::string limit = least_memory(plain + options);
      const Json streamed = run(plain + options + " --memory " + limit + input);
      ASSERT_TRUE(streamed.contains(verb.key) && whole.contains(verb.key)) << plain << options;
      EXPECT_EQ(streamed[verb.key], whole[verb.key]) << plain << options;
      EXPECT_NE(said().find("the weights do not fit"), std::string::npos) << plain << options << "\n" << said();
    }
}

TEST_F(Streaming, ServesACodedBaseWithAdaptersFromTheDisk) {
  run("quantize " + kModel + " --type q8_0 --output base.gguf");
  const auto adapters = random_adapters(describe_model(root_ + "/" + kModel, std::nullopt).spec);
  std::string given;
  for (const auto& [name, dir] : adapters) given += " --adapter " + name + "=" + dir;
  const std::string limit = least_memory("serve base.gguf --port 0 --context 128" + given);
  std::vector<std::string> words = {TERN_PROGRAM, "serve", root_ + "/base.gguf", "--port", "0",
                                    "--context",  "128",   "--memory",           limit};
  for (const auto& [name, dir] : adapters) words.insert(words.end(), {"--adapter", name + "=" + dir});
  const std::string log = root_ + "/log";
  Child child(words, log);
  uint16_t port = 0;
  for (int i = 0; i < 2000 && child.running() && port == 0; ++i, ::usleep(5000)) {
    const std::string text = real_io().stat(log) ? real_io().read(log) : "";
    if (text.find(" is ready after") != std::string::npos)
      port = static_cast<uint16_t>(std::stoi(text.substr(text.find("http://127.0.0.1:") + 17)));
  }
  ASSERT_NE(port, 0) << real_io().read(log);
  EXPECT_NE(real_io().read(log).find("the weights do not fit"), std::string::npos) << real_io().read(log);
  for (const auto& [name, dir] : adapters) {
    const Json answer =
        Client(port)
            .ask("POST", "/v1/completions",
                 R"({"prompt":"It was a dark","max_tokens":8,"temperature":0.9,"seed":5,"model":")" + name + "\"}")
            .json();
    const Json alone = run("generate base.gguf --adapter " + dir +
                           " --prompt 'It was a dark' --max-tokens 8 --temperature 0.9 --seed 5");
    EXPECT_EQ(answer["choices"][0]["text"], alone["samples"][0]["text"]) << name << answer;
  }
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 0);
}

// A mixture that does not fit says the same with the least memory and with more; a token reads what it chooses and is not there, which
// is counted; a prompt reads each expert once at most.
TEST_F(Streaming, AMixtureReadsTheExpertsThatAreChosen) {
  write_mixture();
  run("quantize " + kMixtureModel + " --type u4 --output mixture4");
  struct Verb {
    std::string before, after, key;
  };
  const Verb verbs[] = {{"generate ", " --prompt 'It was a dark' --max-tokens 12", "token_ids"},
                        {"eval ", " --data t.txt --window 200 --batch 4", "sum_loss"},
                        {"embed ", " --text 'It was a dark night'", "embeddings"}};
  for (const std::string& model : {kMixtureModel, std::string("mixture4")})
    for (const Verb& verb : verbs) {
      const std::string plain = verb.before + model + verb.after;
      const Json whole = run(plain);
      const std::string limit = least_memory(plain);
      Json before;
      for (const int more : {0, 6}) {
        const std::string command = plain + " --memory " + std::to_string(std::stoll(limit) + more) + "MiB";
        const Json streamed = run(command);
        ASSERT_TRUE(streamed.contains(verb.key) && whole.contains(verb.key)) << command;
        EXPECT_EQ(streamed[verb.key], whole[verb.key]) << command;
        EXPECT_NE(said().find("experts are read when they are chosen"), std::string::npos) << command << "\n" << said();
        const Json experts = streamed.at("streaming").at("experts");
        EXPECT_LE(experts["missed_bytes"], experts["wanted_bytes"]);
        EXPECT_GE(experts["read_bytes"], experts["missed_bytes"]);
        if (!before.is_null()) {
          EXPECT_GT(experts["slots"], before["slots"]);
          EXPECT_LE(experts["missed_bytes"], before["missed_bytes"]);
        }
        before = experts;
        if (verb.before == "generate ") {
          EXPECT_LE(experts["wanted_bytes"].get<int64_t>(),
                    11 * experts["chosen_bytes_per_token"].get<int64_t>() + experts["bytes"].get<int64_t>());
        }
      }
    }
}

// The more prompts at a time, the fewer bytes for each token; the answers are those of whole weights.
TEST_F(Streaming, ManyPromptsShareEachPass) {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += "{\"prompt\": \"It was a dark " + std::string(1, static_cast<char>('a' + i)) + "\"}\n";
  write("p.jsonl", lines);
  const std::string command = "generate " + kModel + " --prompts p.jsonl --max-tokens 5";
  const Outcome whole = tern(command + " 2>errors");
  ASSERT_EQ(whole.code, 0) << said();
  const Outcome one = tern(command + " --batch 1 --memory " + least_memory(command + " --batch 1") + " 2>errors");
  EXPECT_NE(said().find("the weights do not fit"), std::string::npos) << said();
  EXPECT_EQ(one.text, whole.text);
  const Outcome many = tern(command + " --memory " + least_memory(command + " --batch 12") + " 2>errors");
  EXPECT_NE(said().find("the weights do not fit"), std::string::npos) << said();
  EXPECT_EQ(said().find("12 prompts, up to 1 at a time"), std::string::npos) << said();
  EXPECT_EQ(many.text, whole.text);
}

// The events of one run of a trace, by name: the bytes that the disk moved.
std::multimap<std::string, int64_t> events_of(const Json& trace, const std::string& run) {
  std::multimap<std::string, int64_t> events;
  Json process;
  for (const Json& e : trace["traceEvents"]) {
    if (e["name"] == "process_name" && e["args"]["name"] == run) process = e["pid"];
    if (e["ph"] == "X" && e["pid"] == process) events.emplace(e["name"], e["args"]["message_bytes"]);
  }
  return events;
}

// Of weights that stream the trace has the predicted and the measured run of the same instructions and bytes, else the measured one alone.
TEST_F(Streaming, TraceHoldsThreeTokensAsPredictedAndAsMeasured) {
  const std::string plain = "generate " + kModel + " --prompt 'It was a dark' --max-tokens 6 --ignore-eos";
  const Json whole = run(plain + " --trace whole.json");
  EXPECT_NE(said().find("trace of tokens 3 to 5 written to whole.json"), std::string::npos) << said();
  const auto resident = events_of(parse_json(real_io().read(root_ + "/whole.json"), "trace"), "measured");
  EXPECT_EQ(resident.size(), 3u * 66);  // of 32 layers, embedding and head
  EXPECT_TRUE(resident.contains("FORWARD unit 65 micro 2"));
  EXPECT_EQ(real_io().read(root_ + "/whole.json").find("predicted"), std::string::npos);

  const Json streamed = run(plain + " --memory " + least_memory(plain) + " --trace streamed.json");
  EXPECT_EQ(streamed["token_ids"], whole["token_ids"]);
  EXPECT_NE(said().find("trace of tokens 3 to 5 written to streamed.json"), std::string::npos) << said();
  EXPECT_EQ(said().find("counted bytes differ"), std::string::npos) << said();
  const Json trace = parse_json(real_io().read(root_ + "/streamed.json"), "trace");
  const auto predicted = events_of(trace, "predicted"), measured = events_of(trace, "measured");
  EXPECT_EQ(predicted, measured);
  EXPECT_GT(measured.size(), resident.size());
  int64_t bytes = 0;
  for (const auto& [name, moved] : measured) bytes += moved;
  EXPECT_GE(bytes, 3 * streamed["streaming"]["bytes_per_token"].get<int64_t>());
}

// Windows of other systems: the same answer in the memory that the refusal names, every weight read for every token, and a trace in which the
// predicted run has the measured one's instructions and bytes.
TEST_F(Streaming, WindowsChangeNoAnswer) {
  run("quantize " + kModel + " --type q8_0 --output q.gguf");
  for (const std::string& model : {kModel, std::string("q.gguf")}) {
    const std::string plain = "generate " + model + " --prompt 'It was a dark' --max-tokens 6 --ignore-eos";
    const Json whole = run(plain);
    for (const auto& [window, of, resident, step, count] : {std::tuple{"blocks:2", "blocks", 2, 1, 65},
                                                            {"layers:4,2", "layers", 4, 2, 33},
                                                            {"layers:1", "layers", 1, 1, 33}}) {
      const std::string command = plain + " --stream-window " + window;
      const Json streamed = run(command + " --trace window.json --memory " + least_memory(command));
      EXPECT_EQ(streamed["token_ids"], whole["token_ids"]) << command;
      EXPECT_NE(said().find("none of their matrices stay in memory"), std::string::npos) << said();
      EXPECT_EQ(said().find("counted bytes differ"), std::string::npos) << said();
      const Json& s = streamed["streaming"];
      EXPECT_EQ(s["kept_bytes"], 0);
      EXPECT_EQ(s["bytes_per_token"], s["pass_bytes"]);
      EXPECT_EQ(s["window"]["of"], of);
      EXPECT_EQ(s["window"]["resident"], resident);
      EXPECT_EQ(s["window"]["step"], step);
      EXPECT_EQ(s["window"]["count"], count);
      EXPECT_LE(s["window"]["bytes"], s["ring_bytes"]);
      const Json trace = parse_json(real_io().read(root_ + "/window.json"), "trace");
      EXPECT_EQ(events_of(trace, "predicted"), events_of(trace, "measured")) << command;
    }
  }
  write("p.jsonl", "{\"prompt\": \"It was a dark\"}\n{\"prompt\": \"She\"}\n");
  const std::string many = "generate " + kModel + " --prompts p.jsonl --max-tokens 5";
  const Outcome whole = tern(many + " 2>errors"), moved = tern(many + " --stream-window blocks:3 2>errors");
  EXPECT_EQ(moved.text, whole.text);
  EXPECT_NE(said().find("a window of 3 blocks"), std::string::npos) << said();
}

TEST_F(Streaming, WindowsThatAreNoneAreRefusedByName) {
  const std::string plain = "generate " + kModel + " --prompt a --max-tokens 2 --stream-window ";
  for (const char* text : {"2", "blocks", "blocks:", "blocks:0", "blocks:-1", "blocks:2,3", "layers:2,0",
                           "layers:2,1,1", "rows:2", "layers:x"})
    expect_refusal(2, plain + text, {"--stream-window", text, "layers:K,STEP"});
  expect_refusal(2, plain + "blocks:66", {"a window of 66 blocks", "this model has 65"});
  expect_refusal(2, plain + "blocks:2 --weights mapped", {"--stream-window blocks:2", "--weights mapped"});
  expect_refusal(2, plain + "blocks:2 --dtype f64", {"--dtype f64"});
  expect_refusal(3, plain + "layers:33,2 --memory 1MiB",
                 {"a window of 33 layers, 2 at a time does not fit", "--memory ", "fewer blocks or layers"});
}

// So has that of a mixture, with the experts that were read, as they were chosen.
TEST_F(Streaming, TraceOfAMixtureHoldsTheExpertsThatWereRead) {
  write_mixture();
  const std::string plain = "generate " + kMixtureModel + " --prompt 'It was a dark' --max-tokens 6 --ignore-eos";
  const Json streamed = run(plain + " --memory " + least_memory(plain) + " --trace mixture.json");
  EXPECT_NE(said().find("trace of tokens 3 to 5 written to mixture.json"), std::string::npos) << said();
  EXPECT_EQ(said().find("counted bytes differ"), std::string::npos) << said();
  const Json trace = parse_json(real_io().read(root_ + "/mixture.json"), "trace");
  const auto predicted = events_of(trace, "predicted"), measured = events_of(trace, "measured");
  EXPECT_EQ(predicted, measured);
  int64_t bytes = 0, reads = 0;
  for (const auto& [name, moved] : measured)
    if (name.find("LOAD expert(") == 0) bytes += moved, ++reads;
  EXPECT_GT(reads, 0);
  EXPECT_LE(bytes, streamed["streaming"]["experts"]["read_bytes"].get<int64_t>());
}

TEST_F(Streaming, ATraceThatWouldShowNothingIsRefusedByName) {
  const std::string plain = "generate " + kModel + " --prompt a --trace t.json";
  expect_refusal(2, plain + " --max-tokens 4", {"--trace", "tokens 3 to 5", "--max-tokens 5 or more"});
  expect_refusal(2, plain + " --context 4", {"--trace", "the context of 4 leaves 3", "more --context"});
  expect_refusal(2, plain + " --speculate ngram", {"--trace", "--speculate"});
  expect_refusal(2, "generate " + kModel + " --prompts q.jsonl --trace t.json", {"--trace", "--prompts"});
  expect_refusal(2, plain + "/nowhere/t.json", {"--trace", "no folder"});
}

// Of the model that is there, and what is refused; a model of many layers, a long text and other sizes are among the slow tests.
class KeysOnTheDisk : public InFolder<KeysOnTheDisk> {
 protected:
  static void SetUpTestSuite() { make_root("keys"); }
};

TEST_F(KeysOnTheDisk, ChangeNoAnswer) {
  if (read_disk_facts("/var/tmp").file_system == "tmpfs") GTEST_SKIP() << "/var/tmp lies in memory";
  write("few.jsonl", R"({"prompt": "It was a dark"}
{"prompt": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
{"prompt": "b"}
)");
  const std::string few = "generate " + kSmall + " --prompts few.jsonl --max-tokens 4 --samples 2 --temperature 1";
  const std::string disk = " --kv-place disk --kv-dir /var/tmp";
  const Outcome whole = tern(few + " 2>whole"), moved = tern(few + disk + " --batch 2 --page 3 2>moved");
  const std::string of_whole = real_io().read(root_ + "/whole"), told = real_io().read(root_ + "/moved");
  ASSERT_EQ(whole.code, 0) << of_whole;
  EXPECT_EQ(of_whole.find("on disk"), std::string::npos) << of_whole;
  EXPECT_EQ(moved.code, 0) << told;
  EXPECT_EQ(moved.text, whole.text);
  EXPECT_NE(told.find("keys and values of 6 of 6 layers lie on disk"), std::string::npos) << told;
  EXPECT_NE(told.find("as planned, to the byte"), std::string::npos) << told;
  const std::string one = "generate " + kSmall + " --prompt a --max-tokens 2";
  expect_refusal(2, one + " --kv-place memory --kv-dir .", {"--kv-dir", "--kv-place disk"});
  expect_refusal(4, one + " --kv-place disk --kv-dir nowhere", {"nowhere"});
  if (std::filesystem::exists("/dev/shm") && read_disk_facts("/dev/shm").file_system == "tmpfs")
    expect_refusal(2, one + " --kv-place disk --kv-dir /dev/shm", {"tmpfs", "--kv-dir"});
}

class KeysOnTheDiskSlow : public Streaming {};

// Of many texts and of a long one: the same answers, in the bytes that were planned, whatever else streams.
TEST_F(KeysOnTheDiskSlow, ChangeNoAnswer) {
  if (read_disk_facts("/var/tmp").file_system == "tmpfs") GTEST_SKIP() << "/var/tmp lies in memory";
  std::string lines;
  for (int i = 0; i < 7; ++i)
    lines += "{\"prompt\": \"It was a dark " + std::string(static_cast<size_t>(1 + 9 * i), static_cast<char>('a' + i)) +
             "\"}\n";
  write("k.jsonl", lines);
  const std::string many = "generate " + kModel + " --prompts k.jsonl --max-tokens 5 --samples 2 --temperature 1";
  const Outcome whole = tern(many + " 2>errors");
  ASSERT_EQ(whole.code, 0) << said();
  EXPECT_EQ(said().find("on disk"), std::string::npos) << said();
  const std::string disk = " --kv-place disk --kv-dir /var/tmp";
  const std::string least = least_memory(many + disk + " --batch 5");
  for (const std::string& more :
       {std::string(" --batch 3"), std::string(" --batch 7 --page 3"), " --batch 5 --memory " + least}) {
    const Outcome moved = tern(many + disk + more + " 2>errors");
    EXPECT_EQ(moved.code, 0) << more << "\n" << said();
    EXPECT_EQ(moved.text, whole.text) << more;
    EXPECT_NE(said().find("keys and values of 32 of 32 layers lie on disk"), std::string::npos) << said();
    EXPECT_NE(said().find("as planned, to the byte"), std::string::npos) << said();
    EXPECT_EQ(said().find("bound") != std::string::npos, more.find("--memory") != std::string::npos) << said();
  }
  const std::string one = "generate " + kModel + " --prompt-file t.txt --max-tokens 9 --kv-dtype q8";
  const Json memory = run(one + " --kv-place memory"), moved = run(one + disk);
  EXPECT_FALSE(memory.contains("kv_on_disk"));
  EXPECT_EQ(moved["token_ids"], memory["token_ids"]);
  const Json keys = moved.at("kv_on_disk");
  EXPECT_GT(keys["read_bytes"], 0);
  EXPECT_EQ(keys["read_bytes"], keys["planned_read_bytes"]);
  EXPECT_EQ(keys["written_bytes"], keys["planned_written_bytes"]);
  EXPECT_LE(moved["memory"]["peak_bytes"], moved["memory"]["predicted_bytes"]);
}

// Codes multiplied in integers say the same from the disk as from memory.
TEST_F(Streaming, IntegersSayTheSame) {
  run("quantize " + kModel + " --type q4_0 --output i.gguf");
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string one =
        std::string("generate i.gguf --prompt-file t.txt --max-tokens 9 --arithmetic int8 --dtype ") + dtype;
    const Json memory = run(one), moved = run(one + " --memory " + least_memory(one));
    EXPECT_FALSE(memory.contains("streaming"));
    EXPECT_GT(moved.at("streaming")["bytes_per_token"], 0);
    EXPECT_EQ(moved["token_ids"], memory["token_ids"]);
    EXPECT_LE(moved["memory"]["peak_bytes"], moved["memory"]["predicted_bytes"]);
    EXPECT_EQ(run(one + " --stream-window blocks:2")["token_ids"], memory["token_ids"]);
  }
  const std::string eval = "eval i.gguf --data t.txt --window 32 --batch 2 --arithmetic int8";
  EXPECT_EQ(run(eval + " --memory " + least_memory(eval))["loss"], run(eval)["loss"]);
}

TEST_F(Streaming, WhatAsksForWeightsInMemoryIsRefusedByName) {
  run("quantize " + kModel + " --type q4_0 --output i.gguf");
  expect_refusal(3, "chat i.gguf --chat-template t.jinja --weights mapped --memory 1MiB", {"--weights mapped takes"});
  expect_refusal(3, "eval " + kModel + " --data t.txt --dtype f64 --memory 1MiB", {"--dtype f64 takes"});
}

}  // namespace
}  // namespace tern
