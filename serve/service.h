#pragma once
// A whole server: a socket, the I/O thread, the loop that computes, and a shutdown that loses no answer.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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

/// A model and what computes it.
struct DrivenModel {
  const ServedModel* offer = nullptr;
  ModelDrive drive;
};

class Service {
 public:
  /// Listens and answers at once; what needs the model gets 503 until `run`. Errors: as HttpServer.
  explicit Service(const ServiceSettings&);
  ~Service();
  uint16_t port() const;
  /// Serves the models, of unlike names, computing on the calling thread, until `stop` is set and what was under way has ended
  /// or `drain_s` is over. `ready` is called once /ready says yes. Returns the requests that were cut off.
  int64_t run(std::span<const DrivenModel>, const std::atomic<bool>& stop, const std::function<void()>& ready = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
