#pragma once
// The endpoints of the server. They turn a request into a reply or a stream. They run on the I/O thread and hand work to the engine's loop.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "serve/access.h"
#include "serve/answer.h"
#include "serve/api_error.h"
#include "serve/engine_loop.h"
#include "serve/http.h"
#include "serve/metrics.h"

namespace tern {

class Clock;  // base/clock.h

/// Who is answered, and how much at once. A request that exceeds a limit by itself gets 400; one that exceeds it only with
/// those under way gets 429. The limit of a model's samples is max_running + max_queue.
struct ServerRules {
  AccessRules access;
  int64_t max_running = 16;           // samples that a model's engine runs at once
  int64_t max_queue = 256;            // samples of a model that may wait beside them
  int64_t answers_bytes = 64 << 20;   // of whole answers under way, estimated by answer_bytes
  int64_t grammars_bytes = 64 << 20;  // of grammars and schemas of requests under way
  int64_t max_texts = 8192;           // texts that may wait for their vectors
};

/// All requests under way. Only the I/O thread calls it.
class Server {
 public:
  /// `version`: of the program, for people. The clock must outlive it.
  Server(const ServerRules&, const Clock&, std::string version);
  /// From now on all requests are answered; before, those that need a model get 503, as do /health and /ready. `models` have
  /// the order of the loop's models. Models and loop must outlive the server.
  void ready(std::vector<const ServedModel*>, EngineLoop&);
  /// From now on new POST requests get 503, and so does /ready. Requests under way continue.
  void drain() { draining_ = true; }
  /// Ends all requests under way with an error that says why.
  void abort(std::string_view why);
  bool idle() const { return live_.empty(); }
  int64_t num_live() const { return static_cast<int64_t>(live_.size()); }

  // The functions of the same names in HttpHandlers.
  std::optional<HttpReply> refuse(const HttpRequest&);
  void handle(HttpRequest, std::shared_ptr<Exchange>);
  HttpReply fault(int status, std::string_view message);
  /// Takes what the engine's loop hands out.
  void take(LoopReport);

  Metrics& metrics() { return metrics_; }

 private:
  struct Live {
    size_t model = 0;
    std::shared_ptr<Exchange> exchange;
    std::optional<Answer> answer;  // none: the request asks for vectors
    AskedVectors vectors_asked;
    std::vector<std::vector<float>> vectors;
    size_t vectors_left = 0;
    uint64_t first_ticket = 0, num_tickets = 0;
    int64_t samples = 0, bytes = 0;  // bytes: by answer_bytes
    int64_t grammar_bytes = 0;
    std::string path, origin;
    int64_t begin_ns = 0;
    bool has_first = false;
    std::vector<int64_t> last_ns;  // by sample: the time of its latest token; 0: it has none
  };
  struct Ticket {
    uint64_t live;
    size_t index;  // of the prompt, or of the text
  };

  HttpReply reply(HttpReply, const HttpRequest&);
  HttpReply reply_at_once(const HttpRequest&);
  HttpReply health() const;
  Json model_json(const ServedModel&, int adapter) const;
  Json models() const;
  void complete(size_t model, const HttpRequest&, const Json& body, std::shared_ptr<Exchange>, bool chat);
  void embed(size_t model, const HttpRequest&, const Json& body, std::shared_ptr<Exchange>);
  void make_room(size_t model, int64_t samples, const char* field) const;
  void make_room_for_texts(int64_t) const;
  void make_room_for_answer(int64_t bytes) const;
  void make_room_for_grammar(int64_t bytes) const;
  int64_t seconds_to_wait() const;
  uint64_t open(Live, uint64_t tickets);
  void close(uint64_t live);
  void cancel(uint64_t live);
  void fail(uint64_t live, const ApiError&);
  bool awaits_first(uint64_t ticket) const;
  void take_one(const Ticket&, LoopEvent&);
  void take_event(const Ticket&, const Event&);
  void take_vector(const Ticket&, EmbeddingEvent&);
  void count_token(Live&, size_t sample);
  std::vector<std::pair<std::string, std::string>> cors(const std::string& origin) const;

  ServerRules rules_;
  const Clock& clock_;
  std::string version_;
  std::vector<const ServedModel*> models_;  // none while they are loaded
  EngineLoop* loop_ = nullptr;
  bool draining_ = false;
  std::unordered_map<uint64_t, Live> live_;
  std::unordered_map<uint64_t, Ticket> tickets_;
  uint64_t next_live_ = 1, next_ticket_ = 1;
  std::vector<int64_t> live_samples_;  // of each model
  int64_t live_texts_ = 0, live_bytes_ = 0, live_grammar_bytes_ = 0;
  Metrics metrics_;
};

/// The chat page, which the server sends for / (serve/chat_page.html).
std::string_view chat_page();

}  // namespace tern
