// Clients that leave, dawdle, announce what does not come, or do not read.
#include <gtest/gtest.h>

#include <random>

#include "serve/mock_testing.h"
#include "serve/server.h"

namespace tern {
namespace {

TEST(Server, TwoHundredClientsThatLeaveFreeTheirPages) {
  Mock mock;
  mock.step_us = 300;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.pages = 2000, .chunk = 16, .running = 32}, mock.arena);
  std::mt19937 random(5);
  double slowest = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> clients;
    for (int i = 0; i < 20; ++i)
      clients.emplace_back([&rig, pieces = random() % 12, whole = random() % 4 == 0] {
        Client client(rig.service.port());
        if (whole) {  // not a stream: it only waits
          client.send(Client::request("POST", "/v1/completions", R"({"prompt":"a b c","max_tokens":400})"));
          ::usleep(static_cast<useconds_t>(pieces * 500));
          return;
        }
        std::string body = kEndless;
        if (pieces < 2) body.insert(12, std::string(90, 'x'));
        EXPECT_EQ(client.ask("POST", "/v1/completions", body).status, 200);
        for (size_t k = 0; k < pieces; ++k) client.piece();
      });
    for (std::thread& t : clients) t.join();
    const int64_t left_ns = real_clock().now_ns();
    EXPECT_EQ(rig.figure("num_requests_live", 0), 0);
    EXPECT_EQ(rig.figure("kv_cache_usage_perc", 0), 0);
    slowest = std::max(slowest, seconds_between(left_ns, real_clock().now_ns()));
  }
  RecordProperty("slowest_ms", static_cast<int>(slowest * 1000));
  EXPECT_LT(slowest, 0.1);
  EXPECT_EQ(rig.figure("client_disconnects_total", 200), 200);
  rig.end();
  EXPECT_EQ(rig.engine.num_running() + rig.engine.num_waiting(), 0);
  EXPECT_EQ(rig.pool.num_free() + rig.engine.prefix_cache()->num_pages(), 2000);
}

// Its body was not read; closing over it would reset the connection, and the answer with it.
TEST(Server, WhoIsRefusedWhileSendingABodySeesTheAnswer) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.access = {.keys = {"k"}}}, mock.arena);
  for (int i = 0; i < 4; ++i) {
    Client client(rig.service.port());
    const std::string request = Client::request("POST", "/v1/completions", std::string(900'000, ' '));
    ASSERT_TRUE(client.send(std::string_view(request).substr(0, 1000)));
    ::usleep(2000);
    ::usleep(20'000);
    EXPECT_TRUE(client.send(std::string_view(request).substr(1000))) << "reset";
    EXPECT_EQ(client.read_reply().status, 401);
  }
}

TEST(Server, WhoFindsNoRoomSeesTheAnswer) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.connections = 4;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  std::vector<std::unique_ptr<Client>> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(std::make_unique<Client>(rig.service.port()));
    for (int k = 0; k < 1000 && held.back()->ask("GET", "/health").status != 200; ++k, ::usleep(1000))
      held.back() = std::make_unique<Client>(rig.service.port());
  }
  for (int i = 0; i < 10; ++i) {
    Client client(rig.service.port());
    client.send(Client::request("POST", "/v1/completions", std::string(300'000, ' ')));
    const ClientReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 503) << i;
    EXPECT_NE(reply.body.find("as many connections"), std::string::npos) << reply.body;
  }
  held.clear();
}

TEST(Server, AnnouncedBodiesThatDoNotComeTakeNoRoom) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.bodies_bytes = 2'000'030;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  std::vector<std::unique_ptr<Client>> idle;
  const std::string body(1'000'000, ' ');
  for (int i = 0; i < 10; ++i) {
    idle.push_back(std::make_unique<Client>(rig.service.port()));
    const std::string request = Client::request("POST", "/v1/completions", body);
    ASSERT_TRUE(idle.back()->send(std::string_view(request).substr(0, request.size() - body.size() + 10)));
  }
  ::usleep(20'000);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200);
  // What has come counts.
  for (int i = 0; i < 3; ++i, ::usleep(50'000)) idle[i]->send(std::string_view(body).substr(0, 900'000));
  EXPECT_EQ(idle[2]->read_reply().status, 503);
  idle.clear();
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200);
}

TEST(Server, AProbeWithoutAHostSeesWhatAnybodyMaySee) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  for (const auto& [path, status] :
       {std::pair("/health", 200), std::pair("/ready", 200), std::pair("/v1/models", 403)}) {
    Client client(rig.service.port());
    client.send(std::string("GET ") + path + " HTTP/1.0\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, status) << path;
  }
}

// The next request waits on the connection already; that its sender has gone is noticed all the same.
TEST(Server, ADisconnectBehindAPipelinedRequestIsSeen) {
  Mock mock;
  mock.step_us = 5000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  Client client(rig.service.port());
  client.send(Client::request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":400})"));
  EXPECT_EQ(rig.figure("num_requests_live", 1), 1);
  client.send("GET /health");
  ::usleep(100'000);
  client.close();
  EXPECT_EQ(rig.figure("client_disconnects_total", 1, 1.0), 1);
  EXPECT_EQ(rig.figure("num_requests_live", 0, 1.0), 0);
}

constexpr const char* kLarge = R"({"prompt":"a b c","max_tokens":400,"n":16,"logprobs":20})";  // megabytes

// It reads slowly, but it reads: the time is that of a piece, not of the whole.
TEST(Server, ASlowReaderGetsALargeAnswerWhole) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.write_s = 0.5;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  Client client(rig.service.port(), 16384);
  client.send(Client::request("POST", "/v1/completions", kLarge) + Client::request("POST", "/v1/completions", kLarge));
  for (int i = 0; i < 2; ++i) {
    const ClientReply reply = client.read_reply(false, 3000);
    ASSERT_EQ(reply.status, 200);
    EXPECT_GT(reply.body.size(), size_t{3'000'000});
    EXPECT_EQ(reply.json()["choices"].size(), 16U);
  }
}

