// Several models behind one address: each request reaches the one it names, and nobody else's.
#include <gtest/gtest.h>

#include <array>

#include "base/source_dir_testing.h"
#include "infer/embedder.h"
#include "serve/mock_testing.h"

namespace tern {
namespace {

// The model of the repository, with an adapter and vectors, and one without a model behind it.
struct TwoModels {
  Novels novels;
  Mock mock;
  Arena arena;
  KvPool novels_pool, mock_pool;
  Engine novels_engine, mock_engine;
  Embedder embedder;
  Service service;
  std::atomic<bool> stop = false;
  std::thread thread;

  static EngineLimits limits() {
    return {.scheduler = {.token_budget = 80, .chunk = 64, .max_running = 16}, .context = 512, .cache_prefixes = true};
  }
  explicit TwoModels(const Novels::Adapters& adapters = {})
      : novels(adapters),
        novels_pool(novels.shape(), 512, arena),
        mock_pool(mock.shape, 512, arena),
        novels_engine(novels_pool, novels.executor(), novels.served.tokenizer, limits(), real_clock()),
        mock_engine(mock_pool, mock.executor(), mock.served.tokenizer, limits(), real_clock()),
        embedder(novels.model.spec, novels.weights, nullptr, 64,
                 {.pooling = Pooling::mean, .normalize = false, .batch = 1}, novels.arena),
        service({.port = 0, .http = {}, .rules = {.max_running = 2, .max_queue = 2}, .version = "test"}) {
    thread = std::thread([this] {
      const DrivenModel models[] = {{&novels.served, {&novels_engine, &embedder}}, {&mock.served, {&mock_engine}}};
      service.run(models, stop);
    });
    while (ask("GET", "/health").status != 200) ::usleep(1000);
  }
  ~TwoModels() {
    stop = true;
    thread.join();
  }
  ClientReply ask(std::string_view method, std::string_view path, std::string_view body = "") {
    return Client(service.port()).ask(method, path, body);
  }
  Json figures_of(const std::string& name) {
    const Json figures = ask("GET", "/metrics.json").json();
    for (const Json& model : figures["models"])
      if (model["model"] == name) return model;
    return {};
  }
};

TEST(SeveralModels, EachAnswersByItsNameAsAlone) {
  const std::string seed = R"("prompt":"It was","max_tokens":12,"temperature":0.8,"seed":4,"logprobs":2})";
  Json want, want_mock;
  {
    Novels novels;
    Arena arena;
    ServedRig alone(novels.served, novels.shape(), novels.executor(), {}, arena);
    want = alone.ask("POST", "/v1/completions", "{" + seed).json()["choices"];
    Mock mock;
    ServedRig mock_alone(mock.served, mock.shape, mock.executor(), {}, mock.arena);
    want_mock = mock_alone.ask("POST", "/v1/completions", "{" + seed).json()["choices"];
  }
  ASSERT_NE(want, want_mock);
  TwoModels two;
  std::vector<std::thread> clients;
  std::array<Json, 8> got;
  for (size_t i = 0; i < got.size(); ++i)
    clients.emplace_back([&, i] {
      const std::string name = i % 2 == 0 ? "novels" : "mock";
      const ClientReply r = two.ask("POST", "/v1/completions", R"({"model":")" + name + "\"," + seed);
      if (r.status != 200) return;
      EXPECT_EQ(r.json()["model"], name);
      got[i] = r.json()["choices"];
    });
  for (std::thread& t : clients) t.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i % 2 == 0 ? want : want_mock) << i;
  EXPECT_EQ(two.ask("POST", "/v1/completions", "{" + seed).json()["choices"], want) << "the first, where none is named";
}

TEST(SeveralModels, AreListedAndMissedByName) {
  const ModelSpec base = describe_model(source_dir() + "/examples/novels-6m", std::nullopt).spec;
  TwoModels two(random_adapters(base));
  const Json list = two.ask("GET", "/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 5u) << list;
  EXPECT_EQ(list[0]["id"], "novels");
  EXPECT_EQ(list[1]["parent"], "novels");
  EXPECT_EQ(list[4]["id"], "mock");
  EXPECT_EQ(list[4]["parent"], nullptr);
  EXPECT_EQ(two.ask("GET", "/v1/models/mock").json()["id"], "mock");
  EXPECT_EQ(two.ask("GET", "/v1/models/last").json()["parent"], "novels");
  for (const ClientReply& r :
       {two.ask("GET", "/v1/models/other"), two.ask("POST", "/v1/completions", R"({"model":"other","prompt":"a"})"),
        two.ask("POST", "/tokenize", R"({"model":"other","prompt":"a"})")}) {
    EXPECT_EQ(r.status, 404);
    EXPECT_EQ(r.json()["error"]["param"], "model");
    for (const char* name : {"\"novels\"", "\"one\"", "\"mock\""})
      EXPECT_NE(r.json()["error"]["message"].get<std::string>().find(name), std::string::npos) << r.body;
  }
  EXPECT_EQ(two.ask("POST", "/v1/completions", R"({"model":7,"prompt":"a"})").json()["error"]["param"], "model");
  EXPECT_EQ(two.ask("POST", "/v1/embeddings", R"({"model":"novels","input":"a"})").status, 200);
  const ClientReply none = two.ask("POST", "/v1/embeddings", R"({"model":"mock","input":"a"})");
  EXPECT_EQ(none.status, 400) << "it makes no vectors";
}

TEST(SeveralModels, AFullOrBrokenOneDoesNotStopAnother) {
  TwoModels two;
  two.mock.step_us = 2000;
  const std::string endless = R"({"model":"mock","prompt":"a","max_tokens":400,"stream":true})";
  std::vector<std::unique_ptr<Client>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(std::make_unique<Client>(two.service.port()));
    EXPECT_EQ(streams.back()->ask("POST", "/v1/completions", endless).status, 200);
  }
  EXPECT_EQ(two.ask("POST", "/v1/completions", endless).status, 429);
  EXPECT_EQ(two.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":4})").status, 200) << "its own queue";
  EXPECT_EQ(two.figures_of("mock")["num_requests_live"], 4);
  EXPECT_EQ(two.figures_of("novels")["num_requests_live"], 0);
  two.mock.fails = true;
  for (auto& client : streams) EXPECT_NE(client->rest_of_stream().find("planted"), std::string::npos);
  EXPECT_EQ(two.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":4})").status, 200);
  two.mock.fails = false;
  EXPECT_EQ(two.ask("POST", "/v1/completions", R"({"model":"mock","prompt":"a","max_tokens":4})").status, 200);
  // The sums, and each by its name.
  const Json all = two.ask("GET", "/metrics.json").json();
  EXPECT_EQ(all["generation_tokens_total"].get<double>(),
            two.figures_of("mock")["generation_tokens_total"].get<double>() +
                two.figures_of("novels")["generation_tokens_total"].get<double>());
  const std::string text = two.ask("GET", "/metrics").body;
  for (const char* name : {"novels", "mock"})
    EXPECT_NE(text.find(std::string("tern_generation_tokens_total{model_name=\"") + name + "\"}"), std::string::npos);
  EXPECT_EQ(text.find("# TYPE tern_generation_tokens_total"), text.rfind("# TYPE tern_generation_tokens_total"));
}

}  // namespace
}  // namespace tern
