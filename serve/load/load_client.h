#pragma once
// Many requests at a server at once, and when their tokens came. One thread does it all, so that a load of hundreds of
// streams leaves the cores to the server beside it.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/load/load_mix.h"

namespace tern {

/// Where a server of the OpenAI interface is.
struct ServerAddress {
  std::string host, prefix;  // prefix: before /v1, mostly empty
  uint16_t port = 80;
  std::string key;  // empty: none is sent
};
/// Of http://HOST[:PORT][/PREFIX][/v1]. Errors: usage, also for https, which is not spoken here.
ServerAddress server_address(std::string_view url);

struct ServerReply {
  int status = 0;
  std::string body;
};
/// One request, waited for. Errors: peer: nobody listens there, or what comes back is no reply.
ServerReply ask_server(const ServerAddress&, std::string_view method, std::string_view path, std::string_view body);

struct LoadSettings {
  ServerAddress server;
  std::string model;  // that requests name
  LoadMix mix;
  int64_t requests = 100;                // that are measured
  int64_t users = 0;                     // of a mix without a rate: each asks again when it has its answer
  double ramp_s = 0;                     // in which the users come, evenly
  std::function<bool()> stop = nullptr;  // asked at least ten times a second; true: what has ended is all
};

/// Seconds since the load began.
struct LoadRecord {
  uint64_t number = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;  // asked for
  int64_t written_tokens = 0;                    // as the server counts them
  double due_s = 0, sent_s = 0;                  // when it should have been sent, and was
  double first_s = 0, last_s = 0, end_s = 0;     // first and last token, end of the reply
  double longest_gap_s = 0;                      // between events with tokens
  int status = 0;                                // 0: no reply
  std::string error = {};                        // empty: the answer is whole
  bool ok() const { return error.empty(); }
  double ttft_s() const { return first_s - due_s; }  // a request that had to wait for the client waited too
  double tpot_s() const {                            // 0: of a single token
    return written_tokens > 1 ? (last_s - first_s) / static_cast<double>(written_tokens - 1) : 0;
  }
};

/// The load goes on until what is measured has ended, so that the last measured request has the same company as the first.
/// With a rate the first `requests` are measured, with users as many after each one's first.
struct LoadResult {
  std::vector<LoadRecord> measured;     // by number; fewer if a stop was asked for
  double begin_s = 0, end_s = 0;        // of the window from the first measured request to the end of the last
  int64_t ended = 0, ended_tokens = 0;  // whole answers that ended in the window, measured or not; their tokens
  int64_t ended_prompt_tokens = 0;
  double in_flight = 0;  // requests, on average over the window
};
/// Errors: peer: nobody listens there.
LoadResult run_load(const LoadSettings&);

}  // namespace tern
