// The program on a small model with a chat template: export and back, questions, distance, conversation, training on
// conversations, and what it says to plausible mistakes.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/source_dir_testing.h"
#include "model/golden_weights_testing.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

class Models : public InFolder<Models> {
 protected:
  static void SetUpTestSuite() {
    make_root("models");
    const std::string golden = source_dir() + "/tests/golden/models/llama/";
    std::filesystem::create_directories(root_ + "/m");
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(golden + name, root_ + "/m/" + name);
    // 44 pieces: single characters, then the two that steer.
    Json vocab = Json::object();
    const std::string letters = "abcdefghijklmnopqrstuvwxyz .,?!0123456789";
    for (size_t i = 0; i < letters.size(); ++i) vocab[std::string(1, letters[i])] = i;
    vocab["\n"] = 41;
    Json added = Json::array();
    for (int i = 0; i < 2; ++i)
      added.push_back({{"id", 42 + i},
                       {"content", i ? "<|end|>" : "<|turn|>"},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    const Json tokenizer = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", nullptr},
                            {"post_processor", nullptr},
                            {"decoder", {{"type", "Fuse"}}},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab},
                              {"merges", Json::array()}}}};
    write("m/tokenizer.json", dump_json(tokenizer));
    write("m/tokenizer_config.json", R"({"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"})");
    write("m/chat_template.jinja",
          "{% for m in messages %}<|turn|>{{ m.role[0] }} {{ m.content }}<|end|>{% endfor %}{% if "
          "add_generation_prompt %}<|turn|>a {% endif %}");
    write("q.jsonl",
          "{\"prompt\": \"a cat\", \"choices\": [\" sat\", \" xq\"], \"answer\": 0}\n"
          "{\"prompt\": \"\", \"choices\": [\"b\", \"cc\", \"d\"], \"answer\": 2}\n");
    write("t.txt", std::string(40, 'a') + " the quick brown fox, 42!\n");
  }

  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
  static void refused(int code, const std::string& command, const std::string& words) {
    expect_refusal(code, command, {words});
  }
};

TEST_F(Models, AnExportIsReadBackToTheBitAndSaysWhatGgufCannot) {
  EXPECT_EQ(json("export m --output copy --shard-size 8KB")["different"], 0);
  EXPECT_TRUE(real_io().stat(root_ + "/copy/model.safetensors.index.json"));
  EXPECT_TRUE(real_io().stat(root_ + "/copy/chat_template.jinja"));
  EXPECT_GT(json("export m --output half --dtype f16")["different"], 100);
  refused(2, "export m --output copy", "not empty");
  refused(2, "export m --output x --dtype q8_0", "--format gguf");
  refused(2, "export m --output x --format gguf", "ends with .gguf");
  refused(2, "export m --output x.gguf", "neither byte-level BPE nor BPE with byte fallback");  // by its name
  refused(2, "export m --output x.gguf --format hf", "is the name of a GGUF file");
  refused(2, "export m --output x.gguf --format gguf", "neither byte-level BPE nor BPE with byte fallback");
  EXPECT_FALSE(real_io().stat(root_ + "/x.gguf"));
  // Refused before a weight is read: of 30 GB that would be minutes.
  for (const char* command :
       {"export m --output copy", "export m --output x --format gguf", "export m --output x.gguf --format gguf"})
    EXPECT_EQ(tern(std::string(command) + " 2>&1").text.find("parameters from"), std::string::npos) << command;
}

TEST_F(Models, AnotherArchitectureIsNoSlipOfThePen) {
  std::filesystem::create_directories(root_ + "/other");
  write("other/config.json", R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}})");
  refused(4, "inspect other", "\"gemma3\" is a model of text and other things (text_config: \"gemma3_text\")");
  write("other/config.json", R"({"model_type": "phi"})");
  const Outcome o = tern("inspect other 2>&1");
  EXPECT_EQ(o.text.find("did you mean"), std::string::npos) << o.text;
}

