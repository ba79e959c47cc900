// Nobody's answer depends on who else asks: through real sockets, at once and alone.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <regex>

#include "base/source_dir_testing.h"
#include "infer/constrain/constraint.h"
#include "infer/speculate/draft_model.h"
#include "infer/speculate/ngram.h"
#include "serve/client_testing.h"

namespace tern {
namespace {

constexpr uint64_t kExactSeed = 20261123;
constexpr int kRequests = 64;

Json random_request(uint64_t number) {
  std::mt19937_64 random(kExactSeed * 1000 + number);
  const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  static const char* kBeginnings[] = {"The old man looked at the sea, and", "It was a dark night",
                                      "\"Well,\" said the captain,", "She"};
  Json body;
  if (one_of(4) == 0) {
    body["prompt"] = Json::array();
    for (int i = 0, count = 1 + one_of(60); i < count; ++i) body["prompt"].push_back(one_of(4000));
  } else {
    std::string text = kBeginnings[one_of(4)];
    for (int i = one_of(30); i > 0; --i) text += " and then he went to the house";
    body["prompt"] = text;
    if (one_of(6) == 0) body["prompt"] = {text, "Once"};
  }
  body["max_tokens"] = 1 + one_of(14);
  body["seed"] = one_of(1000) - 500;
  body["temperature"] = one_of(3) == 0 ? 0.0 : 0.5 + 0.1 * one_of(10);
  if (one_of(2)) body["top_p"] = 0.5 + 0.05 * one_of(10);
  if (one_of(3) == 0) body["top_k"] = 1 + one_of(40);
  if (one_of(4) == 0) body["min_p"] = 0.02;
  if (one_of(3) == 0) body["presence_penalty"] = 0.7;
  if (one_of(3) == 0) body["frequency_penalty"] = -0.4;
  if (one_of(4) == 0) body["repetition_penalty"] = 1.3;
  if (one_of(4) == 0) body["logit_bias"] = {{std::to_string(one_of(4000)), 3}, {"72", -100}};
  if (one_of(4) == 0) body["stop"] = {" the", "."};
  if (one_of(4) == 0) body["n"] = 1 + one_of(3);
  if (one_of(3) == 0) body["ignore_eos"] = true;
  body["logprobs"] = one_of(4);
  body["return_token_ids"] = true;
  body["stream"] = one_of(2) == 0;
  return body;
}

// The choices of a stream put together again.
Json choices_of_stream(const std::string& stream) {
  std::vector<Json> choices;
  for (const std::string& data : sse_data(stream)) {
    if (data == "[DONE]") break;
    const Json whole = parse_json(data, "a piece");
    for (const Json& piece : whole["choices"]) {
      const auto i = piece["index"].get<size_t>();
      if (choices.size() <= i) choices.resize(i + 1);
      if (choices[i].is_null()) {
        choices[i] = piece;
        continue;
      }
      choices[i]["text"] = choices[i]["text"].get<std::string>() + piece["text"].get<std::string>();
      for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        for (const Json& x : piece["logprobs"][list]) choices[i]["logprobs"][list].push_back(x);
      for (const Json& x : piece["token_ids"]) choices[i]["token_ids"].push_back(x);
      choices[i]["finish_reason"] = piece["finish_reason"];
    }
  }
  return choices;
}

// Holds the engine's first step until it is opened: requests that come meanwhile stand in line.
class Gate {
 public:
  BatchExecutor hold(BatchExecutor execute) {
    return [this, execute = std::move(execute)](const Batch& batch, const KvPool& pool) {
      is_open_.wait(false);
      return execute(batch, pool);
    };
  }
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }

