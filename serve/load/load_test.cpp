// The load of `tern bench serve`: what it asks and when, how it reads replies, what it says of times.
#include <gtest/gtest.h>

#include <cmath>

#include "serve/load/load_report.h"
#include "serve/load/reply_reader.h"
#include "serve/mock_testing.h"

namespace tern {
namespace {

LoadMix small_mix(double rate = 0) {
  return {.prompts = sequence_lengths({{3, 1}, {20, 3}}),
          .answers = sequence_lengths({{2, 1}, {5, 1}}),
          .rate = rate,
          .seed = 7,
          .ids = {300, 301, 305, 310}};
}

TEST(LoadMix, RequestsFollowFromSeedAndNumber) {
  const LoadMix mix = small_mix(4);
  double gaps = 0, squares = 0, prompts = 0, answers = 0;
  constexpr int kMany = 4000;
  for (int i = 0; i < kMany; ++i) {
    const LoadRequest r = request_of(mix, static_cast<uint64_t>(i));
    EXPECT_GT(r.gap_s, 0);
    gaps += r.gap_s, squares += r.gap_s * r.gap_s;
    prompts += static_cast<double>(r.prompt.size()), answers += static_cast<double>(r.answer_tokens);
    ASSERT_TRUE(r.prompt.size() == 3 || r.prompt.size() == 20);
    for (const int32_t id : r.prompt) EXPECT_TRUE(std::ranges::count(mix.ids, id));
  }
  EXPECT_NEAR(gaps / kMany, 0.25, 0.25 * 4 / std::sqrt(kMany)) << "the mean gap of four a second";
  EXPECT_NEAR(squares / kMany / 2, 0.0625, 0.0625 * 10 / std::sqrt(kMany)) << "exponential: E x^2 = 2 (E x)^2";
  EXPECT_NEAR(prompts / kMany, mix.prompts.mean(), 0.5);
  EXPECT_NEAR(answers / kMany, mix.answers.mean(), 0.15);
  const LoadRequest a = request_of(mix, 9), b = request_of(mix, 9);
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.gap_s, b.gap_s);
  LoadMix other = mix;
  other.seed = 8;
  EXPECT_NE(request_of(other, 9).gap_s, a.gap_s);
}

struct Read {
  int status = 0;
  bool done = false;
  std::string body;
};
Read read_in_pieces(const std::string& bytes, size_t piece, bool closed = false) {
  ReplyReader reader;
  for (size_t at = 0; at < bytes.size(); at += piece) reader.take(std::string_view(bytes).substr(at, piece));
  if (closed) reader.close();
  return {reader.status(), reader.done(), reader.body()};
}

TEST(ReplyReader, TakesRepliesInPiecesOfAnySize) {
  const std::string sized = "HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 429 Too Many\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0A;x=y\r\nlo, world.\r\n0\r\nA: "
      "b\r\n\r\n";
  for (size_t piece = 1; piece < 40; ++piece) {
    const Read a = read_in_pieces(sized, piece), b = read_in_pieces(chunked, piece);
    EXPECT_TRUE(a.done && a.status == 200 && a.body == "hello") << piece << ": " << a.body;
    EXPECT_TRUE(b.done && b.status == 429 && b.body == "hello, world.") << piece << ": " << b.body;
    EXPECT_FALSE(read_in_pieces(sized.substr(0, sized.size() - 1), piece).done);
  }
  const Read open = read_in_pieces("HTTP/1.0 200 OK\r\n\r\nall of it", 4, true);
  EXPECT_TRUE(open.done && open.body == "all of it");
  EXPECT_THROW(read_in_pieces(sized.substr(0, sized.size() - 1), 9, true), Error) << "closed in the middle";
  EXPECT_THROW(read_in_pieces("SSH-2.0-OpenSSH\r\n\r\n", 5), Error);
  EXPECT_THROW(read_in_pieces("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 5), Error);
  EXPECT_THROW(read_in_pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n", 5), Error);
  EXPECT_THROW(read_in_pieces(std::string(100'000, 'H'), 1000), Error) << "a head without an end";
}

TEST(ReplyReader, FindsEvents) {
  ReplyReader reader;
  std::string data;
  reader.take("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: {\"a\":1}\n\n: a comment\n\ndata:[DO");
  ASSERT_TRUE(reader.next_event(data));
  EXPECT_EQ(data, "{\"a\":1}");
  ASSERT_TRUE(reader.next_event(data));
  EXPECT_EQ(data, "");
  EXPECT_FALSE(reader.next_event(data));
  reader.take("NE]\n\n");
  ASSERT_TRUE(reader.next_event(data));
  EXPECT_EQ(data, "[DONE]");
}

TEST(LoadTimes, NearestRanks) {
  std::vector<double> v;
  for (int i = 200; i > 0; --i) v.push_back(i);
  const LoadTimes t = load_times(v);
  EXPECT_EQ(t.median, 100);
  EXPECT_EQ(t.p90, 180);
  EXPECT_EQ(t.p99, 198);
  EXPECT_EQ(t.most, 200);
  EXPECT_EQ(t.mean, 100.5);
  EXPECT_EQ(load_times({3}).p99, 3);
  EXPECT_EQ(load_times({}).mean, 0);
}

TEST(LoadFigures, TargetsCountWhatWasNotAnsweredAsMissed) {
  const auto record = [](double first_s, double last_s, int64_t tokens, int status, const char* error) {
    return LoadRecord{.written_tokens = tokens,
                      .due_s = 1,
                      .sent_s = 1.25,
                      .first_s = first_s,
                      .last_s = last_s,
                      .end_s = last_s,
                      .status = status,
                      .error = error};
  };
  LoadResult result;
  result.measured = {record(1.5, 3.5, 5, 200, ""), record(2.5, 2.5, 1, 200, ""), record(0, 0, 0, 429, "429: full"),
                     record(0, 0, 0, 0, "gone")};
  result.begin_s = 1, result.end_s = 5, result.ended = 2, result.ended_tokens = 6, result.in_flight = 1.5;
  const LoadFigures f = load_figures(result, {.ttft_s = 1, .tpot_s = 0.5});
  EXPECT_EQ(f.measured, 4);
  EXPECT_EQ(f.answered, 2);
  EXPECT_EQ(f.refused, 1);
  EXPECT_EQ(f.failed, 1);
  EXPECT_EQ(f.first_error, "429: full");
  EXPECT_DOUBLE_EQ(f.ttft.most, 1.5) << "counted from when it was due, not sent";
  EXPECT_DOUBLE_EQ(f.tpot.mean, 0.5) << "of those with more than one token";
  EXPECT_DOUBLE_EQ(f.late.mean, 0.25);
  EXPECT_DOUBLE_EQ(f.within, 0.25);
  EXPECT_DOUBLE_EQ(f.requests_per_s, 0.5);
  EXPECT_DOUBLE_EQ(f.output_tokens_per_s, 1.5);
  EXPECT_DOUBLE_EQ(f.goodput_per_s, 0.25);
  EXPECT_DOUBLE_EQ(load_figures(result, {}).within, 0.5);
  EXPECT_DOUBLE_EQ(load_figures(result, {.tpot_s = 0.49}).within, 0.25) << "a single token has no time per token";
}

TEST(ServerAddress, ReadsWhatPeopleGive) {
  EXPECT_EQ(server_address("http://127.0.0.1:8080").port, 8080);
  EXPECT_EQ(server_address("http://example.org").port, 80);
  const ServerAddress a = server_address("http://[::1]:9/some/where/v1/");
  EXPECT_EQ(a.host, "::1");
  EXPECT_EQ(a.port, 9);
  EXPECT_EQ(a.prefix, "/some/where");
  EXPECT_EQ(server_address("http://h:1/v1").prefix, "");
  for (const char* wrong :
       {"https://h", "h:80", "http://", "http://h:0", "http://h:70000", "http://h:x", "http://[::1"})
    EXPECT_THROW(server_address(wrong), Error) << wrong;
}

LoadSettings load_of(const ServedRig& rig, double rate, int64_t users) {
  return {.server = {.host = "127.0.0.1", .prefix = "", .port = rig.service.port(), .key = ""},
          .model = "mock",
          .mix = small_mix(rate),
          .requests = 40,
          .users = users,
          .ramp_s = 0.02};
}

// A mock of known speed: 2 ms a step, so a token of each running answer every 2 ms.
TEST(RunLoad, MeasuresAServerOfKnownSpeed) {
  Mock mock;
  mock.step_us = 2000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.running = 4}, mock.arena);
  for (const bool open : {true, false}) {
    SCOPED_TRACE(open ? "40 requests/s" : "4 users");
    const LoadResult result = run_load(load_of(rig, open ? 40 : 0, open ? 0 : 4));
    ASSERT_EQ(result.measured.size(), 40u);
    for (size_t i = 0; i < 40; ++i) {
      const LoadRecord& r = result.measured[i];
      EXPECT_EQ(r.number, i + (open ? 0 : 4)) << "users' first requests are not measured";
      EXPECT_TRUE(r.ok()) << r.error;
      EXPECT_EQ(r.written_tokens, r.answer_tokens);
      EXPECT_GE(r.first_s, r.sent_s + 0.002);
      EXPECT_GE(r.end_s, r.sent_s + 0.002 * static_cast<double>(r.answer_tokens))
          << "a busy reader is late, never early";
    }
    const LoadFigures f = load_figures(result, {});
    EXPECT_EQ(f.answered, 40);
    EXPECT_GE(result.ended, 40);
    if (open) {
      double gaps = 0;
      for (int i = 0; i < 40; ++i) gaps += request_of(small_mix(40), static_cast<uint64_t>(i)).gap_s;
      EXPECT_NEAR(result.measured.back().due_s, gaps, 1e-9) << "they come when they are due";
    } else {
      EXPECT_GT(f.in_flight, 2.5);
      EXPECT_LE(f.in_flight, 4.0001);
    }
  }
}

TEST(RunLoad, RefusalsAndStopsAreTold) {
  Mock mock;
  mock.step_us = 20'000;
  ServedRig rig(mock.served, mock.shape, mock.executor(), {.running = 1, .queue = 1}, mock.arena);
  LoadSettings busy = load_of(rig, 400, 0);
  const LoadFigures f = load_figures(run_load(busy), {});
  EXPECT_EQ(f.measured, 40);
  EXPECT_GT(f.refused, 20);
  EXPECT_GT(f.answered, 0);
  EXPECT_EQ(f.failed, 0) << f.first_error;
  EXPECT_EQ(f.first_error.substr(0, 4), "429:");
  LoadSettings wrong = load_of(rig, 100, 0);
  wrong.model = "other";
  EXPECT_EQ(load_figures(run_load(wrong), {}).failed, 40);
  LoadSettings stopped = load_of(rig, 0, 2);
  stopped.requests = 1'000'000;
  int asked = 0;
  stopped.stop = [&asked] { return ++asked > 20; };
  EXPECT_LT(run_load(stopped).measured.size(), 1'000'000u);
  LoadSettings nobody = load_of(rig, 100, 0);
  nobody.server.port = 1;
  const LoadFigures gone = load_figures(run_load(nobody), {});
  EXPECT_EQ(gone.failed, 40);
  EXPECT_NE(gone.first_error, "");
  EXPECT_THROW(ask_server(nobody.server, "GET", "/v1/models", ""), Error);
}

}  // namespace
}  // namespace tern
