#pragma once
// One sample on its way from logits to text. Stays in infer/.

#include <optional>
#include <string>
#include <vector>

#include "infer/session.h"

namespace tern {

struct Running {
  const Request* request = nullptr;
  int64_t index = 0;  // what on_text is told
  Sequence sequence;
  Sample sample;
  std::optional<StreamingDecoder> decoder;
  StopFilter stops;
  bool cancelled = false;
};
/// `number`: of the sample within its request.
Running make_running(const Request&, int64_t index, const Tokenizer*);

/// Takes one logits row of a sample: draws from stream `stream`, appends, streams. Sets sample.reason when it ends.
void advance(Running&, uint64_t stream, std::vector<float>& logits, int64_t context, const OnText&);
/// What was held back comes out; of a sample that ends without advance having said so.
void flush_text(Running&, const OnText&);

/// Errors: usage, if the prompt is empty or leaves no room in the context (both numbers).
void check_request(const Request&, int64_t context);

}  // namespace tern
