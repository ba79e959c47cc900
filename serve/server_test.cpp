// The server over real sockets: access, limits, clients that leave or dawdle, and its end.
#include "serve/server.h"

#include <gtest/gtest.h>

#include <random>

#include "infer/constrain/constraint.h"
#include "serve/base64.h"
#include "serve/mock_testing.h"

namespace tern {
namespace {

TEST(Server, RefusesByHostOriginKeyPathAndMethod) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(),
                {.access = {.keys = {"first", "second"}, .hosts = {"box.lan"}, .origins = {"https://ok.example"}}},
                mock.arena);
  const std::string key = "Authorization: Bearer second\r\n";
  const auto code = [](const ClientReply& r) { return r.json()["error"]["code"].get<std::string>(); };
  EXPECT_EQ(rig.ask("GET", "/v1/models", "", key).status, 200);
  EXPECT_EQ(rig.ask("GET", "/v1/models", "", "Authorization: Bearer secon\r\n").status, 401);
  EXPECT_EQ(rig.ask("GET", "/v1/models", "", "Authorization: Bearer secondd\r\n").status, 401);
  EXPECT_EQ(rig.ask("GET", "/v1/models", "", "Authorization: Basic second\r\n").status, 401);
  const ClientReply none = rig.ask("POST", "/v1/completions", kShort);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(code(none), "invalid_api_key");
  EXPECT_EQ(rig.ask("GET", "/metrics").status, 401);
  EXPECT_EQ(rig.ask("GET", "/nowhere").status, 401) << "who has no key learns no path";
  EXPECT_EQ(rig.ask("GET", "/nowhere", "", key).status, 404);
  EXPECT_EQ(rig.ask("GET", "/health").status, 200);
  EXPECT_EQ(rig.ask("GET", "/").status, 200);
  const ClientReply wrong = rig.ask("GET", "/v1/completions", "", key);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(code(rig.ask("GET", "/health", "", "Host: evil.example\r\n")), "host_not_allowed");
  EXPECT_EQ(rig.ask("GET", "/health", "", "Host: BOX.lan:80\r\n").status, 200);
  EXPECT_EQ(code(rig.ask("POST", "/v1/completions", kShort, key + "Origin: http://evil.example\r\n")),
            "origin_not_allowed");
  const ClientReply page = rig.ask("POST", "/v1/completions", kShort, key + "Origin: https://ok.example\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("access-control-allow-origin"), "https://ok.example");
  const ClientReply before = rig.ask("OPTIONS", "/v1/completions", "",
                                     "Origin: https://ok.example\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_EQ(before.status, 204);
  EXPECT_NE(before.headers.at("access-control-allow-headers").find("Authorization"), std::string::npos);
  EXPECT_EQ(rig.ask("HEAD", "/health").status, 200);
  EXPECT_EQ(rig.ask("GET", "/").body.find("://"), std::string::npos) << "the page asks nobody else";
}

TEST(Server, HoldsItsLimitsOfHeadBodyAndTime) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.body_bytes = 2000;
  setup.http.header_s = setup.http.body_s = 0.3;
  setup.http.connections = 20;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", std::string(2001, ' ')).status, 413);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", std::string(2000, ' ')).status, 400);
  EXPECT_EQ(rig.ask("GET", "/health", "", "X: " + std::string(9000, 'x') + "\r\n").status, 431);
  Client chunked(rig.service.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.send("3e8\r\n" + std::string(1000, ' ') + "\r\n");
  EXPECT_EQ(chunked.read_reply().status, 413) << "a body that does not say its length";
  Client slow_head(rig.service.port()), slow_body(rig.service.port());
  slow_head.send("GET /health HT");
  slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_EQ(slow_head.read_reply().status, 0) << "closed";
  EXPECT_EQ(slow_body.read_reply().status, 408);
  Client waits(rig.service.port());
  waits.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 37\r\n\r\n");
  EXPECT_EQ(waits.read_reply(true).status, 100);
  waits.send(R"({"prompt": "a b c", "max_tokens": 4 })");
  EXPECT_EQ(waits.read_reply().status, 200);
  Client nonsense(rig.service.port());
  nonsense.send("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_EQ(nonsense.read_reply().status, 400);
  std::vector<std::unique_ptr<Client>> many;
  for (int i = 0; i < 40; ++i) many.push_back(std::make_unique<Client>(rig.service.port()));
  int full = 0, fine = 0;
  for (auto& client : many) {
    const int status = client->ask("GET", "/health").status;
    full += status == 503 || status == 0, fine += status == 200;
  }
  EXPECT_GE(full, 20);
  EXPECT_GE(fine, 15);
  many.clear();
  int status = 0;
  for (int i = 0; i < 1000 && (status = rig.ask("GET", "/health").status) != 200; ++i) ::usleep(1000);
  EXPECT_EQ(status, 200) << "who leaves makes room";
}

TEST(Server, OneConnectionAsksManyThings) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  Client client(rig.service.port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.ask("POST", "/v1/completions", kShort).status, 200);
    EXPECT_EQ(client.ask("POST", "/v1/completions", "{").status, 400);
    EXPECT_EQ(client.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":3,"stream":true})").status, 200);
    EXPECT_EQ(sse_data(client.rest_of_stream()).back(), "[DONE]");
  }
  // Two requests sent at once are answered one after the other.
  client.send(Client::request("POST", "/v1/completions", kShort) + Client::request("GET", "/health", ""));
  EXPECT_TRUE(client.read_reply().json().contains("choices"));
  EXPECT_EQ(client.read_reply().json()["status"], "ok");
}

