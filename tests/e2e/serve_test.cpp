// tern serve as a person starts it.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/source_dir_testing.h"
#include "base/text.h"
#include "model/golden_weights_testing.h"
#include "serve/client_testing.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

class Serve : public InFolder<Serve> {
 protected:
  static void SetUpTestSuite() { make_root("serve-program"); }
  // The port that the program tells; 0 if it does not come up.
  static uint16_t port_of(Child& child, const std::string& log) {
    for (int i = 0; i < 2000 && child.running(); ++i, ::usleep(5000)) {
      const std::string text = real_io().stat(log) ? real_io().read(log) : "";
      const size_t ready = text.find(" is ready after");
      const size_t at = text.find("http://127.0.0.1:");
      if (ready != std::string::npos) return static_cast<uint16_t>(std::stoi(text.substr(at + 17)));
    }
    return 0;
  }
  // An encoder, in the folder `bert`.
  static std::string write_bert() {
    const Json golden = read_json_file(source_dir() + "/tests/golden/embeddings/bert.json");
    const std::string bert = root_ + "/bert";
    std::filesystem::create_directories(bert);
    write_golden_model(golden, bert);
    std::filesystem::copy_file(source_dir() + "/tests/golden/tokenizers/families/bert_uncased.json",
                               bert + "/tokenizer.json", std::filesystem::copy_options::overwrite_existing);
    return bert;
  }
};

TEST_F(Serve, AnswersAsGenerateWritesAndEndsWhenAsked) {
  const std::string log = root_ + "/log";
  Child child({TERN_PROGRAM, "serve", kNovels, "--port", "0", "--memory", "400MiB"}, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0);
  const Json answer =
      Client(port)
          .ask("POST", "/v1/completions",
               R"({"prompt":"It was a dark","max_tokens":20,"temperature":0.9,"seed":5,"n":2,"return_token_ids":true})")
          .json();
  const Outcome alone = tern("generate " + kNovels +
                             " --prompt 'It was a dark' --max-tokens 20 --temperature 0.9 --seed 5 --samples 2 --json");
  const Json written = parse_json(alone.text, "generate");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer["choices"][i]["text"], written["samples"][i]["text"]) << answer;
    EXPECT_EQ(answer["choices"][i]["token_ids"], written["samples"][i]["token_ids"]);
  }
  Client stream(port);
  ASSERT_EQ(
      stream.ask("POST", "/v1/completions", R"({"prompt":"She","max_tokens":300,"stream":true,"ignore_eos":true})")
          .status,
      200);
  child.signal(SIGTERM);
  EXPECT_EQ(sse_data(stream.rest_of_stream()).back(), "[DONE]");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(real_io().read(log).find("ended"), std::string::npos);
}

