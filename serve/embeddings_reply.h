#pragma once
// The reply to /v1/embeddings, as the OpenAI interface writes it.

#include <string>
#include <string_view>
#include <vector>

#include "serve/ask.h"

namespace tern {

/// The reply to /v1/embeddings. `vectors` in the order of the texts.
std::string embeddings_reply(const AskedVectors&, const std::vector<std::vector<float>>& vectors, const ServedModel&);
/// Bytes in base64 (RFC 4648 §4, with padding).
std::string base64_of(std::string_view bytes);

}  // namespace tern
