#pragma once
// What is asked of an engine, and its result.

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/sampling.h"
#include "spec/adapter_spec.h"

namespace tern {

class Constraint;  // infer/constrain/constraint.h

enum class FinishReason : uint8_t { none, eos, stop, length, context, cancelled, failed };
std::string_view name_of(FinishReason);

struct Request {
  std::vector<int32_t> prompt;  // ids inside the vocabulary (checked by the caller)
  SamplingOptions sampling;
  int64_t num_samples = 1;
  int64_t max_tokens = 256;  // generated tokens per sample
  std::vector<int32_t> eos;  // ends a sample; the id itself is not part of the text
  std::vector<std::string> stops;
  /// Special tokens that appear in the text, with their spelling there; all others are left out.
  std::vector<std::pair<int32_t, std::string>> spoken = {};
  int64_t num_likeliest = 0;                    // tokens told beside each drawn one
  int adapter = kNoAdapter;                     // of those the executor has beside the model
  uint64_t first_sequence = 0;                  // sample i draws from stream first_sequence + i
  std::shared_ptr<Constraint> constraint = {};  // what its texts must satisfy; shared by its samples
  std::optional<uint64_t> prefix =
      {};  // of Engine::keep_prefix: where to start from and what to leave; one sample only
};
/// Errors: usage, if the prompt is empty or leaves no room in the context (both numbers), or a sampling value is out of
/// its range.
void check_request(const Request&, int64_t context);

struct Sample {
  std::vector<int32_t> token_ids;  // generated, without the ending eos
  std::string text;
  FinishReason reason = FinishReason::none;
  std::string stop;                // the stop string, if that was the reason
  double sum_log_probability = 0;  // of the generated tokens under the model (temperature 1, no filters)
  int64_t num_preemptions = 0;
  int64_t reused_tokens = 0;      // tokens of the prompt that had keys when the sample began to run
  double first_token_s = 0;       // from submit to the first token; 0: there was none
  std::exception_ptr error = {};  // of a failed one
};

}  // namespace tern