TEST_F(Serve, AGrammarIsKeptAsGenerateKeepsIt) {
  const std::string grammar = "root ::= verse{2}\nverse ::= [A-Z] [a-z ]{5,20} \"\\n\"\n";
  write("verse.gbnf", grammar);
  const std::string log = root_ + "/log7";
  Child child({TERN_PROGRAM, "serve", kNovels, "--port", "0"}, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0) << real_io().read(log);
  const Json body = {{"prompt", "The sea"}, {"max_tokens", 60}, {"temperature", 0.9},
                     {"seed", 7},           {"n", 2},           {"grammar", grammar}};
  const Json answer = Client(port).ask("POST", "/v1/completions", dump_json(body)).json();
  const Json alone = parse_json(tern("generate " + kNovels +
                                     " --prompt 'The sea' --max-tokens 60 --temperature 0.9 --seed 7 --samples 2 "
                                     "--grammar verse.gbnf --json")
                                    .text,
                                "generate");
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(answer["choices"][i]["text"], alone["samples"][i]["text"]) << answer;
  const ClientReply refused =
      Client(port).ask("POST", "/v1/completions", R"({"prompt":"a","grammar":"root ::= a\na ::= ("})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "grammar");
  EXPECT_NE(refused.body.find("line 2"), std::string::npos) << refused.body;
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 0);
}

// The table of calls in docs/serve.md has the rows of dev/serve/openai_client.py, no more and no fewer; where Python has the
// public client, each is done. TERN_PYTHON names a Python that has it.
TEST_F(Serve, ThePublicClientDoesEveryCallOfTheTable) {
  const std::string script = source_dir() + "/dev/serve/openai_client.py";
  const auto names = [](const std::string& text, const std::string& begin, const std::string& end,
                        const std::string& pattern) {
    std::set<std::string> found;
    const size_t from = text.find(begin), to = text.find(end, from);
    EXPECT_NE(to, std::string::npos) << begin;
    const std::string part = text.substr(from, to - from);
    const std::regex name(pattern);
    for (std::sregex_iterator at(part.begin(), part.end(), name), none; at != none; ++at) found.insert((*at)[1]);
    return found;
  };
  const std::set<std::string> told =
      names(real_io().read(source_dir() + "/docs/serve.md"), "## Calls that are tried", "\n## ", "\n\\| `([a-z_]+)`");
  const std::set<std::string> done = names(real_io().read(script), "\nROWS = [", "]", "([a-z_]+)");
  EXPECT_EQ(told, done);
  EXPECT_GE(done.size(), 24u);
  const char* given = std::getenv("TERN_PYTHON");
  const std::string python = given ? given : "python3";
  if (run_shell(python + " -c 'import openai, jsonschema'").code != 0)
    GTEST_SKIP() << python << " has no openai and jsonschema (pip install openai jsonschema): the calls are not tried";
  const Outcome o = run_shell("env -u TERN_PYTHON " + python + " " + script + " --tern " TERN_PROGRAM " --model " +
                              kNovels + " 2>&1");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_NE(o.text.find(std::to_string(done.size()) + " of " + std::to_string(done.size()) + " rows"),
            std::string::npos)
      << o.text;
}

TEST_F(Serve, GuessesChangeNoAnswer) {
  const std::string generate =
      "generate " + kNovels + " --prompt 'It was a dark, a dark, a dark, a dark' --max-tokens 60 ";
  for (const std::string draw : {"", "--temperature 0.7 --seed 3 --samples 3 "}) {
    const Json plain = parse_json(tern(generate + draw + "--json").text, "plain");
    const Json guessed =
        parse_json(tern(generate + draw + "--speculate ngram --draft-tokens 5 --json").text, "guessed");
    EXPECT_EQ(guessed["samples"], plain["samples"]);
    EXPECT_FALSE(plain.contains("speculation"));
    EXPECT_GT(guessed["speculation"]["decoded_tokens"], 20);
    EXPECT_LE(guessed["memory"]["peak_bytes"], guessed["memory"]["predicted_bytes"]);
    EXPECT_GT(guessed["memory"]["predicted_bytes"], plain["memory"]["predicted_bytes"]) << "rows of guesses are priced";
  }
  const Outcome refused = tern(generate + "--draft-tokens 4 2>&1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.text.find("--draft-tokens: nothing is guessed without --speculate"), std::string::npos);
  const std::string log = root_ + "/log5";
  Child child({TERN_PROGRAM, "serve", kNovels, "--port", "0", "--speculate", "ngram"}, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0) << real_io().read(log);
  const Json answer = Client(port)
                          .ask("POST", "/v1/completions",
                               R"({"prompt":"It was a dark, a dark, a dark, a dark","max_tokens":60,"temperature":0})")
                          .json();
  EXPECT_EQ(answer["choices"][0]["text"], parse_json(tern(generate + "--json").text, "generate")["text"]);
  const Json metrics = Client(port).ask("GET", "/metrics.json").json();
  EXPECT_GE(metrics["spec_decode_num_draft_tokens_total"], metrics["spec_decode_num_accepted_tokens_total"]);
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Serve, OneOfSeveralSamplesIsPicked) {
  const std::string generate =
      "generate " + kNovels + " --prompt 'It was' --max-tokens 200 --temperature 0.9 --seed 3 --samples 5 --stop , ";
  const Json all = parse_json(tern(generate + "--json").text, "all")["samples"];
  size_t best = 0, first = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["finish_reason"], "stop");
    if (all[i]["mean_log_probability"] > all[best]["mean_log_probability"]) best = i;
    if (all[i]["token_ids"].size() < all[first]["token_ids"].size()) first = i;
  }
  for (const auto& [pick, which] : {std::pair("best", best), std::pair("first", first)}) {
    const Json picked = parse_json(tern(generate + "--json --pick " + pick).text, pick);
    EXPECT_EQ(picked["picked"], which) << pick;
    EXPECT_EQ(picked["text"], all[which]["text"]);
    EXPECT_EQ(tern(generate + "--pick " + pick + " 2>/dev/null").text, all[which]["text"].get<std::string>() + "\n");
  }
  expect_refusal(2, "generate " + kNovels + " --prompt a --pick best", {"--samples"});
  // As many as are worth it: the gain of a fourth, 0.6·0.4³ = 0.038, is below.
  const Json ruled = parse_json(tern("generate " + kNovels +
                                     " --prompt 'It was' --max-tokens 9 --temperature 0.9 "
                                     "--samples-rule 0.6,0.05 --pick best --json")
                                    .text,
                                "ruled");
  EXPECT_EQ(ruled["samples"].size(), 3u);
  expect_refusal(2, "generate " + kNovels + " --prompt a --samples-rule 0.5,0.1 --samples 3", {"--samples-rule"});
  expect_refusal(2, "generate " + kNovels + " --prompt a --samples-rule 1.5,0.1", {"P,GAIN"});
}