// Layers that predict further tokens are neither run nor written: what was written does not promise them.
TEST_F(Models, AnExportDoesNotDeclareLayersItDoesNotHave) {
  std::filesystem::create_directories(root_ + "/v3");
  write_golden_model(read_json_file(source_dir() + "/tests/golden/families/deepseek_v3.json"), root_ + "/v3");
  ASSERT_EQ(read_json_file(root_ + "/v3/config.json").value("num_nextn_predict_layers", -1), 1);
  const Json out = json("export v3 --output v3-out");
  const std::string said = real_io().read(root_ + "/errors");
  EXPECT_EQ(read_json_file(root_ + "/v3-out/config.json").value("num_nextn_predict_layers", -1), 0);
  EXPECT_NE(said.find("layers that predict further tokens are left out"), std::string::npos) << said;
  std::string read = std::to_string(out["parameters"].get<int64_t>());
  read.insert(read.size() - 3, ",");
  EXPECT_NE(said.find("read " + read + " parameters"), std::string::npos) << "one count of one thing: " << out << said;
}

TEST_F(Models, WhatATypeCannotHoldIsRefusedBeforeItIsWritten) {
  std::filesystem::create_directories(root_ + "/large");
  Json golden = read_json_file(source_dir() + "/tests/golden/families/llama2.json");
  golden["tensors"]["model.norm.weight"]["middle"] = 1e5;
  write_golden_model(golden, root_ + "/large");
  refused(2, "export large --dtype f16 --output large-out", "--dtype f16: the weights reach 1e+05");
  EXPECT_FALSE(real_io().stat(root_ + "/large-out"));
  EXPECT_EQ(json("export large --dtype bf16 --output large-bf16")["dtype"], "bf16");
  golden["tensors"]["model.norm.weight"]["middle"] = 1e39;
  write_golden_model(golden, root_ + "/large");
  refused(4, "export large --output large-out", "tensor 'model.norm.weight' holds");
  refused(4, "quantize large --output large.gguf", "tensor 'model.norm.weight' holds");
  EXPECT_FALSE(real_io().stat(root_ + "/large.gguf"));
  EXPECT_FALSE(real_io().stat(root_ + "/large-out"));
}

TEST_F(Models, QuestionsAreAnsweredResumedAndRefused) {
  const Json once = json("eval m --task q.jsonl --batch 5");
  ASSERT_TRUE(once.contains("metrics"));
  EXPECT_EQ(once["items"], 2);
  EXPECT_EQ(json("eval m --task q.jsonl --batch 1")["results"], once["results"]);
  // The first result is there already, the second line was cut short: the end is the same.
  EXPECT_EQ(json("eval m --task q.jsonl --output r.jsonl")["results"], once["results"]);
  const std::string all = real_io().read(root_ + "/r.jsonl");
  write("r.jsonl", all.substr(0, all.size() - 9));
  EXPECT_EQ(json("eval m --task q.jsonl --output r.jsonl")["results"], once["results"]);
  EXPECT_EQ(real_io().read(root_ + "/r.jsonl"), all);
  refused(2, "eval m --task q.jsonl --output r.jsonl --dtype f64", "dtype");
  refused(2, "eval m --task q.jsonl --data t.txt", "give one of them");
  refused(2, "eval m --task q.jsonl --window 8", "--window belongs to --data");
  refused(2, "eval m --data t.txt --extract x", "--extract belongs to --task");
  write("g.jsonl",
        "{\"prompt\": \"ab\", \"answer\": \"x\", \"max_tokens\": 4}\n{\"prompt\": \"b\", \"answer\": \"y\", "
        "\"max_tokens\": 3}");
  const Json written = json("eval m --task g.jsonl --batch 2");
  EXPECT_EQ(json("eval m --task g.jsonl --batch 1")["results"], written["results"]);
  EXPECT_EQ(written["results"][0]["text"], json("generate m --prompt ab --max-tokens 4")["text"]);
  write("long.jsonl", "{\"prompt\": \"ab\", \"answer\": \"x\"}");
  refused(
      2, "eval m --task long.jsonl --max-tokens 1000",
      "line 1: the prompt has 2 tokens and the answer may have 1000 (--max-tokens), the model reads 64; --max-tokens "
      "62 fits");
  write("long.jsonl", "{\"prompt\": \"" + std::string(60, 'a') + "\", \"answer\": \"x\"}");
  refused(2, "eval m --task long.jsonl", "256 (the default of --max-tokens), the model reads 64; --max-tokens 4 fits");
  write("bad.jsonl", "{\"prompt\": 1}");
  refused(4, "eval m --task bad.jsonl", "bad.jsonl: line 1: prompt");
}

