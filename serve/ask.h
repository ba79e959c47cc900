#pragma once
// From the JSON of a request to what an engine is asked.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "infer/request.h"
#include "serve/served_model.h"

namespace tern {

/// A completion or a chat.
struct Asked {
  bool chat = false;
  std::vector<Request> prompts;        // of a chat one
  std::vector<std::string> echo;       // prompts to be written in front of their texts; empty: none
  bool stream = false, usage = false;  // usage: a last piece of a stream says what was used
  bool usage_in_each = false;          // and each piece, what was used so far
  bool log_probabilities = false;      // of the drawn tokens, and Request::num_likeliest beside each
  bool token_ids = false;              // tern's own: ids beside the text
  int64_t kept = 0;                    // samples returned per prompt, most probable per token first; 0: all
  std::vector<std::string> tools;      // that the answer may call; none: its text is content
  uint64_t seed = 0;                   // given, or drawn for this request
  int64_t num_samples() const {
    return prompts.empty() ? 0 : static_cast<int64_t>(prompts.size()) * prompts[0].num_samples;
  }
};

/// `fresh_seed` is used where the request gives none. Errors: ApiError that names the field; 404, if there is no such model.
Asked read_completion(const Json& body, const ServedModel&, uint64_t fresh_seed);
Asked read_chat(const Json& body, const ServedModel&, uint64_t fresh_seed);

struct AskedVectors {
  std::vector<std::vector<int32_t>> texts;
  bool base64 = false;
  int64_t num_tokens = 0;
};
AskedVectors read_embeddings(const Json& body, const ServedModel&);

/// Answers at once. Errors: as above.
Json tokenize_reply(const Json& body, const ServedModel&);
Json detokenize_reply(const Json& body, const ServedModel&);

}  // namespace tern
