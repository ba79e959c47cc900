#include "infer/request.h"

#include "base/error.h"

namespace tern {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::eos:
      return "eos";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  return "none";
}

void check_request(const Request& request, int64_t context) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0)
    throw Error(
        ErrorKind::usage,
        "generate: the prompt has no tokens and the model has no BOS token to start from; give --prompt some text");
  if (prompt >= context)
    throw Error(ErrorKind::usage,
                "generate: the prompt has {} tokens, the context holds {}, which leaves no room to write; shorten the "
                "prompt or "
                "raise --context as far as the model allows (tern never cuts a prompt)",
                prompt, context);
  TERN_CHECK(request.num_samples >= 1 && request.max_tokens >= 1, "Request: {} samples of {} tokens",
             request.num_samples, request.max_tokens);
  TERN_CHECK(!request.prefix || request.num_samples == 1, "Request: {} samples of a kept prefix", request.num_samples);
  check_sampling(request.sampling);
}

}  // namespace tern