// dev/golden/tasks.py: transformers in the harness's way. A BOS that the tokenizer has and does not add stays out.
TEST_F(Models, LikelihoodsAndAnswersOfATaskAreThoseOfTheHarness) {
  const Json golden = read_json_file(source_dir() + "/tests/golden/eval/tasks.json");
  ASSERT_EQ(golden["cases"].size(), 2u);
  std::string questions, prompts;
  for (const Json& q : golden["questions"]) questions += q.dump() + "\n";
  for (const Json& p : golden["prompts"]) prompts += p.dump() + "\n";
  write("choices.jsonl", questions), write("answers.jsonl", prompts);
  for (const Json& c : golden["cases"])
    for (const auto& [name, want] : c["models"].items()) {
      SCOPED_TRACE(name + ", " + c["bos"].get<std::string>());
      const std::string dir = "task-" + name;
      std::filesystem::create_directories(root_ + "/" + dir);
      write_golden_model(read_json_file(source_dir() + "/tests/golden/families/" + name + ".json"), root_ + "/" + dir);
      write(dir + "/tokenizer.json", c["tokenizer"].dump());
      write(dir + "/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
      const Json choices = json("eval " + dir + " --task choices.jsonl");
      ASSERT_TRUE(choices.contains("results"));
      EXPECT_EQ(choices["bos"], c["bos"]);
      for (size_t i = 0; i < want["ll"].size(); ++i)
        for (size_t k = 0; k < want["ll"][i].size(); ++k)
          EXPECT_NEAR(choices["results"][i]["ll"][k].get<double>(), want["ll"][i][k].get<double>(), 1e-4);
      const Json answers = json("eval " + dir + " --task answers.jsonl");
      for (size_t i = 0; i < want["texts"].size(); ++i) EXPECT_EQ(answers["results"][i]["text"], want["texts"][i]);
      EXPECT_EQ(answers["results"][0]["text"], json("generate " + dir + " --prompt ab --max-tokens 12")["text"]);
    }
}

TEST_F(Models, DistanceToAReferenceIsMeasured) {
  EXPECT_EQ(json("eval m --data t.txt --window 16 --reference m")["kl_divergence"], 0.0);
  const Json d = json("eval m --data t.txt --window 16 --reference m --dtype bf16 --output k.jsonl");
  EXPECT_EQ(json("eval m --data t.txt --window 16 --reference m --dtype bf16 --output k.jsonl")["scored_tokens"],
            d["scored_tokens"]);
  const Json p = json("eval m --data t.txt --window 16");
  EXPECT_EQ(json("eval m --data t.txt --window 16 --output p.jsonl")["sum_loss"], p["sum_loss"]);
  EXPECT_EQ(json("eval m --data t.txt --window 16 --output p.jsonl")["sum_loss"], p["sum_loss"]);
}

TEST_F(Models, AConversationKeepsItsKeysAndObeysItsCommands) {
  const std::string talk =
      "printf '%s\\n' 'hello there' '/undo' 'hello there' 'and now?' '/save talk.json' '/retry' '/nope' '/params top_k "
      "3' "
      "'/load nothing' '//x' '/exit' 'never read' | ";
  const Outcome o = run_shell("cd " + root_ + " && " + talk + TERN_PROGRAM " chat m --max-tokens 5 --json 2>talk.err");
  const std::string said = real_io().read(root_ + "/talk.err");
  ASSERT_EQ(o.code, 2) << said;  // of /nope; the lines after it were answered
  std::vector<Json> answers;
  for (size_t at = 0, end; (end = o.text.find('\n', at)) != std::string::npos; at = end + 1)
    answers.push_back(parse_json(o.text.substr(at, end - at), "answer"));
  ASSERT_EQ(answers.size(), 5u) << o.text << said;
  EXPECT_EQ(answers[0]["reused_tokens"], 0);
  EXPECT_EQ(answers[1]["answer"], answers[0]["answer"]);  // the same question again: only its last token is computed
  EXPECT_EQ(answers[1]["computed_tokens"], 1);
  EXPECT_GE(answers[2]["reused_tokens"].get<int>(), answers[1]["prompt_tokens"].get<int>());
  EXPECT_EQ(answers[3]["answer"], answers[2]["answer"]);
  for (const char* words : {"taken back", "/nope: no such command", "top_k 3", "nothing: cannot be read"})
    EXPECT_NE(said.find(words), std::string::npos) << words << "\n" << said;
  const Json saved = read_json_file(root_ + "/talk.json");
  EXPECT_EQ(saved["messages"].size(), 4u);
  // What does not fit is not taken, and the conversation goes on.
  const Outcome full = run_shell("cd " + root_ + " && printf '%s\\n' '" + std::string(80, 'a') +
                                 "' 'b' | " TERN_PROGRAM " chat m --context 40 --max-tokens 3 --json 2>&1");
  EXPECT_NE(full.text.find("the context holds 40: the message was not taken"), std::string::npos) << full.text;
  EXPECT_NE(full.text.find("\"finish_reason\""), std::string::npos) << full.text;
  EXPECT_EQ(full.code, 2);
  EXPECT_NE(full.text.find("{\"error\":\"the conversation has"), std::string::npos) << full.text;
  EXPECT_NE(full.text.find("\"exit_code\":2"), std::string::npos) << full.text;
  write("raise.jinja", "{{ raise_exception('no system here') }}");
  write("loop.jinja", "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}");
  for (const auto& [file, code, words] :
       {std::tuple("raise.jinja", 2, "no system here"), {"loop.jinja", 4, "loop.jinja"}}) {
    const Outcome piped = run_shell("cd " + root_ + " && echo hi | " TERN_PROGRAM " chat m --json --chat-template " +
                                    file + " 2>/dev/null");
    EXPECT_EQ(piped.code, code) << file;
    const Json line = parse_json(piped.text, file);
    EXPECT_NE(line.value("error", "").find(words), std::string::npos) << piped.text;
    EXPECT_EQ(line.value("exit_code", 0), code);
  }
  std::filesystem::create_directories(root_ + "/base");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(root_ + "/m/" + name, root_ + "/base/" + name);
  refused(2, "chat base </dev/null", "brings no chat template");
  // What was said is what one trains on.
  const Outcome packed = tern("tokenize m --pack --input talk.jsonl --output x.safetensors 2>&1");
  EXPECT_EQ(packed.code, 4);
  std::filesystem::copy_file(root_ + "/talk.json", root_ + "/talk.jsonl");
  EXPECT_EQ(tern("tokenize m --pack --input talk.jsonl --output x.safetensors 2>&1").code, 0);
  refused(4, "tokenize base --pack --input talk.jsonl --output y.safetensors", "--chat-template");
  // A template of a file is as good as the model's own, to measure by too.
  const std::string by_file = " --chat-template m/chat_template.jinja";
  EXPECT_EQ(tern("tokenize base --pack --input talk.jsonl --output y.safetensors 2>&1" + by_file).code, 0);
  EXPECT_EQ(real_io().read(root_ + "/y.safetensors"), real_io().read(root_ + "/x.safetensors"));
  const Json own = json("eval m --data talk.jsonl"), given = json("eval base --data talk.jsonl" + by_file);
  EXPECT_GT(own["scored_tokens"], 0);
  EXPECT_LT(own["scored_tokens"], own["tokens"]) << "only answers are scored";
  EXPECT_EQ(own["sum_loss"], given["sum_loss"]);
  EXPECT_LT(json("eval m --data talk.jsonl --answers last")["scored_tokens"], own["scored_tokens"]);
  refused(4, "eval base --data talk.jsonl", "--chat-template FILE");
  refused(2, "eval m --task talk.jsonl --answers last", "--answers belongs to --data");
  refused(2, "eval m --data m/config.json --answers last", "only JSONL");
  refused(2, "tokenize m --text a --chat-template m/chat_template.jinja", "--chat-template is of --pack");
  write("words.txt", "No template at all.");
  refused(4, "chat base --chat-template words.txt </dev/null", "is it a chat template");
}

TEST_F(Models, MostTokensCutTheLastDocument) {
  write("two.jsonl", "{\"text\": \"the first of them\"}\n{\"text\": \"and one more\"}\n{\"text\": \"not read\", 5}\n");
  const Json one = json("eval m --data two.jsonl --max-tokens 5 --bos never"),
             two = json("eval m --data two.jsonl --max-tokens 20 --bos never");
  EXPECT_EQ(one["tokens"], 5);
  EXPECT_EQ(one["scored_tokens"], 4);
  EXPECT_EQ(two["tokens"], 20);
  EXPECT_EQ(two["scored_tokens"], 18) << "17 + EOS of the first, two of the second";
  refused(4, "eval m --data two.jsonl", "two.jsonl: line 3");
}

TEST_F(Models, TrainingOnConversationsSaysWhatIsLearnt) {
  // A long question, and an answer behind the last whole window; then more of them, of which some windows have none.
  const std::string ask = R"({"messages": [{"role": "user", "content": ")",
                    say = R"("}, {"role": "assistant", "content": ")";
  const std::string line = ask + std::string(40, 'q') + say + "ok\"}]}\n";
  write("late.jsonl", line);
  refused(2, "train m --data late.jsonl --seq 32 --steps 1 --output late",
          "none of the tokens in 1 window of 32 has a loss");
  write("some.jsonl", line + line + line);
  const Outcome o =
      tern("train m --data some.jsonl --seq 8 --batch 1 --steps 12 --shuffle off --json --output some 2>errors");
  const std::string said = real_io().read(root_ + "/errors");
  ASSERT_EQ(o.code, 0) << said;
  const Json result = parse_json(o.text, "train");
  EXPECT_GE(result["steps_without_loss"], 6) << said;
  EXPECT_GT(result["loss"], 0.1) << "of the last step that had one";
  EXPECT_NE(said.find("of their tokens with a loss"), std::string::npos) << said;
  EXPECT_EQ(said.find("loss 0.0000"), std::string::npos) << said;
  EXPECT_EQ(said.find("none of its tokens has a loss"), said.rfind("none of its tokens has a loss")) << "said once\n"
                                                                                                     << said;
  EXPECT_NE(said.find("try: " TERN_PROGRAM " chat some/model"), std::string::npos) << said;
  write("role.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assitant", "content": "b"}]})");
  refused(4, "train m --data role.jsonl --seq 8 --steps 1 --output role", "message 2: role 'assitant'");
  refused(2, "train m --data some.jsonl --steps 1 --output long", "say --seq 64 or less");
  // What a chat model is told comes when it is there: before an error it would hide it.
  const Outcome broken = tern("generate m --prompt a --memory 1MiB 2>&1");
  EXPECT_TRUE(broken.text.starts_with("tern: the model does not fit")) << broken.text;
}

