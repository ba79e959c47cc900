#pragma once
// A session runs requests to their end over one model: scheduler, KV pool, executor, sampler, stop rules. The clock and
// the executor are seams, so policies can be studied in virtual time (methods/inference §0).

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "infer/sampling.h"
#include "infer/scheduler.h"
#include "infer/stop.h"

namespace tern {

class Clock;  // base/clock.h

/// Runs a batch: logits in f32, one row of vocab for each Work that wants them, in batch order.
using BatchExecutor = std::function<std::vector<std::vector<float>>(const Batch&, const KvPool&)>;
/// The real one. It references its arguments; exact kernels.
BatchExecutor model_executor(const ModelSpec&, const ModelWeights&, const RopeTable*, Arena&);

enum class FinishReason : uint8_t { none, eos, stop, length, context, cancelled };
std::string_view name_of(FinishReason);

struct Request {
  std::vector<int32_t> prompt;
  SamplingOptions sampling;
  int64_t num_samples = 1;
  int64_t max_tokens = 256;  // generated tokens per sample
  std::vector<int32_t> eos;  // ends a sample; the id itself is not part of the text
  std::vector<std::string> stops;
  uint64_t first_sequence = 0;  // sample i draws from stream first_sequence + i
};

struct Sample {
  std::vector<int32_t> token_ids;  // generated, without the ending eos
  std::string text;
  FinishReason reason = FinishReason::none;
  std::string stop;                // the stop string, if that was the reason
  double sum_log_probability = 0;  // of the generated tokens under the model (temperature 1, no filters)
  int64_t num_preemptions = 0;
};

struct RunTimings {
  int64_t prompt_tokens = 0, generated_tokens = 0, iterations = 0, most_running = 0, copied_pages = 0;
  double first_token_s = 0, prefill_s = 0, decode_s = 0;
};

/// Called with newly certain text of sample `index`; return false to cancel everything.
using OnText = std::function<bool(int64_t index, std::string_view text)>;

struct SessionLimits {
  SchedulerLimits scheduler;
  int64_t context = 0;
  // Asked after each iteration, also while a prompt is read; true cancels everything.
  std::function<bool()> stopped = {};
};

/// Runs one request to its end. Errors: usage, if the prompt is empty or leaves no room in the context (both numbers).
std::vector<Sample> run_request(const Request&, const Tokenizer*, KvPool&, const BatchExecutor&, const SessionLimits&,
                                Clock&, const OnText&, RunTimings* timings);

/// The same for several requests at once; samples by request. OnText's index counts samples over all of them.
std::vector<std::vector<Sample>> run_requests(std::span<const Request>, const Tokenizer*, KvPool&, const BatchExecutor&,
                                              const SessionLimits&, Clock&, const OnText&, RunTimings* timings);

}  // namespace tern
