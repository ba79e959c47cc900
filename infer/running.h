#pragma once
// A sample that runs: from its logits to its text. For the engine alone.

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

/// A sample that runs, with all that its next token depends on.
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
/// The stream by which its tokens are drawn (sample_token's `sequence`).
inline uint64_t stream_of(const Running& run) {
  return run.request->first_sequence + static_cast<uint64_t>(run.number);
}
/// Sample `number` of a request, before its first token. Without a tokenizer (null) it has no text.
Running make_running(std::shared_ptr<const Request>, int64_t number, const Tokenizer*);

struct DrawnToken {
  int32_t id = 0;                                          // may be one that ends the sample
  double log_probability = 0;                              // under the model (temperature 1, no filters)
  std::vector<std::pair<int32_t, double>> likeliest = {};  // Request::num_likeliest ids and their log-probabilities
};
/// A guess of the next token, which rejection sampling takes or refuses (accept_or_draw).
struct JudgedGuess {
  int32_t token = 0;
  const Odds* odds = nullptr;  // by which it was drawn
};
/// Draws a token by one row of logits (with a guess, by accept_or_draw). `scratch` is memory for a row with penalties. The sample stays as it
/// is. Errors: NotFinite; usage: no token may follow (ConstrainedText).
DrawnToken draw_token(Running&, std::span<float> logits, std::vector<float>& scratch,
                      const JudgedGuess* guess = nullptr);
/// Appends a drawn token and adds to `text` what became certain. Sets sample.reason if the sample ends.
void append_token(Running&, const DrawnToken&, int64_t context, std::string& text);
/// Adds to `text` what was held back. For a sample that ends otherwise than by append_token.
void flush_text(Running&, std::string& text);

}  // namespace tern