TEST(Server, AFullQueueIs429AndSaysWhenToComeBack) {
  Mock mock;
  mock.step_us = 2000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.running = 2, .queue = 3}, mock.arena);
  std::vector<std::unique_ptr<Client>> streams;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(std::make_unique<Client>(rig.service.port()));
    EXPECT_EQ(streams.back()->ask("POST", "/v1/completions", kEndless).status, 200);
  }
  const ClientReply full = rig.ask("POST", "/v1/completions", kShort);
  EXPECT_EQ(full.status, 429);
  EXPECT_GE(std::stoi(full.headers.at("retry-after")), 1);
  EXPECT_EQ(full.json()["error"]["code"], "queue_full");
  EXPECT_EQ(rig.ask("POST", "/v1/completions", R"({"prompt":"a","n":6})").status, 400) << "would never fit";
  const ClientReply rounded = rig.ask("POST", "/v1/completions", R"({"prompt":"a","user":18446744073709551616})");
  EXPECT_EQ(rounded.status, 400);
  EXPECT_NE(rounded.body.find("18446744073709551616: a whole number beyond 64 bits"), std::string::npos)
      << rounded.body;
  streams.pop_back();
  EXPECT_EQ(rig.figure("num_requests_live", 4), 4);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", R"({"prompt":"a","n":2,"max_tokens":1})").status, 429);
  for (auto& client : streams) client->close();
  EXPECT_EQ(rig.figure("num_requests_live", 0), 0);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200);
}

// A prompt's pages are kept for later ones from its first step on: they count as held all the same.
TEST(Server, PagesThatAreSharedWithTheCacheCountAsHeld) {
  Mock mock;
  mock.step_us = 1000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.pages = 100}, mock.arena);
  const Json body = {{"prompt", std::vector<int>(160, 300)}, {"max_tokens", 300}, {"stream", true}};
  for (int i = 0; i < 2; ++i) {  // the second finds its prompt in the cache
    Client client(rig.service.port());
    ASSERT_EQ(client.ask("POST", "/v1/completions", dump_json(body)).status, 200);
    for (int k = 0; k < 40; ++k) client.piece();
    const double held = rig.ask("GET", "/metrics.json").json()["kv_cache_usage_perc"];
    EXPECT_GE(held, 0.10);
    EXPECT_LE(held, 0.20);
    client.close();
    EXPECT_EQ(rig.figure("kv_cache_usage_perc", 0), 0);
  }
}

// Clients leave at random tokens, some in the middle of the prompt.
TEST(Server, AStopLetsAnswersEndAndTakesNoNewOnes) {
  Mock mock;
  mock.step_us = 1000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  Client stream(rig.service.port()), late(rig.service.port());
  ASSERT_EQ(stream.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":300,"stream":true})").status, 200);
  ASSERT_EQ(late.ask("GET", "/ready").status, 200);
  rig.stop = true;
  ClientReply ready;
  for (int i = 0; i < 100 && (ready = late.ask("GET", "/ready")).status == 200; ++i) ::usleep(1000);
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(late.ask("GET", "/health").status, 200) << "it lives, it only takes nothing new";
  EXPECT_EQ(late.ask("POST", "/v1/completions", kShort).json()["error"]["code"], "shutting_down");
  EXPECT_EQ(sse_data(stream.rest_of_stream()).back(), "[DONE]");
  rig.end();
  EXPECT_EQ(rig.cut_off, 0);
}

TEST(Server, WhatIsNotThroughWhenTheTimeIsOverIsToldSo) {
  Mock mock;
  mock.step_us = 5000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.drain_s = 0.1}, mock.arena);
  Client stream(rig.service.port()), whole(rig.service.port());
  ASSERT_EQ(stream.ask("POST", "/v1/completions", kEndless).status, 200);
  whole.send(Client::request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":400})"));
  EXPECT_EQ(rig.figure("num_requests_live", 2), 2);
  rig.stop = true;
  const std::string last = sse_data(stream.rest_of_stream()).back();
  EXPECT_EQ(parse_json(last, "")["error"]["code"], "shutting_down");
  EXPECT_EQ(whole.read_reply().status, 503);
  rig.end();
  EXPECT_EQ(rig.cut_off, 2);
}