TEST_F(Serve, AdaptersAnswerAsGenerateWritesWithEach) {
  const ModelSpec base = describe_model(kNovels, std::nullopt).spec;
  const auto adapters = random_adapters(base);
  std::vector<std::string> words = {TERN_PROGRAM, "serve", kNovels, "--port", "0"};
  for (const auto& [name, dir] : adapters) words.insert(words.end(), {"--adapter", name + "=" + dir});
  const std::string log = root_ + "/log4";
  Child child(words, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0) << real_io().read(log);
  for (const auto& [name, dir] : adapters) {
    const Json answer =
        Client(port)
            .ask("POST", "/v1/completions",
                 R"({"prompt":"It was a dark","max_tokens":12,"temperature":0.9,"seed":5,"model":")" + name + "\"}")
            .json();
    const Outcome alone = tern("generate " + kNovels + " --adapter " + dir +
                               " --prompt 'It was a dark' --max-tokens 12 --temperature 0.9 --seed 5 --json");
    EXPECT_EQ(answer["choices"][0]["text"], parse_json(alone.text, "generate")["samples"][0]["text"]) << name;
    EXPECT_EQ(answer["model"], name);
  }
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 0);
  const std::string dir = adapters[0].second, serve = "serve " + kNovels + " --port 0 --adapter ";
  const std::pair<std::string, int> refusals[] = {{dir, 2},
                                                  {"=" + dir, 2},
                                                  {"a=", 2},
                                                  {"novels-6m=" + dir, 2},
                                                  {"a=" + dir + " --adapter a=" + dir, 2},
                                                  {"a=nowhere", 4},
                                                  {"a=" + dir + " --memory 8MiB --context 512", 3}};
  for (const auto& [given, code] : refusals) {
    const Outcome o = tern(serve + given + " 2>&1");
    EXPECT_EQ(o.code, code) << given << ": " << o.text;
    if (code == 3) { EXPECT_NE(o.text.find("of adapters)"), std::string::npos) << o.text; }
  }
  std::filesystem::copy(dir, root_ + "/unlike");  // tensors of another rank than it says
  Json config = parse_json(real_io().read(dir + "/adapter_config.json"), dir);
  config["r"] = config["r"].get<int64_t>() + 1;
  write("unlike/adapter_config.json", dump_json(config));
  const Outcome o = tern(serve + "a=" + root_ + "/unlike 2>&1");
  EXPECT_EQ(o.code, 4) << o.text;
  EXPECT_EQ(o.text.find("listening"), std::string::npos) << "refused before anybody can ask: " << o.text;
}

// A model that writes, its copy in 4.25 bits, and an encoder, each by its name; what does not fit together is refused before
// anything is loaded.
TEST_F(Serve, SeveralModelsAnswerByName) {
  const std::string coded = source_dir() + "/examples/novels-6m-lc4", bert = write_bert();
  const std::string log = root_ + "/log6";
  Child child({TERN_PROGRAM, "serve", kNovels, "--port", "0", "--also", "small=" + coded, "--also", "vectors=" + bert},
              log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0) << real_io().read(log);
  const std::string draw = R"("prompt":"It was a dark","max_tokens":12,"temperature":0.9,"seed":5})";
  const auto ask = [&](const std::string& name) {
    return Client(port).ask("POST", "/v1/completions", R"({"model":")" + name + R"(",)" + draw).json();
  };
  const std::pair<std::string, std::string> writers[] = {{"novels-6m", kNovels}, {"small", coded}};
  for (const auto& [name, dir] : writers) {
    const Outcome alone =
        tern("generate " + dir + " --prompt 'It was a dark' --max-tokens 12 --temperature 0.9 --seed 5 --json");
    EXPECT_EQ(ask(name)["choices"][0]["text"], parse_json(alone.text, "generate")["samples"][0]["text"]) << name;
  }
  const ClientReply vectors = Client(port).ask("POST", "/v1/embeddings", R"({"model":"vectors","input":"a sentence"})");
  ASSERT_EQ(vectors.status, 200) << vectors.body;
  const Json alone = parse_json(tern("embed bert --text 'a sentence' --json").text, "embed");
  EXPECT_EQ(vectors.json()["data"][0]["embedding"].get<std::vector<float>>(),
            alone["embeddings"][0].get<std::vector<float>>());
  EXPECT_NE(ask("vectors")["error"]["message"].get<std::string>().find("encoder"), std::string::npos);
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait(), 0);
  const std::string serve = "serve " + kNovels + " --port 0 ";
  const std::tuple<std::string, int, std::string> refusals[] = {
      {"--also " + coded, 2, "NAME=DIR"},
      {"--also novels-6m=" + coded, 2, "called so already"},
      {"--also a=" + coded + " --also a=" + coded, 2, "called so already"},
      {"--also a=nowhere", 4, "nowhere"},
      {"--also a=" + kNovels + " --memory 64MiB", 3, "2 models do not fit beside each other"}};
  for (const auto& [given, code, words] : refusals) {
    const Outcome o = tern(serve + given + " 2>&1");
    EXPECT_EQ(o.code, code) << given << ": " << o.text;
    EXPECT_NE(o.text.find(words), std::string::npos) << o.text;
  }
}

