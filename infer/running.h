#pragma once
// One sample on its way from logits to text. For the engine.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/tokenizer/tokenizer.h"
#include "infer/constrain/constraint.h"
#include "infer/request.h"
#include "infer/scheduler.h"
#include "infer/stop.h"

namespace tern {

struct Running {
  std::shared_ptr<const Request> request;
  uint64_t request_id = 0;
  int64_t number = 0;  // of the sample within its request
  int64_t submitted_ns = 0;
  Sequence sequence;
  Sample sample;
  std::optional<StreamingDecoder> decoder;
  StopFilter stops;
  std::optional<ConstrainedText> constrained = {};
};
/// What the draws of its sample are keyed by.
inline uint64_t stream_of(const Running& run) {
  return run.request->first_sequence + static_cast<uint64_t>(run.number);
}
Running make_running(std::shared_ptr<const Request>, int64_t number, const Tokenizer*);

struct DrawnToken {
  int32_t id = 0;                                          // may be one that ends the sample
  double log_probability = 0;                              // under the model (temperature 1, no filters)
  std::vector<std::pair<int32_t, double>> likeliest = {};  // Request::num_likeliest ids and their log-probabilities
};
/// A guess for the place of the next token that is to be taken by rejection sampling.
struct JudgedGuess {
  int32_t token = 0;
  const Odds* odds = nullptr;
};
/// Takes one row of logits: draws (or takes the guess, accept_or_draw), appends, and adds to `text` what became certain. Sets sample.reason when the sample
/// ends. `scratch` holds a penalized row. Errors: NotFinite; usage, where no token may follow (ConstrainedText). The
/// sample is as before.
DrawnToken advance(Running&, std::span<float> logits, int64_t context, std::vector<float>& scratch, std::string& text,
                   const JudgedGuess* guess = nullptr);
/// Adds to `text` what was held back, for a sample that was ended from outside and not by `advance`.
void flush_text(Running&, std::string& text);

}  // namespace tern