// A batch that fails is told to those in it; later ones are served.
TEST(Server, AFailedBatchEndsItsRequestsAndNoOther) {
  Mock mock;
  mock.step_us = 1000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  Client stream(rig.service.port());
  ASSERT_EQ(stream.ask("POST", "/v1/completions", kEndless).status, 200);
  stream.piece();
  mock.fails = true;
  const std::string last = sse_data(stream.rest_of_stream()).back();
  EXPECT_EQ(parse_json(last, "")["error"]["message"], "planted");
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 500);
  EXPECT_EQ(rig.figure("kv_cache_usage_perc", 0), 0);  // while nothing can be computed to its end
  mock.fails = false;
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200);
  EXPECT_EQ(rig.figure("kv_cache_usage_perc", 0), 0);
}

// Bytes of whole requests changed, lost, doubled: an answer or an end, and the server goes on.
TEST(Server, MutatedRequestsAreAnsweredOrClosed) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.header_s = setup.http.body_s = 0.05;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  std::mt19937 random(11);
  std::map<int, int> statuses;
  std::vector<std::string> requests;
  for (int i = 0; i < 400; ++i) {
    std::string text = Client::request("POST", "/v1/completions", kShort, "Content-Type: application/json\r\n");
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (const uint32_t how = random() % 3; how == 0)
        text[at] = static_cast<char>(random());
      else if (how == 1)
        text.erase(at, 1 + random() % 20);
      else
        text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
      if (text.empty()) text = "x";
    }
    requests.push_back(text);
  }
  std::vector<std::thread> clients;
  std::mutex mutex;
  for (size_t k = 0; k < 16; ++k)
    clients.emplace_back([&, k] {
      for (size_t i = k; i < requests.size(); i += 16) {
        Client client(rig.service.port());
        client.send(requests[i]);
        const int status = client.read_reply().status;
        const std::lock_guard lock(mutex);
        ++statuses[status];
      }
    });
  for (std::thread& t : clients) t.join();
  for (const auto& [status, count] : statuses)
    EXPECT_TRUE(status == 0 || status == 200 || (status >= 400 && status < 500)) << status << " " << count << " times";
  EXPECT_GT(statuses[400], 50);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200);
  EXPECT_EQ(rig.figure("num_requests_live", 0), 0);
}

TEST(Server, MetricsAreWhatPrometheusReads) {
  Mock mock;
  mock.served.name = "a\"b\\c";
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  for (int i = 0; i < 3; ++i) rig.ask("POST", "/v1/completions", R"({"prompt":"a b c d e f","max_tokens":4})");
  rig.figure("num_requests_live", 0);
  const ClientReply r = rig.ask("GET", "/metrics");
  EXPECT_EQ(r.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  std::map<std::string, double> values;
  std::map<std::string, std::string> types;
  for (const std::string_view line : split(r.body, '\n')) {
    if (line.starts_with("# TYPE ")) {
      const auto words = split_words(line);
      ASSERT_EQ(words.size(), 4u);
      EXPECT_TRUE(types.emplace(words[2], words[3]).second) << line << ": twice";
    } else if (!line.empty() && line[0] != '#') {
      const size_t blank = line.rfind(' ');
      values[std::string(line.substr(0, blank))] = std::stod(std::string(line.substr(blank + 1)));
      const std::string name(line.substr(0, line.find_first_of("{ ")));
      bool known = types.contains(name);
      for (const char* end : {"_bucket", "_sum", "_count"})
        if (name.ends_with(end)) known |= types[name.substr(0, name.size() - std::string(end).size())] == "histogram";
      EXPECT_TRUE(known) << line;
    }
  }
  const std::string model = "{model_name=\"a\\\"b\\\\c\"";
  EXPECT_EQ(values["tern_generation_tokens_total" + model + "}"], 12);
  EXPECT_EQ(values["tern_request_success_total" + model + ",finished_reason=\"length\"}"], 3);
  EXPECT_EQ(values["tern_time_to_first_token_seconds_count" + model + "}"], 3);
  EXPECT_EQ(values["tern_inter_token_latency_seconds_count" + model + "}"], 9);
  EXPECT_EQ(values["tern_e2e_request_latency_seconds_bucket" + model + ",le=\"+Inf\"}"], 3);
  EXPECT_EQ(values["tern_http_replies_total{path=\"/v1/completions\",status=\"200\"}"], 3);
}

TEST(Server, ModelsTokensAndVectors) {
  Novels novels;
  Arena arena;
  Embedder embedder(novels.model.spec, novels.weights, nullptr, 64,
                    {.pooling = Pooling::mean, .normalize = false, .batch = 1}, novels.arena);
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {}, arena, &embedder);
  EXPECT_EQ(rig.ask("GET", "/v1/models").json()["data"][0]["id"], "novels");
  EXPECT_EQ(rig.ask("GET", "/v1/models/novels").json()["max_model_len"], 512);
  EXPECT_EQ(rig.ask("GET", "/v1/models/other").status, 404);
  const Json tokens = rig.ask("POST", "/tokenize", R"({"prompt":"the old man"})").json();
  EXPECT_EQ(tokens["tokens"], Json(novels.model.tokenizer->encode("the old man")));
  EXPECT_EQ(rig.ask("POST", "/detokenize", dump_json({{"tokens", tokens["tokens"]}})).json()["prompt"], "the old man");
  const Json vectors = rig.ask("POST", "/v1/embeddings", R"({"input":["the old man","a ship"]})").json();
  ASSERT_EQ(vectors["data"].size(), 2u) << vectors;
  Embedder alone(novels.model.spec, novels.weights, nullptr, 64,
                 {.pooling = Pooling::mean, .normalize = false, .batch = 1}, arena);
  alone.submit(novels.model.tokenizer->encode("a ship"));
  const std::vector<float> want = alone.step()[0].vector;
  EXPECT_EQ(vectors["data"][1]["embedding"].get<std::vector<float>>(), want);
  const Json packed = rig.ask("POST", "/v1/embeddings", R"({"input":"a ship","encoding_format":"base64"})").json();
  EXPECT_EQ(packed["data"][0]["embedding"], base64_of({reinterpret_cast<const char*>(want.data()), want.size() * 4}));
}

