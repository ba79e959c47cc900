#pragma once
// Sends many requests to a server at once and notes when their tokens come. One thread does all of it, so that a load of hundreds of streams
// leaves the cores to a server on the same machine.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/load/load_mix.h"

namespace tern {

/// The address of a server with the OpenAI interface.
struct ServerAddress {
  std::string host, prefix;  // prefix: before /v1, mostly empty
  uint16_t port = 80;
  std::string key;  // empty: no key is sent
};
/// The address of http://HOST[:PORT][/PREFIX][/v1]. Errors: usage; also for https, which tern does not have.
ServerAddress server_address(std::string_view url);

struct ServerReply {
  int status = 0;
  std::string body;
};
/// Sends one request and waits for its reply. Errors: peer: nobody listens there, or what comes back is no HTTP reply.
ServerReply ask_server(const ServerAddress&, std::string_view method, std::string_view path, std::string_view body);

struct LoadSettings {
  ServerAddress server;
  std::string model;  // the name in requests
  LoadMix mix;
  int64_t requests = 100;  // the number of requests that are measured
  // For a mix without a rate: so many users, each of whom sends a request when it has its answer.
  int64_t users = 0;
  double ramp_s = 0;                     // the users begin evenly spread over this time
  std::function<bool()> stop = nullptr;  // asked at least ten times a second; true: the load ends with what has ended
};
/// One request of a load. Times are seconds since the load began.
struct LoadRecord {
  uint64_t number = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;  // that the request asks for
  int64_t written_tokens = 0;                    // as the server counts them
  double due_s = 0, sent_s = 0;                  // when it should have been sent; when it was sent
  double first_s = 0, last_s = 0, end_s = 0;     // when the first token, the last token and the end of the reply came
  double longest_gap_s = 0;                      // between events with tokens
  int status = 0;                                // of HTTP; 0: there was no reply
  std::string error = {};                        // empty: the answer is whole
  bool ok() const { return error.empty(); }
  double ttft_s() const { return first_s - due_s; }  // to the first token, from the time when it should have been sent
  double tpot_s() const {                            // per further token; 0: there was one token
    return written_tokens > 1 ? (last_s - first_s) / static_cast<double>(written_tokens - 1) : 0;
  }
};

/// What a load saw. New requests are sent until all measured ones have ended, so that the server is as busy for the last as for the first. With a
/// rate the first `requests` requests are measured; with users, the first `requests` that come after the first one of each user.
struct LoadResult {
  std::vector<LoadRecord> measured;     // by number; fewer if `stop` became true
  double begin_s = 0, end_s = 0;        // the window: from the first measured request to the end of the last
  int64_t ended = 0, ended_tokens = 0;  // whole answers, measured or not, that ended in the window; their tokens
  int64_t ended_prompt_tokens = 0;      // the tokens of their prompts
  double in_flight = 0;                 // the mean number of requests under way in the window
};
/// Runs a load. Errors: peer: nobody listens there.
LoadResult run_load(const LoadSettings&);

}  // namespace tern