TEST_F(Serve, RefusesWhatWouldBeOpenOrWouldNotFit) {
  const Outcome open = tern("serve " + kNovels + " --host 0.0.0.0 --port 0 2>&1");
  EXPECT_EQ(open.code, 2);
  EXPECT_NE(open.text.find("TERN_API_KEY"), std::string::npos) << open.text;
  const Outcome large = tern("serve " + kNovels + " --port 0 --memory 30MiB 2>&1");
  EXPECT_EQ(large.code, 3) << large.text;
  EXPECT_NE(large.text.find("does not fit"), std::string::npos) << large.text;
  EXPECT_EQ(tern("serve " + kNovels + " --port 0 --context 513 2>&1").code, 2);
  EXPECT_EQ(tern("serve nowhere --port 0 2>&1").code, 4);
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const Outcome busy = tern("serve " + kNovels + " --port " + std::to_string(ntohs(at.sin_port)) + " 2>&1");
  EXPECT_EQ(busy.code, 2);
  EXPECT_NE(busy.text.find("--port"), std::string::npos) << busy.text;
  ::close(taken);
}

// The cache has as many pages as memory holds, and what is counted stays within.
TEST_F(Serve, LittleMemoryMeansFewerPages) {
  const auto pages = [](const std::string& memory) {
    const Outcome o = tern("serve " + kNovels + " --port 0 --json --max-running 64 --memory " + memory +
                           " 2>/dev/null & p=$!; sleep 1; kill $p; wait $p");
    return o.text.empty() ? Json(0) : parse_json(o.text, "serve")["pages"];
  };
  const Json few = pages("100MiB"), many = pages("400MiB");
  EXPECT_GE(few.get<int>(), 32) << "one sequence of 512 tokens";
  EXPECT_LT(few.get<int>(), many.get<int>());
  EXPECT_EQ(many.get<int>(), 64 * 32);
}

TEST_F(Serve, AnEncoderMakesVectorsAndRefusesTheRest) {
  const std::string bert = write_bert();
  const std::string log = root_ + "/log3";
  Child child({TERN_PROGRAM, "serve", bert, "--port", "0"}, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0) << real_io().read(log);
  const ClientReply vectors = Client(port).ask("POST", "/v1/embeddings", R"({"input":"a sentence"})");
  ASSERT_EQ(vectors.status, 200) << vectors.body;
  const Json alone = parse_json(tern("embed bert --text 'a sentence' --json").text, "embed");
  const Json served = vectors.json();  // the same floats, written with more digits
  EXPECT_EQ(served["data"][0]["embedding"].get<std::vector<float>>(), alone["embeddings"][0].get<std::vector<float>>());
  const ClientReply text = Client(port).ask("POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(text.status, 400);
  EXPECT_NE(text.body.find("encoder"), std::string::npos) << text.body;
}

TEST_F(Serve, KeysComeFromTheEnvironmentOrAFile) {
  write("keys", "one\ntwo\n");
  const std::string log = root_ + "/log2";
  Child child(
      {TERN_PROGRAM, "serve", kNovels, "--port", "0", "--api-key-file", root_ + "/keys", "--model-name", "tales"}, log);
  const uint16_t port = port_of(child, log);
  ASSERT_NE(port, 0);
  EXPECT_EQ(Client(port).ask("GET", "/v1/models").status, 401);
  const ClientReply r = Client(port).ask("GET", "/v1/models", "", "Authorization: Bearer two\r\n");
  EXPECT_EQ(r.json()["data"][0]["id"], "tales");
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace tern