TEST_F(Models, InspectSaysWhatIsBroken) {
  const Json whole = json("inspect m");
  EXPECT_TRUE(whole["problems"].empty());
  EXPECT_EQ(whole["chat_template"], true);
  std::filesystem::copy(root_ + "/m", root_ + "/broken");
  write("broken/chat_template.jinja", "{% for %}");
  write("broken/generation_config.json", "{\"temperature\": \"hot\"}");
  refused(4, "inspect broken", "chat_template.jinja");
  const Outcome o = tern("inspect broken 2>&1");
  EXPECT_NE(o.text.find("temperature"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("a template that cannot be read, see below"), std::string::npos) << o.text;
  EXPECT_EQ(o.text.find("fetch the weights again"), std::string::npos) << o.text;  // of weights only
}

TEST_F(Models, InspectNamesWhatIsNotThereAndWhatItDidNotLookAt) {
  const auto copy = [](const std::string& name, const std::string& without) {
    std::filesystem::copy(root_ + "/m", root_ + "/" + name);
    if (!without.empty()) std::filesystem::remove(root_ + "/" + name + "/" + without);
  };
  EXPECT_EQ(json("inspect m")["weights"]["finite"], true);
  const std::string coded = source_dir() + "/examples/novels-6m-lc4";
  EXPECT_TRUE(json("inspect " + coded)["weights"]["finite"].is_null());
  EXPECT_NE(tern("inspect " + coded).text.find("not their numbers"), std::string::npos);
  EXPECT_TRUE(json("inspect m")["missing"].empty());
  copy("untokenized", "tokenizer.json");
  EXPECT_EQ(json("inspect untokenized")["missing"].size(), 1u);
  copy("weightless", "model.safetensors");
  refused(4, "inspect weightless", "no weights that tern reads");
  EXPECT_EQ(json("inspect weightless/config.json")["missing"].size(), 1u);  // it never was more
  copy("two", "");
  write("two/tokenizer.model", "x");
  const std::string two = tern("inspect two 2>&1").text;
  EXPECT_NE(two.find("from tokenizer.json, tokenizer.model beside it is not read"), std::string::npos) << two;
  EXPECT_EQ(tern("inspect m 2>&1").text.find("is not read"), std::string::npos);
  copy("nan", "");
  std::string weights = real_io().read(root_ + "/nan/model.safetensors");
  for (size_t i = 1; i <= 4; ++i) weights[weights.size() - i] = '\xff';
  write("nan/model.safetensors", weights);
  refused(4, "inspect nan", "1 value that is not finite");
  EXPECT_EQ(parse_json(tern("inspect nan --json 2>/dev/null").text, "nan")["weights"]["finite"], false);
}

// Families that other tests write as files: where a token stands, the router among the experts, layers not run.
TEST_F(Models, InspectSaysWhatAFamilyIsMadeOf) {
  const auto inspected = [](const std::string& name) {
    std::filesystem::create_directories(root_ + "/family-" + name);
    write_golden_model(read_json_file(source_dir() + "/tests/golden/families/" + name + ".json"),
                       root_ + "/family-" + name);
    return json("inspect family-" + name);
  };
  EXPECT_EQ(inspected("bloom")["positions"], "ALiBi: scores sink with distance");
  EXPECT_EQ(inspected("gpt2")["positions"], "learned: a row for each of 128");
  EXPECT_EQ(inspected("llama2")["positions"], "rotary");
  const Json mixtral = inspected("mixtral");
  EXPECT_EQ(mixtral["parameters"]["mlp"], 0);
  EXPECT_EQ(mixtral["parameters"]["experts"], 2 * 4 * (32 + 3 * 32 * 40));  // with a router's row for each
  const Json v3 = inspected("deepseek_v3");
  EXPECT_EQ(v3["weights"]["passed_over"], 0);
}

}  // namespace
}  // namespace tern