TEST(Server, AStopDoesNotCutAnAnswerThatIsBeingWritten) {
  Mock mock;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  Client client(rig.service.port(), 16384);
  client.send(Client::request("POST", "/v1/completions", kLarge));
  EXPECT_EQ(rig.figure("num_requests_live", 1), 1);
  EXPECT_EQ(rig.figure("num_requests_live", 0, 20), 0);
  rig.stop = true;
  ::usleep(1'500'000);
  const ClientReply reply = client.read_reply();
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["choices"].size(), 16U);
  rig.end();
  EXPECT_EQ(rig.cut_off, 0);
}

// Nothing can write this name into JSON. It is refused before; should such a text ever come, its request alone fails.
TEST(Server, AnAnswerThatCannotBeWrittenFailsItsRequestAndNotTheServer) {
  Mock mock;
  mock.served.name = "mock\xff";
  ServedRig rig(mock.served, mock.shape, mock.executor(), {}, mock.arena);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 500);
  EXPECT_EQ(rig.ask("GET", "/health").status, 200);
  const ClientReply streamed = rig.ask("POST", "/v1/completions", kEndless);
  EXPECT_EQ(streamed.status, 500) << "before the stream begins";
  EXPECT_NE(streamed.body.find("bug in tern"), std::string::npos) << streamed.body;
  EXPECT_EQ(rig.ask("GET", "/health").status, 200);
}

// It does not read: what waits for it is bounded, and then it is as good as gone.
TEST(Server, AClientThatDoesNotReadIsCutOff) {
  Mock mock;
  ServedRig::Setup setup;
  setup.http.pending_bytes = 20000;
  setup.http.write_s = 0.3;
  ServedRig rig(mock.served, mock.shape, mock.executor(), setup, mock.arena);
  Client client(rig.service.port());
  std::string body = R"({"prompt":"a b c","max_tokens":400,"stream":true,"n":16,"logprobs":20,"temperature":1})";
  client.send(Client::request("POST", "/v1/completions", body));
  client.send(Client::request("POST", "/v1/completions", body));
  EXPECT_EQ(rig.figure("client_disconnects_total", 1), 1);
  EXPECT_EQ(rig.ask("POST", "/v1/completions", kShort).status, 200) << "others are served";
}

}  // namespace
}  // namespace tern