 private:
  std::atomic<bool> is_open_ = false;
};

// What each body is answered, all asked at once. Where they must meet they stand in line in the order of the bodies before the
// first step, so that who is preempted does not depend on how busy the machine is.
std::vector<Json> answers_at_once(ServedRig& rig, Gate& gate, const std::vector<Json>& bodies, bool must_meet) {
  std::vector<Json> got(bodies.size());
  std::vector<std::thread> clients;
  if (!must_meet) gate.open();
  for (size_t i = 0; i < bodies.size(); ++i) {
    clients.emplace_back([&rig, &got, &bodies, i] {
      Client client(rig.service.port());
      client.send(Client::request("POST", "/v1/completions", dump_json(bodies[i])));
      const ClientReply r = client.read_reply();
      if (r.status != 200) return;
      const bool streams = bodies[i]["stream"] == true;
      got[i] = streams ? choices_of_stream(client.rest_of_stream()) : r.json()["choices"];
      if (!streams) { EXPECT_EQ(r.json()["model"], bodies[i].value("model", "novels")); }
    });
    const auto in_line = static_cast<double>(i + 1);
    if (must_meet) { EXPECT_EQ(rig.figure("num_requests_live", in_line, 60), in_line); }
  }
  gate.open();
  for (std::thread& t : clients) t.join();
  return got;
}

// A model of the repository that guesses for another.
struct Draft {
  ModelDescription model;
  Arena arena;
  ModelWeights weights;
  RopeTable rope;
  KvPool pool;
  DraftProposer proposer;
  Draft(const char* name, int64_t pages)
      : model(describe_model(source_dir() + "/examples/" + name, std::nullopt)),
        weights(load_for_inference(model, arena)),
        rope(rope_table(model.spec, 512, 512)),
        pool(kv_shape(model.spec, 16, model.dtype), pages, arena),
        proposer(pool, model_executor(model.spec, weights, &rope, arena),
                 {.rows = kDraftRows, .context = 512, .vocab = model.spec.vocab, .draws_from = model.spec.vocab}) {}
  SpeculationSettings settings(int64_t most) {
    return {.proposer = &proposer, .most_tokens = most, .budget = 40, .measured = false};
  }
};

TEST(ServedExactly, SixtyFourRequestsAtOnceSayWhatEachSaysAlone) {
  Novels novels;
  std::vector<Json> bodies, want;
  {
    Arena arena;
    KvPool pool(novels.shape(), 200, arena);
    Engine engine(pool, novels.executor(), novels.served.tokenizer,
                  {{.token_budget = 512, .chunk = 512, .max_running = 4}, 512}, real_clock());
    for (uint64_t i = 0; i < kRequests; ++i) {
      bodies.push_back(random_request(i));
      Asked asked = read_completion(bodies.back(), novels.served, 0);
      asked.stream = false;
      Answer answer(asked, novels.served, "x", 0);
      for (size_t p = 0; p < asked.prompts.size(); ++p) {
        engine.submit(asked.prompts[p]);
        while (!engine.idle())
          for (const Event& event : engine.step()) answer.take(p, event);
      }
      ASSERT_TRUE(answer.complete());
      want.push_back(parse_json(answer.whole(), "")["choices"]);
    }
  }
  struct Case {
    ServedRig::Setup setup;
    bool preempts;
  };
  NgramProposer ngram;
  const SpeculationSettings guesses{.proposer = &ngram, .most_tokens = 6, .budget = 40, .measured = false};
  // The same model draws as the target does, its copy in 4.25 bits often; that is short of pages of its own.
  Draft same("novels-6m", 600), coded("novels-6m-lc4", 60);
  const Case cases[] = {
      {{.pages = 2048, .chunk = 512, .running = 64}, false},
      {{.pages = 110, .page_tokens = 5, .chunk = 7, .running = 64, .speculation = guesses}, true},
      {{.pages = 40, .page_tokens = 16, .chunk = 33, .running = 32, .cache = false}, true},
      {{.pages = 8192, .page_tokens = 1, .chunk = 64, .running = 9, .speculation = same.settings(3)}, false},
      {{.pages = 110, .page_tokens = 5, .chunk = 48, .running = 64, .speculation = coded.settings(1)}, true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << "pages of " << c.setup.page_tokens << ", chunks of " << c.setup.chunk
                                    << ", cache " << c.setup.cache << ", guesses "
                                    << (c.setup.speculation.proposer != nullptr));
    Arena arena;
    Gate gate;
    ServedRig rig(novels.served, novels.shape(c.setup.page_tokens), gate.hold(novels.executor()), c.setup, arena);
    const std::vector<Json> got = answers_at_once(rig, gate, bodies, c.preempts);
    for (size_t i = 0; i < kRequests; ++i)
      EXPECT_EQ(got[i], want[i]) << "request " << i << " of seed " << kExactSeed << ": " << bodies[i];
    const double preemptions = rig.ask("GET", "/metrics.json").json()["num_preemptions_total"];
    EXPECT_EQ(preemptions > 0, c.preempts) << preemptions;
    rig.end();
    EXPECT_EQ(rig.cut_off, 0);
    if (const SpeculationFigures* f = rig.engine.speculation()) { EXPECT_GT(f->accepted, 0) << f->guessed; }
    if (c.setup.cache) { EXPECT_GT(rig.engine.prefix_cache()->found_tokens(), 200); }
  }
}

// The base and three adapters of unlike ranks and modules in one batch: each request gets the tokens and log-probabilities
// that an engine with its adapter alone gives (as `generate --adapter`), at any chunk, preempted or not, from cached pages.
TEST(ServedExactly, RequestsForAdaptersAndTheBaseShareABatch) {
  const ModelSpec base = describe_model(source_dir() + "/examples/novels-6m", std::nullopt).spec;
  const Novels::Adapters adapters = random_adapters(base);
  constexpr size_t kAsked = 32;
  std::vector<Json> bodies, want(kAsked);
  std::vector<int> which;
  std::mt19937_64 random(kExactSeed);
  for (uint64_t i = 0; i < kAsked; ++i) {
    which.push_back(static_cast<int>(random() % 4) - 1);
    bodies.push_back(random_request(i));
    if (which.back() != kNoAdapter) bodies.back()["model"] = adapters[static_cast<size_t>(which.back())].first;
  }
  for (int adapter = kNoAdapter; adapter < 3; ++adapter) {
    ModelDescription model = describe_model(source_dir() + "/examples/novels-6m", std::nullopt);
    if (adapter != kNoAdapter) take_adapter(model, adapters[static_cast<size_t>(adapter)].second);
    Arena arena;
    const ModelWeights weights = load_for_inference(model, arena);
    const RopeTable rope = rope_table(model.spec, 512, 512);
    KvPool pool(kv_shape(model.spec, 16, model.dtype), 200, arena);
    Engine engine(pool, model_executor(model.spec, weights, &rope, arena), &*model.tokenizer,
                  {{.token_budget = 512, .chunk = 512, .max_running = 4}, 512}, real_clock());
    const Novels novels;
    for (size_t i = 0; i < kAsked; ++i) {
      if (which[i] != adapter) continue;
      Json body = bodies[i];
      body.erase("model");
      Asked asked = read_completion(body, novels.served, 0);
      asked.stream = false;
      Answer answer(asked, novels.served, "x", 0);
      for (size_t p = 0; p < asked.prompts.size(); ++p) {
        engine.submit(asked.prompts[p]);
        while (!engine.idle())
          for (const Event& event : engine.step()) answer.take(p, event);
      }
      want[i] = parse_json(answer.whole(), "")["choices"];
    }
  }
  Novels novels(adapters);
  const std::pair<ServedRig::Setup, bool> cases[] = {
      {{.pages = 2048, .chunk = 512, .running = 64}, false},
      {{.pages = 110, .page_tokens = 5, .chunk = 7, .running = 64}, true}};
  for (const auto& [setup, preempts] : cases) {
    SCOPED_TRACE(testing::Message() << "pages of " << setup.page_tokens << ", chunks of " << setup.chunk);
    Arena arena;
    Gate gate;
    ServedRig rig(novels.served, novels.shape(setup.page_tokens), gate.hold(novels.executor()), setup, arena);
    const std::vector<Json> got = answers_at_once(rig, gate, bodies, preempts);
    for (size_t i = 0; i < kAsked; ++i) EXPECT_EQ(got[i], want[i]) << "request " << i << ": " << bodies[i];
    const double preemptions = rig.ask("GET", "/metrics.json").json()["num_preemptions_total"];
    EXPECT_EQ(preemptions > 0, preempts) << preemptions;
    rig.end();
    EXPECT_GT(rig.engine.prefix_cache()->found_tokens(), 0);  // how many depends on who comes when
  }
}

TEST(ServedExactly, AdaptersAreModelsByName) {
  const ModelSpec base = describe_model(source_dir() + "/examples/novels-6m", std::nullopt).spec;
  Novels novels(random_adapters(base));
  Arena arena;
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena);
  const Json list = rig.ask("GET", "/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0]["id"], "novels");
  EXPECT_EQ(list[0]["parent"], nullptr);
  EXPECT_EQ(list[2]["id"], "all");
  EXPECT_EQ(list[2]["parent"], "novels");
  EXPECT_EQ(list[2]["max_model_len"], 512);
  EXPECT_EQ(list[2]["embeddings"], false);
  EXPECT_EQ(rig.ask("GET", "/v1/models/last").json()["parent"], "novels");
  for (const ClientReply& r :
       {rig.ask("GET", "/v1/models/other"), rig.ask("POST", "/v1/completions", R"({"model":"other","prompt":"a"})")}) {
    EXPECT_EQ(r.status, 404);
    EXPECT_EQ(r.json()["error"]["code"], "model_not_found");
    for (const char* name : {"\"novels\"", "\"one\"", "\"all\"", "\"last\""})
      EXPECT_NE(r.json()["error"]["message"].get<std::string>().find(name), std::string::npos) << r.body;
  }
  const ClientReply vectors = rig.ask("POST", "/v1/embeddings", R"({"model":"all","input":"a"})");
  EXPECT_EQ(vectors.status, 400);
  EXPECT_EQ(vectors.json()["error"]["param"], "model");
  EXPECT_EQ(rig.ask("POST", "/tokenize", R"({"model":"all","prompt":"a"})").status, 200);
}

// What a stream says is what the whole answer says, for chats too.
TEST(ServedExactly, AStreamedChatIsTheWholeOne) {
  Novels novels;
  const std::string file = testing::TempDir() + "serve_template.jinja";
  write_file_atomically(real_io(), file,
                        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
  const ChatPrompt chat(novels.model.dir.path, file, *novels.model.tokenizer);
  novels.served.chat = &chat;
  Arena arena;
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena);
  Json body = {{"model", "novels"},
               {"messages",
                {{{"role", "system"}, {"content", "Be short."}},
                 {{"role", "user"},
                  {"content", {{{"type", "text"}, {"text", "Where is"}}, {{"type", "text"}, {"text", "the sea?"}}}}}}},
               {"max_completion_tokens", 12},
               {"seed", 7},
               {"n", 2},
               {"logprobs", true},
               {"top_logprobs", 2}};
  const Json whole = rig.ask("POST", "/v1/chat/completions", dump_json(body)).json();
  ASSERT_EQ(whole["choices"].size(), 2u) << whole;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  Client client(rig.service.port());
  ASSERT_EQ(client.ask("POST", "/v1/chat/completions", dump_json(body)).status, 200);
  const std::vector<std::string> pieces = sse_data(client.rest_of_stream());
  ASSERT_GT(pieces.size(), 3u);
  EXPECT_EQ(pieces.back(), "[DONE]");
  const Json last = parse_json(pieces[pieces.size() - 2], "");
  EXPECT_EQ(last["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_EQ(last["choices"], Json::array());
  for (const Json& choice : whole["choices"]) {
    std::string text, role, reason;
    Json content = Json::array();
    for (size_t i = 0; i + 2 < pieces.size(); ++i) {
      const Json piece = parse_json(pieces[i], "")["choices"][0];
      if (piece["index"] != choice["index"]) continue;
      if (piece["delta"].contains("role")) role += piece["delta"]["role"];
      if (piece["delta"].contains("content")) text += piece["delta"]["content"];
      if (!piece["finish_reason"].is_null()) reason += piece["finish_reason"];
      for (const Json& token : piece["logprobs"]["content"]) content.push_back(token);
    }
    EXPECT_EQ(role, "assistant") << "said once";
    EXPECT_EQ(text, choice["message"]["content"]);
    EXPECT_EQ(reason, choice["finish_reason"]);
    EXPECT_EQ(content, choice["logprobs"]["content"]);
  }
  // The float of the likeliest token is the one told for it beside.
  for (const Json& token : whole["choices"][0]["logprobs"]["content"])
    for (const Json& top : token["top_logprobs"])
      if (top["token"] == token["token"]) { EXPECT_EQ(top["logprob"], token["logprob"]); }
}

// best_of: the texts with the most probability a token are told, of each prompt, the best first.
TEST(ServedExactly, TheBestOfSeveralAreTold) {
  Novels novels;
  Arena arena;
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena);
  Json body = {{"prompt", {"It was", "The sea"}},
               {"max_tokens", 9},
               {"n", 5},
               {"seed", 4},
               {"logprobs", 0},
               {"ignore_eos", true}};
  const Json all = rig.ask("POST", "/v1/completions", dump_json(body)).json();
  body["n"] = 2, body["best_of"] = 5;
  const Json best = rig.ask("POST", "/v1/completions", dump_json(body)).json();
  ASSERT_EQ(all["choices"].size(), 10u);
  ASSERT_EQ(best["choices"].size(), 4u);
  EXPECT_EQ(best["usage"]["completion_tokens"], all["usage"]["completion_tokens"]) << "all were computed";
  for (size_t prompt = 0; prompt < 2; ++prompt) {
    std::vector<std::pair<double, Json>> ranked;
    for (size_t i = 0; i < 5; ++i) {
      const Json& choice = all["choices"][5 * prompt + i];
      double sum = 0;
      for (const Json& x : choice["logprobs"]["token_logprobs"]) sum += x.get<double>();
      ranked.emplace_back(-sum / 9, choice["text"]);
    }
    std::sort(ranked.begin(), ranked.end());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(best["choices"][2 * prompt + i]["text"], ranked[i].second);
      EXPECT_EQ(best["choices"][2 * prompt + i]["index"], 2 * prompt + i);
    }
  }
}

// `grammar` of a request: whatever is drawn, each of its texts is one of the grammar, streamed or whole, beside requests without.
TEST(ServedExactly, TextsAreOfTheGrammarThatIsAsked) {
  Novels novels;
  novels.served.texts =
      std::make_shared<const TokenTexts>(token_texts(*novels.model.tokenizer, novels.model.spec.vocab));
  Arena arena;
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena);
  const std::regex wanted("(yes|no), [a-z]{3,9}\\.[0-9]{2}");
  Client free(rig.service.port());
  ASSERT_EQ(free.ask("POST", "/v1/completions", R"({"prompt":"It was","max_tokens":200,"stream":true})").status, 200);
  for (int seed = 0; seed < 6; ++seed) {
    Json body = {{"prompt", "Is it the sea?"},
                 {"max_tokens", 60},
                 {"n", 2},
                 {"seed", seed},
                 {"temperature", 1.5},
                 {"grammar", "root ::= word \", \" [a-z]{3,9} \".\" [0-9]{2}\nword ::= \"yes\" | \"no\""}};
    const Json whole = rig.ask("POST", "/v1/completions", dump_json(body)).json()["choices"];
    body["stream"] = true;
    Client client(rig.service.port());
    ASSERT_EQ(client.ask("POST", "/v1/completions", dump_json(body)).status, 200);
    std::map<int, std::string> streamed;
    for (const std::string& event : sse_data(client.rest_of_stream()))
      if (event != "[DONE]") {
        const Json whole_event = parse_json(event, "");
        for (const Json& piece : whole_event["choices"]) streamed[piece["index"]] += piece["text"].get<std::string>();
      }
    ASSERT_EQ(whole.size(), 2u);
    for (int i = 0; i < 2; ++i) {
      const auto text = whole[static_cast<size_t>(i)]["text"].get<std::string>();
      EXPECT_TRUE(std::regex_match(text, wanted)) << text;
      EXPECT_EQ(whole[static_cast<size_t>(i)]["finish_reason"], "stop");
      EXPECT_EQ(streamed[i], text);
    }
  }
}

TEST(ServedExactly, ASeedThatWasNotGivenIsToldAndSaysTheSameAgain) {
  Novels novels;
  Arena arena;
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena);
  const ClientReply first = rig.ask("POST", "/v1/completions", R"({"prompt":"It was","max_tokens":12})");
  ASSERT_EQ(first.status, 200);
  const std::string seed = first.headers.at("x-tern-seed");
  const ClientReply again =
      rig.ask("POST", "/v1/completions", R"({"prompt":"It was","max_tokens":12,"seed":)" + seed + "}");
  EXPECT_EQ(again.json()["choices"], first.json()["choices"]);
  EXPECT_EQ(again.headers.at("x-tern-seed"), seed);
  const ClientReply other = rig.ask("POST", "/v1/completions", R"({"prompt":"It was","max_tokens":12})");
  EXPECT_NE(other.headers.at("x-tern-seed"), seed);
}

}  // namespace
}  // namespace tern
