#pragma once
// A whole server: a socket, the I/O thread, the loop that computes, and a shutdown that loses no answer.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http.h"
#include "serve/server.h"

namespace tern {

struct ServiceSettings {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: one that is free
  HttpLimits http;
  ServerRules rules;
  double drain_s = 30;  // that answers under way get once a stop is asked for
  std::string version;
};

class Service {
 public:
  /// Listens and answers at once; what needs the model gets 503 until `run`. Errors: as HttpServer.
  explicit Service(const ServiceSettings&);
  ~Service();
  uint16_t port() const;
  /// Serves the model, computing on the calling thread, until `stop` is set and what was under way has ended or
  /// `drain_s` is over. Engine (of a model that writes) and embedder may be null. `ready` is called once /ready says yes.
  /// Returns the requests that were cut off.
  int64_t run(const ServedModel&, Engine*, Embedder*, const std::atomic<bool>& stop,
              const std::function<void()>& ready = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
