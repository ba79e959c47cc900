#pragma once
// A whole server: its socket, its I/O thread, the loop that computes, and a shutdown that loses no answer.

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
  uint16_t port = 8080;  // 0: any free port
  HttpLimits http;
  ServerRules rules;
  double drain_s = 30;  // the most seconds that answers under way may take after a stop was requested
  std::string version;
};

/// A model, and the engine or embedder that computes it.
struct DrivenModel {
  const ServedModel* offer = nullptr;
  ModelDrive drive;
};

class Service {
 public:
  /// Listens and answers at once, but requests that need a model get 503 until `run` is called. Errors: as HttpServer.
  explicit Service(const ServiceSettings&);
  ~Service();
  uint16_t port() const;
  /// Serves the models and computes on the calling thread. It returns when `stop` is set and all requests under way have ended, or `drain_s`
  /// seconds after. `ready` is called when /ready says yes. No two models may have one name. Returns the number of requests that were cut off.
  int64_t run(std::span<const DrivenModel>, const std::atomic<bool>& stop, const std::function<void()>& ready = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
