#pragma once
// A request to an engine, and its result.

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

/// Why a sample ended: at an end token, at a stop text, after max_tokens, at the end of the context, …
enum class FinishReason : uint8_t { none, eos, stop, length, context, cancelled, failed };
std::string_view name_of(FinishReason);

/// What to generate.
struct Request {
  std::vector<int32_t> prompt;  // ids inside the vocabulary (checked by the caller)
  SamplingOptions sampling;
  int64_t num_samples = 1;
  int64_t max_tokens = 256;  // generated tokens per sample
  std::vector<int32_t> eos;  // ids that end a sample; they are not part of its text
  std::vector<std::string> stops;
  /// Special tokens that appear in the text, each with its spelling there. Other special tokens do not appear.
  std::vector<std::pair<int32_t, std::string>> spoken = {};
  int64_t num_likeliest = 0;                    // how many likeliest tokens are reported beside each drawn one
  int adapter = kNoAdapter;                     // an index of ModelDescription::offered
  uint64_t first_sequence = 0;                  // sample i draws by the stream first_sequence + i
  std::shared_ptr<Constraint> constraint = {};  // the grammar that its texts satisfy; shared by its samples
  // A place of Engine::keep_prefix, from which its sample starts and where it leaves its keys. Only for one sample.
  std::optional<uint64_t> prefix = {};
};
/// Errors: usage: the prompt is empty or leaves no room in the context (with both numbers), or a sampling value is out of its range.
void check_request(const Request&, int64_t context);

/// One generated text.
struct Sample {
  std::vector<int32_t> token_ids;  // generated, without the ending eos
  std::string text;
  FinishReason reason = FinishReason::none;
  std::string stop;                // the stop string, if that was the reason
  double sum_log_probability = 0;  // of the generated tokens under the model (temperature 1, no filters)
  int64_t num_preemptions = 0;
  int64_t reused_tokens = 0;      // tokens of the prompt that had keys when the sample began to run
  double first_token_s = 0;       // seconds from submit to the first token; 0: there was none
  std::exception_ptr error = {};  // why it failed
};

}  // namespace tern