TEST(Server, WholeAnswersTakeNoMoreThanTheirLimit) {
  Mock mock;
  mock.step_us = 5000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.answers_bytes = 1'000'000}, mock.arena);
  const std::string tops = R"({"prompt":"a","max_tokens":100,"logprobs":20})";  // 0.64 MB
  const ClientReply large = rig.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":400,"logprobs":20})");
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(large.json()["error"]["param"], "max_tokens");
  EXPECT_EQ(rig.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":40})").status, 200);
  Client first(rig.service.port());
  first.send(Client::request("POST", "/v1/completions", tops));
  EXPECT_EQ(rig.figure("num_requests_live", 1), 1);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", tops).status, 429);
  Client stream(rig.service.port());
  EXPECT_EQ(
      stream.ask("POST", "/v1/completions", R"({"prompt":"a","max_tokens":400,"logprobs":20,"stream":true})").status,
      200);
  const ClientReply whole = first.read_reply();
  EXPECT_EQ(whole.json()["choices"][0]["logprobs"]["tokens"].size(), 100u);
  EXPECT_LT(whole.body.size(), 640'000u);
  EXPECT_EQ(rig.figure("num_requests_live", 1), 1);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", tops).status, 200) << "room is given back";
}

TEST(Server, GrammarsUnderWayTakeNoMoreThanTheirLimit) {
  Mock mock;
  mock.step_us = 2000;
  mock.served.texts = std::make_shared<const TokenTexts>(token_texts(*mock.served.tokenizer, mock.served.vocab));
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.grammars_bytes = 100'000}, mock.arena);
  const auto body = [](int states, int tokens) {
    return dump_json({{"prompt", "a"},
                      {"max_tokens", tokens},
                      {"stream", true},
                      {"grammar", "root ::= \"a\"{" + std::to_string(states) + "}"}});
  };
  const ClientReply large = rig.ask("POST", "/v1/completions", body(10'000, 1));
  EXPECT_EQ(large.status, 400);
  EXPECT_NE(large.body.find("the grammar of the answer takes"), std::string::npos) << large.body;
  Client first(rig.service.port());
  EXPECT_EQ(first.ask("POST", "/v1/completions", body(5'000, 400)).status, 200);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", body(5'000, 1)).status, 429);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", body(500, 1)).status, 200) << "a smaller one fits beside it";
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200) << "and one without";
  first.close();
  EXPECT_EQ(rig.figure("num_requests_live", 0), 0);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", body(5'000, 1)).status, 200) << "room is given back";
}

TEST(Server, TextsThatWaitAreCounted) {
  Novels novels;
  Arena arena;
  Embedder embedder(novels.model.spec, novels.weights, nullptr, 64,
                    {.pooling = Pooling::mean, .normalize = false, .batch = 1}, novels.arena);
  ServedRig rig(novels.served, novels.shape(), novels.executor(), {.texts = 3}, arena, &embedder);
  EXPECT_EQ(rig.ask("POST", "/v1/embeddings", R"({"input":["a","b","c","d"]})").status, 400) << "would never fit";
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(rig.ask("POST", "/v1/embeddings", R"({"input":["a","b","c"]})").status, 200) << "room is given back";
}

}  // namespace
}  // namespace tern
