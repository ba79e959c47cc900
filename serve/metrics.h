#pragma once
// What a server counts, written as Prometheus reads it (text format 0.0.4) and as JSON. Names are those of vLLM with the prefix tern_.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "serve/engine_loop.h"

namespace tern {

/// A histogram of durations. Only the I/O thread uses it, like everything in this file.
class Histogram {
 public:
  static constexpr std::array<double, 18> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                     2.5,   5,      10,    20,   40,    80,   160, 640};  // seconds
  void add(double seconds);
  void add(const Histogram&);
  double sum() const { return sum_; }
  int64_t count() const { return count_; }
  /// The number of observations of at most kBounds[i] seconds.
  int64_t up_to(size_t i) const;

 private:
  std::array<int64_t, kBounds.size()> buckets_{};
  double sum_ = 0;
  int64_t count_ = 0;
};

/// What is counted for one model.
struct ModelMetrics {
  std::string name;
  Histogram first_token, between_tokens, whole;  // to the first token; from token to token; of the whole request
  std::map<std::string, int64_t> ended;          // samples by finish reason
  int64_t gone = 0;                              // requests whose client left
  int64_t live_requests = 0;
  EngineFigures engine;
};

struct Metrics {
  std::map<std::pair<std::string, int>, int64_t> replies;  // by path and status; only paths that the server has
  int64_t connections = 0;
  std::vector<ModelMetrics> models;  // empty while models are loaded
};
std::string prometheus_text(const Metrics&);
/// The sums over all models; if there are several, also the figures of each, in a list `models`.
std::string metrics_json(const Metrics&);

}  // namespace tern
