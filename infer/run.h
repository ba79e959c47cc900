#pragma once
// Runs requests to their end on an engine that has no others. Commands and tests use it.

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "infer/engine.h"

namespace tern {

/// What a run took. Iterations that only decode count as decode, others as prefill; both include the drawing of tokens.
struct RunTimings {
  int64_t prompt_tokens = 0, generated_tokens = 0, iterations = 0, most_running = 0, copied_pages = 0;
  int64_t decode_tokens = 0;  // generated in decode_s
  double first_token_s = 0, prefill_s = 0, decode_s = 0;
  std::vector<double> decode_iterations_s;  // of each iteration that decode_s sums
};

/// Called with text of sample `index` that has become certain. Samples are counted over all requests. Returns false to cancel everything.
using OnText = std::function<bool(int64_t index, std::string_view text)>;

/// Called with each sample that has ended. Samples are counted over all requests. Returns false to cancel everything.
using OnSample = std::function<bool(int64_t index, const Sample&)>;

/// Runs the requests and returns the samples of each. `stopped` is asked after each step; if it is true, everything is cancelled, and what was
/// computed is returned.
/// Errors: those of Engine::submit and step; Sample::error of a sample that failed. The engine is then idle.
std::vector<std::vector<Sample>> run_requests(Engine&, std::span<const Request>, const OnText&,
                                              const std::function<bool()>& stopped, RunTimings* timings,
                                              const OnSample& on_sample = {});
/// The same for one request.
std::vector<Sample> run_request(Engine&, const Request&, const OnText&, const std::function<bool()>& stopped,
                                RunTimings* timings, const OnSample& on_sample = {});

}  // namespace tern
