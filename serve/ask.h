#pragma once
// Reads the JSON of a request into requests of an engine.

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
  std::vector<Request> prompts;        // a chat has one
  std::vector<std::string> echo;       // prompts that are written in front of their texts; empty: none
  bool stream = false, usage = false;  // usage: the last piece of a stream has the numbers of tokens
  bool usage_in_each = false;          // each piece of a stream has the numbers so far
  bool log_probabilities = false;      // of the drawn tokens, with those of Request::num_likeliest others
  bool token_ids = false;              // ids beside the text; an extension of tern
  int64_t kept = 0;                    // samples returned for each prompt, those most probable per token first; 0: all
  std::vector<std::string> tools;      // names that the answer may call; empty: its text is content
  uint64_t seed = 0;                   // the request's, or drawn for it
  int64_t num_samples() const {
    return prompts.empty() ? 0 : static_cast<int64_t>(prompts.size()) * prompts[0].num_samples;
  }
};

/// Reads /v1/completions or /v1/chat/completions. `fresh_seed`: the seed if the request gives none. Errors: ApiError that names the field; 404:
/// there is no such model.
Asked read_completion(const Json& body, const ServedModel&, uint64_t fresh_seed);
Asked read_chat(const Json& body, const ServedModel&, uint64_t fresh_seed);
/// A request for vectors of texts.
struct AskedVectors {
  std::vector<std::vector<int32_t>> texts;  // ids
  bool base64 = false;                      // the form of the vectors in the reply
  int64_t num_tokens = 0;
};
/// Reads /v1/embeddings. Errors: as above.
AskedVectors read_embeddings(const Json& body, const ServedModel&);
/// The replies to /tokenize and /detokenize, which need no engine. Errors: as above.
Json tokenize_reply(const Json& body, const ServedModel&);
Json detokenize_reply(const Json& body, const ServedModel&);

}  // namespace tern
