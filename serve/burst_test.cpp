// Many who come together: how their requests are taken in, and whose token goes out first.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/mock_testing.h"
#include "serve/server.h"

namespace tern {
namespace {

constexpr const char* kSure = R"({"prompt":"a b c","max_tokens":4,"temperature":0})";

// An answer under way, which notes whose piece was sent when.
struct NotedExchange : Exchange {
  NotedExchange(std::vector<int>& o, int n) : order(&o), number(n) {}
  void reply(HttpReply r) override { order->push_back(-number), text += r.body; }
  void begin_stream(std::vector<std::pair<std::string, std::string>>) override {}
  void send(std::string_view piece) override { order->push_back(number), text += piece; }
  void end() override {}
  std::vector<int>* order;
  int number;
  std::string text;
};

LoopEvent token_of(uint64_t ticket, const char* text) {
  Event event;
  event.drawn = DrawnToken{.id = 300};
  event.text = text;
  return {ticket, std::move(event)};
}

struct NotedServer {
  Mock mock;
  const ModelDrive drives[1] = {};
  EngineLoop loop{drives, [](LoopReport) {}};  // it takes requests and does not run
  Server server{{}, real_clock(), "test"};
  std::vector<int> order;
  std::vector<std::shared_ptr<NotedExchange>> exchanges;
  NotedServer() { server.ready({&mock.served}, loop); }
  void ask(std::string body) {
    HttpRequest request;
    request.method = "POST", request.path = "/v1/completions", request.body = std::move(body);
    exchanges.push_back(std::make_shared<NotedExchange>(order, static_cast<int>(exchanges.size()) + 1));
    server.handle(std::move(request), exchanges.back());
  }
  void take(std::vector<LoopEvent> events) { server.take({.events = std::move(events), .figures = {}}); }
};

TEST(Server, AFirstTokenGoesOutBeforeTheNextOnesOfOthers) {
  NotedServer s;
  for (int i = 0; i < 4; ++i) s.ask(kEndless);
  s.take({token_of(1, "a"), token_of(2, "b")});
  EXPECT_EQ(s.order, (std::vector<int>{1, 2}));
  s.order.clear();
  s.take({token_of(1, "c"), token_of(2, "d"), token_of(4, "e"), token_of(1, "f"), token_of(3, "g"), token_of(4, "h")});
  EXPECT_EQ(s.order, (std::vector<int>{4, 3, 4, 1, 2, 1}));
  std::string texts;
  for (const auto& exchange : s.exchanges)
    for (const std::string& data : sse_data(exchange->text))
      texts += parse_json(data, "a piece")["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(texts,
            "acf"
            "bd"
            "g"
            "eh");
}

TEST(Server, APieceHasTheKeysInTheirOrder) {
  NotedServer s;
  s.ask(R"({"prompt":"a","stream":true})");
  s.ask(R"({"prompt":"a","stream":true,"logprobs":1,"stream_options":{"include_usage":true}})");
  s.ask(
      R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"return_token_ids":true})");
  s.take({token_of(1, "a"), token_of(2, "\"logprobs\":null"), token_of(3, "c")});
  const auto keys = [](const Json& json) {
    std::string all;
    for (const auto& [key, value] : json.items()) all += key + " ";
    return all;
  };
  const std::string frame = "id object created model choices ";
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<std::string> data = sse_data(s.exchanges[i]->text);
    ASSERT_EQ(data.size(), 1u);
    const Json piece = parse_json(data[0], "a piece");
    EXPECT_EQ(dump_json(piece), data[0]) << "as it is written everywhere";
    EXPECT_EQ(keys(piece), i == 0 ? frame : frame + "usage ");
    EXPECT_EQ(piece["object"], "text_completion");
    EXPECT_EQ(piece["model"], "mock");
    ASSERT_EQ(piece["choices"].size(), 1u);
    EXPECT_EQ(keys(piece["choices"][0]),
              i < 2 ? "index text logprobs finish_reason " : "index text logprobs finish_reason token_ids ");
    EXPECT_EQ(piece["choices"][0]["logprobs"].is_object(), i == 1) << data[0];
  }
  const auto piece_of = [&](size_t i) { return parse_json(sse_data(s.exchanges[i]->text)[0], "a piece"); };
  EXPECT_EQ(piece_of(1)["choices"][0]["text"], "\"logprobs\":null") << "a text is no place for log-probabilities";
  EXPECT_TRUE(piece_of(1)["usage"].is_null());
  EXPECT_EQ(piece_of(2)["usage"]["completion_tokens"], 1);
}

// More than are accepted or may run at once.
TEST(Server, WhoComesTogetherIsAnsweredTogether) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.pages = 2000}, mock.arena);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 150; ++i) clients.push_back(std::make_unique<Client>(rig.service.port()));
  const std::string streamed = R"({"prompt":"a b c","max_tokens":4,"temperature":0,"stream":true})";
  for (size_t i = 0; i < clients.size(); ++i)
    ASSERT_TRUE(clients[i]->send(Client::request("POST", "/v1/completions", i % 2 == 0 ? kSure : streamed)));
  std::string text;
  for (size_t i = 0; i < clients.size(); ++i) {
    const ClientReply reply = clients[i]->read_reply();
    ASSERT_EQ(reply.status, 200) << i;
    std::string got;
    if (i % 2 == 0) {
      got = reply.json()["choices"][0]["text"];
    } else {
      const std::vector<std::string> data = sse_data(clients[i]->rest_of_stream());
      EXPECT_EQ(data.back(), "[DONE]") << i;
      for (size_t k = 0; k + 1 < data.size(); ++k)
        got += parse_json(data[k], "a piece")["choices"][0]["text"].get<std::string>();
    }
    if (i == 0) text = got;
    EXPECT_EQ(got, text) << i;
    EXPECT_FALSE(got.empty());
  }
}

// A request is taken from what is here, and the rest as it comes: wherever it was cut, it is the same request.
TEST(Server, ARequestThatComesInPartsIsTheWholeOne) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  const std::string sized = Client::request("POST", "/v1/completions", kSure), body = kSure,
                    chunked =
                        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" +
                        body.substr(0, 5) + "\r\n" + fmt::format("{:x}", body.size() - 5) + "\r\n" + body.substr(5) +
                        "\r\n0\r\n\r\n";
  const Json whole = rig.ask("POST", "/v1/completions", kSure).json()["choices"];
  for (const std::string& request : {sized, chunked})
    for (size_t cut = 0; cut < request.size(); cut += cut == 0 ? 1 : 7) {
      Client client(rig.service.port());
      if (cut > 0) {
        ASSERT_TRUE(client.send(std::string_view(request).substr(0, cut)));
        ::usleep(1000);
      }
      // The next request stands right behind it.
      ASSERT_TRUE(client.send(request.substr(cut) + request));
      for (int i = 0; i < 2; ++i) {
        const ClientReply reply = client.read_reply();
        ASSERT_EQ(reply.status, 200) << "cut at " << cut << ": " << reply.body;
        EXPECT_EQ(reply.json()["choices"], whole) << cut;
      }
    }
}

}  // namespace
}  // namespace tern
